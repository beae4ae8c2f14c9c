"""``--models GLOB``: only models whose name matches."""

from tests.integration.conftest import FORWARD


def test_globs_are_repeatable_and_select_by_name(compilegate):
    session = compilegate(
        *(FORWARD, "-m", "cpu", "--tier", "full", "--collect-only", "-q"),
        *("--models", "matvec", "--models", "ml[p]"),
    )
    assert session.status == 0, session.output
    models = {
        line.partition("[")[2].partition("-")[0]
        for line in session.output.splitlines()
        if "::test_outputs" in line
    }
    assert models == {"matvec", "mlp"}


def test_an_unknown_model_suggests_the_nearest(compilegate):
    session = compilegate("--models", "matvek")
    assert session.status == 4
    assert "unknown model 'matvek'; did you mean 'matvec'?" in session.output


def test_a_glob_that_matches_nothing_is_refused(compilegate):
    session = compilegate("--models", "nothing*", "-m", "cpu")
    assert session.status == 4
    assert "unknown model 'nothing*'" in session.output
