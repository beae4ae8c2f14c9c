"""What ``--budgets-update`` writes."""

import errno
import tomllib
from pathlib import Path

import pytest

from compilegate.judging import budgets_toml
from compilegate.judging.budget import AllowedBreak
from compilegate.judging.budgets import SELECTORS, BudgetError, Machine
from compilegate.judging.budgets_update import add_exact_entries
from compilegate.records.case import Case

RESNET = Case.parse("resnet18-cpu-infer-f32-default-static")
TRAINED = Case.parse("resnet18-cpu-train-f32-default-static")
VIT = Case.parse("vit_b_16-cpu-infer-f32-default-static")


EPYC = Machine("AMD EPYC 9655", "AMD EPYC 9655 (16 cores)")


def budget_of(budgets, case=RESNET, machine=EPYC):
    return budgets.budget(case, machine, "2.15.0")


def test_an_exact_entry_is_written_and_wins(tmp_path):
    file = tmp_path / "mine.toml"
    changes = add_exact_entries(file, {RESNET: {"recompiles": 2}}, EPYC)
    assert changes == [f"{RESNET.id}: recompiles = 2 (new)"]
    assert budget_of(budgets_toml.read([file])).recompiles == 2
    assert budget_of(budgets_toml.read([file]), VIT).recompiles == 0


def test_a_link_stays_one_and_its_target_keeps_its_mode_and_its_letters(tmp_path):
    target, link = tmp_path / "shared.toml", tmp_path / "mine.toml"
    target.write_text("# größer\n", encoding="utf-8")
    target.chmod(0o640)
    link.symlink_to(target)
    add_exact_entries(link, {RESNET: {"recompiles": 2}}, EPYC)
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8").startswith("# größer\n")
    assert target.stat().st_mode & 0o777 == 0o640
    assert budget_of(budgets_toml.read([link])).recompiles == 2


def test_what_was_measured_holds_where_it_was_measured(tmp_path):
    """A speedup depends on the host, memory on the processor alone, and a count on neither."""
    file = tmp_path / "mine.toml"
    values = {"min_speedup": 1.5, "max_memory_ratio": 2.0, "recompiles": 1}
    add_exact_entries(file, {RESNET: values}, EPYC)
    for machine, expected in (
        (EPYC, (1.5, 2.0, 1)),
        (Machine(EPYC.hardware, "another"), (None, 2.0, 1)),
        (Machine("another", EPYC.host), (None, None, 1)),
    ):
        seen = budget_of(budgets_toml.read([file]), machine=machine)
        assert (seen.min_speedup, seen.max_memory_ratio, seen.recompiles) == expected


def test_an_exact_entry_beats_the_general_one_of_the_same_file(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('[[budget]]\ndevice = "cpu"\nrecompiles = 0\nmin_speedup = 9.0\n')
    add_exact_entries(file, {RESNET: {"recompiles": 4, "min_speedup": 0.5}}, EPYC)
    seen = budget_of(budgets_toml.read([file]))
    assert (seen.recompiles, seen.min_speedup) == (4, 0.5)


def test_everything_else_in_the_file_stays(tmp_path):
    file = tmp_path / "mine.toml"
    kept = '# Why.\n[[budget]]\nmodel = "x"   # because\nrecompiles = 1\n\n[[expected_failure]]\n'
    kept += 'reason = "known"\naspect = "forward"\n'
    file.write_text(kept)
    add_exact_entries(file, {RESNET: {"recompiles": 2}}, Machine())
    text = file.read_text()
    assert all(line in text for line in kept.splitlines())
    assert budget_of(budgets_toml.read([file])).recompiles == 2


def test_the_same_update_twice_changes_an_entry_in_place(tmp_path):
    file = tmp_path / "mine.toml"
    add_exact_entries(file, {RESNET: {"recompiles": 2, "min_speedup": 1.0}}, EPYC)
    changes = add_exact_entries(file, {RESNET: {"recompiles": 3, "min_speedup": 0.9}}, EPYC)
    assert changes == [
        f"{RESNET.id}: recompiles = 3 (was 2)",
        f"{RESNET.id}: min_speedup = 0.9 (was 1.0)",
    ]
    assert len(tomllib.loads(file.read_text())["budget"]) == 2


def test_an_entry_that_names_every_axis_is_changed_in_place_too(tmp_path):
    file = tmp_path / "mine.toml"
    axes = "\n".join(f'{axis} = "{getattr(RESNET, axis)}"' for axis in SELECTORS)
    file.write_text(f"[[budget]]\n{axes}\nrecompiles = 1\n")
    changes = add_exact_entries(file, {RESNET: {"recompiles": 3}}, Machine())
    assert changes == [f"{RESNET.id}: recompiles = 3 (was 1)"]
    assert budget_of(budgets_toml.read([file])).recompiles == 3


def test_graph_breaks_are_added_to_those_that_are_known(tmp_path):
    file = tmp_path / "mine.toml"
    first = {"reason": 'Call to "print"', "place": "net.py"}
    second = {"reason": "a\\b", "place": ""}
    add_exact_entries(file, {RESNET: {"graph_breaks": [first]}}, Machine())
    add_exact_entries(file, {RESNET: {"graph_breaks": [second]}}, Machine())
    assert budget_of(budgets_toml.read([file])).graph_breaks == (
        AllowedBreak(**first),
        AllowedBreak(**second),
    )


def test_updates_of_many_cases_are_read_back_without_ties(tmp_path):
    file = tmp_path / "folder" / "mine.toml"
    cases = {case: {"recompiles": i} for i, case in enumerate((RESNET, TRAINED, VIT), start=1)}
    add_exact_entries(file, cases, Machine())
    budgets = budgets_toml.read([file])
    assert [budget_of(budgets, case).recompiles for case in cases] == [1, 2, 3]


def test_a_file_that_cannot_be_written_stays_unchanged(tmp_path, monkeypatch):
    file = tmp_path / "mine.toml"
    file.write_text("# By hand.\n")

    def full(self, text, encoding=None):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(BudgetError, match=r"mine\.toml: No space left on device"):
        add_exact_entries(file, {RESNET: {"recompiles": 2}}, EPYC)
    assert file.read_text() == "# By hand.\n"
