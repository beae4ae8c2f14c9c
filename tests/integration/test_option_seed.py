"""``--seed N``: the seed of weights and inputs, in the run and in the reproduction command."""

import pytest

from tests.integration.conftest import FORWARD, ZOOS, faulty_case

CASE = faulty_case("scale_is_off")


@pytest.mark.long
def test_the_seed_is_recorded_repeated_and_draws_other_numbers(compilegate, faulty):
    session = compilegate(FORWARD, "--zoo", str(ZOOS / "faulty.py"), "--cases", CASE, "--seed", "7")
    assert "seed 7" in session.output
    assert session.run().header.seed == 7
    seventh, first = session.run().observations[CASE], faulty.run().observations[CASE]
    assert (seventh.seed, first.seed) == (7, 0)
    assert seventh.calls[0].outputs.errors[0].scale != first.calls[0].outputs.errors[0].scale
    assert "--seed 7" in session.message(f"test_outputs_match_eager[{CASE}]")
    assert "--seed" not in faulty.message(f"test_outputs_match_eager[{CASE}]")
