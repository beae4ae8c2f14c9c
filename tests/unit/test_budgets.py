"""Budgets: which entry wins."""

import pytest

from compilegate.judging import budgets_toml
from compilegate.judging.budget import AllowedBreak, Budget
from compilegate.judging.budgets import SELECTORS, BudgetError, Machine
from compilegate.judging.expected_failure import ExpectedFailure
from compilegate.layout import SHIPPED_BUDGETS
from compilegate.records.case import Case

RESNET = Case.parse("resnet18-cpu-infer-f32-default-static")
TRAINED = Case.parse("resnet18-cpu-train-f32-default-static")
VIT = Case.parse("vit_b_16-cpu-infer-f32-default-static")


HOST = "AMD EPYC 9655 (16 cores)"


def budget_of(budgets, case=RESNET, hardware="AMD EPYC 9655", torch="2.15.0", host=HOST):
    return budgets.budget(case, Machine(hardware, host), torch)


# Which entry wins.


def test_a_case_that_no_entry_matches_has_the_default():
    assert budget_of(budgets_toml.read([])) == Budget()


def test_the_shipped_budgets_are_right():
    budgets = budgets_toml.read(sorted(SHIPPED_BUDGETS.glob("*.toml")))
    assert budget_of(budgets).min_speedup is not None


def test_an_entry_without_selectors_applies_to_all_cases(load_budgets):
    budgets = load_budgets("[[budget]]\nmax_graph_breaks = 2")
    assert {budget_of(budgets, case).max_graph_breaks for case in (RESNET, VIT)} == {2}


@pytest.mark.parametrize("kind", ["budget", "expected_failure"])
def test_an_entry_may_name_its_case(load_budgets, kind):
    values = {"budget": "recompiles = 1", "expected_failure": 'aspect = "forward"\nreason = "x"'}
    budgets = load_budgets(f'[[{kind}]]\ncase = "{RESNET.id}"\n{values[kind]}')
    (entry,) = budgets.entries
    assert [entry.matches(case) for case in (RESNET, VIT, TRAINED)] == [True, False, False]


def test_naming_the_case_beats_globs_and_ties_with_naming_every_axis(load_budgets):
    axes = "\n".join(f'{axis} = "{getattr(RESNET, axis)}"' for axis in SELECTORS)
    glob = "[[budget]]\n" + axes.replace("resnet18", "resnet*") + "\nrecompiles = 1\n"
    exact = f'[[budget]]\ncase = "{RESNET.id}"\nrecompiles = 2\n'
    assert budget_of(load_budgets(exact + glob)).recompiles == 2
    with pytest.raises(BudgetError, match=f"recompiles ties with .* for {RESNET.id}"):
        budget_of(load_budgets(exact + f"[[budget]]\n{axes}\nrecompiles = 1\n"))


@pytest.mark.parametrize(
    ("glob", "matches"),
    [("resnet18", True), ("resnet*", True), ("vgg*", False), ("ResNet18", False)],
)
def test_models_are_selected_by_glob(load_budgets, glob, matches):
    budgets = load_budgets(f'[[budget]]\nmodel = "{glob}"\nrecompiles = 3')
    assert budget_of(budgets).recompiles == (3 if matches else 0)


def test_entries_are_merged_key_by_key(load_budgets):
    budgets = load_budgets(
        """
        [[budget]]
        min_speedup = 1.0
        recompiles = 1
        [[budget]]
        model = "resnet18"
        min_speedup = 2.0
        """
    )
    seen = budget_of(budgets)
    assert (seen.min_speedup, seen.recompiles) == (2.0, 1)


@pytest.mark.parametrize(
    ("weaker", "stronger"),
    [
        pytest.param('phase = "infer"', 'phase = "infer"\nmode = "default"', id="more axes"),
        pytest.param(
            'model = "resnet18"', 'device = "c*"\nphase = "*"', id="more axes, though globs"
        ),
        pytest.param('model = "resnet*"', 'model = "resnet18"', id="fewer globs"),
        pytest.param('model = "resnet?8"', 'phase = "infer"', id="fewer globs of other axes"),
        pytest.param('model = "resnet*"', 'model = "resnet*"\nhardware = "AMD*"', id="hardware"),
    ],
)
@pytest.mark.parametrize("swapped", [False, True], ids=["weaker first", "stronger first"])
def test_the_more_specific_entry_wins_in_any_order(load_budgets, weaker, stronger, swapped):
    entries = [f"[[budget]]\n{weaker}\nrecompiles = 1", f"[[budget]]\n{stronger}\nrecompiles = 2"]
    assert budget_of(load_budgets("\n".join(entries[::-1] if swapped else entries))).recompiles == 2


@pytest.mark.parametrize(
    ("layer", "model", "applies"),
    [
        ("shipped", "gh128942_local_class", True),
        ("shipped", "ghostnet", False),
        ("shipped", "gh195329_arena", False),
        ("own", "ghostnet", True),
    ],
)
def test_a_shipped_glob_on_models_is_for_shipped_models(tmp_path, layer, model, applies):
    file = tmp_path / "budgets.toml"
    file.write_text('[[budget]]\nmodel = "gh*"\nmax_memory_ratio = 1000\n')
    layers = {"shipped": ([], [file]), "own": ([file], [])}
    case = Case.parse(f"{model}-cpu-infer-f32-default-static")
    found = budgets_toml.read(*layers[layer]).budget(case, Machine(), "2.15.0")
    assert (found.max_memory_ratio == 1000) is applies


def test_the_later_file_beats_specificity_and_all_beat_the_shipped(load_budgets, tmp_path):
    exact = '[[budget]]\nmodel = "resnet18"\nphase = "infer"\nrecompiles = 1\n'
    general = "[[budget]]\nrecompiles = 2\n"
    assert budget_of(load_budgets(exact, general)).recompiles == 2
    assert budget_of(load_budgets(general, exact)).recompiles == 1
    shipped, mine = tmp_path / "shipped.toml", tmp_path / "mine.toml"
    shipped.write_text(exact)
    mine.write_text(general)
    assert budget_of(budgets_toml.read([mine], shipped=[shipped])).recompiles == 2


def test_the_later_file_wins_between_equals(load_budgets):
    text = '[[budget]]\nmodel = "resnet18"\nrecompiles = {}'
    assert budget_of(load_budgets(text.format(1), text.format(2))).recompiles == 2


def test_two_entries_of_one_file_that_tie_are_refused(load_budgets):
    budgets = load_budgets(
        '[[budget]]\nmodel = "resnet18"\nrecompiles = 1\n\n'
        '[[budget]]\nphase = "infer"\nrecompiles = 2\n'
    )
    with pytest.raises(BudgetError) as raised:
        budget_of(budgets, RESNET)
    text = str(raised.value)
    assert "layer0.toml:5: recompiles ties with" in text
    assert "layer0.toml:1 for resnet18-cpu-infer-f32-default-static" in text
    assert "name one more axis" in text


def test_entries_tie_only_for_cases_that_both_match(load_budgets):
    budgets = load_budgets(
        '[[budget]]\nmodel = "resnet18"\nrecompiles = 1\n'
        '[[budget]]\nphase = "infer"\nrecompiles = 2'
    )
    assert budget_of(budgets, TRAINED).recompiles == 1
    assert budget_of(budgets, VIT).recompiles == 2


def test_entries_tie_only_over_the_same_key(load_budgets):
    budgets = load_budgets(
        '[[budget]]\nmodel = "resnet18"\nrecompiles = 1\n'
        '[[budget]]\nphase = "infer"\nmin_speedup = 2.0'
    )
    assert budget_of(budgets).recompiles == 1
    assert budget_of(budgets).min_speedup == 2.0


def test_a_tie_that_a_third_entry_decides_is_no_tie(load_budgets):
    """The message asks for one more axis. Here the entry names it, and the exact entry decides."""
    budgets = load_budgets(
        '[[budget]]\nmodel = "resnet18"\nrecompiles = 1\n'
        '[[budget]]\nphase = "infer"\nrecompiles = 2\n'
        '[[budget]]\nmodel = "resnet18"\nphase = "infer"\nrecompiles = 3\n'
    )
    assert budget_of(budgets).recompiles == 3


def test_two_hardware_globs_that_both_hold_tie(load_budgets):
    budgets = load_budgets(
        '[[budget]]\nhardware = "AMD*"\nmin_speedup = 1.0\n'
        '[[budget]]\nhardware = "*EPYC*"\nmin_speedup = 2.0\n'
    )
    with pytest.raises(BudgetError, match="ties"):
        budget_of(budgets)


# Hardware.


def test_a_threshold_for_other_hardware_is_named_not_applied(load_budgets):
    budgets = load_budgets('[[budget]]\nhardware = "NVIDIA H200"\nmin_speedup = 2.0')
    seen = budget_of(budgets)
    assert seen.min_speedup is None
    assert seen.elsewhere == {"min_speedup": "NVIDIA H200"}
    there = budget_of(budgets, hardware="NVIDIA H200")
    assert there.min_speedup == 2.0
    assert there.elsewhere == {}


def test_a_general_threshold_applies_on_other_hardware(load_budgets):
    budgets = load_budgets(
        '[[budget]]\nmin_speedup = 1.0\n[[budget]]\nhardware = "NVIDIA*"\nmin_speedup = 2.0'
    )
    assert budget_of(budgets).min_speedup == 1.0
    assert budget_of(budgets).elsewhere == {}
    assert budget_of(budgets, hardware="NVIDIA H200").min_speedup == 2.0


OF_A_HOST = """
[[budget]]
hardware = "NVIDIA H200"
host = "AMD EPYC 9655 (16 cores)"
min_speedup = 2.0
"""


def test_a_threshold_of_a_gpu_and_a_host_holds_where_both_match(load_budgets):
    budgets = load_budgets(OF_A_HOST)
    assert budget_of(budgets, hardware="NVIDIA H200").min_speedup == 2.0
    for machine in (
        {"hardware": "NVIDIA H200", "host": "AMD EPYC 9655 (32 cores)"},
        {"hardware": "NVIDIA H200", "host": ""},
        {"hardware": "NVIDIA H100", "host": HOST},
    ):
        seen = budget_of(budgets, **machine)
        assert seen.min_speedup is None
        assert seen.why_unjudged("min_speedup").endswith(f"is for NVIDIA H200 on {HOST}")


def test_naming_the_host_too_beats_naming_hardware_alone(load_budgets):
    alone = '[[budget]]\nhardware = "NVIDIA H200"\nmin_speedup = 1.0\n'
    budgets = load_budgets(OF_A_HOST + alone)
    assert budget_of(budgets, hardware="NVIDIA H200").min_speedup == 2.0
    assert budget_of(budgets, hardware="NVIDIA H200", host="another").min_speedup == 1.0


# Expected failures.


def test_an_expected_failure_comes_with_all_that_is_known(load_budgets, tmp_path):
    budgets = load_budgets(
        """
        [[expected_failure]]
        model = "resnet*"
        aspect = "forward"
        reason = "wrong stride"
        issue = "https://github.com/pytorch/pytorch/issues/1"
        torch = ">=2.10,<2.16"
        """
    )
    assert budget_of(budgets).expected_failures == (
        ExpectedFailure(
            reason="wrong stride",
            aspect="forward",
            issue="https://github.com/pytorch/pytorch/issues/1",
            torch=">=2.10,<2.16",
            where=f"{tmp_path / 'layer0.toml'}:2",
        ),
    )
    assert budget_of(budgets, VIT).expected_failures == ()


def test_all_expected_failures_that_match_are_kept(load_budgets):
    entry = '[[expected_failure]]\naspect = "{}"\nreason = "known"\n'
    seen = budget_of(load_budgets(entry.format("forward") + entry.format("memory")))
    assert {expected.aspect for expected in seen.expected_failures} == {"forward", "memory"}


def test_a_list_of_aspects_is_an_entry_for_each(load_budgets):
    entry = '[[expected_failure]]\naspect = ["forward", "twins"]\nreason = "known"\n'
    seen = budget_of(load_budgets(entry))
    assert [expected.aspect for expected in seen.expected_failures] == ["forward", "twins"]


@pytest.mark.parametrize(
    ("version", "holds"),
    [
        ("2.9.1", False),
        ("2.10.0", True),
        ("2.11.0+cu130", True),
        ("2.11.0a0+gitabc", True),
        ("2.12.0.dev20260101+cpu", False),
        ("2.12.0", False),
    ],
)
def test_an_expected_failure_applies_within_its_torch_range(load_budgets, version, holds):
    budgets = load_budgets(
        '[[expected_failure]]\nstage = "compile"\nreason = "x"\ntorch = ">=2.10,<2.12"'
    )
    assert bool(budget_of(budgets, torch=version).expected_failures) == holds


def test_an_expected_failure_without_range_applies_to_every_torch(load_budgets):
    budgets = load_budgets('[[expected_failure]]\nstage = "crash"\nreason = "x"')
    for version in ("2.8.0", "2.16.0.dev1", "0"):
        assert budget_of(budgets, torch=version).expected_failures


# Graph breaks.


def test_graph_breaks_are_known_by_reason_and_place(load_budgets):
    budgets = load_budgets(
        '[[budget]]\ngraph_breaks = [{reason = "print", place = "net.py"}, {place = "pool.py"}]'
    )
    known = (AllowedBreak("print", "net.py"), AllowedBreak("", "pool.py"))
    assert budget_of(budgets).graph_breaks == known
    assert [str(item) for item in known] == ["print at net.py", "any reason at pool.py"]


def test_entries_that_match_no_case_are_known(load_budgets):
    budgets = load_budgets(
        '[[budget]]\nmodel = "resnet18"\nrecompiles = 1\n[[budget]]\nmodel = "gone"\nrecompiles = 1'
    )
    (unmatched,) = budgets.unmatched([RESNET, VIT])
    assert unmatched.where.endswith("layer0.toml:4")
