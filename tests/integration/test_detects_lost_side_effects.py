"""State that only compiled code leaves wrong fails ``side_effects``, and nothing else."""

import pytest


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("mutation_is_lost", "input[0] (float32)"),
        ("statistic_is_lost", "buffer norm.running_"),
        ("statistic_is_lost_at_another_size", "call 3 (batch=7): buffer norm.running_"),
        ("counts_wrongly", "buffer calls: elements differ: eager 1 at [], compiled 2 there"),
        ("switch_is_lost", "grad mode: value differs: eager True, compiled False"),
        ("hook_forgets", "closure keep.seen.rows: value differs: eager 5, compiled 0"),
    ],
)
def test_a_lost_side_effect_fails_side_effects_only(faulty, model, expected):
    failed = faulty.failed(model)
    assert failed.keys() == {"side_effects"}
    assert expected in failed["side_effects"]


@pytest.mark.parametrize("model", ["statistic_is_kept", "counts", "switch_is_set", "hook_keeps"])
def test_the_twin_that_keeps_its_state_passes_everything(faulty, model):
    assert faulty.outcomes(model) == {"passed"}
