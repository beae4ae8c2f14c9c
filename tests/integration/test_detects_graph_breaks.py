"""A break fails ``graph_breaks``, and nothing else; a model that is all break fails once."""

import pytest


@pytest.mark.parametrize(
    ("model", "expected"),
    [("breaks", "torch._dynamo.graph_break()"), ("prints", "builtin operator")],
)
def test_a_graph_break_fails_graph_breaks_only(faulty, model, expected):
    failed = faulty.failed(model)
    assert failed.keys() == {"graph_breaks"}
    assert "1 graph break not budgeted" in failed["graph_breaks"]
    assert expected in failed["graph_breaks"]
    assert "at tests/zoos/faulty.py:" in failed["graph_breaks"]


def test_the_twin_without_a_break_passes_everything(faulty):
    assert faulty.outcomes("unbroken") == {"passed"}


def test_a_model_that_runs_eagerly_fails_in_its_first_aspect(faulty):
    assert faulty.outcomes("runs_eagerly") == {"failed", "skipped"}
    ((aspect, summary),) = faulty.failed("runs_eagerly").items()
    assert summary.startswith("nothing was compiled, all of it ran eagerly: ")
    others = {a: v.summary for a, v in faulty.verdicts("runs_eagerly").items() if a != aspect}
    assert set(others.values()) == {f"nothing was compiled: {aspect} fails for it"}


def test_a_model_that_does_not_compile_fails_every_aspect_and_shows_its_own_line(faulty):
    case = "uncompilable-cpu-infer-f32-default-static"
    assert faulty.outcomes(case) == {"failed"}
    (summary,) = set(faulty.failed(case).values())
    assert summary.startswith("raised in stage 'compile', call 1, where eager returned: ")
    assert "tests/zoos/faulty.py" in faulty.message(f"test_outputs_match_eager[{case}]")
    others = faulty.message(f"test_no_unbudgeted_graph_break[{case}]").strip().splitlines()
    assert others == [f"{summary} (explained above)"]
