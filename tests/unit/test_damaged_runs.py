"""Whatever happens to a run file, every command reads it or refuses it in one sentence.

``COMPILEGATE_FUZZ_EXAMPLES`` sets the number of damaged files; docs/measurements/reliability.md has
the figures of long runs.
"""

import gzip
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, settings

from compilegate.judging.budget import Budget
from compilegate.judging.rules import verdicts
from compilegate.runs import files
from compilegate.runs.archive import Archive
from compilegate.runs.reader import RunError
from tests.unit.damage import content, damaged, flipped, whole_run
from tests.unit.reading_commands import commands, run_command, whole_runs

EXAMPLES = int(os.environ.get("COMPILEGATE_FUZZ_EXAMPLES", "200"))
FUZZ = settings(
    max_examples=EXAMPLES,
    derandomize=True,  # a change that breaks nothing never fails
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
DATA = Path(__file__).parents[1] / "data"

NEW = whole_run("2.15.0", baseline="old")
#: A real run of an earlier version: two cases of an H200.
REAL = gzip.decompress((DATA / "h200-max-autotune.jsonl.gz").read_bytes()).decode().splitlines()
#: Budgets that hold every figure of a case to something.
STRICT = Budget(
    min_speedup=1.0,
    min_kernel_speedup=1.0,
    max_memory_ratio=1.0,
    max_compile_s=1.0,
    max_energy_ratio=1.0,
    max_compile_calls=10,
)


@pytest.fixture
def folder(tmp_path):
    """A folder of whole runs."""
    return whole_runs(tmp_path)


def read_whole(path):
    """Read and judge a whole run; the reason why it cannot be read, if so."""
    try:
        run = files.read(path)
    except RunError as error:
        return str(error)
    for observation in run.observations.values():
        assert list(verdicts(observation, STRICT))
    return ""


def read_by_case(path):
    """Read a run case by case; the reason why it cannot be read, if so."""
    try:
        with Archive(path) as run:
            assert all(run.seen(case).planned for case in run.cases)
            assert all(pair.case == case for case in run.cases for pair in run.pairs(case))
    except RunError as error:
        return str(error)
    return ""


def check_sentence(text, path):
    """A refusal is one line that names the file."""
    assert str(path) in text
    assert text.isprintable(), text
    assert len(text) < 1000 + 4 * len(str(path))


@pytest.mark.long
@FUZZ
@given(made=damaged(NEW) | damaged(REAL))
def test_a_damaged_run_is_read_or_refused_by_every_command(folder, made):
    path = folder / "new.jsonl"
    path.write_bytes(made)
    whole, by_case = read_whole(path), read_by_case(path)
    event("refused" if whole else "read")
    for reason in filter(None, (whole, by_case)):
        check_sentence(reason, path)
    for name, (words, written) in commands(folder, path).items():
        if written is not None:
            written.unlink(missing_ok=True)
        status, output, errors = run_command(*words)
        assert "Traceback" not in errors, errors
        if whole if name == "thresholds" else by_case:
            assert (status, output) == (2, ""), name
            assert errors == f"compilegate: {whole if name == 'thresholds' else by_case}\n"
            assert written is None or not written.exists(), name


@FUZZ
@given(made=flipped(NEW))
def test_every_changed_byte_of_a_run_is_noticed(folder, made):
    path = folder / "new.jsonl"
    path.write_bytes(made)
    if made == content(NEW):
        return
    is_cut = made.count(b"\n") < len(NEW)
    assert read_whole(path) or (is_cut and files.read(path).truncated)
