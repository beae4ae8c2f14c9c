"""Faults of capture and of cost: what PyTorch compiles, how often, and what a call takes."""

from __future__ import annotations

from tests.faults.catalogue.fault import DYNAMIC, Fault

CAPTURE = (
    Fault(
        "nothing_compiled",
        "torch.compile does nothing",
        "forward",
        r"nothing was compiled, all of it ran eagerly",
    ),
    Fault(
        "backend_error_suppressed",
        "the backend fails, and its error is suppressed",
        "forward",
        r"nothing was compiled, all of it ran eagerly",
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
        "Inductor compiles only the graph of the first size, and returns other graphs unchanged",
        "graph_breaks",
        r"Inductor generated no code for the graph of call [34] \(batch=\d+\)",
        victim="residual",  # of width 16: on a GPU, Inductor pads a width of 7
        inductor=True,
    ),
    Fault(
        "compiled_at_each_call",
        "each call compiles again",
        "recompiles",
        r"\d recompilations? of one code object, 0 allowed for 'dynamic'",
        setting=DYNAMIC,
    ),
)

#: The measured cost of the sound twin gives the thresholds for these.
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
        "a call keeps memory for all its intermediate results until it returns",
        "memory",
        r"peak [\d.]+ MiB, eager [\d.]+ MiB \([\d.]+×\).*, at most [\d.]+× allowed",
        victim="deep",
        zoo=("transformer_encoder", "test_vit"),
        also=("speedup",),
    ),
    Fault(
        "results_kept",
        "each call keeps a copy of its results forever",
        "memory",
        r"each call leaves [\d,]+ KiB more allocated than eager; peak [\d.]+ MiB",
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
