"""Faults of sizes: right at the first, wrong, uncompiled or compiled too often at others."""

from __future__ import annotations

from tests.faults.catalogue.fault import AUTO, DYNAMIC, Fault

SIZES = (
    Fault(
        "size_baked_in",
        "a mean divides by the first call's size",
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
        "a dynamic size is specialized while it is compiled",
        "recompiles",
        r"2 recompilations of one code object, 0 allowed for 'dynamic'",
        setting=DYNAMIC,
    ),
    Fault(
        "automatic_dynamic_lost",
        "sizes that vary are compiled one by one",
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
        r"call \d \(batch=4.*eager",
    ),
)
