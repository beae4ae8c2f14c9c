"""Tests of compared objects and errors."""

import enum

import pytest
from torch._dynamo import exc

from tests.unit.compare.sides import (
    Compared,
    complaints,
    differences,
)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda x: (x, Colour.RED), lambda x: (x, Colour.BLUE)),
        (lambda x: (x, {1, 2}), lambda x: (x, {1, 3})),
        (lambda x: (x, range(3)), lambda x: (x, range(4))),
        (lambda x: (x, x.numpy().astype("int64")), lambda x: (x, x.numpy().astype("int64") + 1)),
        (lambda x: (x, x.numpy()), lambda x: (x, x.numpy()[:2].copy())),
        (lambda x: (x, x.numpy()), lambda x: (x, x.double().numpy())),
        (lambda x: (x, x.numpy()), lambda x: (x, x)),
    ],
)
def test_values_other_than_tensors_are_compared(ours, theirs):
    assert differences(ours, ours) == []
    assert differences(ours, theirs)


def test_arrays_are_compared_like_tensors():
    made = Compared(lambda x: (x, x.sin().numpy()), lambda x: (x, x.cos().numpy()))
    assert complaints(made.outputs)
    assert complaints(Compared(lambda x: x.sin().numpy(), lambda x: x.sin().numpy()).outputs) == []


def test_objects_that_cannot_be_compared_are_named():
    class Cache:
        pass

    assert Compared(lambda x: (x, Cache()), lambda x: (x, Cache())).outputs.opaque == (
        "output[1] (Cache)",
    )
    assert Compared(lambda x: (x, None, "a"), lambda x: (x, None, "a")).outputs.opaque == ()


def raising(error):
    def run(x):
        raise error

    return run


class NarrowerError(RuntimeError):
    """A subclass, as TorchRuntimeError is one of RuntimeError."""


@pytest.mark.parametrize("error", [RuntimeError("x"), NarrowerError("y")])
def test_the_same_or_a_narrower_exception_class_passes(error):
    assert differences(raising(RuntimeError("x")), raising(error)) == []


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (raising(ValueError("no")), lambda x: x, ("ValueError: no", "nothing")),
        (lambda x: x * 1, raising(ValueError("no\nmore")), ("nothing", "ValueError: no")),
        (raising(ValueError("a")), raising(TypeError("b")), ("ValueError: a", "TypeError: b")),
        (
            raising(NarrowerError("a")),
            raising(RuntimeError("b")),
            ("NarrowerError: a", "RuntimeError: b"),
        ),
    ],
)
def test_another_error_is_found(ours, theirs, expected):
    made = Compared(ours, theirs)
    (found,) = made.outputs.differences
    assert (found.where, found.what, found.eager, found.compiled) == ("call", "raises", *expected)
    assert made.gradients.tensors == made.state.tensors == 0


def test_a_compiler_error_is_not_blamed_on_the_model():
    failure = exc.BackendCompilerFailed("inductor", AssertionError("no such buffer"), None)
    ((where, what, eager, compiled),) = differences(raising(RuntimeError("x")), raising(failure))
    assert (where, what, eager) == ("call", "raises", "RuntimeError: x")
    assert compiled.startswith("BackendCompilerFailed: ")
