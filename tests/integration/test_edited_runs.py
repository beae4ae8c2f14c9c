"""A recorded run whose costs were edited: what two stored runs of one machine decide."""

import dataclasses
import functools
from pathlib import Path

import pytest

from compilegate.records.run import encode
from compilegate.runs import files
from compilegate.runs.archive import Archive
from compilegate.upgrade.comparison import compare
from compilegate.upgrade.decision import decide
from compilegate.upgrade.paired_costs import cost_changes

DATA = Path(__file__).parents[1] / "data"
LIVE = DATA / "h200-live-1.jsonl.gz"


def times(factor, *, eager=True):
    """Rounds and kernels that take this multiple."""

    def edited(seen):
        if seen.timing is None:
            return seen
        sides = ("compiled", "eager") if eager else ("compiled",)
        longer = {f"{side}_ns": getattr(seen.timing, f"{side}_ns") for side in sides}
        longer = {name: tuple(factor * ns for ns in rounds) for name, rounds in longer.items()}
        kernels = {f"{side}_kernels_ns" for side in sides}
        longer |= {name: factor * getattr(seen.timing, name) for name in kernels}
        return dataclasses.replace(seen, timing=dataclasses.replace(seen.timing, **longer))

    return edited


def peaks(factor):
    def edited(seen):
        if seen.memory is None:
            return seen
        grown = {
            name: int(factor * getattr(seen.memory, name))
            for name in ("eager_peak_bytes", "compiled_peak_bytes")
        }
        return dataclasses.replace(seen, memory=dataclasses.replace(seen.memory, **grown))

    return edited


def slow_tenth(factor):
    """Every tenth round of compiled code takes this multiple."""

    def edited(seen):
        if seen.timing is None:
            return seen
        rounds = enumerate(seen.timing.compiled_ns)
        longer = tuple(factor * ns if index % 10 == 0 else ns for index, ns in rounds)
        return dataclasses.replace(
            seen, timing=dataclasses.replace(seen.timing, compiled_ns=longer)
        )

    return edited


def reserved(factor):
    def edited(seen):
        if seen.memory is None:
            return seen
        grown = int(factor * seen.memory.compiled_reserved_bytes)
        memory = dataclasses.replace(seen.memory, compiled_reserved_bytes=grown)
        return dataclasses.replace(seen, memory=memory)

    return edited


def energy(factor):
    def edited(seen):
        if seen.energy is None:
            return seen
        used = dataclasses.replace(seen.energy, compiled_j=factor * seen.energy.compiled_j)
        return dataclasses.replace(seen, energy=used)

    return edited


def compiling(factor):
    def edited(seen):
        longer = factor * seen.compile_time.total_s
        return dataclasses.replace(
            seen, compile_time=dataclasses.replace(seen.compile_time, total_s=longer)
        )

    return edited


def less_exact(factor):
    """Eager and compiled code are further from the reference."""

    def of_tensor(error):
        names = [f"{side}_{figure}" for side in ("eager", "compiled") for figure in ("rms", "max")]
        return dataclasses.replace(error, **{n: factor * getattr(error, n) for n in names})

    def of_group(checked):
        return dataclasses.replace(checked, errors=tuple(map(of_tensor, checked.errors)))

    def edited(seen):
        calls = tuple(
            dataclasses.replace(
                call, outputs=of_group(call.outputs), gradients=of_group(call.gradients)
            )
            for call in seen.calls
        )
        return dataclasses.replace(seen, calls=calls)

    return edited


def decided(tmp_path, *edits, every=1, device=None):
    """The decision on the recorded run and its copy, of which some cases were edited."""
    run = files.read(LIVE)
    header = run.header
    if device is not None:
        devices = tuple(
            dataclasses.replace(found, **device) if found.kind == "cuda" else found
            for found in header.environment.devices
        )
        environment = dataclasses.replace(header.environment, devices=devices)
        header = dataclasses.replace(header, environment=environment)
    records = [header]
    for index, (name, seen) in enumerate(run.observations.items()):
        chosen = edits if index % every == 0 else ()
        records.append(functools.reduce(lambda made, edit: edit(made), chosen, seen))
        records += [verdict for (case, _), verdict in run.verdicts.items() if case == name]
    path = tmp_path / "edited.jsonl"
    path.write_text("".join(f"{encode(record)}\n" for record in (*records, run.closing)))
    with Archive(LIVE) as before, Archive(path) as now:
        return decide(compare(before, now, cost_changes(before, now)))


def test_a_copy_of_a_run_is_safe(tmp_path):
    decision = decided(tmp_path)
    assert (decision.answer, decision.exit_status) == ("safe", 0)
    assert decision.command == ""


@pytest.mark.parametrize(
    ("edits", "every", "expected"),
    [
        ([times(4)], 1, "compiled code looks slower in 30 of 30 cases"),
        ([times(4), peaks(2), compiling(1.4)], 1, "peak memory looks higher in 28 of 30 cases"),
        ([times(3, eager=False)], 2, "compiled code looks slower in 15 of 30 cases"),
        ([times(1.3)], 1, "compiled code looks slower, 1.30× in the mean of 30 cases"),
        ([peaks(1.2)], 15, "peak memory looks higher in 1 of 30 cases"),
        ([compiling(1.4)], 1, "compiling looks slower, 1.40× in the mean of 30 cases"),
        ([compiling(3)], 30, "compiling looks slower in 1 of 30 cases"),
        ([slow_tenth(20)], 1, "the 95th percentile of calls looks slower in "),
        ([reserved(5)], 1, "reserved memory looks higher in "),
        ([energy(3)], 1, "the energy of a call looks higher in "),
        ([energy(1.4)], 1, "the energy of a call looks higher, 1.40× in the mean of 30 cases"),
    ],
    ids=[
        *("all-4x", "all-costs", "half-3x", "all-1.3x", "one-memory", "compiling", "one-compiling"),
        *("p95", "reserved", "energy", "all-energy"),
    ],
)
def test_costs_that_look_worse_are_never_safe(tmp_path, edits, every, expected):
    decision = decided(tmp_path, *edits, every=every)
    assert (decision.answer, decision.exit_status) == ("cannot say", 2)
    assert expected in decision.because
    assert "--baseline-python" in decision.command
    assert "-m gpu" in decision.command


def test_an_eager_that_errs_ten_times_as_much_stops_an_upgrade(tmp_path):
    decision = decided(tmp_path, less_exact(10))
    assert (decision.answer, decision.exit_status) == ("do not upgrade", 1)
    assert "eager regressed" in decision.because


def test_costs_of_other_hardware_are_not_compared_and_the_headline_names_it(tmp_path):
    decision = decided(tmp_path, times(4), device={"name": "NVIDIA H100"})
    assert (decision.answer, decision.exit_status) == ("safe", 0)
    assert "costs not compared: cuda NVIDIA H200 → NVIDIA H100" in decision.counts


def test_less_memory_on_other_hardware_is_no_improvement(tmp_path):
    assert "improved" in decided(tmp_path, peaks(0.5)).counts
    assert "improved" not in decided(tmp_path, peaks(0.5), device={"name": "NVIDIA H100"}).counts


def test_another_driver_is_named_in_the_headline(tmp_path):
    decision = decided(tmp_path, device={"driver": "999.9"})
    assert "→ 999.9" in decision.where
