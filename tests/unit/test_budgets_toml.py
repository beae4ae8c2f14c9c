"""Budgets files: what is refused, and where."""

import pytest

from compilegate.judging import budgets_toml
from compilegate.judging.budgets import BudgetError

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
        "layer0.toml:2: malformed case id .*; to match several cases, name model, device, phase,",
    ),
    "a case of another type": (
        "[[budget]]\ncase = 18\n",
        "layer0.toml:2: case = 18: expected a string",
    ),
    "a case and an axis": (
        '[[budget]]\ndevice = "cpu"\ncase = "resnet18-cpu-infer-f32-default-static"\n',
        "layer0.toml:3: case already names the device: leave out one of the two",
    ),
    "hardware of another type": (
        "[[budget]]\nhardware = 3\n",
        "layer0.toml:2: hardware = 3: expected a string",
    ),
    "a host of another type": (
        "[[budget]]\nhost = 3\n",
        "layer0.toml:2: host = 3: expected a string",
    ),
    "a key of earlier versions": (
        "[[budget]]\nmax_call_overhead_us = 20\n",
        "layer0.toml:2: max_call_overhead_us: .* leave it out, or write max_call_overhead = 5",
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
    "an unknown aspect in a list": (
        '[[expected_failure]]\nreason = "x"\naspect = ["twins", "foward"]\n',
        "layer0.toml:3: unknown aspect 'foward'; did you mean 'forward'",
    ),
    "a list of no aspects": (
        '[[expected_failure]]\nreason = "x"\naspect = []\n',
        "layer0.toml:3: aspect = ",
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
def test_mistakes_are_refused_with_the_place_and_the_way_out(load_budgets, text, message):
    with pytest.raises(BudgetError, match=message):
        load_budgets(text)


def test_the_line_is_that_of_the_wrong_entry_not_of_the_first(load_budgets):
    text = "# breaks\n" + "[[budget]]\nrecompiles = 1\n\n" * 3
    with pytest.raises(BudgetError, match=r"layer0\.toml:9: recompiles = -1"):
        load_budgets(text[: text.rindex("1")] + "-1\n")


def test_a_table_head_in_a_comment_or_string_does_not_move_the_lines(load_budgets):
    with pytest.raises(BudgetError, match=r"layer0\.toml:4: recompiles = -1"):
        load_budgets('# [[budget]]\n[[budget]] # [[budget]]\nmodel = "x"\nrecompiles = -1\n')


@pytest.mark.parametrize(
    "text",
    [
        "budget = [{recompiles = 2}]\n",
        '[["budget"]]\nrecompiles = 2\n',
        '[[budget]]\nrecompiles = 2\nmodel = """\n[[budget]]\n*"""\n',
    ],
    ids=["inline", "quoted", "head in a string"],
)
def test_unusual_toml_is_read_or_refused_by_its_file(load_budgets, text):
    try:
        budgets = load_budgets(text)
    except BudgetError as error:
        assert "layer0.toml" in str(error)  # noqa: PT017 (either is right)
    else:
        assert len(budgets.entries) == 1


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(
        BudgetError, match=r"cannot read the budgets file .*mine\.toml: No such file"
    ):
        budgets_toml.read([tmp_path / "mine.toml"])


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ('match = "("', "not a regular expression"),
        ('strict = "no"', "expected true or false"),
        ("match = 3", "expected a string"),
    ],
)
def test_a_malformed_expected_failure_is_refused(load_budgets, line, shown):
    with pytest.raises(BudgetError, match=shown):
        load_budgets(f'[[expected_failure]]\naspect = "forward"\nreason = "x"\n{line}')


@pytest.mark.parametrize("key", ["cudagraph_skips", "recompile_guards"])
def test_known_reasons_are_strings(load_budgets, key):
    with pytest.raises(BudgetError, match=f"{key} = .*a list of strings"):
        load_budgets(f"[[budget]]\n{key} = [1]")
    (entry,) = load_budgets(f'[[budget]]\n{key} = ["mutated inputs"]').entries
    assert entry.values == {key: ("mutated inputs",)}
