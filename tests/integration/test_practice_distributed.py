"""Distributed training is observed, and faults that only ranks show turn it red."""

import pytest

from tests.integration.conftest import ZOOS

pytestmark = pytest.mark.long

INSIDE, OUTSIDE, SHARDED, BY_BLOCKS = (
    "DistributedDataParallel(torch.compile(module))",
    "torch.compile(DistributedDataParallel(module))",
    "fully_shard, then module.compile()",
    "compile() of each block, then fully_shard",
)


def case(model):
    return f"{model}-cpu-train-f32-default-static"


def test_faults_that_only_ranks_show_are_found_and_a_sound_twin_passes(compilegate):
    chosen = [w for name in ("sound_ranks", "faulty_ranks") for w in ("--cases", case(name))]
    zoo = ("--zoo", str(ZOOS / "practised_distributed.py"))
    session = compilegate("suites/test_distributed.py", "suites/test_gradients.py", *zoo, *chosen)
    assert session.status == 1, session.output
    assert session.outcomes(case("sound_ranks")) == {"passed"}, session.output
    failed = session.failed(case("faulty_ranks"))
    assert [*failed] == ["distributed"]
    assert failed["distributed"].startswith(f"{INSIDE}: step 1: gradient ")
    steps = {
        step.name: step
        for step in session.run().observations[case("faulty_ranks")].practices["distributed"].steps
    }
    for way in (INSIDE, OUTSIDE):
        found = [one.where for one in steps[f"{way}: step 1"].state.differences]
        assert found == ["graphs of rank 1", "graph breaks of rank 1 alone"]
    for way in (SHARDED, BY_BLOCKS):
        lost = {one.where for one in steps[f"{way}: step 1"].gradients.differences}
        assert "gradient blocks.0.linear.weight on rank 0" in lost
        assert "gradient blocks.0.linear.weight on rank 1" in lost
        assert "gradient head.weight on rank 0" not in lost
        assert not steps[f"{way}: step 1"].state.differences
