"""The kinds of faults of the matrix, as data. The code that plants them is in ``planting``."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from compilegate.records.case import Case
from compilegate.records.observation import Want

#: What shows that a fault took effect: the numbers that compiled code returned; their layout; its
#: own report; or other graphs than those of the sound twin.
Effect = Literal["values", "layout", "report", "capture"]


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    Attributes:
        name: The name of its plant.
        does: What compiled code does wrong.
        group: The part of the matrix that it stands in.
        effect: What shows that it took effect.
        settings: Globs on the settings in which it means something.
        wants: What is observed.
        alone: Whether it changes settings of its process, which then observes nothing else.
        part: The part of a model that it changes: ``BatchNorm`` …; empty for what all have.
    """

    name: str
    does: str
    group: str
    effect: Effect = "values"
    settings: tuple[str, ...] = ("*",)
    wants: tuple[Want, ...] = ("capture", "vary", "random")
    alone: bool = False
    part: str = ""

    def fits(self, case: Case, parts: Collection[str]) -> bool:
        """Whether the kind means something in a case, of a model that has some parts."""
        has_setting = any(fnmatchcase(case.setting, glob) for glob in self.settings)
        return has_setting and (not self.part or self.part in parts)


_F32 = ("*-f32-*",)
_HALF = ("*-bf16-*", "*-f16-*")
_TRAIN = ("train-*",)
_INFER = ("infer-*",)
_SIZED = ("*-dynamic*", "*-marked*", "*-auto*")

_VALUES = (
    Kind("one_percent", "the output is 1% too large", "values"),
    Kind("a_third_percent", "the first product is 0.3% too large", "values"),
    Kind("one_element_off", "one element of the output is off", "values"),
    Kind("one_nan", "one element of the output is NaN", "values"),
    Kind("constant_changed", "a constant factor is 0.2% too large", "values"),
    Kind("norm_epsilon", "norms add 1e-3 instead of their epsilon", "values"),
    Kind("bias_lost", "the last bias is not added", "values", part="bias"),
    Kind("residual_lost", "the last sum of two tensors lacks one", "values"),
    Kind("last_column_unwritten", "the last column of a product is zero", "values"),
    Kind("columns_rolled", "the first product is read one column off", "values"),
    Kind("rows_rolled", "the rows of the output are one row off", "values"),
    Kind("relu_leaks", "ReLUs let 1% of negative numbers through", "values", part="ReLU"),
    Kind("bound_halved", "upper bounds of clamps are halved", "values", part="clamp"),
    Kind(
        "mean_count_off_by_one", "means divide by one more than their count", "values", part="mean"
    ),
    Kind(
        "softmax_over_rows",
        "the sum of a softmax runs over another dimension",
        "values",
        part="softmax",
    ),
    Kind(
        "embedding_off_by_one", "the next row of an embedding is read", "values", part="embedding"
    ),
    Kind("attention_scale", "attention is scaled 5% too much", "values", part="attention"),
    Kind("attention_mask_lost", "attention ignores its mask", "values", part="mask"),
    Kind("gelu_approximated", "GELU is approximated by tanh", "values", part="GELU", alone=True),
    Kind("weights_baked_in", "the first values of the weights are used for ever", "values"),
    Kind("stale_result", "the first result is returned for ever", "values", settings=_INFER),
    Kind("some_rows_scaled", "every eighth row of the output is 0.5% too large", "values"),
    Kind("one_channel_scaled", "one column or channel of the output is 1% too large", "values"),
    Kind("one_channel_shifted", "one column or channel of the output is off by 0.01", "values"),
)
_PRECISION = (
    Kind("product_in_low_precision", "a product's operand is bf16", "precision", settings=_F32),
    Kind("norm_statistics_rounded", "norms round their statistics to bf16", "precision"),
    Kind("norm_in_low_precision", "variances are differences of bf16 numbers", "precision"),
    Kind(
        "halves_summed_in_low_precision",
        "each product is the rounded sum of two halves",
        "precision",
        settings=_HALF,
    ),
    Kind(
        "accumulated_in_low_precision",
        "products accumulate in bf16",
        "precision",
        settings=("*-bf16-*",),
    ),
    Kind("output_dtype", "the output has another dtype", "layout", "layout"),
)
_GRADIENTS = tuple(
    Kind(name, does, "gradients", settings=_TRAIN)
    for name, does in (
        ("last_gradient_zero", "the gradient of one matrix is zero"),
        ("first_gradient_negated", "the gradient of one matrix is negated"),
        ("last_gradient_one_percent", "the gradient of one matrix is 1% too large"),
        ("all_gradients_halved", "all gradients are halved"),
        ("vector_gradients_a_tenth_low", "gradients of vectors are 10% too small"),
        ("saved_in_low_precision", "the backward reads saved activations in bf16"),
        ("one_filter_scaled", "the gradient of one filter of each convolution is 3% too large"),
    )
)
_STATE = (
    Kind(
        "statistics_lost",
        "BatchNorm's statistics stay as they were",
        "state",
        "report",
        _TRAIN,
        part="BatchNorm",
    ),
    Kind(
        "counter_twice",
        "an integer buffer counts each call twice",
        "state",
        "report",
        _TRAIN,
        part="BatchNorm",
    ),
    Kind("given_input_overwritten", "an input of the call is overwritten", "state", "report"),
    Kind("a_parameter_drifts", "a parameter grows by 1e-4 each call", "state", "report"),
    Kind("parameter_moved", "each call moves a parameter to other memory", "state", "report"),
    Kind(
        "buffer_reused",
        "a later call overwrites the first call's output",
        "state",
        "report",
        _INFER,
    ),
    Kind("memory_format_changed", "the output has other strides", "layout", "layout"),
    Kind("shape_broadcastable", "the output has one more dimension", "layout", "layout", _INFER),
    Kind("requires_grad_lost", "the output requires no gradient", "layout", "layout", _TRAIN),
)
_DRAWING = (
    Kind(
        "dropout_frozen",
        "each call draws the same numbers",
        "drawing",
        settings=_TRAIN,
        part="dropout",
    ),
    Kind("dropout_lost", "nothing is dropped", "drawing", settings=_TRAIN, part="dropout"),
    Kind("dropout_rate", "half as much is dropped", "drawing", settings=_TRAIN, part="dropout"),
    Kind(
        "seed_not_heeded",
        "draws do not depend on the seed",
        "drawing",
        settings=_TRAIN,
        part="dropout",
    ),
    Kind(
        "dropout_not_rescaled",
        "what dropout keeps is not scaled up",
        "drawing",
        settings=_TRAIN,
        part="dropout",
    ),
    Kind(
        "generator_put_back",
        "the generator does not advance",
        "drawing",
        "report",
        _TRAIN,
        part="dropout",
    ),
    Kind(
        "another_mask_in_backward",
        "the backward drops other elements than the forward",
        "drawing",
        settings=_TRAIN,
        part="dropout",
    ),
    Kind(
        "mask_shared_by_rows", "all rows share a mask", "drawing", settings=_TRAIN, part="dropout"
    ),
)
_SIZES = (
    Kind("divided_by_the_first_size", "the first size is baked in", "sizes", settings=_SIZED),
    Kind("later_rows_lost", "rows beyond the first size are zero", "sizes", settings=_SIZED),
    Kind("size_specialized", "symbolic sizes are specialised", "capture", "capture", _SIZED),
    Kind(
        "limit_hit",
        "a frame may compile once",
        "capture",
        "capture",
        ("*-auto*", "*-static*"),
        alone=True,
    ),
    Kind("eager_at_other_sizes", "other sizes run in eager", "capture", "capture", alone=True),
)
_CAPTURE = (
    Kind("nothing_compiled", "nothing is compiled", "capture", "capture", alone=True),
    Kind(
        "backend_error_suppressed",
        "errors of the backend are hidden",
        "capture",
        "capture",
        alone=True,
    ),
    Kind("compiled_at_each_call", "each call compiles again", "capture", "capture"),
    Kind("products_not_captured", "layers break the graph", "capture", "capture", alone=True),
    Kind(
        "nothing_freed",
        "results are freed after the call only",
        "memory",
        "report",
        ("*-static*",),
        ("capture", "memory"),
    ),
    Kind(
        "memory_wasted",
        "each call takes four times the memory of its inputs",
        "memory",
        "report",
        wants=("capture", "memory"),
    ),
    Kind(
        "outputs_kept",
        "the output of each call is kept",
        "memory",
        "report",
        wants=("capture", "memory"),
    ),
)

KINDS = {
    kind.name: kind
    for kind in (
        *_VALUES,
        *_PRECISION,
        *_GRADIENTS,
        *_STATE,
        *_DRAWING,
        *_SIZES,
        *_CAPTURE,
    )
}
