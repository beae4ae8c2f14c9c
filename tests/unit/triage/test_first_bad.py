"""Releases are bisected, and their environments come from the configured index and are kept."""

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from compilegate.__main__ import main
from compilegate.commands import first_bad
from compilegate.records.case import Case
from compilegate.triage.releases import environments
from compilegate.triage.releases.bisection import bisect
from compilegate.triage.releases.conclusion import attributed, changed_libraries
from compilegate.triage.releases.environments import ReleaseEnvironments, releases
from compilegate.triage.search.seen import Seen
from compilegate.upgrade.attribution import distributions
from compilegate.upgrade.attribution.index import MakingError
from tests.venvs import install, make_venv, make_wheel

ON_GPU = Case.parse("one-cuda-infer-f32-default-static")
ON_CPU = Case.parse("one-cpu-infer-f32-default-static")
NAMES = {"g": "good", "b": "bad", "?": "unobservable"}


@pytest.mark.parametrize(
    ("states", "turn", "between"),
    [
        ("gggbbbbb", (2, 3), []),
        ("gb", (0, 1), []),
        ("bbbg", (2, 3), []),
        ("gg??bb", (1, 4), [2, 3]),
        ("?gggb?", (3, 4), []),
        ("g?????b", (0, 6), [1, 2, 3, 4, 5]),
        ("gggg", None, []),
        ("bb", None, []),
        ("??g?", None, []),
        ("???", None, []),
    ],
)
def test_the_change_is_found_between_the_nearest_observable_releases(states, turn, between):
    found = bisect(len(states), lambda index: Seen(NAMES[states[index]]))
    assert found.turn == turn
    assert found.between == between


def test_no_release_is_observed_twice_and_few_are_at_all():
    looked = []

    def look(index):
        looked.append(index)
        return Seen("bad" if index >= 11 else "good")

    assert bisect(64, look).turn == (10, 11)
    assert len(looked) == len(set(looked)) <= 8


@pytest.fixture
def index(tmp_path, monkeypatch):
    """An index of made-up releases of torch, which pip's configuration names."""
    folder = tmp_path / "index"
    folder.mkdir()
    for version in ("2.11.0", "2.12.0", "2.12.1", "2.13.0", "2.14.0", "2.15.0rc1", "2.15.0"):
        make_wheel(folder, "torch", version, f"__version__ = {version!r}")
    make_wheel(folder, "extra", "1.0", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # without uv
    return folder


def test_a_range_is_the_last_release_of_each_minor_version_that_the_index_has(index):
    assert releases("2.12..2.14") == ["2.12.1", "2.13.0", "2.14.0"]
    assert releases("2.13..2.15") == ["2.13.0", "2.14.0", "2.15.0"]
    assert releases("2.13.1..2.14.0") == ["2.14.0"]
    assert releases("2.14.0,2.12.0") == ["2.12.0", "2.14.0"]
    with pytest.raises(MakingError, match="the index has no such release"):
        releases("3.0..3.1")
    with pytest.raises(MakingError, match=r"expected 2\.12\.\.2\.15"):
        releases("newest")


def test_a_release_that_the_index_lacks_is_refused_before_anything_is_installed(index, tmp_path):
    made = ReleaseEnvironments(tmp_path / "environments")
    made.check_index(["2.12.1", "2.14.0", "2.16.0.dev20261101"])
    with pytest.raises(
        MakingError, match=r"no torch 2\.13\.5, 2\.99\.0 for Python 3.*; its newest .* is 2"
    ):
        made.check_index(["2.12.1", "2.13.5", "2.99.0"])
    for name in ("2.13.5", "2.99.0"):
        made.path(name).mkdir(parents=True)
    made.check_index(["2.12.1", "2.13.5", "2.99.0"])
    assert releases("2.13.0,2.12.1,2.13.0") == ["2.12.1", "2.13.0"]


def test_a_local_build_is_a_release_where_the_index_has_no_plain_one(index):
    make_wheel(index, "torch", "2.14.0+cpu", "")
    make_wheel(index, "torch", "2.15.1+cpu", "")
    assert releases("2.14..2.15") == ["2.14.0", "2.15.1+cpu"]


def test_an_environment_is_made_from_the_index_once_and_kept(index, tmp_path):
    said = []
    made = ReleaseEnvironments(tmp_path / "environments", ("extra",), said.append)
    python = made.python("2.13.0")
    code = "import torch, extra; print(torch.__version__)"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "2.13.0\n"
    for wheel in index.iterdir():
        wheel.unlink()
    assert made.python("2.13.0") == python
    assert said == [f"2.13.0: installing torch into {made.path('2.13.0')}"]
    with pytest.raises(MakingError, match=r"torch==2\.14\.0 extra failed: ERROR: "):
        made.python("2.14.0")
    assert [path.name for path in made.folder.glob("*torch*")] == ["torch-2.13.0-extra"]
    assert not list(made.folder.glob(".making-*"))


def test_of_what_an_installer_prints_its_errors_count():
    def last(text):
        return environments._last_lines(subprocess.CompletedProcess([], 1, "", text))

    assert last("WARNING: ignored\nERROR: no torch\n[notice] of a new pip") == "ERROR: no torch"
    assert last("error: no solution\n  cause: no torch") == "error: no solution\n  cause: no torch"


def test_a_release_is_installed_and_not_its_local_build(index, tmp_path):
    for version in ("2.14.0+cpu", "2.15.1+cpu"):
        make_wheel(index, "torch", version, f"__version__ = {version!r}")
    made = ReleaseEnvironments(tmp_path / "environments", say=lambda _: None)
    for release, version in (("2.14.0", "2.14.0"), ("2.15.1", "2.15.1+cpu")):
        assert distributions.installed(made.python(release)).distributions["torch"].version == (
            version
        )


def test_too_little_disk_is_said_before_anything_is_made(tmp_path, monkeypatch):
    def leave(gib):
        disk = SimpleNamespace(free=gib * 2**30)
        monkeypatch.setattr(environments.shutil, "disk_usage", lambda path: disk)

    made = ReleaseEnvironments(tmp_path / "environments")
    names = ["2.12.1", "2.13.0", "2.14.0", "2.15.0"]
    leave(26)
    assert "up to 4 environments of about 6 GiB each in " in made.check_disk(names)
    leave(24)
    with pytest.raises(MakingError, match=r"24 GiB, of 24.0 GiB .* free some, narrow the range"):
        made.check_disk(names)
    for name in names:
        made.path(name).mkdir(parents=True)
    assert made.check_disk(names).startswith("the environments are in ")


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Two environments that differ in the versions of torch and triton."""
    pythons = []
    for name, version in (("before", "1.0"), ("now", "2.0")):
        folder = tmp_path_factory.mktemp("venvs") / name
        pythons.append(make_venv(folder))
        for distribution in ("torch", "triton"):
            install(folder, distribution, version, f"version = {version!r}")
    return tuple(pythons)


@pytest.mark.parametrize(
    ("culprit", "words"),
    [
        ("triton", "triton 1.0 → 2.0 alone is bad, as the later release: triton did it"),
        ("torch", "triton 1.0 → 2.0 alone is good, as the earlier release: torch did it"),
    ],
)
def test_triton_is_exchanged_alone(two, tmp_path, culprit, words):
    def look(python):
        code = f"import {culprit}; print({culprit}.version)"
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
        return Seen("bad" if done.stdout == "2.0\n" else "good")

    assert attributed(ON_GPU, tmp_path, two, look, "bad") == words


def test_a_library_of_the_model_that_changed_with_torch_is_named(two):
    before, now = two
    (said,) = changed_libraries(["Triton>=1", "torchvision"], before, now)
    assert said == "what the model needs changed, too, and may have done it: triton 1.0 → 2.0"
    assert not [*changed_libraries(["torchvision"], before, now)]
    assert not [*changed_libraries(["triton"], before, before)]


def test_triton_does_nothing_on_a_cpu_and_where_it_did_not_change(two, tmp_path):
    assert "triton compiles nothing" in attributed(ON_CPU, tmp_path, two, Seen, "bad")
    same = attributed(ON_GPU, tmp_path, (two[0], two[0]), Seen, "bad")
    assert same == "triton did not change: torch, or what it installs, did it"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["resnet19-cpu-infer-f32-default-static", "--torch", "2.12..2.13"], "did you mean"),
        (["resnet18-cpu-infer-f32-default-static"], "name the releases with --torch"),
        (["resnet18-cpu-infer-f32-default-static", "--python", "/none"], "check the path"),
    ],
)
def test_a_mistake_is_one_sentence(words, message, capsys):
    assert main(["first-bad", *words]) == 2
    assert message in capsys.readouterr().err


ZOO = """
from compilegate import model

@model("breaks", requires="extra")
def breaks():
    ...
"""


def dry(case, *words):
    return main(["first-bad", f"{case}-cpu-infer-f32-default-static", "--dry-run", *words])


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The words that name a folder of environments, which does not exist. No index is asked."""
    nowhere = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": ""}
    for name, value in nowhere.items():
        monkeypatch.setenv(name, value)
    return ("--environments", str(tmp_path / "environments"))


def test_a_model_that_the_zoo_lacks_is_refused_before_anything_is_installed(tmp_path, kept, capsys):
    (tmp_path / "zoo.py").write_text(ZOO)
    words = ("--torch", "2.13.0,2.14.0", "--zoo", str(tmp_path / "zoo.py"), *kept)
    assert dry("braeks", *words) == 2
    ended = capsys.readouterr()
    assert (ended.out, "did you mean 'breaks'" in ended.err) == ("", True)
    assert dry("breaks", *words) == 0
    assert f"{tmp_path}/environments/torch-2.13.0-extra\n" in capsys.readouterr().out


def test_a_case_that_its_model_does_not_have_is_refused(kept, capsys):
    assert (
        main(["first-bad", "clip-cpu-infer-f32-default-marked-int8_weights", "--torch", "2.13.0"])
        == 2
    )
    assert (
        "impossible case 'clip-cpu-infer-f32-default-marked-int8_weights': "
        in capsys.readouterr().err
    )


def test_a_zoo_that_only_a_release_can_load_is_no_mistake(tmp_path, kept, capsys):
    (tmp_path / "zoo.py").write_text("import torch_of_long_ago")
    words = ("--torch", "2.13.0", "--zoo", str(tmp_path / "zoo.py"), *kept)
    assert dry("anything", *words) == 0
    assert "whether there is a model anything is not known yet: " in capsys.readouterr().out


def test_a_dry_run_says_what_there_is_and_makes_nothing(tmp_path, kept, capsys):
    folder = tmp_path / "environments"
    words = ("resnet18", "--torch", "2.13.0,2.14.0", *kept)
    assert dry(*words) == 0
    assert not folder.exists()
    assert capsys.readouterr().out.splitlines()[:2] == [
        f"2.13.0: would be installed into {folder}/torch-2.13.0-torchvision",
        f"2.14.0: would be installed into {folder}/torch-2.14.0-torchvision",
    ]
    (folder / "torch-2.13.0-torchvision").mkdir(parents=True)
    (folder / ".making-0-left").mkdir()
    assert dry(*words) == 0
    first, _, disk = capsys.readouterr().out.splitlines()
    assert first == f"2.13.0: is in {folder}/torch-2.13.0-torchvision"
    assert disk.startswith(f"up to 1 environment of about 6 GiB in {folder}: 6 GiB, of ")
    assert (folder / ".making-0-left").exists()


def test_interpreters_that_exist_serve_for_their_releases(two, tmp_path, kept, capsys):
    before, now = two
    own = ("--python", before, "--python", now)
    assert dry("resnet18", "--torch", "1.0,1.5", *own, *kept) == 0
    one, between, last, disk = capsys.readouterr().out.splitlines()
    assert (one, last) == (f"1.0: {before}", f"2.0: {now}")
    assert between.startswith("1.5: would be installed into ")
    assert disk.startswith("up to 1 environment of ")
    made = ReleaseEnvironments(tmp_path / "environments", own={"1.0": before})
    assert made.python("1.0") == before


def test_a_local_build_serves_for_its_release():
    assert first_bad.releases_of("2.13.0,2.14.0", {"2.13.0+cpu": "python"}) == [
        "2.13.0+cpu",
        "2.14.0",
    ]
    assert first_bad.releases_of(None, {"2.14.0": "a", "2.9.0": "b"}) == ["2.9.0", "2.14.0"]


def test_what_a_killed_process_left_is_removed_and_named(tmp_path):
    dead = subprocess.Popen(["true"])
    dead.wait()
    left, begun = (tmp_path / f".making-{pid}-abc" for pid in (dead.pid, os.getpid()))
    for folder in (left, begun, tmp_path / "torch-2.13.0"):
        (folder / "lib").mkdir(parents=True)
    said = []
    ReleaseEnvironments(tmp_path, say=said.append).remove_unfinished()
    assert said == [f"removed {left}, which a killed process left unfinished"]
    assert {path.name for path in tmp_path.iterdir()} == {begun.name, "torch-2.13.0"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_removes_what_is_being_installed(number, tmp_path, kept):
    (tmp_path / "bin").mkdir()
    uv = tmp_path / "bin" / "uv"
    uv.write_text("#!/bin/sh\nexec sleep 60\n")
    uv.chmod(0o755)
    words = [sys.executable, "-m", "compilegate", "first-bad", ON_CPU.id.replace("one", "resnet18")]
    with subprocess.Popen(
        [*words, "--torch", "2.13.0", *kept],
        env={**os.environ, "PATH": f"{uv.parent}:{os.environ['PATH']}"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as process:
        deadline = time.monotonic() + 60
        while not [*tmp_path.glob("environments/.making-*")] and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)  # uv runs
        process.send_signal(number)
        process.wait(60)
    assert process.returncode == 128 + number
    assert [path.name for path in (tmp_path / "environments").iterdir()] == [".gitignore"]
