"""Runs the suites as a person does, on models that compile quickly."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from compilegate.records.checksum import seal
from compilegate.records.run import Closing, Record, encode
from compilegate.records.verdict import Verdict
from compilegate.runs import files
from compilegate.runs.reader import decode

CHECKOUT = Path(__file__).resolve().parents[2]
ZOOS = CHECKOUT / "tests" / "zoos"

#: One healthy case of the shipped zoo: the quickest session that compiles.
MATVEC = "matvec-cpu-infer-f32-default-static"

#: All suites whose verdict on a tiny model does not depend on how busy the machine is.
EXACT = tuple(
    f"suites/test_{aspect}.py"
    for aspect in ("forward", "gradients", "side_effects", "graph_breaks", "recompiles", "memory")
)
FORWARD, BREAKS, SPEEDUP = (
    f"suites/test_{aspect}.py" for aspect in ("forward", "graph_breaks", "speedup")
)

#: Variables of the outer session, or of the machine, that would change the result.
_FOREIGN = re.compile(
    r"PYTEST_.*|CI|GITHUB_.*|BUILD_NUMBER|(NO|FORCE|PY)_COLORS?|TORCH_COMPILE_DISABLE"
)


@dataclass
class Session:
    """A finished session.

    Attributes:
        status: Its exit status.
        output: stdout and stderr, as one text without colours.
        runs: Where its run files are.
    """

    status: int
    output: str
    runs: Path

    @property
    def counts(self) -> dict[str, int]:
        """The counts of pytest's last line: ``{"passed": 6}``."""
        lines = [line for line in self.output.splitlines() if re.search(r" in [\d.:]+s", line)]
        found = re.findall(r"(\d+) ([a-z]+)", lines[-1].partition(" in ")[0]) if lines else []
        return {outcome: int(count) for count, outcome in found}

    def run(self, name: str | None = None) -> files.Run:
        """A run file, the only one if no name is given."""
        (path,) = self.runs.glob(f"{name or '*'}.jsonl")
        return files.read(path)

    def verdicts(self, case: str) -> dict[str, Verdict]:
        """The verdicts on a case, or on a model of one case, by aspect."""
        found = self.run().verdicts
        return {aspect: v for (of, aspect), v in found.items() if case in (of, of.split("-")[0])}

    def outcomes(self, case: str) -> set[str]:
        """The outcomes of all its aspects."""
        return {verdict.outcome for verdict in self.verdicts(case).values()}

    def failed(self, case: str) -> dict[str, str]:
        """The aspects in which it failed, and the summary of each."""
        verdicts = self.verdicts(case).items()
        return {aspect: v.summary for aspect, v in verdicts if v.outcome == "failed"}

    @property
    def observed(self) -> list[str]:
        """The cases of the observations in the run file, once for each time it was written."""
        (path,) = self.runs.glob("*.jsonl")
        lines = path.read_text().splitlines()
        return [decode(line).case for line in lines if '"record":"observation"' in line]

    def message(self, test: str) -> str:
        """What pytest showed under FAILURES for one test, named as ``test_name[case]``."""
        failures = re.split(r"^_+ (\S+\[\S+\]) _+$", self.output, flags=re.MULTILINE)
        shown = dict(zip(failures[1::2], failures[2::2], strict=True))
        return shown[test].partition("\n====")[0]


Compilegate = Callable[..., Session]


def command(
    *arguments: str,
    runs: Path,
    backend: str = "aot_eager",
    benchmark: bool = False,
    cache: bool = False,
) -> list[str]:
    """``pytest suites/`` with arguments."""
    # The plugin of Hypothesis imports all of it, for a second, at the end of each session.
    words = [sys.executable, "-m", "pytest", "-p", "no:hypothesispytest"]
    words += ["-o", f"cache_dir={runs}.cache"] if cache else ["-p", "no:cacheprovider"]
    words += [] if any(a.startswith("suites") for a in arguments) else ["suites/"]
    words += ["-o", f"runs_dir={runs}"]
    words += [] if "--replay" in arguments else ["--backend", backend]
    words += [] if benchmark else ["--benchmark-disable"]
    return [*words, *arguments]


def surroundings(
    runs: Path, changes: Mapping[str, str] | None = None, words: Sequence[str] = ()
) -> dict[str, str]:
    """The variables of a session with this command line. One of them marks its processes.

    With an eager backend, small tensors are computed in one thread. Where two sessions share two
    processors, threads that wait for each other take half of the time. Sessions with Inductor keep
    all threads, because it generates other code for one.
    """
    kept = {name: value for name, value in os.environ.items() if not _FOREIGN.fullmatch(name)}
    if "--backend" in words and "inductor" not in words:
        kept.setdefault("OMP_NUM_THREADS", "1")
    return {**kept, "COLUMNS": "200", "COMPILEGATE_TEST": str(runs), **(changes or {})}


def run_to_its_end(
    words: Sequence[str], env: Mapping[str, str] | None, runs: Path, timeout_s: float = 1200.0
) -> Session:
    """Run a command from the checkout."""
    done = subprocess.run(
        words,
        cwd=CHECKOUT,
        env=surroundings(runs, env, words),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    return Session(done.returncode, done.stdout, runs)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """An empty folder of runs."""
    return tmp_path / "runs"


@pytest.fixture
def compilegate(runs: Path) -> Compilegate:
    """Runs ``pytest suites/`` with arguments, from the checkout, on the quick backend.

    ``cache`` and ``benchmark`` leave pytest's cache and pytest-benchmark on.
    """

    def run(
        *arguments: str,
        backend: str = "aot_eager",
        env: Mapping[str, str] | None = None,
        benchmark: bool = False,
        cache: bool = False,
    ) -> Session:
        words = command(*arguments, runs=runs, backend=backend, benchmark=benchmark, cache=cache)
        return run_to_its_end(words, env, runs)

    return run


_WITNESS = """
import os, sys

def is_observer(words):
    return any(str(word).endswith("compilegate/observe/bootstrap.py") for word in words)

def see(event, arguments):
    what = None
    if event == "import" and arguments[0] == "torch":
        what = "import torch"
    elif event == "subprocess.Popen" and is_observer(arguments[1]):
        what = "zoo listing" if "--list" in list(arguments[1]) else "child"
    if what:
        with open(os.environ["COMPILEGATE_WITNESS"], "a") as seen:
            seen.write(what + "\\n")

if not is_observer(sys.orig_argv):  # children may import what they like
    sys.addaudithook(see)
"""


@dataclass
class Witness:
    """Watches a session: whether it imports torch, and which processes it starts.

    Attributes:
        env: Variables to run the session with.
    """

    env: dict[str, str]

    @property
    def seen(self) -> set[str]:
        """``import torch`` in the session's own processes, ``child`` and ``zoo listing``."""
        path = Path(self.env["COMPILEGATE_WITNESS"])
        return set(path.read_text().splitlines()) if path.exists() else set()


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    """A witness of the next session."""
    folder = tmp_path / "witness"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_WITNESS)
    return Witness({"PYTHONPATH": str(folder), "COMPILEGATE_WITNESS": str(folder / "seen")})


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], str]:
    """Writes a file and returns its path, as a user's budgets or zoo."""

    def to(name: str, text: str) -> str:
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return to


# Long sessions that many tests read. The xdist worker that asks first runs the session.

#: Phases and dynamic settings in which faults show, where they are not ``infer`` and ``static``.
_TRAIN = (
    *("gradient_is_doubled", "gradient_is_lost"),
    *("statistic_is_lost", "statistic_is_lost_at_another_size", "statistic_is_kept"),
)
_DYNAMIC = ("specializes", "generalizes")


def faulty_case(model: str) -> str:
    """The case in which a model of the faulty zoo shows what it does."""
    phase = "train" if model in _TRAIN else "infer"
    dynamic = "dynamic" if model in _DYNAMIC else "static"
    return f"{model}-cpu-{phase}-f32-default-{dynamic}"


@pytest.fixture(scope="session")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """All of the faulty zoo, each model in the case in which it shows its fault."""
    models = re.findall(r'^@model\("(\w+)"', (ZOOS / "faulty.py").read_text(), re.MULTILINE)
    cases = [faulty_case(model) for model in models]
    cases += ["sound-cpu-train-f32-default-static"]
    cases += [f"generalizes-cpu-infer-f32-default-{dynamic}" for dynamic in ("auto", "marked")]
    chosen = [word for case in cases for word in ("--cases", case)]
    return _once(tmp_path_factory, "faulty", *EXACT, "--zoo", str(ZOOS / "faulty.py"), *chosen)


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """All of the hostile zoo, in one setting."""
    cases = ("--zoo", str(ZOOS / "hostile.py"), "--cases", "*-cpu-infer-f32-default-static")
    models = re.findall(r'^@model\("(\w+)"', (ZOOS / "hostile.py").read_text(), re.MULTILINE)
    chosen = [word for model in models for word in ("--models", model)]
    timeout = ("--case-timeout", "20", "-m", "cpu")
    return _once(tmp_path_factory, "hostile", *EXACT, *cases, *chosen, *timeout)


def _once(factory: pytest.TempPathFactory, name: str, *arguments: str) -> Session:
    """Run a session once; later callers read its files."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "status").exists():
            words = command(*arguments, runs=folder / "runs")
            session = run_to_its_end(words, None, folder / "runs")
            (folder / "output").write_text(session.output)
            (folder / "status").write_text(str(session.status))
    status, output = (folder / "status").read_text(), (folder / "output").read_text()
    return Session(int(status), output, folder / "runs")


@pytest.fixture
def stored(faulty: Session, runs: Path) -> Callable[..., Path]:
    """Writes the run ``stored`` with some models of a session, as if it had no others."""

    def write(
        *models: str,
        of: Session = faulty,
        changed: Callable[[Record], Record] = lambda record: record,
    ) -> Path:
        run = of.run()
        cases = [faulty_case(model) for model in models]
        records: list[Record] = [replace(run.header, planned=tuple(cases))]
        for case in cases:
            records.append(run.observations[case])
            records += [v for (c, _), v in run.verdicts.items() if c == case]
        records.append(Closing(cases=len(cases), wall_s=1.0))
        runs.mkdir(exist_ok=True)
        path = runs / "stored.jsonl"
        path.write_text("".join(seal(encode(changed(record))) + "\n" for record in records))
        return path

    return write
