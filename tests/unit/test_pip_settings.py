"""uv installs from the index that pip is configured with."""

import os
import sys

import pytest

from compilegate.triage.releases.environments import ReleaseEnvironments
from compilegate.upgrade.attribution import index, pip_settings

#: A uv that writes down its variables and options, and makes an empty environment.
UV = f"""#!{sys.executable}
import os, pathlib, sys
if sys.argv[1] == "pip":
    names = [name for name in os.environ if name.startswith(("UV_", "SSL_"))]
    lines = [f"{{name}}={{os.environ[name]}}" for name in sorted(names)]
    pathlib.Path(os.environ["SEEN"]).write_text("\\n".join([*lines, *sys.argv[2:]]))
"""


@pytest.fixture
def seen(tmp_path, monkeypatch):
    """What a made-up uv wrote down, and a configuration of pip that is empty at first."""
    (tmp_path / "bin").mkdir()
    uv = tmp_path / "bin" / "uv"
    uv.write_text(UV)
    uv.chmod(0o755)
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_", "SSL_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", f"{uv.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    return tmp_path / "seen"


def lines(path):
    return path.read_text().splitlines()


def test_uv_gets_the_index_of_a_file_of_pip(seen, tmp_path, monkeypatch):
    config = tmp_path / "pip.conf"
    config.write_text(
        "[global]\nindex-url = https://general/simple\ncert = /certs.pem\n"
        "extra-index-url = https://one/simple\n    https://two/simple\n"
        "[install]\nindex-url = https://mine/simple\nfind-links = /a /b\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    index.install(tmp_path / "python", ["timm==1.0"])
    variables = [
        "SSL_CERT_FILE=/certs.pem",
        "UV_DEFAULT_INDEX=https://mine/simple",
        "UV_FIND_LINKS=/a,/b",
        "UV_INDEX=https://one/simple https://two/simple",
        "UV_INDEX_STRATEGY=unsafe-best-match",
    ]
    options = ["install", "--python", str(tmp_path / "python"), "--no-deps", "timm==1.0"]
    assert lines(seen) == [*variables, *options]


def test_a_release_is_installed_from_the_index_that_a_variable_names(seen, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "https://mine/simple")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    ReleaseEnvironments(tmp_path / "environments", say=lambda _: None).python("2.13.0")
    first, *options = lines(seen)
    assert first == "UV_DEFAULT_INDEX=https://mine/simple"
    assert options[:3] == ["install", "--quiet", "--no-index"]
    assert options[-1] == "torch==2.13.0"


def test_a_variable_of_uv_comes_before_what_pip_has(seen, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "https://pips/simple")
    monkeypatch.setenv("UV_INDEX_URL", "https://uvs/simple")
    index.install(tmp_path / "python", ["timm==1.0"])
    assert lines(seen)[:2] == ["UV_INDEX_URL=https://uvs/simple", "install"]


def test_without_a_configuration_uv_decides_by_itself(seen):
    assert pip_settings.for_uv() == ([], {})


def test_without_pip_its_variables_count(seen, monkeypatch):
    monkeypatch.setattr(pip_settings.sys, "executable", "/bin/false")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://one/simple")
    assert pip_settings.settings()["extra-index-url"] == "https://one/simple"
