"""What several unit tests share."""

import pytest

from compilegate.judging import budgets_toml


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
