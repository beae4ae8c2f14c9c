"""Faults of random numbers."""

from __future__ import annotations

from tests.faults.catalogue.fault import FROM_THE_START, TRAIN, VALUES, Fault

DRAWING = (
    Fault(
        "dropout_frozen",
        "dropout draws the same mask in each call",
        "forward",
        r"call 2 \(\S+\): output",
        victim="dropped",
        zoo=("mlp", "thinned.conv_pool_linear"),
        setting=TRAIN,
        also=VALUES,
    ),
    Fault(
        "dropout_lost",
        "dropout lets everything through",
        "forward",
        FROM_THE_START,
        victim="dropped",
        zoo=("mlp", "thinned.conv_pool_linear"),
        setting=TRAIN,
        also=VALUES,
    ),
    Fault(
        "dropout_not_rescaled",
        "dropout does not scale up what it lets through",
        "forward",
        FROM_THE_START,
        victim="dropped",
        zoo=("mlp", "thinned.conv_pool_linear"),
        setting=TRAIN,
        also=VALUES,
    ),
    Fault(
        "generator_put_back",
        "random numbers are drawn, but the generator stays where it was",
        "side_effects",
        r"random generator",
        victim="dropped",
        zoo=("mlp", "thinned.conv_pool_linear"),
        setting=TRAIN,
        also=("randomness",),
    ),
    Fault(
        "dropout_rate",
        "dropout's own masks drop half as often as they should",
        "randomness",
        r"spread of the outputs between calls is|outputs' mean over calls is",
        victim="dropped",
        zoo=("mlp", "thinned.conv_pool_linear"),
        setting=TRAIN,
    ),
    Fault(
        "dropout_rate_a_fifth_higher",
        "dropout's own masks drop 1.2 times as often as they should",
        "randomness",
        r"spread of the outputs between calls is|outputs' mean over calls is",
        victim="dropped",
        zoo=("mlp", "thinned.conv_pool_linear"),
        setting=TRAIN,
    ),
    Fault(
        "mask_shared_by_rows",
        "dropout's own masks are the same for every row of a batch",
        "randomness",
        r"joint spread of a batch's rows is|calls repeat each other",
        victim="dropped",
        zoo=("mlp", "thinned.conv_pool_linear"),
        setting=TRAIN,
    ),
    Fault(
        "another_mask_in_backward",
        "the backward's own masks are not the forward's",
        "randomness",
        r"backward and forward use different random numbers",
        victim="dropped",
        zoo=("mlp", "thinned.conv_pool_linear"),
        setting=TRAIN,
    ),
)
