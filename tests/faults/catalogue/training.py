"""Faults of gradients, and of precision under autocast."""

from __future__ import annotations

from tests.faults.catalogue.fault import INFER_BF16, STEPPED, TRAIN, Fault

GRADIENTS = (
    Fault(
        "one_gradient_zero",
        "one weight's gradient is zero",
        "gradients",
        r"gradient \S+weight \(float32\): root mean square error is 1 of its scale",
        setting=TRAIN,
        also=STEPPED,
    ),
    Fault(
        "one_gradient_negated",
        "one weight's gradient has the other sign",
        "gradients",
        r"gradient \S+weight \(float32\): root mean square error is 2 of its scale",
        setting=TRAIN,
        also=STEPPED,
    ),
    Fault(
        "one_gradient_one_percent",
        "one weight's gradient is 1% too large",
        "gradients",
        r"gradient \S+weight \(float32\): root mean square error is 0\.01 of its scale",
        setting=TRAIN,
        also=STEPPED,
    ),
    Fault(
        "gradients_halved",
        "all gradients are half of what they should be",
        "gradients",
        r"gradient \S+ \(float32\): root mean square error is 0\.5 of its scale",
        setting=TRAIN,
        also=STEPPED,
        zoo=("mlp", "test_resnet"),
    ),
    Fault(
        "gradients_of_vectors",
        "the gradients of norms and biases are 10% too small",
        "gradients",
        r"gradient \S+(weight|bias) \(float32\): root mean square error is 0\.1 of its scale",
        setting=TRAIN,
        also=STEPPED,
    ),
    Fault(
        "input_gradient_zero",
        "the input's gradient is zero",
        "gradients",
        r"gradient input\[0\] \(float32\): root mean square error is 1 of its scale",
        setting=TRAIN,
        also=STEPPED,
    ),
    Fault(
        "saved_replaced",
        "a forward overwrites what the previous forward saved for its backward",
        "gradients",
        r"cotangents in another layout: gradient \S+ \(float32\): root mean square error",
        setting=TRAIN,
        also=STEPPED,
    ),
    Fault(
        "layout_of_cotangents_assumed",
        "the backward reads cotangents as if they had the memory layout of the outputs",
        "gradients",
        r"cotangents in another layout: gradient \S+: nonfinite differs",
        setting=TRAIN,
        also=STEPPED,
    ),
    Fault(
        "gelu_backward_approximated",
        "GELU's backward is that of its tanh approximation",
        "gradients",
        r"gradient \S+ \(float32\): root mean square error is \S+ of its scale",
        setting=TRAIN,
        also=STEPPED,
        zoo=("mlp", "test_vit"),
    ),
)

AUTOCAST = (
    Fault(
        "norm_in_low_precision",
        "a norm computes its variance in bfloat16",
        "forward",
        r"output \(\w+\): (root mean square|largest) error",
        victim="normed_offset",
        zoo=("offset.mlp", "offset.conv_pool_linear"),
        setting=INFER_BF16,
    ),
    Fault(
        "norm_statistics_rounded",
        "a norm rounds its mean and reciprocal standard deviation to bfloat16",
        "forward",
        r"output\S* \(\w+\): single rows are 0\.\d+% too large or too small, as if a norm computed",
        victim="normed",
        zoo=("test_vit", "gpt2"),
        setting=INFER_BF16,
    ),
    Fault(
        "last_of_a_cat_halved",
        "confidences that are concatenated with pixel coordinates are half of what they should be",
        "forward",
        r"output\S* \(\w+\): root mean square error of column \d+ of the last dimension is 0\.5",
        victim="boxes",
        zoo=("boxed.mlp", "boxed.attention"),
        setting=INFER_BF16,
    ),
    Fault(
        "output_dtype",
        "the output has another dtype than under eager autocast",
        "forward",
        r"output.*: dtype differs: eager bfloat16, compiled float32",
        setting=INFER_BF16,
    ),
    Fault(
        "accumulated_in_low_precision",
        "matrix products accumulate in bfloat16",
        "forward",
        r"output \(bfloat16\): (root mean square|largest) error",
        victim="projected",
        zoo=("mlp", "conv_pool_linear"),
        setting=INFER_BF16,
    ),
)
