"""The environment of a session: what a real child records of it, and what it never records."""

import os
import re
import sys
from dataclasses import replace

import pytest

from compilegate.processes.observer import Observer
from compilegate.processes.server_process import Launch
from compilegate.records.environment_changes import deciding, headline
from tests.integration.conftest import FORWARD

SECRET = "planted-4f1c"
SECRETS = {
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "HF_TOKEN": SECRET,
    "TORCH_HUB_TOKEN": SECRET,
    "CUDA_PASSWORD": SECRET,
    "TORCHINDUCTOR_REDIS_URL": f"redis://me:{SECRET}@host",
    "MY_VARIABLE": SECRET,
}


def ask(**variables):
    observer = Observer(Launch(environment=variables))
    try:
        return observer.environment()
    finally:
        observer.close()


@pytest.mark.long
def test_a_child_records_the_variables_and_options_that_it_was_started_with(tmp_path):
    plain = ask(TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "a"))
    twin = ask(TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "b"), CUDA_VISIBLE_DEVICES="")
    changed = ask(OMP_NUM_THREADS="1", TORCHINDUCTOR_FREEZING="1", TORCHINDUCTOR_AUTOGRAD_CACHE="0")
    assert plain.inventory.distributions["torch"] == plain.versions["torch"]
    assert plain.inventory.libraries["torch build"]
    assert deciding(plain, replace(twin, devices=plain.devices)) == []
    found = changed.inventory
    assert found.variables["OMP_NUM_THREADS"] == "1"
    assert found.variables["TORCHINDUCTOR_FREEZING"] == "1"
    assert found.configuration["functorch.enable_autograd_cache"] == "False"
    if "OMP_NUM_THREADS" not in os.environ:
        names = {change.name for change in deciding(plain, changed)}
        assert {"OMP_NUM_THREADS", "functorch.enable_autograd_cache"} <= names
        assert "functorch.enable_autograd_cache default → False" in headline(
            deciding(plain, changed)
        )


def test_another_distribution_of_the_same_torch_makes_another_environment(tmp_path):
    for name in ("mpmath", "pip"):
        (tmp_path / f"{name}-999.dist-info").mkdir()
        metadata = f"Name: {name}\nVersion: 999\n\n"
        (tmp_path / f"{name}-999.dist-info" / "METADATA").write_text(metadata)
    plain, other = ask(), ask(PYTHONPATH=str(tmp_path))
    assert other.inventory.distributions["pip"] == "999"
    (change,) = deciding(plain, other)
    assert str(change) == f"mpmath {plain.inventory.distributions['mpmath']} → 999"


@pytest.fixture
def never(write):
    """Arguments that select a model which is never built, so that nothing is compiled."""
    zoo = write(
        "never.py",
        "from compilegate import model\n\n\n"
        '@model("never")\ndef never():\n    raise RuntimeError("built nothing")\n',
    )
    return (FORWARD, "--zoo", zoo, "--cases", "never-cpu-infer-f32-default-static")


def test_no_secret_reaches_a_run_file(compilegate, never, runs):
    variables = {**SECRETS, "TORCH_LOGS": "+recompiles"}
    session = compilegate(*never, "--save", "mine", env=variables)
    assert "built nothing" in session.output
    recorded = session.run("mine").header.environment.inventory.variables
    assert recorded["TORCH_LOGS"] == "+recompiles"
    assert recorded["TORCH_HUB_TOKEN"] == "(not stored)"
    files = [path for path in runs.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if SECRET in path.read_text()]


@pytest.mark.long
@pytest.mark.parametrize(
    ("variable", "shown"),
    [
        ("OMP_NUM_THREADS=77", "in another environment than the candidate's: OMP_NUM_THREADS 77 →"),
        ("TORCH_HOME=/elsewhere", "the same as the candidate (A/A: nothing should differ)"),
    ],
)
def test_two_environments_of_one_torch_are_not_a_against_a(
    compilegate, never, tmp_path, variable, shown
):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\n{variable} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    session = compilegate(*never, "suites/test_upgrade.py", "--baseline-python", str(python))
    assert shown in session.output
    named = re.search(r"torch \S+ → \S+, OMP_NUM_THREADS 77 →", session.output)
    assert bool(named) is variable.startswith("OMP")
