"""Faults of capturing and of cost: what is compiled, how often, and what that takes."""

from __future__ import annotations

from tests.faults.catalogue.fault import DYNAMIC, Fault

CAPTURE = (
    Fault(
        "nothing_compiled",
        "torch.compile does nothing",
        "graph_breaks",
        r"nothing was compiled: all of it ran eagerly",
        also=("forward", "gradients", "side_effects", "recompiles", "randomness"),
    ),
    Fault(
        "eager_without_a_word",
        "the backend fails, and its error is suppressed",
        "graph_breaks",
        r"nothing was compiled: all of it ran eagerly",
        also=("forward", "gradients", "side_effects", "recompiles", "randomness"),
    ),
    Fault(
        "graph_broken",
        "the graph breaks at attention",
        "graph_breaks",
        r"graph breaks? not budgeted",
        victim="attending",
        zoo=("attention", "gpt2"),
    ),
    Fault(
        "other_graphs_left_as_they_are",
        "Inductor compiles the first size only, and gives other graphs back as they are",
        "graph_breaks",
        r"Inductor made no code of the graph of call [34] \(batch=\d+\)",
        victim="residual",  # sixteen wide: on a GPU Inductor pads what is seven wide
        inductor=True,
    ),
    Fault(
        "compiled_at_each_call",
        "each call is compiled anew",
        "recompiles",
        r"\d recompilations of one code object, 0 allowed for 'dynamic'",
        setting=DYNAMIC,
    ),
)

#: Judged against what the sound twin was measured to cost.
COSTS = (
    Fault(
        "slower_by_a_third",
        "a call takes a third longer",
        "speedup",
        r"[\d.]+× \[[\d.]+, [\d.]+\] over \d+ rounds, at least [\d.]+× wanted",
        victim="deep",
        zoo=("transformer_encoder", "test_vit"),
    ),
    Fault(
        "twice_as_slow",
        "a call takes twice as long",
        "speedup",
        r"[\d.]+× \[[\d.]+, [\d.]+\] over \d+ rounds, at least [\d.]+× wanted",
        victim="deep",
        zoo=("transformer_encoder", "test_vit"),
        also=("memory",),
    ),
    Fault(
        "nothing_freed",
        "a call keeps room for all its results till its end",
        "memory",
        r"peak [\d.]+ MiB, eager [\d.]+ MiB \([\d.]+×\).*, at most [\d.]+× allowed",
        victim="deep",
        zoo=("transformer_encoder", "test_vit"),
        also=("speedup",),
    ),
    Fault(
        "results_kept",
        "a call keeps a copy of its results for good",
        "memory",
        r"each call leaves [\d,]+ KiB more allocated than eager's; peak [\d.]+ MiB",
        victim="deep",
        zoo=("transformer_encoder", "test_vit"),
        also=("speedup",),
    ),
    Fault(
        "compiles_longer",
        "compiling takes ten seconds longer",
        "compile_time",
        r"[1-9]\d+\.\d s \(dynamo .*\), at most [\d.]+ s allowed",
        victim="matvec",
        zoo=("matvec", "test_vit"),
        shipped=True,
    ),
)
