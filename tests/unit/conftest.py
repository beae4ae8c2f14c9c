"""What several unit tests share."""

import sys

import pytest

from compilegate.judging import budgets_toml
from compilegate.zoo import registry as zoo


@pytest.fixture
def clean_compiler():
    """Reset the compiler before and after the test."""
    from compilegate.observe.capture import compile_log  # most unit tests need no torch

    compile_log.reset()
    yield
    compile_log.reset()


@pytest.fixture
def load_budgets(tmp_path):
    """Budgets of TOML texts, from the lowest layer to the highest."""

    def load(*texts):
        files = []
        for layer, text in enumerate(texts):
            file = tmp_path / f"layer{layer}.toml"
            file.write_text(text)
            files.append(file)
        return budgets_toml.read(files)

    return load


@pytest.fixture
def registry(monkeypatch):
    """A copy of the shipped zoo's registry; modules named ``zoo_of_…`` are forgotten again."""
    zoo.load()
    monkeypatch.setattr(zoo, "_registry", dict(zoo._registry))
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield zoo._registry
    for name in set(sys.modules) - before:
        if name.startswith("zoo_of_"):
            del sys.modules[name]
