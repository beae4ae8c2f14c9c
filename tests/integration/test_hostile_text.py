"""Names, messages and output of a model that try to act in a terminal or in a workflow's log."""

import contextlib
import os
import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from compilegate.__main__ import main
from compilegate.records.environment import Device
from tests.integration.conftest import BREAKS, CHECKOUT, FORWARD, command, surroundings
from tests.unit.making import (
    make_break,
    make_call,
    make_capture,
    make_checked,
    make_difference,
    make_environment,
    make_error,
    make_failed_observation,
    make_observation,
    make_place,
    make_verdict,
)
from tests.unit.runs import write_run

EVIL = (
    "evil\x1b[2J\x1b]8;;http://a.example\x07\x1b]52;c;eA==\x1b\\\x9b31m\u202e\u2066\x08\x00\r"
    "::error::a\n::stop-commands::b\n  ::error::c\n##[error]d ##vso[e]"
)
NAMES = ("says", "raises", "lacks")
SAYS, RAISES, LACKS = (f"{name}-cpu-infer-f32-default-static" for name in NAMES)
#: Text of people who write no English, which nobody may change.
PLAIN = "é 日本 👩‍💻"

ZOO = f"""
import sys
import torch
from torch import nn
from compilegate import Example, model

EVIL, PLAIN = {EVIL!r}, {PLAIN!r}

class Says(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_parameter(EVIL.replace(".", ""), nn.Parameter(torch.ones(4)))

    def forward(self, x):
        if not torch.compiler.is_compiling():
            print(EVIL)
            print(EVIL, file=sys.stderr)
        torch._dynamo.graph_break(msg=EVIL)
        scale = 2 if torch.compiler.is_compiling() else 1
        (weight,) = self.parameters()
        return {{EVIL: (scale * x * weight,), PLAIN: scale * x}}

class Raises(nn.Module):
    def forward(self, x):
        raise RuntimeError(EVIL)

@model("says")
def says():
    return Example(Says(), inputs=lambda: (torch.randn(2, 4),), signal=False)

@model("raises")
def raises():
    return Example(Raises(), inputs=lambda: (torch.randn(2, 4),), signal=False)
"""


def assert_clean(text, *, colours=False, commands=False):
    """No character of a text acts in a terminal, and no line is a command but compilegate's."""
    if colours:
        text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert not re.findall(
        r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", text
    )
    assert not re.search(r"##\w*\[", text)
    lines = [line for line in text.split("\n") if line.lstrip().startswith("::")]
    assert all(re.match(r"::error title=compilegate[^:]*::", line) for line in lines), lines
    assert bool(lines) == commands


def run(words, runs, **variables):
    """stdout and stderr of a command, apart."""
    return subprocess.run(
        words,
        cwd=CHECKOUT,
        env=surroundings(runs, variables),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("text")


@pytest.fixture(scope="module")
def zoo(folder):
    """A zoo file in a folder with a hostile name."""
    path = folder / "a\x1b[2J\n::error::b\u202e" / "zoo.py"
    path.parent.mkdir()
    path.write_text(ZOO, encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def live(folder, zoo):
    """A live session of the hostile zoo, as a step of a workflow runs it."""
    chosen = ("--zoo", zoo, "--cases", SAYS, "--cases", RAISES, "--save", "live")
    words = command(FORWARD, BREAKS, *chosen, "--junitxml", str(folder / "live.xml"), runs=folder)
    summary = str(folder / "summary.md")
    return run(words, folder, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=summary)


def test_a_session_shows_hostile_text_and_lets_none_of_it_act(live, folder):
    assert live.returncode == 1
    assert_clean(live.stdout, commands=True)
    assert_clean(live.stderr)
    assert live.stdout.count(r"evil\u001b[2J") > 4
    assert PLAIN in live.stdout
    report = (folder / "live.xml").read_text()
    assert_clean(report)
    assert r"evil\u001b[2J" in report
    (suite,) = ElementTree.fromstring(report).iter("testsuite")
    assert suite.attrib["failures"] == "4"
    summary = (folder / "summary.md").read_text()
    assert_clean(summary)
    assert "evil" in summary


def test_observing_in_the_foreground_cleans_what_the_model_prints(folder, zoo, live):
    words = [sys.executable, "-m", "compilegate", "observe", SAYS, "--zoo", zoo]
    done = run([*words, "--backend", "aot_eager", "--want", "capture"], folder)
    assert done.returncode == 1, done.stderr
    assert_clean(done.stdout)
    assert_clean(done.stderr)
    for text in (done.stdout, done.stderr):
        assert r"evil\u001b[2J" in text


def test_a_wrong_use_names_hostile_paths_cleanly(folder):
    missing = str(folder / "\x1b[2J\n::error::x.py")
    done = run(command("--zoo", missing, runs=folder), folder)
    assert done.returncode == 4
    assert r"\u001b[2J" in done.stderr
    for text in (done.stdout, done.stderr):
        assert_clean(text)


def hostile_run(path, **changed):
    """A run file with hostile text wherever a run file has text."""
    environment = make_environment(
        versions={"torch": EVIL, EVIL: EVIL},
        devices=(Device(kind="cpu", name=EVIL, memory_bytes=1),),
        **changed,
    )
    place = make_place(function=EVIL, file=EVIL)
    wrong = make_call(
        outputs=make_checked(
            make_error(name=EVIL, compiled_max=9.0, compiled_rms=9.0),
            differences=[make_difference(where=EVIL, what="stride", eager=EVIL, compiled=EVIL)],
        )
    )
    broken = make_capture(breaks=(make_break(EVIL, EVIL, place),))
    says = make_observation(case=SAYS, calls=(wrong,), capture=broken, output=EVIL)
    raises = make_failed_observation(
        "raised", case=RAISES, kind=EVIL, message=EVIL, traceback=EVIL, output=EVIL
    )
    lacks = make_failed_observation("unavailable", case=LACKS, stage="build", message=EVIL)
    verdicts = [
        make_verdict("failed", case=SAYS, summary=EVIL, details=(EVIL,)),
        make_verdict("inconclusive", case=SAYS, aspect="graph_breaks", summary=EVIL),
        make_verdict("failed", case=RAISES, summary=EVIL, details=(EVIL,)),
    ]
    records = (says, raises, lacks, *verdicts)
    return write_run(path, *records, environment=environment, arguments=(EVIL,), revision=EVIL)


#: A plugin that makes pytest itself print hostile text.
PLUGIN = f"""
import warnings

EVIL = {EVIL!r}

def pytest_runtest_setup(item):
    warnings.warn(EVIL)
    print(EVIL)

def pytest_runtest_call(item):
    if "test_memory" in item.nodeid:
        raise RuntimeError(EVIL)
"""


@pytest.mark.parametrize("colour", ["no", "yes"])
def test_a_replay_of_a_hostile_run_shows_it_and_lets_none_of_it_act(runs, tmp_path, colour):
    runs.mkdir()
    hostile_run(runs / "old.jsonl")
    hostile_run(runs / "new.jsonl", python=EVIL)
    (tmp_path / "evil_plugin.py").write_text(PLUGIN, encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    compared = ("--replay", "new", "--baseline-run", "old", f"--color={colour}", "-rA")
    junit = str(tmp_path / "junit.xml")
    words = command("suites/", *compared, "-p", "evil_plugin", "--junitxml", junit, runs=runs)
    done = run(words, runs, PYTHONPATH=path)
    assert done.returncode in (1, 2), done.stdout + done.stderr
    assert_clean(done.stdout, colours=colour == "yes")
    assert_clean(done.stderr, colours=colour == "yes")
    for text in (r"evil\u001b[2J", "warnings summary", "Captured stdout", "RuntimeError: "):
        assert text in done.stdout
    assert_clean((tmp_path / "junit.xml").read_text())


@pytest.mark.parametrize(
    "words",
    [
        ("compare", "old", "new", "--all"),
        ("compare", "old", "new", "old"),
        ("compare", "old", "new", "--format", "markdown"),
        ("compare", "old", f"missing{EVIL}".replace("\0", "")),
        ("html", "new", "old", "--output", "page.html"),
        ("html", "new", "--output", "page.html"),
        ("markdown", "new"),
        ("merge", "new", "--output", "merged.jsonl"),
        ("merge", "new", "--output", "\x1b[2J\n::error::x"),
        ("thresholds", "old", "new"),
        ("observe", EVIL),
        (EVIL,),
    ],
    ids=lambda words: "-".join(re.findall(r"\w+", " ".join(words))[:5]),
)
def test_no_command_lets_text_of_a_run_or_an_argument_act(words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".runs").mkdir()
    hostile_run(tmp_path / ".runs" / "old.jsonl")
    hostile_run(tmp_path / ".runs" / "new.jsonl", python=EVIL)
    with contextlib.suppress(SystemExit):  # an unknown command
        main(words)
    stdout, stderr = capsys.readouterr()
    assert stdout + stderr
    assert_clean(stdout)
    assert_clean(stderr)
    for page in tmp_path.glob("*.html"):
        assert_clean(re.sub(r"(?s)<style>.*?</style>|<script>.*?</script>", "", page.read_text()))
