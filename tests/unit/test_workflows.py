"""The workflows: least permissions, pinned actions, no stranger's code on one's own machines."""

import re
import shutil
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import yaml

from compilegate.zoo import registry

CHECKOUT = Path(__file__).parents[2]
FILES = sorted((CHECKOUT / ".github" / "workflows").glob("*.yml"))
#: Events that run what somebody without write access proposes, or with the secrets of the project.
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
def test_it_is_a_workflow(file):
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
def test_it_may_read_and_nothing_else(file):
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
def test_no_strangers_code_on_ones_own_machines(file):
    own = [job for job in jobs(file) if "self-hosted" in job["runs-on"]]
    if own:
        assert not _STRANGERS & set(content(file)["on"])
        assert "push" not in content(file)["on"]  # a branch is pushed by whoever may write
    assert bool(own) == (file.name != "tests.yml")


@each
def test_nothing_is_pasted_into_a_script(file):
    """What a person or a matrix gives comes through the environment: quoted, it stays one word."""
    scripts = [step["run"] for step in steps(file) if "run" in step]
    assert scripts
    assert not [script for script in scripts if "${{" in script]


@each
def test_every_job_ends(file):
    assert all(0 < job["timeout-minutes"] <= 720 for job in jobs(file))


def test_the_shards_are_the_whole_zoo_each_model_once():
    gpu = content(CHECKOUT / ".github" / "workflows" / "gpu.yml")
    globs = [e["models"] for e in gpu["jobs"]["shard"]["strategy"]["matrix"]["include"]]
    for name in [*registry.load(), "0_net", "zebra"]:
        assert sum(fnmatchcase(name, glob) for glob in globs) == 1, name
    sizes = [sum(fnmatchcase(name, glob) for name in registry.load()) for glob in globs]
    assert min(sizes) > 5, sizes


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("2.14.1", "2.15; rm -rf ~"), "expected a version, 'release' or 'pre'"),
        (("2.14.1", "--help"), "expected a version, 'release' or 'pre'"),
        (("2.14.1 --pre", "release"), "expected something like 2.14.1"),
        (("", "release"), "expected something like 2.14.1"),
    ],
)
def test_what_is_no_version_is_refused(arguments, said, tmp_path):
    done = subprocess.run(
        [CHECKOUT / ".ci" / "two-versions", *arguments, "https://example.invalid", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert said in done.stderr
    assert not [*tmp_path.iterdir()]
