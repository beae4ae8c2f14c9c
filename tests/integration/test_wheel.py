"""The wheel works in a team's own repository, where compilegate's checkout does not exist.

A fresh virtual environment holds the wheel alone. A path file lends it the distributions of the
running environment, whose editable installation of compilegate stays out of sight: only that
environment's own start-up would load it.
"""

import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from compilegate.runs import files
from tests.integration.conftest import CHECKOUT, Session, surroundings

pytestmark = pytest.mark.timeout(300)

#: What a checkout must hold for the wheel to be built from it.
SOURCES = ("compilegate", "fixtures", "reports", "suites", "pyproject.toml", "README.md", "LICENSE")

ZOO = """\
import torch
from torch import nn

from compilegate import Example, model


class MyNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        y = self.first(x).relu()
        torch._dynamo.graph_break()
        return self.second(y)


@model("my_net", family="mlp")
def my_net():
    return Example(MyNet(), inputs=(torch.randn(5, 8),))
"""
BUDGETS = """\
[[budget]]
model = "my_net"
graph_breaks = [{ reason = "Call to `torch._dynamo.graph_break()`" }]
min_speedup = 0.01
max_memory_ratio = 2
"""
CONFTEST = """\
import fixtures
import pytest
import reports

assert fixtures.OWNER == reports.OWNER == "the team"


@pytest.fixture
def case():
    return "the team's own"
"""
OWN_TEST = """\
def test_the_teams_fixture_is_its_own(case):
    assert case == "the team's own"
"""


def run(words, folder, **options):
    return subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env={k: v for k, v in surroundings(folder).items() if k != "PYTHONPATH"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        **options,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of this checkout, built without the network and without its old build folder."""
    source = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        path = CHECKOUT / name
        if path.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(path, source / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy(path, source)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps"]
    built = run([*pip, "--no-build-isolation", "-w", source / "dist", source], source)
    assert built.returncode == 0, built.stdout
    (path,) = (source / "dist").iterdir()
    return path


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """The interpreter of an environment that has the wheel, and finds everything else."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, symlinks=True)
    paths = {"base": str(home), "platbase": str(home)}
    site = Path(sysconfig.get_path("purelib", "venv", vars=paths))
    lent = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (site / "others.pth").write_text("".join(f"{path}\n" for path in lent))
    target = home / "bin" / "python"
    pip = [sys.executable, "-m", "pip", f"--python={target}", "install", "--quiet"]
    done = run([*pip, "--no-index", "--no-deps", "--ignore-installed", wheel], home)
    assert done.returncode == 0, done.stdout
    where = run([target, "-c", "import compilegate; print(compilegate.__file__)"], home)
    assert Path(where.stdout.strip()) == site / "compilegate" / "__init__.py", where.stdout
    return target


@pytest.fixture
def repository(tmp_path):
    """A team's repository, with packages that are called as compilegate's subpackages are."""
    for name in ("fixtures", "reports"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text('OWNER = "the team"\n')
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\ntestpaths = tests\n")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "my_models.py").write_text(ZOO)
    (tmp_path / "my.toml").write_text(BUDGETS)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_own.py").write_text(OWN_TEST)
    return tmp_path


@pytest.fixture
def judge(python, repository):
    """Runs ``pytest --pyargs compilegate.suites`` in the repository."""

    def session(*arguments):
        words = [python, "-m", "pytest", "--pyargs", "compilegate.suites", "-m", "cpu"]
        words += ["--models", "my_net", "--backend", "aot_eager", "--benchmark-disable"]
        done = run([*words, *arguments], repository, timeout=240)
        return Session(done.returncode, done.stdout, repository / ".runs")

    return session


def test_the_wheel_holds_compilegate_and_nothing_else(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"compilegate"}
    assert not [name for name in names if re.search(r"(^|/)(tests|docs|conftest)\b", name)]
    shipped = {"compilegate/py.typed"}
    for folder in ("fixtures", "reports", "suites"):
        paths = [path for path in (CHECKOUT / folder).rglob("*.*") if path.suffix != ".pyc"]
        shipped |= {f"compilegate/{path.relative_to(CHECKOUT)}" for path in paths}
    assert shipped <= names
    assert {"compilegate/suites/budgets/cpu.toml", "compilegate/reports/page/main.js"} <= shipped


def test_options_name_the_teams_own_models_and_budgets(judge, python, repository):
    session = judge("--zoo", "my_models.py", "--budgets", "my.toml", "--save", "first")
    assert session.status == 0, session.output
    judged = files.read(repository / ".runs" / "first.jsonl")
    assert {case.split("-")[0] for case in judged.observations} == {"my_net"}
    assert {verdict.outcome for verdict in judged.verdicts.values()} <= {"passed", "skipped"}
    assert all(seen.capture.breaks for seen in judged.observations.values())  # my.toml allows them

    page = run([python.with_name("compilegate"), "markdown", "first"], repository)
    assert page.returncode == 0, page.stdout
    assert "my_net" in page.stdout


@pytest.mark.long
def test_settings_name_them_for_every_worker(judge, repository):
    with (repository / "pytest.ini").open("a") as ini:
        ini.write("zoo = my_models.py\nbudgets = my.toml\n")
    session = judge("-n", "2", "--save", "second")
    assert session.status == 0, session.output
    judged = files.read(repository / ".runs" / "second.jsonl")
    assert {case.split("-")[0] for case in judged.observations} == {"my_net"}


def test_the_teams_own_tests_run_as_before(python, repository):
    done = run([python, "-m", "pytest"], repository)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
    assert "cases on" not in done.stdout
