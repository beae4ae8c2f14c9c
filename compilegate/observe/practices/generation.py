"""Generation: a decoder with a cache of keys and values, compiled, writes texts token by token.

A static cache needs code for the prompt and code for a single token, and no more. A dynamic cache
changes its shape with each token, which Dynamo sees at the second token: code for any length
follows. https://huggingface.co/docs/transformers/llm_optims#static-kv-cache-and-torchcompile
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

import torch

from compilegate.observe.capture import compile_log, compiling
from compilegate.observe.device import device as device_of
from compilegate.observe.measure.rounds import paired_rounds
from compilegate.observe.practices.bench import Bench
from compilegate.observe.practices.eager_texts import EagerTexts
from compilegate.observe.practices.texts import BATCH, FIRST, TOKENS, Kind, Part, Script, Writer
from compilegate.records.performance import Timing
from compilegate.records.practice import Practice, figures_of
from compilegate.records.statistics import paired_speedup

#: The tokens of a prompt, and those of another one: primes, which hardly any model has as number of
#: heads. Attention compares the two, and Dynamo compiles for a length alone that equals it.
_LENGTH, _OTHER_LENGTH = 13, 11
#: Seconds for the rounds that time compiled code against eager, and the tokens of a timed text.
_ROUNDS_S, _TIMED = 3.0, 8


def observe(bench: Bench) -> Practice:
    """Generate with each kind of cache, and with prompt and tokens compiled apart."""
    generation = bench.build().example.generation
    if generation is None:
        return Practice(unavailable="the model's Example does not say how it generates")
    objects = _generate(bench, "static")
    if objects:
        _compile_apart(bench, objects)
    if generation.dynamic is not None:
        _generate(bench, "dynamic")
    return bench.practice()


def _scripts(bench: Bench, *lengths: int) -> list[Script]:
    """Return texts with prompts of these lengths, and padding that differs from text to text."""
    generation, device = bench.build().example.generation, bench.builder.case.device
    assert generation is not None
    return [
        Script.of(generation, device, bench.request.seed + number, length, 5 - 2 * number)
        for number, length in enumerate(lengths)
    ]


def _generate(bench: Bench, kind: Kind) -> int:
    """Write two texts with one compiled module, for prompts and tokens.

    Returns:
        How many code objects the module compiles for a prompt; 0 if it raises.
    """
    compiled = bench.build_compiled()
    scripts = _scripts(bench, _LENGTH, _LENGTH)
    writer = Writer(compiled, kind)
    parts, again = (writer.write(script) for script in scripts)
    with bench.step(f"prompt of {_LENGTH} tokens, {kind} cache") as facts:
        eager = EagerTexts(bench, kind, scripts)
        facts.add(eager.compare(_next(bench, parts), 0, 0))
        facts.require_graph(is_captured=compile_log.graphs() > 0)
    if _has_failed(bench):
        return 0
    objects = compile_log.compilations()
    # The length of a dynamic cache differs for the first time at the second token.
    needed = objects * (1 if kind == "static" else 2)
    with bench.step(f"first {FIRST} tokens, {kind} cache", needed=needed) as facts:
        facts.add(eager.compare(_next(bench, parts), 0, 1))
        facts.require_graph(is_captured=compile_log.compilations() > objects, where="a token")
    if _has_failed(bench):
        return 0
    with bench.step(f"{TOKENS - FIRST} more tokens, {kind} cache", needed=0) as facts:
        facts.add(eager.compare(_next(bench, parts), 0, 2))
    emptied = "after reset()" if kind == "static" else "with another cache"
    with bench.step(f"another text {emptied}, {kind} cache", needed=0) as facts:
        for number in range(3):
            facts.add(eager.compare(_next(bench, again), 1, number))
    if kind == "static" and not any(step.raised for step in bench.steps):
        _time(bench, writer, scripts[0])
    return objects


def _next(bench: Bench, parts: Iterator[Part]) -> Part:
    """Let compiled code write the next part."""
    with bench.progress.spend("compile"):
        return next(parts)


def _has_failed(bench: Bench) -> bool:
    return bool(bench.steps[-1].raised or bench.steps[-1].unavailable)


def _time(bench: Bench, compiled: Writer, script: Script) -> None:
    """Time a prompt and a few tokens in paired rounds; above 1, compiled code is faster."""
    eager = Writer(bench.build(), "static")
    with bench.progress.alone(), bench.progress.spend("run"):
        timing = paired_rounds(
            lambda: eager.write_at_once(script, _TIMED),
            lambda: compiled.write_at_once(script, _TIMED),
            device=device_of(bench.builder.case.device),
            seed=bench.request.seed,
            threshold=0.0,  # the fewest rounds: the interval says how much they show
            budget_s=min(_ROUNDS_S, bench.request.timing_budget_s),
            beat=bench.progress.beat,
            shares_gpu=bench.request.shares_gpu,
        )
    bench.figures |= speeds(timing)


def speeds(timing: Timing) -> dict[str, float]:
    """Return the figures of paired rounds: tokens a second of both sides, and their ratio.

    The pairs are the one source. On a busy machine the quickest round of each side, or even the
    median, may say the opposite of the pairs, so compiled code's speed is eager's times the ratio.
    """
    seen = paired_speedup(timing.eager_ns, timing.compiled_ns)
    eager = 1e9 * BATCH * _TIMED / statistics.median(timing.eager_ns)
    return {
        "eager_tokens_per_s": eager,
        "compiled_tokens_per_s": eager * seen.value,
        **figures_of("generation", seen),
        "generation_busy_share": timing.busy,
    }


def _compile_apart(bench: Bench, objects: int) -> None:
    """Compile prompts of any length and single tokens as two functions.

    Args:
        bench: The bench.
        objects: How many code objects the module compiles for a prompt.
    """
    bench.forget_compiled()
    compiled = bench.build()
    module, options = compiled.module, compiling.options(compiled.case, bench.request.backend)

    def prefill(*args: Any, **kwargs: Any) -> Any:
        return module(*args, **kwargs)

    def decode(*args: Any, **kwargs: Any) -> Any:
        return module(*args, **kwargs)

    writer = Writer(
        compiled,
        "static",
        prefill=torch.compile(prefill, **{**options, "dynamic": True}),
        decode=torch.compile(decode, **options),
    )
    scripts = _scripts(bench, _LENGTH, _OTHER_LENGTH)
    steps = (
        ("prompt and tokens compiled apart", 2 * objects),
        (f"prompt of {_OTHER_LENGTH} tokens, compiled apart", 0),
    )
    eager: EagerTexts | None = None
    for text, (name, needed) in enumerate(steps):
        with bench.step(name, needed=needed) as facts:
            eager = eager or EagerTexts(bench, "static", scripts)
            parts = writer.write(scripts[text])
            for number in range(3):
                facts.add(eager.compare(_next(bench, parts), text, number))
        if _has_failed(bench):
            break
