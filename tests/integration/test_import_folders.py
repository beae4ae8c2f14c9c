"""Observing processes import what pytest's setting ``pythonpath`` lets tests import."""

import re
import subprocess
import sys

import pytest

from tests.integration.conftest import CHECKOUT, Session, surroundings

NETS = """\
import torch


def sound(x):
    return torch.sin(x)


def unsound(x):
    return torch.sin(x) * (1.1 if torch.compiler.is_compiling() else 1.0)
"""
ZOO = """\
import torch
from compilegate import Example, model


def inputs(batch):
    return (torch.randn(batch, 3),)


@model("sound", vary={"batch": (3, 2)})
def sound():
    import acme_nets  # a builder imports what only the observing process needs

    return Example(acme_nets.sound, inputs=inputs)


@model("unsound", vary={"batch": (3, 2)})
def unsound():
    import acme_nets

    return Example(acme_nets.unsound, inputs=inputs)
"""


@pytest.fixture
def project(tmp_path):
    """A project whose package is in ``src``, and is not installed."""
    folder = tmp_path / "project"
    (folder / "src" / "acme_nets").mkdir(parents=True)
    (folder / "src" / "acme_nets" / "__init__.py").write_text(NETS)
    (folder / "zoo.py").write_text(ZOO)
    return folder


def shell(project, command):
    """Run a command in a project. The variable makes compilegate importable, as an installation."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=project,
        env=surroundings(project / ".runs", {"PYTHONPATH": str(CHECKOUT)}, ["--backend"]),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    return Session(done.returncode, done.stdout, project / ".runs")


SUITE = (
    f"{sys.executable} -m pytest -p compilegate.plugin -p no:cacheprovider --pyargs "
    "compilegate.suites.test_forward -m cpu --backend aot_eager --benchmark-disable "
    "--models '*sound' --cases '*-infer-f32-default-static' --save once"
)


def test_a_builder_imports_a_package_from_the_folders_of_the_setting(project):
    (project / "pytest.ini").write_text("[pytest]\npythonpath = src\nzoo = zoo.py\n")
    session = shell(project, SUITE)
    assert session.counts == {"passed": 1, "failed": 1}, session.output
    reproduce = re.search(r"^reproduce: (.*)$", session.output, re.MULTILINE)
    assert reproduce is not None, session.output
    assert reproduce[1].startswith('PYTHONPATH=src:"$PYTHONPATH" ')
    again = shell(project, reproduce[1])
    assert again.status == 1, again.output
    assert "1 failed" in again.output
    assert "to find the causes: " in session.output


def test_without_the_setting_the_failure_names_the_folder(project):
    (project / "pytest.ini").write_text("[pytest]\nzoo = zoo.py\n")
    session = shell(project, SUITE)
    assert session.counts == {"failed": 2}, session.output
    assert "No module named 'acme_nets'; it is in" in session.output
    assert "to find the causes" not in session.output
    assert "project/src: pip install -e it, or name that folder in pytest's setting pythonpath" in (
        session.output
    )
