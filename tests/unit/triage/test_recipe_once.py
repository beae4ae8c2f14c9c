"""A recipe is built once for a trial, and one that raises is run in no other script."""

import pytest
import torch

from compilegate.observe.dissect import parts
from compilegate.triage.scripts.running import Ended


def test_a_process_builds_the_recipe_once_and_draws_nothing_for_it(monkeypatch):
    built = []

    class Made:
        def example(self, device):
            built.append((device, torch.rand(3)))

    monkeypatch.setattr(parts.registry, "load", lambda: {"set_up_once": Made()})
    before = torch.get_rng_state()
    for _ in range(2):
        parts.set_up("set_up_once", "cpu")
    assert [device for device, _ in built] == ["cpu"]
    assert torch.equal(before, torch.get_rng_state())


FRAME = 'Traceback (most recent call last):\n  File "/out/repro.py", line 9, in {}\nE: no\n'


@pytest.mark.parametrize(
    ("output", "fails"),
    [
        (FRAME.format("<module>"), True),
        (
            FRAME.format("results").replace("E:", '  File "/out/repro.py", line 3, in recipe\nE:'),
            True,
        ),
        (FRAME.format("results"), False),
        ("compiled code is right", False),
        (FRAME.format("<module>") + "compiled code is WRONG", False),
    ],
)
def test_a_recipe_that_raises_is_run_in_no_other_script(output, fails):
    assert Ended(1, output, 1.0).fails_in_recipe == fails
    assert not Ended(0, output, 1.0).fails_in_recipe
