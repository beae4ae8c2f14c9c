"""Recompilations beyond the dynamic setting fail ``recompiles``, and nothing else."""

import pytest


def test_a_number_that_changes_at_each_call_fails_recompiles_only(faulty):
    failed = faulty.failed("recompiles")
    assert failed == {"recompiles": "4 recompilations of one code object, 0 allowed for 'static'"}
    assert "self.at == 1" in " ".join(faulty.verdicts("recompiles")["recompiles"].details)


def test_the_recompile_limit_fails_recompiles_only(faulty):
    failed = faulty.failed("recompiles_to_the_limit")
    assert failed.keys() == {"recompiles"}
    assert "recompile limit hit" in failed["recompiles"]


def test_a_size_that_is_specialized_fails_where_it_is_dynamic(faulty):
    failed = faulty.failed("specializes")
    assert failed == {"recompiles": "2 recompilations of one code object, 0 allowed for 'dynamic'"}
    assert "size mismatch" in " ".join(faulty.verdicts("specializes")["recompiles"].details)


@pytest.mark.parametrize(
    "generalizing",
    [
        "compiles_once",
        *(f"generalizes-cpu-infer-f32-default-{d}" for d in ("dynamic", "auto", "marked")),
    ],
)
def test_the_twin_that_generalizes_passes_everything(faulty, generalizing):
    assert faulty.outcomes(generalizing) == {"passed"}
