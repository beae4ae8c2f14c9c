"""Faults of state between calls, and of the metadata of output tensors."""

from __future__ import annotations

from tests.faults.catalogue.fault import TRAIN, VALUES, Fault

TENSORS = (
    Fault(
        "stride_changed",
        "the output is transposed in memory",
        "forward",
        r"output: stride differs: eager \(\d+, 1\), compiled \(1, \d+\)",
    ),
    Fault(
        "shape_broadcastable",
        "the output has a leading dimension of size 1",
        "forward",
        r"output: shape differs: eager \((\d+), (\d+)\), compiled \(1, \1, \2\)",
    ),
    Fault(
        "alias_lost",
        "an output that is a view of the input is a copy",
        "forward",
        r"output: aliasing differs: eager input\[0\] = output\[1\], compiled no shared memory",
        victim="with_view.dense",
        zoo=("with_view.mlp", "with_view.conv_pool_linear"),
    ),
    Fault(
        "alias_added",
        "two outputs share memory",
        "forward",
        r"output: aliasing differs: .*compiled output\[0\] = output\[1\]",
        victim="with_copy.dense",
        zoo=("with_copy.mlp", "with_copy.conv_pool_linear"),
    ),
    Fault(
        "requires_grad_lost",
        "the output does not require grad",
        "forward",
        r"output: requires_grad differs: eager True, compiled False",
        setting=TRAIN,
        also=VALUES,
    ),
)

STATE = (
    Fault(
        "statistics_lost",
        "running statistics are not updated",
        "side_effects",
        r"buffer \S*running_(mean|var) \(float32\)",
        victim="convolutional",
        zoo=("test_resnet", "normed.conv_pool_linear"),
        setting=TRAIN,
    ),
    Fault(
        "statistics_updated_twice",
        "running statistics are updated twice",
        "side_effects",
        r"buffer \S*running_(mean|var) \(float32\)",
        victim="convolutional",
        zoo=("test_resnet", "normed.conv_pool_linear"),
        setting=TRAIN,
    ),
    Fault(
        "counter_twice",
        "a counter in a buffer is advanced by two",
        "side_effects",
        r"buffer \S*: \w+ differs?: eager 1 at \[\], compiled 2 there",
        victim="counting",
        zoo=("test_resnet", "normed.conv_pool_linear"),
        setting=TRAIN,
    ),
    Fault(
        "mutation_lost",
        "an in-place change of an input is lost",
        "side_effects",
        r"input\[0\] \(float32\): root mean square error is",
        victim="in_place.dense",
        zoo=("in_place.mlp", "in_place.conv_pool_linear"),
    ),
    Fault(
        "input_overwritten",
        "an element of the input is overwritten",
        "side_effects",
        r"input\[0\]: value differs: .* at \[0, .*; 1 of \d+ elements differ",
    ),
    Fault(
        "parameter_overwritten",
        "each call scales a parameter slightly",
        "side_effects",
        r"parameter \S+: value differs: .*elements differ",
        also=("forward",),
    ),
    Fault(
        "parameter_moved",
        "each call moves a parameter to other memory",
        "side_effects",
        r"parameter \S+: memory differs: eager leaves it unchanged",
    ),
    Fault(
        "stale_result",
        "every call returns the first call's result",
        "forward",
        r"call 2 \(batch=\d+\): output",
    ),
    Fault(
        "weights_baked_in",
        "every call uses the parameters of the first call",
        "forward",
        r"call 2 \(.*\): output",
        setting=TRAIN,
        also=VALUES,
    ),
    Fault(
        "buffer_reused",
        "a later call overwrites the output of the first call",
        "side_effects",
        r"call 2 \(.*\): first output: value differs: eager leaves it",
        also=("forward",),  # it lies in the memory of the first output
    ),
)
