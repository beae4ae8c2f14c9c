"""A small run with everything in it, and strategies that damage run files."""

import json
from dataclasses import replace

from hypothesis import strategies as st

from compilegate.records.checksum import seal
from compilegate.records.environment import Device
from compilegate.records.performance import Condition, Energy
from compilegate.records.run import SCHEMA, Closing, encode
from tests.unit.making import (
    make_break,
    make_call,
    make_capture,
    make_compilation,
    make_environment,
    make_header,
    make_memory,
    make_observation,
    make_pair,
    make_randomness,
    make_timing,
    make_verdict,
    make_work,
)

CASES = ("tiny-cpu-train-f32-default-static", "net-cuda-infer-bf16-reduce_overhead-dynamic")
GPU = Device(kind="cuda", name="H200", memory_bytes=2**37, capability="9.0", driver="580")


def observed(case):
    """A case of which everything was measured."""
    condition = Condition(sm_mhz=1000, temperature_c=50, power_w=100.0)
    timing = replace(
        make_timing(rounds=8),
        eager_kernels_ns=5e5,
        compiled_kernels_ns=3e5,
        conditions=(condition,),
        empty_call_ns=1e4,
        items=8,
    )
    compilations = (make_compilation(), make_compilation(1, reason="x == 8"))
    return make_observation(
        case=case,
        wants=("capture", "time", "memory", "energy", "vary", "random", "start", "compile_work"),
        calls=(make_call(sizes={"batch": 8}, numbers={"x": 8.0}), make_call(sizes={"batch": 4})),
        capture=make_capture(breaks=(make_break(),), compilations=compilations),
        timing=timing,
        memory=make_memory(),
        energy=Energy(eager_j=1.0, compiled_j=0.5),
        randomness=make_randomness(),
        compile_work=make_work(),
        spent_s={"compile": 1.0},
        cold=True,
        draws=True,
    )


def whole_run(torch, *, created="2026-01-01T00:00:00+00:00", baseline=""):
    """The sealed lines of a run under a version of torch, the pairs of a suspect included."""
    devices = (*make_environment().devices, GPU)
    environment = make_environment(versions={"torch": torch}, devices=devices)
    header = make_header(
        CASES,
        schema=SCHEMA,
        created=created,
        environment=environment,
        tier={"cpu": "full", "cuda": "full"},
        baseline=baseline,
    )
    records = [header]
    for case in CASES:
        records.append(observed(case))
        records += [make_verdict(case=case, aspect=aspect) for aspect in ("forward", "speedup")]
        records += [make_pair(number, case, compiled=1.1) for number in range(3)]
    return [seal(encode(record)) for record in (*records, Closing(cases=2, wall_s=3.0))]


def content(lines):
    """The bytes of a file of these lines."""
    return "".join(f"{line}\n" for line in lines).encode()


#: Values of the right and of the wrong types, and texts that some field means something by.
ODD = st.sampled_from(
    [
        *(0, -1, 1, 2, 0.5, 1e308, 5e-324, -1e308, 2**62, 10**30, None, True),
        *("NaN", "Infinity", "-Infinity", "", "x", "\ud800", "\0", "a\nb\x1b[2J", "1", "cuda"),
        *([], {}, [0], [[]], ["x"], {"a": 1}, {"a": "x"}, {"": {}}, [1.0] * 3, ["", ""]),
        *("raised", "crashed", "unavailable", "timed_out", "out_of_memory", "completed", "events"),
        *(
            "failed",
            "skipped",
            "inconclusive",
            "baseline",
            "start",
            "compile",
            "float64",
            "upgrade",
        ),
        "net-cpu-infer-f32-default-static",
        "net-tpu-infer-f8-default-static",
    ]
)
JUNK = st.sampled_from(
    [b"", b" ", b"\0" * 64, b"[]", b"{}", b"3", b"\xff\xfe", b"null", b'{"record":"closing"}']
) | st.binary(max_size=40)


def paths(value, path=()):
    """Every place in a record."""
    yield path
    items = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    for key, item in items:
        yield from paths(item, (*path, key))


def put(value, path, new):
    """A record with another value in one place, or without it."""
    if not path:
        return new
    items = dict(value) if isinstance(value, dict) else dict(enumerate(value))
    items[path[0]] = put(items[path[0]], path[1:], new)
    if len(path) == 1 and new is st.nothing:
        del items[path[0]]
    return items if isinstance(value, dict) else list(items.values())


@st.composite
def flipped(draw, lines):
    """Some bits of some bytes are others."""
    damaged = bytearray(content(lines))
    for _ in range(draw(st.integers(1, 3))):
        damaged[draw(st.integers(0, len(damaged) - 1))] ^= draw(st.integers(1, 255))
    return bytes(damaged)


@st.composite
def cut(draw, lines):
    """The end is missing, or a piece in the middle."""
    whole = content(lines)
    begin, end = sorted(draw(st.tuples(*[st.integers(0, len(whole))] * 2)))
    return whole[:begin] + draw(st.sampled_from([b"", whole[end:]]))


@st.composite
def reordered(draw, lines):
    """Lines are missing, twice there, in another order, or followed by junk."""
    chosen = draw(st.lists(st.sampled_from(lines), max_size=2 * len(lines)))
    kept = draw(st.sampled_from([lines[:1], lines]))
    at = draw(st.integers(0, len(kept)))
    whole = [line.encode() for line in (*kept[:at], *chosen, *kept[at:])]
    for junk in draw(st.lists(JUNK, max_size=2)):
        whole.insert(draw(st.integers(0, len(whole))), junk)
    return b"".join(line + b"\n" for line in whole)


@st.composite
def changed(draw, lines):
    """One value is of another type or size, missing, nested, huge, or there twice.

    The line then has its right checksum, or none in a file of an earlier version.
    """
    number = draw(st.integers(0, len(lines) - 1))
    record = json.loads(lines[number])
    record.pop("crc32", None)
    path = draw(st.sampled_from([*paths(record)][1:]))
    how = draw(st.sampled_from(["value", "missing", "nested", "huge", "twice"]))
    new = st.nothing if how == "missing" else "MARK" if how != "value" else draw(ODD)
    line = json.dumps(put(record, path, new), separators=(",", ":"))
    if how == "nested":
        depth = draw(st.sampled_from([3, 500, 100_000]))
        line = line.replace('"MARK"', "[" * depth + "]" * depth)
    elif how == "huge":
        line = line.replace("MARK", draw(st.sampled_from(["9", "x", "\\n"])) * 2**18)
    elif how == "twice":
        line = line[:-1] + ',"record":"verdict","case":"x"}'
    damaged = [*lines]
    damaged[number] = seal(line)
    if draw(st.booleans()):
        return content(map(unsealed, damaged)).replace(b'"schema":%d' % SCHEMA, b'"schema":1')
    return content(damaged)


def unsealed(line):
    """A line as an earlier version wrote it."""
    return line.partition(',"crc32":"')[0].removesuffix("}") + "}"


def damaged(lines):
    """A run file with one kind of damage."""
    return st.one_of(kind(lines) for kind in (flipped, cut, reordered, changed))
