"""Faults of sizes: code that is right at the first size and wrong or recompiled at others."""

from __future__ import annotations

from tests.faults.catalogue.fault import AUTO, DYNAMIC, Fault

SIZES = (
    Fault(
        "size_baked_in",
        "the output is scaled by the ratio of the size to the first call's size",
        "forward",
        r"call \d \(batch=4.*\): output",
        setting=DYNAMIC,
    ),
    Fault(
        "rows_beyond_the_first_size",
        "rows beyond the first call's size are zero",
        "forward",
        r"call [45] \(batch=\d+.*\): output",
        setting=DYNAMIC,
    ),
    Fault(
        "size_specialized",
        "compiling specializes a dynamic size",
        "recompiles",
        r"2 recompilations of one code object, 0 allowed for 'dynamic'",
        setting=DYNAMIC,
    ),
    Fault(
        "automatic_dynamic_lost",
        "each new size is compiled separately",
        "recompiles",
        r"2 recompilations of one code object, 1 allowed for 'auto'",
        setting=AUTO,
    ),
    Fault(
        "limit_hit",
        "the recompile limit is hit at the second size",
        "recompiles",
        r"recompile limit hit",
    ),
    Fault(
        "eager_at_other_sizes",
        "sizes other than the first run eagerly",
        "recompiles",
        r"call \d \(batch=\d+.*eager",
    ),
)
