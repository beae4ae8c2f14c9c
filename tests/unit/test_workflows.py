"""The workflows: least permissions, pinned actions, no stranger's code on self-hosted machines."""

import re
import shutil
import subprocess
import sys
from fnmatch import fnmatchcase
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml

from compilegate.zoo import registry

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


@each
def test_a_workflow_may_only_read(file):
    assert content(file)["permissions"] == {"contents": "read"}
    assert not [job for job in jobs(file) if "permissions" in job]
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
def test_self_hosted_machines_run_no_code_of_strangers(file):
    own = [job for job in jobs(file) if "self-hosted" in job["runs-on"]]
    if own:
        assert not _STRANGERS & set(content(file)["on"])
        assert "push" not in content(file)["on"]  # anybody with write access may push a branch
    assert bool(own) == (file.name != "tests.yml")


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
    assert "pip install --quiet --no-deps -e ." in script
    (packages,) = re.findall(r"pip install --quiet ([\w ]+)$", script, re.MULTILINE)
    others = {*packages_distributions()} - {"compilegate", "markupsafe", *packages.split()}
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


@each
def test_every_job_has_a_time_limit(file):
    assert all(0 < job["timeout-minutes"] <= 720 for job in jobs(file))


def test_each_model_of_the_zoo_is_in_one_shard():
    gpu = content(CHECKOUT / ".github" / "workflows" / "gpu.yml")
    globs = [e["models"] for e in gpu["jobs"]["shard"]["strategy"]["matrix"]["include"]]
    for name in [*registry.load(), "0_net", "zebra"]:
        assert sum(fnmatchcase(name, glob) for glob in globs) == 1, name
    sizes = [sum(fnmatchcase(name, glob) for name in registry.load()) for glob in globs]
    assert min(sizes) > 5, sizes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("2.14.1", "2.15; rm -rf ~"), "CANDIDATE '2.15; rm -rf ~' is not a version"),
        (("2.14.1", "--help"), "CANDIDATE '--help' is not a version"),
        (("2.14.1 --pre", "release"), "BASELINE '2.14.1 --pre' is not a version"),
        (("", "release"), "BASELINE '' is not a version"),
    ],
)
def test_a_malformed_version_is_refused(arguments, message, tmp_path):
    done = subprocess.run(
        [CHECKOUT / ".ci" / "two-versions", *arguments, "https://example.invalid", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert not [*tmp_path.iterdir()]
