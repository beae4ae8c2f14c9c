"""The parts of compilegate import each other in one direction, and stay small.

The contracts are in ``pyproject.toml``. ``lint-imports`` prints the same report as the first test.
"""

import ast
import os
import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import grimp
import pytest
from packaging.requirements import Requirement

from compilegate.layout import OBSERVER

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

MODULE_LINES = 350
CLASS_LINES = 200


def python(code, *options):
    """Run code in a fresh interpreter, and return what it writes to stdout and stderr."""
    done = subprocess.run(
        [sys.executable, *options, "-c", code],
        cwd=OBSERVER.parents[2],
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_imports_keep_to_the_contracts():
    lint = "import sys; from importlinter.cli import lint_imports_command as lint; lint()"
    done = subprocess.run(
        [sys.executable, "-c", lint, "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout.partition("Contracts\n---")[2] + done.stderr


@pytest.fixture(scope="module")
def graph():
    """The import graph of the whole package, with other distributions as leaves."""
    return grimp.build_graph("compilegate", include_external_packages=True, cache_dir=None)


def test_the_linter_follows_the_symbolic_links(graph):
    """Otherwise the contracts would hold only because they see nothing."""
    for folder in ("fixtures", "reports", "suites"):
        files = {path.stem for path in (ROOT / folder).glob("*.py")} - {"__init__"}
        assert graph.find_children(f"compilegate.{folder}") == {
            f"compilegate.{folder}.{name}" for name in files
        }


def test_every_import_is_declared(graph):
    """Neither another top-level name nor an undeclared distribution."""
    extras = PROJECT["optional-dependencies"]
    declared = [*PROJECT["dependencies"], *chain.from_iterable(extras.values())]
    names = {re.match(r"[\w-]+", text)[0].replace("-", "_") for text in declared}
    names |= {
        "_pytest",
        "markupsafe",
        "numpy",
        "otava",
        "pynvml",
        "safetensors",
        "sympy",
        "triton",
        "xdist",
    }  # of others
    foreign = {name for name in graph.modules if name.split(".")[0] != "compilegate"}
    assert foreign - sys.stdlib_module_names <= names


@pytest.mark.parametrize(
    ("package", "allowed"),
    [("records", set()), ("zoo", set()), ("observe", {"pynvml", "safetensors", "sympy", "torch"})],
)
def test_an_observed_environment_needs_only_torch(graph, package, allowed):
    """The contract names the distributions that must not appear. This names all that may."""
    root = f"compilegate.{package}"
    modules = {root, *graph.find_descendants(root)}
    found = {name for module in modules for name in graph.find_modules_directly_imported_by(module)}
    foreign = {name for name in found if name.split(".")[0] != "compilegate"}
    assert foreign - sys.stdlib_module_names == allowed


def test_modules_and_classes_are_small():
    large = []
    folders = ("compilegate", "fixtures", "reports", "suites", "tests")
    for path in sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        text = path.read_text()
        if (lines := len(text.splitlines())) > MODULE_LINES:
            large.append(f"{path.relative_to(ROOT)}: {lines} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and node.end_lineno is not None:
                lines = node.end_lineno - node.lineno + 1
                if lines > CLASS_LINES:
                    large.append(f"{path.relative_to(ROOT)}: class {node.name}, {lines} lines")
    assert not large, "\n".join(large)


def test_pytest_loads_next_to_nothing_where_compilegate_is_installed():
    """Every session in the environment imports the entry point."""
    _, log = python("import compilegate.entry", "-X", "importtime")
    imported = {line.rpartition("|")[2].strip() for line in log.splitlines()}
    own = {name for name in imported if name.split(".")[0] == "compilegate"}
    assert own == {"compilegate", "compilegate.entry", "compilegate.layout"}
    heavy = {"jinja2", "msgspec", "numpy", "timm", "tomlkit", "torch", "torchvision"}
    assert not imported & heavy


def test_importing_every_recipe_imports_no_torch():
    """Only the builders do, and only a child calls them."""
    code = "import sys; from compilegate.zoo import registry; registry.load(); print(*sys.modules)"
    stdout, _ = python(code)
    modules = set(stdout.split())
    assert "compilegate.fixtures.tutorials" in modules
    assert not modules & {"diffusers", "timm", "torch", "torchvision", "transformers"}


BOOTSTRAP = f"""
import importlib, pkgutil, runpy, sys
runpy.run_path({str(OBSERVER)!r})["make_importable"]()
"""


def test_records_and_zoo_need_only_the_standard_library():
    """An interpreter that has torch and nothing else can be observed."""
    code = f"""{BOOTSTRAP}
for name in ("records", "zoo", "fixtures"):
    package = importlib.import_module(f"compilegate.{{name}}")
    for module in pkgutil.iter_modules(package.__path__, f"compilegate.{{name}}."):
        importlib.import_module(module.name)
        print(module.name)
"""
    stdout, _ = python(code, "-I", "-S")  # -S: no site-packages
    assert "compilegate.records.observation" in stdout.split()


def test_the_bootstrap_makes_only_compilegate_importable():
    """The folder next to the package holds distributions of another interpreter."""
    code = f"import sys; before = [*sys.path]{BOOTSTRAP}\n"
    code += "import compilegate.records.case; assert sys.path == before; print(*before, sep='\\n')"
    stdout, _ = python(code, "-P", "-S")
    package = OBSERVER.parents[1]
    ours = {ROOT, package, package.parent, OBSERVER.parent}
    assert not ours & {Path(line).resolve() for line in stdout.splitlines()}


def test_the_extra_dev_installs_each_library_that_a_model_requires():
    """Without its library a model is skipped, and no session of all models ends with 0."""
    code = """
from compilegate.zoo import registry
print(*{model.requires for model in registry.load().values() if model.requires})
"""
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *extras["dev"]]
    ours = next(line for line in map(Requirement, wanted) if line.name == PROJECT["name"])
    wanted += chain.from_iterable(extras[name] for name in ours.extras)
    installed = {Requirement(line).name for line in wanted} | {"triton"}  # it comes with torch
    assert set(python(code)[0].split()) <= installed
