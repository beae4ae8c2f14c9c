"""What scripts of probing calls change: the same as the probing calls do."""

import pytest
import torch
from torch import nn

from compilegate.observe.model import probes
from compilegate.observe.model.changed_numbers import ChangedNumbers
from compilegate.records.case import Case
from compilegate.triage.scripts.probing_changes import change_of, cotangents_of, setting_of

CASES = {
    dtype: Case.parse(f"m-cuda-infer-{precision}-default-auto")
    for precision, dtype in (("f32", "float32"), ("bf16", "bfloat16"), ("f16", "float16"))
}
PROBES = [
    (dtype, probe)
    for dtype, case in CASES.items()
    for probe in (*probes.layouts(), *probes.extremes(case))
]
TENSORS = {
    "images": torch.rand(4, 3, 6, 5),
    "videos": torch.rand(2, 3, 4, 6, 5),
    "rows": torch.rand(5, 4),
    "numbers": torch.arange(24).view(4, 6),
    "a scalar": torch.tensor(2.0),
    "a mask": torch.ones(4, 2, dtype=torch.bool),
}


@pytest.mark.parametrize("tensor", TENSORS)
@pytest.mark.parametrize(
    ("dtype", "probe"), PROBES, ids=[f"{dtype}-{probe.name}" for dtype, probe in PROBES]
)
def test_a_script_changes_tensors_as_its_probing_call(dtype, probe, tensor):
    given = TENSORS[tensor]
    body = change_of(probe.name, dtype).replace("\n", "\n    ")
    scope = {"torch": torch}
    exec(f"def changed(t):\n    {body}", scope)
    ours, theirs = scope["changed"](given.clone()), probe.change(given.clone())
    assert torch.equal(ours.isnan(), theirs.isnan())
    assert torch.equal(ours.nan_to_num(), theirs.nan_to_num())
    assert torch.equal(ours.signbit(), theirs.signbit())
    assert (ours.stride(), ours.storage_offset()) == (theirs.stride(), theirs.storage_offset())


@pytest.mark.parametrize(
    "probe",
    probes.of_losses(Case.parse("m-cpu-train-f32-default-auto")),
    ids=lambda probe: probe.name,
)
def test_a_script_has_the_loss_of_its_probing_call(probe):
    given = [torch.randn(5, 4), torch.randn(5, 4), torch.randn(())]
    scope = {"torch": torch, "roots": [*given], "cotangents": [one.clone() for one in given]}
    exec(cotangents_of(probe.name), scope)
    roots, cotangents = probe.loss.start(given, given)
    assert [*map(id, scope["roots"])] == [*map(id, roots)]
    for ours, theirs in zip(scope["cotangents"], cotangents, strict=True):
        assert torch.equal(ours, theirs)
        assert ours.stride() == theirs.stride()


def test_a_script_changes_the_numbers_of_modules_as_its_probing_call():
    ours, theirs = (
        nn.Sequential(nn.LayerNorm(4), nn.Dropout(0.2), nn.Threshold(0.0, -3.0)) for _ in range(2)
    )
    ChangedNumbers(ours)
    exec(setting_of("other numbers in modules"), {"torch": torch, "module": theirs})
    assert [*map(repr, ours)] == [*map(repr, theirs)]
    assert ours[0].eps == theirs[0].eps == 0.01
    assert not setting_of("batch of one")


class Holds(nn.Module):
    """Integers, masks, zeros and other numbers, in buffers and in a parameter."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.zeros(3))
        for name, state in {
            "table": torch.arange(12).view(3, 4),
            "alone": torch.tensor(3),
            "causal": torch.ones(3, 3, dtype=torch.bool).tril(),
            "open": torch.zeros(2, 3, dtype=torch.bool),
            "added": torch.full((3, 3), -1e9).triu(1),
            "zeros": torch.zeros(4),
            "rates": torch.tensor([0.5, 2.0]),
            "turns": torch.ones(2, dtype=torch.complex64),
        }.items():
            self.register_buffer(name, state)


@pytest.mark.parametrize("probe", probes.of_state(CASES["float32"]), ids=lambda probe: probe.name)
@pytest.mark.parametrize("trains", [True, False])
def test_a_script_changes_the_state_of_modules_as_its_probing_call(probe, trains):
    phase = "train" if trains else "infer"
    of_phase = probes.of_state(Case.parse(f"m-cpu-{phase}-f32-default-auto"))
    (made,) = [one for one in of_phase if one.name == probe.name]
    ours, theirs, before = (Holds().train(trains) for _ in range(3))
    made.changes_state([*([] if trains else [ours.gain]), *ours.buffers()])
    exec(setting_of(probe.name), {"torch": torch, "module": theirs})
    for name, known in before.state_dict().items():
        mine, other = ours.state_dict()[name], theirs.state_dict()[name]
        assert torch.equal(mine, known) == torch.equal(other, known), name
        torch.testing.assert_close(mine, other, rtol=0.05, atol=0.0)


def test_other_probing_calls_have_the_usual_loss():
    assert not cotangents_of("batch of one")


@pytest.mark.parametrize("probe", probes.layouts(), ids=lambda probe: probe.name)
def test_no_layout_makes_rising_offsets_fall(probe):
    offsets = torch.randint(40, (4, 9)).sort().values
    changed = probe.change(offsets.clone())
    assert torch.equal(changed, changed.sort().values)


def test_a_call_of_another_size_or_number_changes_no_tensor():
    assert not change_of("batch of one")
    assert not change_of("after 8 more calls")
