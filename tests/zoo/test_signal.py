"""Every model of the zoo shows its computation after treatment: in eager, on CPU."""

import math
from fnmatch import fnmatchcase

import pytest
import torch

from compilegate.observe.conditioning import signal
from compilegate.observe.conditioning.branches import Branches
from compilegate.observe.conditioning.visibility import measure_visibility
from compilegate.observe.device import unsupported
from compilegate.observe.model.calls import first_call
from compilegate.observe.model.subject import Subject
from compilegate.records.case import AXES, Case
from compilegate.zoo import registry
from tests.zoo import explained

pytestmark = pytest.mark.long

#: All models but the regressions: these reproduce bugs, some of which need their exact weights.
MODELS = {
    name: model
    for name, model in registry.load().items()
    if model.family != "regressions" and "cpu" in model.devices
}
SPREADS = (0.1, 10.0)  # standard deviations of outputs
PHASES = AXES["phase"]
FEW = 0.05  # of a model's parameters
#: Models with as many elements are treated once: what draws their values is that of smaller ones.
MANY = 10_000_000


@pytest.fixture(autouse=True)
def one_thread():
    """One thread suffices: sizes are small, and two workers share the cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", MODELS)
def test_signal(name):
    """A model has one test for everything, so that it is treated only once or twice."""
    model = MODELS[name]
    treated = signal.treat(model, "cpu", seed=0)
    if not built(model, "f32").parameters():
        assert not treated.state
        return
    faults, unavailable = [], []
    if not model.slow and sum(value.numel() for value in treated.state.values()) < MANY:
        again = signal.treat(model, "cpu", seed=0).state
        faults += [f"{key}: not the same twice" for key in unequal(treated.state, again)]
    for precision, faults_of in CHECKS:
        try:
            faults += faults_of(model, treated.state)
        except RuntimeError as error:
            reason = unsupported.reason(error)
            if not reason:
                raise
            unavailable.append(f"in {precision}, {reason}")
    assert not faults, "\n".join(faults)
    if unavailable:
        pytest.skip("; ".join(unavailable))


def built(model, precision, state=None):
    case = Case(model.name, "cpu", "train", precision, "default", "static")
    return Subject(model, case, 0, input_gradients=False, weights=state)


def plan(model, subject):
    return first_call(model.sizes("cpu"))


def faults_in_f32(model, state):
    subject = built(model, "f32", state)
    figures = measure_visibility(subject, plan(model, subject))
    least, most = SPREADS
    for path, spread in figures.spreads.items():
        if not least <= spread <= most and not is_explained(model, path, explained.OUTPUTS):
            yield f"{path}: its standard deviation is {spread:.2g}"
    for path in figures.silent:
        if not is_explained(model, path, explained.GRADIENTS):
            yield f"{path}: its gradient is zero"
    remote = [n for n in figures.remote if not is_explained(model, n, explained.GRADIENTS)]
    if len(remote) > FEW * len(figures.gradients):
        yield f"gradients are orders of magnitude from the median: {', '.join(remote)}"
    for owner, glob, _ in explained.GRADIENTS:
        if owner == model.name and not any(fnmatchcase(n, glob) for n in figures.gradients):
            yield f"{glob}: is explained, but names nothing"


def faults_in_eval_gradients(model, state):
    subject = built(model, "f32", state)
    subject.module.eval()
    subject.step(subject.prepare(plan(model, subject)))
    for name, parameter in subject.parameters().items():
        silent = parameter.grad is None or not parameter.grad.any()
        if parameter.requires_grad and silent:
            if not is_explained(model, name, explained.GRADIENTS):
                yield f"{name}: its gradient in evaluation mode is zero"
        elif parameter.requires_grad and not parameter.grad.isfinite().all():
            yield f"{name}: its gradient in evaluation mode is not finite"


def faults_in_bf16(model, state):
    subject = built(model, "bf16", state)
    figures = measure_visibility(subject, plan(model, subject))
    for path, spread in figures.spreads.items():
        if not math.isfinite(spread):
            yield f"{path}: NaN or infinity in bf16"
    for name, size in figures.gradients.items():
        if not math.isfinite(size) and not is_explained(model, name, explained.BF16_GRADIENTS):
            yield f"{name}: its gradient in bf16 is not finite"


def faults_in_branches(model, state):
    missing = {}
    for phase in PHASES:
        case = Case(model.name, "cpu", phase, "f32", "default", "static")
        subject = Subject(model, case, 0, input_gradients=False, weights=state)
        followed = Branches()
        with followed:
            subject.forward(subject.prepare(plan(model, subject)))
        missing |= {f"{phase} {branch}": None for branch in followed.missing}
    for branch in missing:
        if not is_explained(model, branch, explained.BRANCHES):
            yield f"{branch}: no number of the first call reaches it"
    for owner, glob, _ in explained.BRANCHES:
        if owner == model.name and not any(fnmatchcase(name, glob) for name in missing):
            yield f"{glob}: is explained, but each number is reached"


#: What is checked, and the precision in which a processor must be able to run the model.
CHECKS = (
    ("f32", faults_in_f32),
    ("f32", faults_in_eval_gradients),
    ("f32", faults_in_branches),
    ("bf16", faults_in_bf16),
)


def unequal(one, other):
    return [key for key in {**one, **other} if not same(one.get(key), other.get(key))]


def same(one, other):
    return one is not None and other is not None and torch.equal(one, other)


def is_explained(model, name, rows):
    return any(owner == model.name and fnmatchcase(name, glob) for owner, glob, _ in rows)
