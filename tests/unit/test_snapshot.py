"""Tests of snapshots, which restore the state of a model in place."""

import pytest
import torch
from torch import nn

from compilegate.observe.model.snapshot import Snapshot


class Keeps(nn.Module):
    """A module that changes every kind of state in each call."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("seen", torch.zeros(()))
        self.hidden = torch.zeros(3)
        self.moments = [torch.zeros(3)]
        self.table = {"mean": torch.zeros(3)}
        self.calls = 0

    def forward(self, x):
        self.seen += 1
        self.hidden = self.hidden + x
        self.moments[0].add_(x)
        self.moments.append(x)
        self.table["mean"] = self.table["mean"] + x
        self.table["last"] = x
        self.calls += 1
        with torch.no_grad():
            self.weight.mul_(2)
        return x


def contents(module):
    kept = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    kept |= {"hidden": module.hidden, "calls": module.calls}
    kept |= {f"moments {i}": tensor for i, tensor in enumerate(module.moments)}
    kept |= {f"table {name}": tensor for name, tensor in module.table.items()}
    return {n: v.tolist() if isinstance(v, torch.Tensor) else v for n, v in kept.items()}


def test_a_snapshot_restores_everything():
    module = Keeps()
    before, hidden, seen = contents(module), module.hidden, module.seen
    snapshot = Snapshot(module, parameters=True)
    module(torch.ones(3))
    module(torch.ones(3))
    assert contents(module) != before
    snapshot.put_back()
    assert contents(module) == before
    assert module.hidden is hidden
    assert module.seen is seen


class Installs(nn.Module):
    """A module, or an object that it holds, records layers by hooks from the first call on."""

    def __init__(self, marks_object):
        super().__init__()
        self.layer, self.seen = nn.Linear(3, 3), []
        self.marked = Mark() if marks_object else self

    def forward(self, x):
        if not getattr(self.marked, "is_installed", False):
            self.layer.register_forward_hook(lambda *given: self.seen.append(given[-1]))
            self.marked.is_installed = True
        self.layer(x)
        return self.seen.pop()


class Mark:
    """Says whether hooks are installed."""


@pytest.mark.parametrize("marks_object", [False, True])
def test_what_a_call_installs_goes_with_the_attribute_that_says_so(marks_object):
    module = Installs(marks_object)
    snapshot = Snapshot(module, parameters=False)
    for _ in range(2):
        assert module(torch.ones(2, 3)).shape == (2, 3)
        snapshot.put_back()
    assert not hasattr(module.marked, "is_installed")
    assert not module.layer._forward_hooks


def test_a_snapshot_keeps_parameters_only_on_request():
    module = Keeps()
    snapshot = Snapshot(module, parameters=False)
    module(torch.ones(3))
    snapshot.put_back()
    assert module.weight.tolist() == [2, 2, 2]


def test_running_statistics_are_restored_although_their_version_stays():
    module = nn.BatchNorm1d(4)
    version, before = module.running_mean._version, contents_of_buffers(module)
    snapshot = Snapshot(module, parameters=False)
    module(torch.randn(8, 4) + 1)
    assert module.running_mean._version == version  # PyTorch's own; else this shows nothing
    assert contents_of_buffers(module) != before
    snapshot.put_back()
    assert contents_of_buffers(module) == before


def test_a_tensor_that_cannot_be_compared_is_restored_by_its_version():
    module = nn.Identity()
    module.register_buffer("table", torch.eye(3).to_sparse())
    snapshot = Snapshot(module, parameters=False)
    module.table.zero_()
    snapshot.put_back()
    assert torch.equal(module.table.to_dense(), torch.eye(3))


def test_memory_that_a_cuda_graph_has_reused_is_not_restored():
    module = Keeps()
    module.hidden = torch.ones(3)
    text = "accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run"
    torch._C._set_storage_access_error_msg(module.hidden, text)
    snapshot = Snapshot(module, parameters=True)
    module.hidden = torch.zeros(3)
    module(torch.ones(3))
    snapshot.put_back()
    assert module.calls == 0
    with pytest.raises(RuntimeError, match="overwritten by a subsequent run"):
        module.hidden.tolist()


def contents_of_buffers(module):
    return {name: buffer.tolist() for name, buffer in module.named_buffers()}


def test_unchanged_tensors_are_not_written():
    module = nn.Linear(3, 3)
    module.table = torch.ones(1).expand(4)  # writing to it would raise
    module.unknown = torch.full((1,), torch.nan).expand(4)
    snapshot = Snapshot(module, parameters=True)
    version = module.weight._version
    module(torch.ones(3))
    snapshot.put_back()
    assert module.weight._version == version


def test_a_snapshot_of_a_function_keeps_nothing():
    Snapshot(torch.sin, parameters=True).put_back()


def test_objects_in_arguments_are_restored():
    class Cache:
        def __init__(self):
            self.length, self.keys, self.inner = 0, torch.zeros(3), Inner()

    class Inner:
        def __init__(self):
            self.log = []

    cache = Cache()
    keys, log = cache.keys, cache.inner.log
    snapshot = Snapshot(torch.sin, parameters=False, given=({"cache": [cache]},))
    cache.length += 1
    cache.keys.add_(1)
    cache.inner.log.append(1)
    cache.inner.log = [cache.inner.log]
    snapshot.put_back()
    assert (cache.length, cache.inner.log) == (0, [])
    assert cache.keys is keys
    assert cache.inner.log is log
    assert torch.equal(keys, torch.zeros(3))
