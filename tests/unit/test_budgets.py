"""Budgets: which entry wins, and what is refused and where."""

import pytest

from fixtures.budgets import (
    SELECTORS,
    AllowedBreak,
    Budget,
    BudgetError,
    Budgets,
    ExpectedFailure,
)
from fixtures.cases import Case
from fixtures.gate import SHIPPED_BUDGETS

RESNET = Case.parse("resnet18-cpu-infer-f32-default-static")
TRAINED = Case.parse("resnet18-cpu-train-f32-default-static")
VIT = Case.parse("vit_b_16-cpu-infer-f32-default-static")


@pytest.fixture
def load(tmp_path):
    """Budgets of TOML texts, from the lowest layer to the highest."""

    def load(*texts):
        files = []
        for layer, text in enumerate(texts):
            file = tmp_path / f"layer{layer}.toml"
            file.write_text(text)
            files.append(file)
        return Budgets(files)

    return load


def budget_of(budgets, case=RESNET, hardware="AMD EPYC 9655", torch="2.15.0"):
    return budgets.budget(case, hardware, torch)


# Which entry wins.


def test_a_case_that_no_entry_matches_has_the_default():
    assert budget_of(Budgets([])) == Budget()


def test_the_shipped_budgets_are_right():
    budgets = Budgets(sorted(SHIPPED_BUDGETS.glob("*.toml")))
    assert budget_of(budgets).min_speedup is not None


def test_an_entry_without_selectors_holds_for_all(load):
    budgets = load("[[budget]]\nmax_graph_breaks = 2")
    assert {budget_of(budgets, case).max_graph_breaks for case in (RESNET, VIT)} == {2}


@pytest.mark.parametrize("kind", ["budget", "expected_failure"])
def test_an_entry_may_name_its_case(load, kind):
    values = {"budget": "recompiles = 1", "expected_failure": 'aspect = "forward"\nreason = "x"'}
    budgets = load(f'[[{kind}]]\ncase = "{RESNET.id}"\n{values[kind]}')
    (entry,) = budgets.entries
    assert [entry.matches(case) for case in (RESNET, VIT, TRAINED)] == [True, False, False]


def test_an_entry_that_names_its_case_beats_globs_and_ties_with_one_that_names_every_axis(load):
    axes = "\n".join(f'{axis} = "{getattr(RESNET, axis)}"' for axis in SELECTORS)
    glob = "[[budget]]\n" + axes.replace("resnet18", "resnet*") + "\nrecompiles = 1\n"
    exact = f'[[budget]]\ncase = "{RESNET.id}"\nrecompiles = 2\n'
    assert budget_of(load(exact + glob)).recompiles == 2
    with pytest.raises(BudgetError, match=f"recompiles ties with .* for {RESNET.id}"):
        budget_of(load(exact + f"[[budget]]\n{axes}\nrecompiles = 1\n"))


@pytest.mark.parametrize(
    ("glob", "matches"),
    [("resnet18", True), ("resnet*", True), ("vgg*", False), ("ResNet18", False)],
)
def test_models_are_selected_by_glob(load, glob, matches):
    budgets = load(f'[[budget]]\nmodel = "{glob}"\nrecompiles = 3')
    assert budget_of(budgets).recompiles == (3 if matches else 0)


def test_entries_are_merged_key_by_key(load):
    budgets = load(
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
def test_the_more_specific_entry_wins_wherever_it_stands(load, weaker, stronger, swapped):
    entries = [f"[[budget]]\n{weaker}\nrecompiles = 1", f"[[budget]]\n{stronger}\nrecompiles = 2"]
    assert budget_of(load("\n".join(entries[::-1] if swapped else entries))).recompiles == 2


def test_the_later_file_beats_specificity_and_all_beat_the_shipped(load, tmp_path):
    exact = '[[budget]]\nmodel = "resnet18"\nphase = "infer"\nrecompiles = 1\n'
    general = "[[budget]]\nrecompiles = 2\n"
    assert budget_of(load(exact, general)).recompiles == 2
    assert budget_of(load(general, exact)).recompiles == 1
    shipped, mine = tmp_path / "shipped.toml", tmp_path / "mine.toml"
    shipped.write_text(exact)
    mine.write_text(general)
    assert budget_of(Budgets([mine], shipped=[shipped])).recompiles == 2


def test_the_later_file_wins_between_equals(load):
    text = '[[budget]]\nmodel = "resnet18"\nrecompiles = {}'
    assert budget_of(load(text.format(1), text.format(2))).recompiles == 2


def test_two_entries_of_one_file_that_tie_are_refused(load):
    budgets = load(
        '[[budget]]\nmodel = "resnet18"\nrecompiles = 1\n\n'
        '[[budget]]\nphase = "infer"\nrecompiles = 2\n'
    )
    with pytest.raises(BudgetError) as raised:
        budget_of(budgets, RESNET)
    text = str(raised.value)
    assert "layer0.toml:5: recompiles ties with" in text
    assert "layer0.toml:1 for resnet18-cpu-infer-f32-default-static" in text
    assert "name one more axis" in text


def test_entries_tie_only_for_cases_that_both_match(load):
    budgets = load(
        '[[budget]]\nmodel = "resnet18"\nrecompiles = 1\n'
        '[[budget]]\nphase = "infer"\nrecompiles = 2'
    )
    assert budget_of(budgets, TRAINED).recompiles == 1
    assert budget_of(budgets, VIT).recompiles == 2


def test_entries_tie_only_over_the_same_key(load):
    budgets = load(
        '[[budget]]\nmodel = "resnet18"\nrecompiles = 1\n'
        '[[budget]]\nphase = "infer"\nmin_speedup = 2.0'
    )
    assert budget_of(budgets).recompiles == 1
    assert budget_of(budgets).min_speedup == 2.0


def test_a_tie_that_a_third_entry_decides_is_no_tie(load):
    """Whoever is told to name one more axis has done so here: the exact entry decides."""
    budgets = load(
        '[[budget]]\nmodel = "resnet18"\nrecompiles = 1\n'
        '[[budget]]\nphase = "infer"\nrecompiles = 2\n'
        '[[budget]]\nmodel = "resnet18"\nphase = "infer"\nrecompiles = 3\n'
    )
    assert budget_of(budgets).recompiles == 3


def test_two_hardware_globs_that_both_hold_tie(load):
    budgets = load(
        '[[budget]]\nhardware = "AMD*"\nmin_speedup = 1.0\n'
        '[[budget]]\nhardware = "*EPYC*"\nmin_speedup = 2.0\n'
    )
    with pytest.raises(BudgetError, match="ties"):
        budget_of(budgets)


# Hardware.


def test_a_threshold_for_other_hardware_is_named_not_applied(load):
    budgets = load('[[budget]]\nhardware = "NVIDIA H200"\nmin_speedup = 2.0')
    seen = budget_of(budgets)
    assert seen.min_speedup is None
    assert seen.elsewhere == {"min_speedup": "NVIDIA H200"}
    there = budget_of(budgets, hardware="NVIDIA H200")
    assert there.min_speedup == 2.0
    assert there.elsewhere == {}


def test_a_general_threshold_holds_where_the_other_hardwares_does_not(load):
    budgets = load(
        '[[budget]]\nmin_speedup = 1.0\n[[budget]]\nhardware = "NVIDIA*"\nmin_speedup = 2.0'
    )
    assert budget_of(budgets).min_speedup == 1.0
    assert budget_of(budgets).elsewhere == {}
    assert budget_of(budgets, hardware="NVIDIA H200").min_speedup == 2.0


# Expected failures.


def test_an_expected_failure_comes_with_all_that_is_known(load, tmp_path):
    budgets = load(
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


def test_all_expected_failures_that_match_are_kept(load):
    entry = '[[expected_failure]]\naspect = "{}"\nreason = "known"\n'
    seen = budget_of(load(entry.format("forward") + entry.format("memory")))
    assert {expected.aspect for expected in seen.expected_failures} == {"forward", "memory"}


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
def test_an_expected_failure_holds_within_its_torch_range(load, version, holds):
    budgets = load('[[expected_failure]]\nstage = "compile"\nreason = "x"\ntorch = ">=2.10,<2.12"')
    assert bool(budget_of(budgets, torch=version).expected_failures) == holds


def test_an_expected_failure_without_range_holds_for_every_torch(load):
    budgets = load('[[expected_failure]]\nstage = "crash"\nreason = "x"')
    for version in ("2.8.0", "2.16.0.dev1", "0"):
        assert budget_of(budgets, torch=version).expected_failures


# Graph breaks.


def test_graph_breaks_are_known_by_reason_and_place(load):
    budgets = load(
        '[[budget]]\ngraph_breaks = [{reason = "print", place = "net.py"}, {place = "pool.py"}]'
    )
    known = (AllowedBreak("print", "net.py"), AllowedBreak("", "pool.py"))
    assert budget_of(budgets).graph_breaks == known
    assert [str(item) for item in known] == ["print at net.py", "any reason at pool.py"]


# What is refused, and where.

WRONG = {
    "unknown table": ("[[budgets]]\n", "unknown table 'budgets'; did you mean 'budget'"),
    "single brackets": ("[budget]\nrecompiles = 1\n", r"write \[\[budget\]\] in double brackets"),
    "malformed": ("[[budget]\n", "malformed TOML"),
    "unknown key": (
        '[[budget]]\nmodel = "*"\nmin_speed = 1.0\n',
        r"layer0.toml:3: unknown key 'min_speed'; did you mean 'min_speedup'",
    ),
    "unknown selector": (
        '[[budget]]\ndevise = "cpu"\n',
        "layer0.toml:2: unknown key 'devise'; did you mean 'device'",
    ),
    "unknown value of an axis": (
        '[[budget]]\nrecompiles = 1\nprecision = "fp32"\n',
        "layer0.toml:3: unknown precision 'fp32'; did you mean 'f32'",
    ),
    "a selector of another type": (
        "[[budget]]\nmodel = 18\n",
        "layer0.toml:2: model = 18: expected a string",
    ),
    "a case that is none": (
        '[[budget]]\nrecompiles = 1\ncase = "resnet18-cpu-infer-fp32-default-static"\n',
        "layer0.toml:3: unknown precision in case id .* 'fp32'; did you mean 'f32'",
    ),
    "a glob of cases": (
        '[[budget]]\ncase = "resnet18-*"\n',
        "layer0.toml:2: malformed case id .*; of several cases name model, device, phase,",
    ),
    "a case of another type": (
        "[[budget]]\ncase = 18\n",
        "layer0.toml:2: case = 18: expected a string",
    ),
    "a case and an axis": (
        f'[[budget]]\ndevice = "cpu"\ncase = "{RESNET.id}"\n',
        "layer0.toml:3: case says what device is: leave out one of them",
    ),
    "hardware of another type": (
        "[[budget]]\nhardware = 3\n",
        "layer0.toml:2: hardware = 3: expected a string",
    ),
    "below zero": (
        "[[budget]]\n\n# why\nrecompiles = -1\n",
        "layer0.toml:4: recompiles = -1: expected a whole number, at least 0",
    ),
    "a fraction": (
        "[[budget]]\nrecompiles = 1.5\n",
        "layer0.toml:2: recompiles = 1.5: expected a whole number",
    ),
    "a text for a number": (
        '[[budget]]\nmin_speedup = "2"\n',
        "layer0.toml:2: min_speedup = '2': expected a number",
    ),
    "a boolean for a number": (
        "[[budget]]\nmin_speedup = true\n",
        "layer0.toml:2: min_speedup = True: expected a number",
    ),
    "not a number": (
        "[[budget]]\nmin_speedup = nan\n",
        "layer0.toml:2: min_speedup = nan: expected a number",
    ),
    "breaks that are no list": (
        '[[budget]]\ngraph_breaks = "print"\n',
        "layer0.toml:2: graph_breaks = 'print': expected a list",
    ),
    "breaks that are no tables": (
        '[[budget]]\ngraph_breaks = ["print"]\n',
        "layer0.toml:2: graph_breaks: expected tables",
    ),
    "a break of nothing": (
        "[[budget]]\ngraph_breaks = [{}]\n",
        "layer0.toml:2: graph_breaks: expected tables",
    ),
    "a break with an unknown key": (
        '[[budget]]\ngraph_breaks = [{raeson = "print"}]\n',
        "layer0.toml:2: graph_breaks: unknown key 'raeson'; did you mean 'reason'",
    ),
    "an expected failure without reason": (
        '[[expected_failure]]\naspect = "forward"\n',
        "layer0.toml:1: an expected failure needs a reason",
    ),
    "an expected failure of nothing": (
        '[[expected_failure]]\nreason = "x"\n',
        "layer0.toml:1: an expected failure names either its aspect or its stage",
    ),
    "an expected failure of both": (
        '[[expected_failure]]\nreason = "x"\naspect = "forward"\nstage = "compile"\n',
        "layer0.toml:1: an expected failure names either",
    ),
    "an unknown aspect": (
        '[[expected_failure]]\nreason = "x"\naspect = "foward"\n',
        "layer0.toml:3: unknown aspect 'foward'; did you mean 'forward'",
    ),
    "an unknown stage": (
        '[[expected_failure]]\nreason = "x"\nstage = "compiling"\n',
        "layer0.toml:3: unknown stage 'compiling'; did you mean 'compile'",
    ),
    "an unknown key of an expected failure": (
        '[[expected_failure]]\nreason = "x"\nstages = "compile"\n',
        "layer0.toml:3: unknown key 'stages'; did you mean 'stage'",
    ),
    "a range that is none": (
        '[[expected_failure]]\nreason = "x"\naspect = "forward"\ntorch = "2.10 and up"\n',
        "layer0.toml:4: torch = '2.10 and up': expected a range",
    ),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG.keys())
def test_mistakes_are_refused_with_the_place_and_the_way_out(load, text, message):
    with pytest.raises(BudgetError, match=message):
        load(text)


def test_the_line_is_that_of_the_wrong_entry_not_of_the_first(load):
    text = "# breaks\n" + "[[budget]]\nrecompiles = 1\n\n" * 3
    with pytest.raises(BudgetError, match=r"layer0\.toml:9: recompiles = -1"):
        load(text[: text.rindex("1")] + "-1\n")


def test_a_table_head_in_a_comment_or_string_does_not_move_the_lines(load):
    with pytest.raises(BudgetError, match=r"layer0\.toml:4: recompiles = -1"):
        load('# [[budget]]\n[[budget]] # [[budget]]\nmodel = "x"\nrecompiles = -1\n')


@pytest.mark.parametrize(
    "text",
    [
        "budget = [{recompiles = 2}]\n",
        '[["budget"]]\nrecompiles = 2\n',
        '[[budget]]\nrecompiles = 2\nmodel = """\n[[budget]]\n*"""\n',
    ],
    ids=["inline", "quoted", "head in a string"],
)
def test_unusual_toml_is_read_or_refused_by_its_file(load, text):
    try:
        budgets = load(text)
    except BudgetError as error:
        assert "layer0.toml" in str(error)  # noqa: PT017 (either is right)
    else:
        assert len(budgets.entries) == 1


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(
        BudgetError, match=r"cannot read the budgets file .*mine\.toml: No such file"
    ):
        Budgets([tmp_path / "mine.toml"])


def test_entries_that_match_no_case_are_known(load):
    budgets = load(
        '[[budget]]\nmodel = "resnet18"\nrecompiles = 1\n[[budget]]\nmodel = "gone"\nrecompiles = 1'
    )
    (unmatched,) = budgets.unmatched([RESNET, VIT])
    assert unmatched.where.endswith("layer0.toml:4")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('match = "("', "no regular expression"),
        ('strict = "no"', "expected true or false"),
        ("match = 3", "expected a string"),
    ],
)
def test_a_malformed_expected_failure_is_said_to_be(load, line, said):
    with pytest.raises(BudgetError, match=said):
        load(f'[[expected_failure]]\naspect = "forward"\nreason = "x"\n{line}')


@pytest.mark.parametrize("key", ["cudagraph_skips", "recompile_guards"])
def test_known_reasons_are_strings(load, key):
    with pytest.raises(BudgetError, match=f"{key} = .*a list of strings"):
        load(f"[[budget]]\n{key} = [1]")
    allowed = budget_of(load(f'[[budget]]\n{key} = ["mutated inputs"]'))
    assert getattr(allowed, key) == ("mutated inputs",)
