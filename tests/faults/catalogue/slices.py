"""Faults of a single slice: of one channel, one time step or one filter of many."""

from __future__ import annotations

from tests.faults.catalogue.fault import INFER_BF16, STEPPED, TRAIN_BF16, Fault

SLICES = (
    Fault(
        "one_channel_scaled",
        "one channel of an image is 1% too large",
        "forward",
        r"output\S* \(bfloat16\): scale of a slice is off by 0\.0\d+ of its own size, "
        r"in slice 3 of the \d+ along dimension 1",
        victim="pictured",
        zoo=(),
        setting=INFER_BF16,
    ),
    Fault(
        "one_channel_shifted",
        "the bias of one channel of an image is off by 0.01",
        "forward",
        r"output\S* \(bfloat16\): mean of a slice is off by 0\.0\d+ of its own size, "
        r"in slice 3 of the \d+ along dimension 1",
        victim="pictured",
        zoo=(),
        setting=INFER_BF16,
    ),
    Fault(
        "one_step_mixed",
        "one time step of all rows holds a little of the next one",
        "forward",
        r"output\S* \(bfloat16\): (scale|mean|root mean square error) of a slice is off by "
        r"0\.0\d+ of its own size, in slice 3 of the \d+ along dimension 1",
        victim="sequenced",
        zoo=(),
        setting=INFER_BF16,
    ),
    Fault(
        "one_filter_scaled",
        "the gradient of one filter of a convolution is 3% too large",
        "gradients",
        r"gradient \S+weight \(\w+\): scale of a slice is off by 0\.0[23]\d* of its own size, "
        r"in slice 3 of the \d+ along dimension 0",
        victim="pictured",
        zoo=(),
        setting=TRAIN_BF16,
        also=STEPPED,
    ),
)
