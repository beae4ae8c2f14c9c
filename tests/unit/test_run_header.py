"""The header of a run: which compilegate judged it."""

import subprocess
from importlib import metadata

import pytest

from compilegate.session import run_header


@pytest.fixture
def repository(tmp_path):
    """A git repository with one commit."""

    def git(*words):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        done = subprocess.run(
            ["git", *identity, *words], cwd=tmp_path, check=True, text=True, capture_output=True
        )
        return done.stdout.strip()

    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "--message", "first")
    return tmp_path, git("rev-parse", "--short=12", "HEAD")


def test_a_checkout_has_the_revision_of_its_repository(repository, monkeypatch):
    folder, commit = repository
    monkeypatch.setattr(run_header, "PACKAGE", folder / "compilegate")
    (folder / "compilegate").mkdir()
    assert run_header._revision() == commit


def test_an_installed_package_has_its_version_and_not_the_revision_of_its_user(
    repository, monkeypatch
):
    folder, _ = repository
    package = folder / ".venv" / "site-packages" / "compilegate"
    package.mkdir(parents=True)
    monkeypatch.setattr(run_header, "PACKAGE", package)
    assert run_header._revision() == metadata.version("compilegate")
