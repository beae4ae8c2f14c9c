"""Records with defaults, so that a test names only what it is about."""

from compilegate.records.call import CallFacts, Checked, Difference, TensorError
from compilegate.records.environment import Device, Environment, Inventory
from compilegate.records.observation import (
    Capture,
    Compilation,
    Failure,
    GraphBreak,
    Observation,
    Place,
)
from compilegate.records.pair import Costs, Pair
from compilegate.records.performance import CompileTime, CompileWork, Memory, Timing
from compilegate.records.randomness import Draws, Randomness
from compilegate.records.run import Header
from compilegate.records.verdict import Verdict

CASE_ID = "tiny-cpu-train-f32-default-static"
FLOAT32_NOISE = 1e-7


def make_place(line=10, function="forward", file="net.py", owner="model"):
    return Place(file=file, line=line, function=function, owner=owner)


def make_error(name="output", **changed):
    """A healthy float32 tensor: compiled errs as little as eager does."""
    fields = {
        "dtype": "float32",
        "numel": 1000,
        "scale": 1.0,
        "eager_max": 4 * FLOAT32_NOISE,
        "eager_rms": FLOAT32_NOISE,
        "eager_projection": 0.0,
        "compiled_max": 4 * FLOAT32_NOISE,
        "compiled_rms": FLOAT32_NOISE,
        "compiled_projection": 0.0,
        "worst_index": (3, 1),
        "worst_values": (1.0, 1.5, 1.0),
    }
    return TensorError(name=name, **fields | changed)


def make_difference(where="output[0]", what="stride", eager="(2, 1)", compiled="(1, 4)"):
    return Difference(where=where, what=what, eager=eager, compiled=compiled)


def make_checked(*errors, tensors=None, differences=()):
    return Checked(
        tensors=len(errors) if tensors is None else tensors,
        errors=errors,
        differences=tuple(differences),
    )


def make_call(*, sizes=None, numbers=None, rest="same", **groups):
    """A call whose output, gradient and input are all healthy."""
    healthy = {
        "outputs": make_checked(make_error("output")),
        "gradients": make_checked(make_error("gradient weight")),
        "state": make_checked(tensors=3),
    }
    return CallFacts(sizes=sizes or {}, numbers=numbers or {}, rest=rest, **healthy | groups)


def make_break(reason="Call to `print`", gb_id="GB0001", place=None, broken_at=""):
    return GraphBreak(reason=reason, id=gb_id, place=place or make_place(), broken_at=broken_at)


def make_compilation(call=0, reason="", code=None, **changed):
    fields = {"compile_id": f"0/{call}", "graph": True, "failure": ""}
    return Compilation(code=code or make_place(), call=call, reason=reason, **fields | changed)


def make_capture(**changed):
    return Capture(**{"graphs": 1, "compilations": (make_compilation(),)} | changed)


def make_compile_time(total_s=4.0):
    return CompileTime(
        total_s=total_s, dynamo_s=1.0, aot_s=1.0, inductor_s=1.0, codegen_s=1.0, first_call_s=5.0
    )


def make_timing(speedup=2.0, rounds=30, eager_ns=1e6, spread=0.0):
    """Rounds whose ratio is ``speedup``, up and down by ``spread`` in turn."""
    compiled = [eager_ns / speedup * (1 + spread * (-1) ** i) for i in range(rounds)]
    return Timing(eager_ns=(eager_ns,) * rounds, compiled_ns=tuple(compiled), iterations=1)


def make_costs(eager_ns=2e6, compiled_ns=1e6, **changed):
    fields = {"speedup": eager_ns / compiled_ns, "rounds": 30}
    return Costs(eager_ns=eager_ns, compiled_ns=compiled_ns, **fields | changed)


def make_pair(number=0, case=CASE_ID, eager=1.0, compiled=1.0, **changed):
    """A pair whose candidate takes this multiple of the baseline's time."""
    fields = {"baseline": make_costs(), "candidate": make_costs(2e6 * eager, 1e6 * compiled)}
    return Pair(case=case, number=number, first="baseline", **fields | changed)


def make_memory(eager=100 * 2**20, compiled=100 * 2**20):
    return Memory(eager_peak_bytes=eager, compiled_peak_bytes=compiled)


def make_work(**changed):
    """600,000 Python calls while compiling."""
    fields = {
        "python": "3.11",
        "dynamo": 100_000,
        "aot": 150_000,
        "inductor": 200_000,
        "codegen": 50_000,
        "rest": 100_000,
        "functions": {"torch._inductor.scheduler.Scheduler.fuse_nodes": 10_000},
    }
    return CompileWork(**fields | changed)


def make_randomness(mean_gap=1.0, own_gap=1.0, **compiled):
    """Draws of both sides, alike but for what compiled code is given."""
    fields = {
        "spreads": (0.2, 0.19, 0.21, 0.2, 0.21, 0.19),
        "together": (1.0, 1.1, 0.9, 1.0, 1.1, 0.9),
        "alike": (0.01, 0.011, 0.009, 0.01, 0.011, 0.01),
        "tails": (3.0, 2.9, 3.1, 3.0, 2.9, 3.1),
        "repeats": 0,
        "slope": 1.0,
    }
    sides = Draws(**fields), Draws(**fields | compiled)
    return Randomness(
        calls=24, eager=sides[0], compiled=sides[1], mean_gap=mean_gap, own_gap=own_gap
    )


def make_failure(stage="compile", kind="TorchRuntimeError", message="it broke", **changed):
    return Failure(stage=stage, kind=kind, message=message, **changed)


def make_observation(**changed):
    """A completed case with two healthy calls."""
    fields = {
        "case": CASE_ID,
        "status": "completed",
        "wants": ("capture", "vary"),
        "reference": "float64",
        "calls": (make_call(), make_call()),
        "capture": make_capture(),
        "compile_time": make_compile_time(),
    }
    return Observation(**fields | changed)


def make_failed_observation(status, case=CASE_ID, **failure):
    return make_observation(
        case=case,
        status=status,
        failure=make_failure(**failure),
        calls=(),
        capture=None,
        compile_time=None,
    )


def make_verdict(outcome="passed", case=CASE_ID, aspect="forward", summary="fine", **changed):
    return Verdict(case=case, aspect=aspect, outcome=outcome, summary=summary, **changed)


def make_inventory(**changed):
    """What a CPU-only torch stands on. ``timm`` is decisive, ``pip`` is not."""
    fields = {
        "distributions": {"pip": "25.0", "sympy": "1.14.0", "timm": "1.0.20", "torch": "2.15.0"},
        "torch_needs": ("sympy", "torch"),
        "decisive": ("sympy", "timm", "torch"),
        "libraries": {"oneDNN": "3.7.1", "OpenMP": "libgomp.so.1 d6e0f1bd", "glibc": "2.39"},
        "variables": {"OMP_NUM_THREADS": "4"},
        "configuration": {},
        "machine": {"governor": "performance", "kernel": "6.8"},
    }
    return Inventory(**fields | changed)


def make_environment(**changed):
    fields = {
        "python": "3.12.1",
        "platform": "Linux",
        "versions": {"torch": "2.15.0+cpu"},
        "compiler": "g++ 13",
        "cuda": "",
        "devices": (Device(kind="cpu", name="AMD EPYC 9655", memory_bytes=2**34, cores=2),),
        "inventory": make_inventory(),
    }
    return Environment(**fields | changed)


def make_header(planned=(CASE_ID,), **changed):
    fields = {
        "schema": 1,
        "created": "2026-01-01T00:00:00+00:00",
        "environment": make_environment(),
        "arguments": ("suites/",),
        "revision": "abc",
        "seed": 0,
        "tier": {"cpu": "smoke"},
        "backend": "inductor",
    }
    return Header(planned=tuple(planned), **fields | changed)
