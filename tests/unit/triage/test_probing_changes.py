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
