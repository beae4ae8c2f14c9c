"""Comparing: every planted difference is found and named, and a healthy twin shows none."""

import enum
import math

import pytest
import torch
from torch import nn
from torch._dynamo import exc

from fixtures.cases import Case
from fixtures.observe.calls import PlannedCall
from fixtures.observe.compare import (
    compare_gradients,
    compare_outputs,
    compare_parameters,
    compare_state,
)
from fixtures.observe.oracle import Lifting
from fixtures.observe.result import Result
from fixtures.observe.subject import Subject
from fixtures.zoo import Example, Model
from suites.bounds import exceeds, is_blind

INFER = Case.parse("m-cpu-infer-f32-default-static")
TRAIN = Case.parse("m-cpu-train-f32-default-static")
PLANNED = PlannedCall(0, {})


def make_input():
    return torch.randn(6, 4)


class Compared:
    """Three sides of one call: eager runs ``ours``, compiled ``theirs``.

    Where ``ours`` is a class of modules, ``theirs`` is given the module first.
    """

    def __init__(self, ours, theirs, case=INFER, inputs=make_input):
        def build():
            return Example(ours() if isinstance(ours, type) else ours, inputs=(inputs(),))

        model = Model("m", "m", build=build)
        eager, compiled = (Subject(model, case, 0) for _ in range(2))
        reference = Subject(model, case, 0, lifting=Lifting())
        if isinstance(compiled.module, nn.Module):
            compiled.run = lambda *args: theirs(compiled.module, *args)
        else:
            compiled.run = theirs
        arguments = eager.prepare(PLANNED)
        self.eager = eager.call(arguments, 0)
        self.compiled = compiled.call(compiled.prepare(PLANNED), 0)
        self.reference = reference.call(reference.prepare(PLANNED), 0)

    @property
    def outputs(self):
        return compare_outputs(self.eager, self.compiled, [self.reference])

    @property
    def gradients(self):
        return compare_gradients(self.eager, self.compiled, [self.reference])

    @property
    def state(self):
        return compare_state(self.eager, self.compiled, [self.reference])


def differences(ours, theirs, **how):
    found = Compared(ours, theirs, **how).outputs.differences
    return [(d.where, d.what, d.eager, d.compiled) for d in found]


def complaints(checked):
    return [text for error in checked.errors if (text := exceeds(error, 0.0))]


# A healthy twin.


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 5)
        self.norm = nn.BatchNorm1d(5)

    def forward(self, x):
        y = self.norm(self.linear(x)).tanh()
        return {"y": y, "argmax": y.argmax(), "view": x[1:], "scale": 0.5, "none": None}


@pytest.mark.parametrize("setting", [INFER, TRAIN], ids=["infer", "train"])
def test_a_healthy_twin_shows_nothing(setting):
    model = Model("m", "m", build=lambda: Example(Net(), inputs=(make_input(),)))
    eager, compiled = Subject(model, setting, 0), Subject(model, setting, 0)
    reference = Subject(model, setting, 0, lifting=Lifting())
    ours, theirs, known = (s.call(s.prepare(PLANNED), 0) for s in (eager, compiled, reference))
    sides = (ours, theirs, [known])
    checks = [compare_outputs(*sides), compare_gradients(*sides), compare_state(*sides)]
    for checked in checks:
        assert checked.differences == ()
        assert complaints(checked) == []
        assert not any(
            is_blind(error) for error in checked.errors if error.name != "gradient linear.bias"
        )
    sides = (eager.parameters(), compiled.parameters())
    assert compare_parameters(Subject(model, setting, 0).parameters(), *sides, {}).errors == ()
    assert checks[0].tensors == 5
    assert {error.name for error in checks[0].errors} == {
        "output.y",
        "output.view",
        "output.scale",
    }
    assert bool(checks[1].errors) == (setting is TRAIN)


def test_another_order_of_summing_is_healthy():
    def summed(x):
        return torch.stack([x[:, i] for i in reversed(range(4))]).sum(0)

    checked = Compared(lambda x: x.sum(1), summed).outputs
    assert checked.differences == ()
    assert complaints(checked) == []


# Exact properties of outputs.


def test_a_shape_that_would_broadcast_is_found():
    found = differences(lambda x: x[0, :3] * 1, lambda x: x[:1, :3] * 1)
    assert found[0] == ("output", "shape", "(3,)", "(1, 3)")


def test_only_one_sentence_is_said_of_another_shape():
    found = differences(lambda x: x.sum(1), lambda x: x.sum(1)[:3])
    assert [what for _, what, _, _ in found] == ["shape"]


@pytest.mark.parametrize(
    ("theirs", "dtype"),
    [
        (lambda x: x.double(), "float64"),
        (lambda x: x.bfloat16(), "bfloat16"),
        (lambda x: x.to(torch.complex64), "complex64"),
        (lambda x: x.int(), "int32"),
    ],
)
def test_another_dtype_is_found(theirs, dtype):
    assert ("output", "dtype", "float32", dtype) in differences(lambda x: x * 1, theirs)


def test_a_real_tensor_for_a_complex_one_is_found():
    def ours(x):
        return torch.complex(x, x)

    assert ("output", "dtype", "complex64", "float32") in differences(ours, lambda x: x * 1)


def test_another_integer_width_is_found():
    assert differences(lambda x: x.argmax(1), lambda x: x.argmax(1).int()) == [
        ("output", "dtype", "int64", "int32")
    ]


def test_other_strides_are_found():
    assert differences(lambda x: x * 1, lambda x: x.t().contiguous().t()) == [
        ("output", "stride", "(4, 1)", "(1, 6)")
    ]


@pytest.mark.parametrize(
    ("shape", "strides"),
    [((1, 4), (99, 1)), ((4, 1), (1, 99)), ((1, 1), (7, 3)), ((2, 1, 3), (3, 50, 1))],
)
def test_strides_of_dimensions_of_size_one_mean_nothing(shape, strides):
    def theirs(x):
        base = torch.zeros(200)
        return base.as_strided(shape, strides).copy_(x.reshape(-1)[: math.prod(shape)].view(shape))

    found = differences(lambda x: x.reshape(-1)[: math.prod(shape)].view(shape) * 1, theirs)
    assert found == []


def test_strides_of_an_empty_tensor_mean_nothing():
    found = differences(lambda x: x.new_empty(0, 5), lambda x: torch.empty(5, 0).t())
    assert found == []


def test_a_lost_requires_grad_is_found():
    found = differences(lambda x: (x * 2, x * 3), lambda x: (x * 2, (x * 3).detach()), case=TRAIN)
    assert found == [("output[1]", "requires_grad", "True", "False")]


def test_a_subclass_for_a_tensor_is_found():
    class Wrapped(torch.Tensor):
        pass

    found = differences(lambda x: x * 1, lambda x: (x * 1).as_subclass(Wrapped))
    assert ("output", "type", "Tensor", "Wrapped") in found


def test_a_parameter_for_a_tensor_is_none():
    found = differences(lambda x: x * 1, lambda x: nn.Parameter(x * 1, requires_grad=False))
    assert found == []


def test_lost_aliasing_is_found():
    assert differences(lambda x: x.view(-1), lambda x: x.reshape(-1).clone()) == [
        ("output", "aliasing", "input[0] = output", "no shared memory")
    ]


def test_gained_aliasing_is_found():
    assert differences(lambda x: x + 0, lambda x: x) == [
        ("output", "aliasing", "no shared memory", "input[0] = output")
    ]


def test_aliasing_between_outputs_is_found():
    def ours(x):
        y = x * 2
        return y, y[0]

    def theirs(x):
        return x * 2, x[0] * 2

    assert differences(ours, theirs) == [
        ("output", "aliasing", "output[0] = output[1]", "no shared memory")
    ]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda x: (x * 1,), lambda x: [x * 1]),
        (lambda x: {"a": x * 1}, lambda x: {"b": x * 1}),
        (lambda x: (x * 1, x * 2), lambda x: (x * 1,)),
        (lambda x: (x * 1,), lambda x: (x * 1, x * 2)),
        (lambda x: (x * 1, None), lambda x: (x * 1, x * 2)),
    ],
)
def test_another_structure_is_found(ours, theirs):
    found = differences(ours, theirs)
    assert found[0][:2] == ("output", "structure")


# Values.


@pytest.mark.parametrize(
    ("plant", "eager", "compiled"),
    [
        (math.nan, "0 at [2, 1]; 0 not finite", "nan at [2, 1]; 1 not finite"),
        (math.inf, "0 at [2, 1]; 0 not finite", "inf at [2, 1]; 1 not finite"),
    ],
)
def test_a_value_that_is_not_finite_is_found_where_it_stands(plant, eager, compiled):
    def theirs(x):
        y = torch.zeros_like(x)
        y[2, 1] = plant
        return y

    assert differences(torch.zeros_like, theirs) == [("output", "nonfinite", eager, compiled)]


@pytest.mark.parametrize(
    ("one", "other"),
    [(math.nan, math.inf), (math.inf, -math.inf), (math.nan, 0.0), (-math.inf, math.nan)],
)
def test_patterns_of_nan_and_infinity_are_told_apart(one, other):
    def planted(value):
        def run(x):
            y = x * 1
            y[0, 0] = value
            return y

        return run

    assert [what for _, what, _, _ in differences(planted(one), planted(other))] == ["nonfinite"]
    assert differences(planted(one), planted(one)) == []


def test_finite_values_are_compared_beside_nan():
    def planted(factor):
        def run(x):
            y = x * factor
            y[0, 0] = math.nan
            return y

        return run

    checked = Compared(planted(1.0), planted(1.5)).outputs
    assert checked.differences == ()
    (error,) = checked.errors
    assert error.numel == 23
    assert error.compiled_rms == pytest.approx(0.5, rel=1e-3)


def test_a_tensor_of_nothing_finite_is_compared_by_its_pattern_only():
    checked = Compared(lambda x: x * math.nan, lambda x: x * math.nan).outputs
    assert (checked.tensors, checked.differences) == (1, ())
    (error,) = checked.errors
    assert (error.numel, error.scale) == (0, 0.0)  # it can show nothing: blind


def test_nan_in_a_complex_tensor_is_found():
    def ours(x):
        return torch.complex(x, x)

    def theirs(x):
        y = torch.complex(x, x)
        y[1, 1] = complex(1.0, math.nan)
        return y

    assert [what for _, what, _, _ in differences(ours, theirs)] == ["nonfinite"]


def test_one_wrong_integer_is_found_where_it_stands():
    def theirs(x):
        y = torch.arange(24).reshape(6, 4)
        y[4, 2] = 7
        return y

    found = differences(lambda x: torch.arange(24).reshape(6, 4), theirs)
    assert found == [("output", "elements", "18 at [4, 2]", "7 there; 1 of 24 elements differ")]


def test_one_wrong_boolean_is_found():
    found = differences(lambda x: x > 0, lambda x: (x > 0).logical_xor(torch.eye(6, 4).bool()))
    assert [(where, what) for where, what, _, _ in found] == [("output", "elements")]
    assert "4 of 24 elements differ" in found[0][3]


def test_a_wrong_scalar_integer_is_found():
    assert differences(lambda x: torch.tensor(3), lambda x: torch.tensor(4)) == [
        ("output", "elements", "3 at []", "4 there; 1 of 1 elements differ")
    ]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(3, 4), ("mean", "sum"), (True, False), (None, 1), (1, 1.0), (True, 1), (1 + 2j, 1 + 3j)],
)
def test_another_python_value_is_found(ours, theirs):
    found = differences(lambda x: (x * 1, ours), lambda x: (x * 1, theirs))
    assert ("output[1]", "value", repr(ours), repr(theirs)) in found


@pytest.mark.parametrize("value", [3, "mean", True, None, 1 + 2j, torch.float32, b"x"])
def test_equal_python_values_are_alike(value):
    assert differences(lambda x: (x * 1, value), lambda x: (x * 1, value)) == []


def test_a_python_float_is_held_to_the_same_bounds_as_a_tensor():
    checked = Compared(lambda x: (x * 1, 0.5), lambda x: (x * 1, 0.5 * (1 + 1e-3))).outputs
    assert checked.differences == ()
    (text,) = complaints(checked)
    assert text.startswith("output[1] (float32)")
    assert complaints(Compared(lambda x: (x, 0.5), lambda x: (x, 0.5)).outputs) == []


def test_a_python_float_that_is_nan_on_one_side_is_found():
    found = differences(lambda x: (x * 1, 0.5), lambda x: (x * 1, math.nan))
    assert [(where, what) for where, what, _, _ in found] == [("output[1]", "nonfinite")]


@pytest.mark.parametrize("place", [(0, 0), (37, 512), (300, 7), (511, 1023)])
def test_one_element_among_many_is_found_and_shown(place):
    def many():
        return torch.randn(512, 1024)

    def theirs(x):
        y = x * 1
        y[place] += 5e-3
        return y

    checked = Compared(lambda x: x * 1, theirs, inputs=many).outputs
    (error,) = checked.errors
    assert error.numel == 512 * 1024
    assert error.compiled_max == pytest.approx(5e-3, rel=0.02)
    assert error.worst_index == place
    assert error.worst_values[1] - error.worst_values[0] == pytest.approx(5e-3, rel=1e-3)
    assert len(complaints(checked)) == 1


def test_figures_of_a_large_tensor_are_those_of_its_elements():
    torch.manual_seed(0)
    truth = torch.randn(700, 1000, dtype=torch.float64)
    sides = [truth.float(), (truth * 1.001 + 1e-3 * torch.randn_like(truth)).float(), truth]
    ours, theirs, known = (Result(output={"output": side}) for side in sides)
    (error,) = compare_outputs(ours, theirs, [known]).errors
    scale = float(truth.square().mean().sqrt())
    for side, value in (("eager", sides[0]), ("compiled", sides[1])):
        off = value.double() - truth
        figures = {
            "max": float(off.abs().max()) / scale,
            "rms": float(off.square().mean().sqrt()) / scale,
            "projection": float((off * truth).sum() / truth.square().sum()),
        }
        seen = {figure: getattr(error, f"{side}_{figure}") for figure in figures}
        assert seen == pytest.approx(figures, rel=1e-6)
    assert (error.numel, error.scale) == (700_000, pytest.approx(scale))


def test_a_scale_of_one_percent_is_found_even_in_bf16():
    def many():
        return torch.randn(256, 256)

    def ours(x):
        return (x * 1).bfloat16()

    def theirs(x):
        return (x * 1.01).bfloat16()

    (error,) = (checked := Compared(ours, theirs, inputs=many).outputs).errors
    assert error.dtype == "bfloat16"
    assert error.compiled_projection == pytest.approx(0.01, rel=0.05)
    assert abs(error.eager_projection) < 1e-3
    assert len(complaints(checked)) == 1
    assert complaints(Compared(ours, ours, inputs=many).outputs) == []


@pytest.mark.parametrize(
    "theirs",
    [
        lambda x: x * 0,
        lambda x: x * 0.5,
        lambda x: -x,
        lambda x: x.flip(0),
        lambda x: x.half().float(),
        lambda x: x + 1e-4,
    ],
    ids=["zeroed", "halved", "negated", "reversed", "half precision", "shifted"],
)
def test_gross_faults_are_found(theirs):
    assert complaints(Compared(lambda x: x * 1, theirs).outputs)


def test_zeros_against_small_numbers_are_found():
    assert complaints(Compared(lambda x: x * 0, lambda x: x * 0 + 1e-5).outputs)
    assert complaints(Compared(lambda x: x * 1e-5, lambda x: x * 0).outputs)


def test_errors_are_those_of_fp64_and_relative_to_its_scale():
    def ours(x):
        return 100 * (x.square().sum() + 1e-3)

    (error,) = Compared(ours, lambda x: ours(x) * 1.25).outputs.errors
    assert error.scale == pytest.approx(error.worst_values[2])
    assert error.compiled_max == error.compiled_rms == pytest.approx(0.25, rel=1e-5)
    assert error.compiled_projection == pytest.approx(0.25, rel=1e-5)
    assert error.eager_max < 1e-6
    assert error.worst_index == ()


def test_complex_values_are_compared_in_both_parts():
    def ours(x):
        return torch.complex(x, 2 * x)

    def theirs(x):
        return torch.complex(x, 2.02 * x)

    checked = Compared(ours, theirs).outputs
    assert checked.errors[0].dtype == "complex64"
    assert len(complaints(checked)) == 1
    assert complaints(Compared(ours, ours).outputs) == []


def test_without_reference_eager_takes_its_place():
    made = Compared(lambda x: x * 1, lambda x: x * 1.5)
    (error,) = compare_outputs(made.eager, made.compiled, []).errors
    assert error.eager_rms == 0.0
    assert error.compiled_rms == pytest.approx(0.5)


def test_a_sparse_output_is_compared_by_its_values():
    found = Compared(lambda x: x.to_sparse(), lambda x: (2 * x).to_sparse()).outputs
    assert found.differences == ()
    assert complaints(found)
    assert differences(lambda x: x.to_sparse(), lambda x: x * 1)


# Marks: values that are none.


def marked(mark, factor=1.0):
    """A first column of marks, beside values."""

    def run(x):
        values = x * factor
        return torch.cat([mark(values[:, :1]), values[:, 1:]], 1)

    return run


MARKS = {
    "mask": lambda x: torch.full_like(x, -1e9),
    "least number": lambda x: torch.full_like(x, torch.finfo(torch.float32).min),
    "mask that is added": lambda x: x - 1e9,
    "large bias": lambda x: x + 1e6,
}


@pytest.mark.parametrize("mark", MARKS.values(), ids=MARKS)
def test_marks_hide_nothing_beside_them(mark):
    healthy = Compared(marked(mark), marked(mark)).outputs
    assert complaints(healthy) == []
    assert 0.1 < healthy.errors[0].scale < 10
    assert complaints(Compared(marked(mark), marked(mark, 1.001)).outputs)


def test_a_wrong_mark_is_found():
    ours, theirs = (marked(lambda x, m=m: torch.full_like(x, m)) for m in (-1e9, -1.1e9))
    assert complaints(Compared(ours, theirs).outputs)


def test_large_values_are_no_marks_where_all_are_large():
    (error,) = Compared(lambda x: x * 1e9, lambda x: x * 1e9).outputs.errors
    assert error.scale > 1e8
    assert error.numel == 24


# What are no tensors.


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
def test_other_values_than_tensors_are_compared(ours, theirs):
    assert differences(ours, ours) == []
    assert differences(ours, theirs)


def test_arrays_are_held_to_the_same_bounds_as_tensors():
    made = Compared(lambda x: (x, x.sin().numpy()), lambda x: (x, x.cos().numpy()))
    assert complaints(made.outputs)
    assert complaints(Compared(lambda x: x.sin().numpy(), lambda x: x.sin().numpy()).outputs) == []


def test_what_cannot_be_compared_is_named():
    class Cache:
        pass

    assert Compared(lambda x: (x, Cache()), lambda x: (x, Cache())).outputs.opaque == (
        "output[1] (Cache)",
    )
    assert Compared(lambda x: (x, None, "a"), lambda x: (x, None, "a")).outputs.opaque == ()


# What is raised.


def raising(error):
    def run(x):
        raise error

    return run


class NarrowerError(RuntimeError):
    """As TorchRuntimeError is a RuntimeError."""


@pytest.mark.parametrize("error", [RuntimeError("x"), NarrowerError("y")])
def test_raising_the_same_or_a_narrower_class_is_alike(error):
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
def test_raising_differently_is_found(ours, theirs, expected):
    made = Compared(ours, theirs)
    (found,) = made.outputs.differences
    assert (found.where, found.what, found.eager, found.compiled) == ("call", "raises", *expected)
    assert made.gradients.tensors == made.state.tensors == 0


def test_a_compiler_that_fails_does_not_raise_as_the_model_does():
    failure = exc.BackendCompilerFailed("inductor", AssertionError("no such buffer"), None)
    ((where, what, eager, compiled),) = differences(raising(RuntimeError("x")), raising(failure))
    assert (where, what, eager) == ("call", "raises", "RuntimeError: x")
    assert compiled.startswith("BackendCompilerFailed: ")


# Gradients.


class Faulty(torch.autograd.Function):
    """Identity whose backward multiplies by a factor."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor, None


@pytest.mark.parametrize("factor", [0.0, 0.5, 1.01, -1.0, 1.001])
def test_wrong_gradients_are_found_behind_right_outputs(factor):
    made = Compared(lambda x: x.sin(), lambda x: Faulty.apply(x, factor).sin(), case=TRAIN)
    assert complaints(made.outputs) == []
    (text,) = complaints(made.gradients)
    assert text.startswith("gradient input[0] (float32)")


def test_a_lost_gradient_is_found():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.shift = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))

        def forward(self, x):
            return x * self.weight + self.shift

    made = Compared(Two, lambda module, x: x * module.weight + module.shift.detach(), case=TRAIN)
    (found,) = made.gradients.differences
    assert (found.where, found.what) == ("gradient shift", "value")
    assert (found.eager, found.compiled) == ("a tensor", "None")


def test_a_gradient_of_another_shape_is_found():
    ours, theirs = Result(gradients={"w": torch.ones(3)}), Result(gradients={"w": torch.ones(1, 3)})
    (found,) = compare_gradients(ours, theirs, []).differences
    assert (found.where, found.what) == ("gradient w", "shape")


# State.


def test_an_input_overwritten_by_compiled_only_is_found():
    made = Compared(lambda x: x * 2, lambda x: x.mul_(2).clone())
    assert complaints(made.outputs) == []
    (found,) = made.state.differences
    assert (found.where, found.what) == ("input[0]", "value")
    assert found.eager.startswith("leaves it ")
    assert "24 of 24 elements differ" in found.compiled


def test_an_input_overwritten_ever_so_slightly_is_found():
    made = Compared(lambda x: x * 2, lambda x: x.add_(1e-7).mul(2))
    (found,) = made.state.differences
    assert found.where == "input[0]"


def test_an_input_overwritten_by_eager_only_is_found():
    made = Compared(lambda x: x.mul_(2).clone(), lambda x: x * 2)
    assert len(complaints(made.state)) == 1


def test_an_input_overwritten_by_both_is_healthy_and_compared():
    made = Compared(lambda x: x.mul_(2).clone(), lambda x: x.mul_(2).clone())
    assert [error.name for error in made.state.errors] == ["input[0]"]
    assert complaints(made.state) == []


def test_what_no_side_changed_is_only_counted():
    made = Compared(lambda x: x * 2, lambda x: x * 2)
    assert (made.state.tensors, made.state.errors, made.state.differences) == (1, (), ())


def with_nan():
    x = torch.randn(6, 4)
    x[0, 0] = math.nan
    return x


def test_nan_that_compiled_only_overwrites_is_found():
    made = Compared(lambda x: x * 2, lambda x: x * (2 + x.nan_to_num_()[0, 0]), inputs=with_nan)
    (found,) = made.state.differences
    assert (found.where, found.eager) == ("input[0]", "leaves it nan at [0, 0]")


def test_nan_that_stays_is_no_change():
    made = Compared(lambda x: x * 2, lambda x: x * 2, inputs=with_nan)
    assert (made.state.tensors, made.state.errors, made.state.differences) == (1, (), ())


def test_integer_inputs_that_stay_are_no_change():
    made = Compared(lambda n: n * 2, lambda n: n * 2, inputs=lambda: torch.arange(3))
    assert made.state.differences == ()


def test_a_changed_integer_input_is_found():
    made = Compared(lambda n: n * 2, lambda n: n.add_(1) * 2 - 2, inputs=lambda: torch.arange(3))
    (found,) = made.state.differences
    assert (found.where, found.what) == ("input[0]", "value")


def test_a_lost_running_statistic_is_found():
    def theirs(module, x):
        norm, y = module.norm, module.linear(x)
        kept = norm.running_mean.clone(), norm.running_var.clone()
        y = nn.functional.batch_norm(y, *kept, norm.weight, norm.bias, training=True).tanh()
        return {"y": y, "argmax": y.argmax(), "view": x[1:], "scale": 0.5, "none": None}

    made = Compared(Net, theirs, case=TRAIN)
    assert made.outputs.differences == ()
    assert complaints(made.outputs) == []
    assert {error.name for error in made.state.errors} >= {"buffer norm.running_mean"}
    assert any("buffer norm.running_mean" in text for text in complaints(made.state))
    assert [d.where for d in made.state.differences] == ["buffer norm.num_batches_tracked"]


class Counting(nn.Module):
    """Assigns a new tensor to its buffer in each call."""

    dtype = torch.float32
    size = 3

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x):
        self.seen = torch.ones(self.size, dtype=self.dtype)
        return x * 2


@pytest.mark.parametrize(
    ("attribute", "value", "what"), [("dtype", torch.bfloat16, "dtype"), ("size", 2, "shape")]
)
def test_a_buffer_of_another_dtype_or_shape_is_found(attribute, value, what):
    def theirs(module, x):
        setattr(module, attribute, value)
        return module(x)

    found = Compared(Counting, theirs).state.differences
    assert ("buffer seen", what) in [(difference.where, difference.what) for difference in found]


def test_a_buffer_assigned_anew_on_both_sides_is_healthy():
    made = Compared(Counting, lambda module, x: module(x))
    assert made.state.differences == ()
    assert complaints(made.state) == []


def test_a_buffer_that_is_missing_on_one_side_is_found():
    def theirs(module, x):
        del module.seen
        return x * 2

    (found,) = Compared(Counting, theirs).state.differences
    assert found.where == "buffer seen"


class Logs(nn.Module):
    """Keeps containers, public and private."""

    def __init__(self):
        super().__init__()
        self.pending = {"a": 1.0}
        self._log = []

    def forward(self, x):
        self.pending.clear()
        self._log.append(x.shape[0])
        self._last = 3.0
        return x * 2


@pytest.mark.parametrize("lost", ["pending.a", "_log[0]", "_last"])
def test_a_change_that_is_lost_is_found(lost):
    def theirs(module, x):
        if lost != "pending.a":
            module.pending.clear()
        if lost != "_log[0]":
            module._log.append(x.shape[0])
        if lost != "_last":
            module._last = 3.0
        return x * 2

    (found,) = Compared(Logs, theirs).state.differences
    assert (found.where, found.what) == (f"attribute {lost}", "value")


def test_private_attributes_that_compiling_adds_are_no_difference():
    def theirs(module, x):
        module._compiled_code = 7
        return module(x)

    assert Compared(Logs, theirs).state.differences == ()


def test_a_parameter_changed_on_one_side_is_found():
    ours = {"w": torch.ones(3), "v": torch.ones(2)}
    theirs = {"w": torch.tensor([1.0, 2.0, 1.0]), "v": torch.ones(2)}
    (found,) = compare_parameters(ours, ours, theirs, {}).differences
    assert (found.where, found.what) == ("parameter w", "value")
    assert found.compiled == "2.0 there; 1 of 3 elements differ"


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99, 2.0])
def test_an_update_that_is_lost_or_scaled_is_found(share):
    initial = torch.randn(50)
    update = 1e-3 * torch.randn(50)
    ours, theirs = initial + update, initial + share * update
    expected = {"w": initial.double() + update.double()}
    checked = compare_parameters({"w": initial}, {"w": ours}, {"w": theirs}, expected)
    (text,) = complaints(checked)
    assert text.startswith("update w (float32)")


@pytest.mark.parametrize(("off", "is_right"), [(6e-8, True), (1e-4, False)])
def test_a_step_that_rounding_swallows_is_held_to_the_parameter(off, is_right):
    initial = {"w": torch.linspace(0.5, 1.0, 64)}
    expected = {"w": initial["w"].double() + 1e-19}
    compiled = {"w": initial["w"] + off * (torch.arange(64) == 7)}
    checked = compare_parameters(initial, initial, compiled, expected, stepped=("w",))
    assert (complaints(checked) == []) is is_right


def test_the_same_update_rounded_otherwise_is_healthy():
    initial, update = torch.randn(50), 1e-3 * torch.randn(50)
    expected = {"w": initial.double() + update.double()}
    theirs = {"w": (initial.double() + update.double() * (1 + 1e-6)).float()}
    checked = compare_parameters({"w": initial}, {"w": initial + update}, theirs, expected)
    assert complaints(checked) == []
