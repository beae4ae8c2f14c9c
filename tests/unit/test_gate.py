"""The gate: which markers a case must carry, before anything is collected."""

import dataclasses

import pytest

from compilegate.records.case import Case
from compilegate.records.environment import Device
from compilegate.runs.files import RunError, Writer, read
from compilegate.session.markers import could_select, selects
from compilegate.session.options import Options
from compilegate.session.plan import Gate
from compilegate.session.planning import open_gate
from compilegate.session.workers import Share
from compilegate.zoo.registry import Model
from tests.unit.making import (
    make_environment,
    make_failure,
    make_header,
    make_memory,
    make_observation,
    make_timing,
)

CPU = Case.parse("tiny-cpu-infer-f32-default-static")
GPU = Case.parse("tiny-cuda-infer-f32-default-static")


@pytest.mark.parametrize(
    ("expression", "cpu", "slow_cpu", "gpu", "slow_gpu"),
    [
        ("", True, True, True, True),
        ("cpu", True, True, False, False),
        ("gpu", False, False, True, True),
        ("not gpu", True, True, False, False),
        ("cpu or gpu", True, True, True, True),
        ("cpu and gpu", False, False, False, False),
        ("gpu and not slow", False, False, True, False),
        ("slow", False, True, False, True),
        ("not (slow or gpu)", True, False, False, False),
        # Markers that a test may have: a case could be selected with or without them.
        ("aspect", True, True, True, True),
        ("not aspect", True, True, True, True),
        ("cpu and aspect", True, True, False, False),
        ("cpu and not mine", True, True, False, False),
        ("mine or gpu", True, True, True, True),
    ],
)
def test_markers_could_select(expression, cpu, slow_cpu, gpu, slow_gpu):
    seen = [
        could_select(expression, marks)
        for marks in (("cpu",), ("cpu", "slow"), ("gpu",), ("gpu", "slow"))
    ]
    assert seen == [cpu, slow_cpu, gpu, slow_gpu]


def test_markers_with_arguments_are_the_tests_own():
    assert could_select('cpu and aspect(phase="train")', ("cpu",))
    assert not could_select('gpu and aspect(phase="train")', ("cpu",))


def test_two_markers_of_a_test_may_be_answered_apart():
    """``mine and not yours`` holds for a test that carries one of the two."""
    assert could_select("cpu and mine and not yours", ("cpu",))


@pytest.mark.parametrize(
    ("expression", "names", "selected"),
    [
        ("", set(), True),
        ("cpu", {"cpu", "aspect"}, True),
        ("cpu", {"gpu"}, False),
        ("cpu and aspect", {"cpu", "aspect"}, True),
        ("cpu and aspect", {"cpu"}, False),
        ("not slow", {"cpu", "slow"}, False),
        ("gpu and not slow", {"gpu"}, True),
        ("(gpu or cpu) and slow", {"cpu", "slow"}, True),
    ],
)
def test_names_of_markers_are_selected(expression, names, selected):
    assert selects(expression)(names) is selected


@pytest.mark.parametrize("expression", ["cpu and", "(cpu", "cpu gpu"])
@pytest.mark.parametrize("function", [lambda e: could_select(e, ("cpu",)), selects])
def test_a_malformed_expression_is_pytests_own_error(expression, function):
    with pytest.raises(SyntaxError):
        function(expression)


# The plan. Nothing here starts a child.


@pytest.fixture
def options(tmp_path):
    return Options(
        tier=None,
        models=(),
        cases=(),
        zoo=(),
        budgets=(),
        seed=0,
        backend="inductor",
        tf32=False,
        case_timeout=None,
        save=None,
        resume=None,
        replay=None,
        runs=tmp_path,
        markers="",
        filtered=False,
        arguments=(),
    )


class Observer:
    timing = make_timing()

    def observe(self, request, **_):
        self.asked = request.wants
        return make_observation(case=request.case, wants=request.wants, timing=self.timing)


@pytest.fixture
def gate(options):
    return Gate(
        options=options,
        models={"tiny": Model("tiny", "tiny"), "large": Model("large", "tiny", slow=True)},
        tier={"cpu": "smoke", "cuda": "standard"},
        cases=[CPU, GPU],
        budgets=None,
        observer=Observer(),
        environment=make_environment(),
    )


@pytest.mark.parametrize(
    ("carrier", "marks"),
    [
        (CPU, ("cpu",)),
        (GPU, ("gpu",)),
        (dataclasses.replace(CPU, model="large"), ("cpu", "slow")),
        (dataclasses.replace(CPU, mode="max_autotune"), ("cpu", "slow")),
        (dataclasses.replace(CPU, model="gone"), ("cpu",)),
    ],
)
def test_a_case_carries_its_device_and_whether_it_is_slow(gate, carrier, marks):
    assert gate.marks(carrier) == marks


def test_wants_are_the_union_in_the_order_of_observing(gate):
    gate.want({CPU.id: ["vary", "time", "capture", "vary"]})
    assert gate.wants == {CPU.id: ("capture", "time", "vary")}


def test_a_device_that_is_absent_is_said_to_be(gate):
    assert gate.lacks(CPU) == ""
    assert gate.lacks(GPU) == "no GPU that torch 2.15.0+cpu can use on this machine"
    gate.environment = None
    assert gate.lacks(GPU) == ""


def test_a_mixed_selection_runs_what_it_can(gate):
    gate.check_devices([CPU, GPU])
    gate.check_devices([])


def test_a_selection_of_which_nothing_can_run_is_refused(gate):
    with pytest.raises(pytest.UsageError, match=r"no GPU .*every selected case needs one; -m cpu"):
        gate.check_devices([GPU])


def test_a_selection_that_has_its_device_is_not_refused(gate):
    gpu = Device(kind="cuda", name="NVIDIA H200", memory_bytes=1)
    gate.environment = make_environment(devices=(gpu,))
    gate.check_devices([GPU])
    assert gate.hardware("cuda") == "NVIDIA H200"
    assert gate.hardware("cpu") == ""


def test_a_case_is_observed_once(gate, monkeypatch):
    monkeypatch.setattr(Gate, "budget", lambda self, case: type("B", (), {"min_speedup": None}))
    gate.want({CPU.id: ["capture"]})
    made, new = gate.observe(CPU)
    assert new
    assert made.wants == ("capture",)
    again, new = gate.observe(CPU)
    assert not new
    assert again is made


# Opening it: whatever is wrong with the options is one sentence.


def write_run(path, *records):
    writer = Writer(path)
    for record in records:
        writer.write(record)
    writer.close()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tier": "smok"}, "unknown tier 'smok'; did you mean 'smoke'"),
        ({"replay": "a", "resume": "a"}, "--replay and --resume exclude each other"),
        ({"save": "a", "resume": "a"}, "--save and --resume exclude each other"),
        ({"replay": "a", "baseline_python": "python"}, "--replay and --baseline-python exclude"),
        ({"pairs": 2}, "--pairs 2: at least 3 are needed to judge"),
        ({"resume": "paired"}, "held against another PyTorch; name that one again with --base"),
        ({"resume": "there", "baseline_python": "python"}, "it began without; start a new run"),
        ({"save": "there"}, "--save there: .* exists; .*--resume there"),
        ({"case_timeout": 0.0}, "--case-timeout 0: expected seconds above 0"),
        ({"case_timeout": -2.5}, "--case-timeout -2.5: expected seconds above 0"),
        ({"zoo": ("nowhere.py",)}, "no zoo file nowhere.py"),
        ({"budgets": ("nowhere.toml",)}, "cannot read the budgets file nowhere.toml"),
        ({"models": ("resnet81",)}, "did you mean 'resnet18'"),
        ({"cases": ("resnet81-cpu-infer-f32-default-static",)}, "did you mean 'resnet18'"),
        ({"replay": "ther"}, "no run 'ther' in .*did you mean 'there'"),
        ({"resume": "zzz"}, "no run 'zzz' in .*known: "),
        ({"replay": "empty"}, "empty.jsonl holds no observation: there is nothing to judge"),
        ({"markers": "cpu and"}, "cpu and"),
    ],
)
def test_wrong_options_are_one_sentence(options, changed, message):
    write_run(options.runs / "there.jsonl", make_header(), make_observation())
    write_run(options.runs / "empty.jsonl", make_header())
    write_run(options.runs / "paired.jsonl", make_header(baseline="paired.baseline"))
    options = dataclasses.replace(options, **changed)
    with pytest.raises(pytest.UsageError, match=message):
        open_gate(options, needs_environment=False)


def test_markers_prune_cases_before_they_are_made(options):
    options = dataclasses.replace(options, models=("resnet18",), markers="cpu", tier="full")
    gate = open_gate(options, needs_environment=False)
    assert gate.tier == {"cpu": "full"}
    assert gate.cases
    assert {(case.model, case.device) for case in gate.cases} == {("resnet18", "cpu")}


def test_a_stored_run_gives_its_cases_environment_and_observations(options):
    write_run(options.runs / "there.jsonl", make_header(planned=(CPU.id, GPU.id)),
              made := make_observation(case=CPU.id, cold=True, wants=("capture",)))  # fmt: skip
    gate = open_gate(dataclasses.replace(options, replay="there"), needs_environment=False)
    assert gate.cases == [CPU]
    assert gate.environment == make_environment()
    assert gate.is_cold(CPU)
    gate.want({CPU.id: ["capture", "time"]})
    assert gate.observe(CPU) == (made, False)


def test_a_resumed_run_keeps_its_seed_backend_rounding_and_plan(options):
    header = make_header(planned=(CPU.id, GPU.id), seed=7, backend="aot_eager", tf32=True)
    write_run(options.runs / "there.jsonl", header, made := make_observation(case=CPU.id))
    gate = open_gate(
        dataclasses.replace(options, resume="there"),
        needs_environment=False,
        known_models=[{"name": "tiny", "family": "tiny"}],
        known_environment=make_environment(),
    )
    assert gate.cases == [CPU, GPU]
    kept = gate.options
    assert (kept.seed, kept.backend, kept.tf32) == (7, "aot_eager", True)
    gate.want({CPU.id: ["capture"]})
    assert gate.observe(CPU) == (made, False)


def test_a_run_of_another_environment_is_not_resumed(options):
    write_run(options.runs / "there.jsonl", make_header(planned=(CPU.id,)))
    with pytest.raises(
        pytest.UsageError, match=r"made in another environment \(python 3.12.1 → 3.13.0\)"
    ):
        open_gate(
            dataclasses.replace(options, resume="there"),
            needs_environment=False,
            known_models=[{"name": "tiny", "family": "tiny"}],
            known_environment=make_environment(python="3.13.0"),
        )


H200 = Device(kind="cuda", name="H200", memory_bytes=2**37, cores=132, driver="580")
XEON = Device(kind="cpu", name="Xeon", memory_bytes=2**38, cores=32)


@pytest.mark.parametrize(
    ("changed", "refused"),
    [
        ({"devices": (dataclasses.replace(XEON, memory_bytes=2**37), H200)}, ""),
        ({"platform": "Linux-6.18"}, ""),
        ({"cuda": "12.8"}, r"\(CUDA 13.0 → 12.8\)"),
        ({"devices": (XEON,)}, r"\(cuda H200 → none; .*cuda driver 580 → none\)"),
        (
            {"devices": (dataclasses.replace(XEON, cores=16), H200)},
            r"\(cpu cores 32 → 16\)",
        ),
        (
            {"devices": (XEON, dataclasses.replace(H200, name="H100"))},
            r"\(cuda H200 → H100\)",
        ),
    ],
)
def test_a_run_goes_on_on_machines_of_the_same_kind(options, changed, refused):
    """One GPU of two, another kernel, memory of another size."""
    began = make_environment(devices=(XEON, H200, H200), platform="Linux-6.8", cuda="13.0")
    write_run(options.runs / "there.jsonl", make_header(planned=(GPU.id,), environment=began))

    def go_on():
        return open_gate(
            dataclasses.replace(options, resume="there", markers="gpu"),
            needs_environment=False,
            known_models=[{"name": "tiny", "family": "tiny"}],
            known_environment=dataclasses.replace(began, **changed),
        )

    if refused:
        with pytest.raises(pytest.UsageError, match=refused):
            go_on()
    else:
        assert go_on().cases == [GPU]


def test_what_an_observation_lacks_is_observed_and_what_it_measured_stays(
    gate, monkeypatch, tmp_path
):
    monkeypatch.setattr(Gate, "budget", lambda self, case: type("B", (), {"min_speedup": None}))
    there = make_observation(case=CPU.id, wants=("memory", "vary"), memory=make_memory())
    write_run(tmp_path / "a.jsonl", make_header(), there)
    gate.stored = read(tmp_path / "a.jsonl")
    gate.want({CPU.id: ["capture", "time"]})
    made, new = gate.observe(CPU)
    assert new
    assert made.wants == ("capture", "time", "memory", "vary")
    assert gate.observer.asked == ("capture", "time", "vary")
    assert (made.memory, made.timing) == (there.memory, gate.observer.timing)


def test_of_an_observation_that_failed_everything_is_observed_anew(gate, monkeypatch, tmp_path):
    monkeypatch.setattr(Gate, "budget", lambda self, case: type("B", (), {"min_speedup": None}))
    there = make_observation(
        case=CPU.id, status="timed_out", failure=make_failure(), wants=("memory", "vary")
    )
    write_run(tmp_path / "a.jsonl", make_header(), there)
    gate.stored = read(tmp_path / "a.jsonl")
    gate.want({CPU.id: ["capture", "time"]})
    assert gate.observe(CPU)[0].wants == ("capture", "time", "memory", "vary")
    assert gate.observer.asked == ("capture", "time", "memory", "vary")


@pytest.mark.parametrize(("shares", "of_the_gpu"), [(True, True), (False, False)])
def test_a_child_is_told_whether_others_use_its_gpu(gate, monkeypatch, shares, of_the_gpu):
    monkeypatch.setattr(Gate, "budget", lambda self, case: type("B", (), {"min_speedup": None}))
    gate.share = Share(2, "0", shares_gpu=shares)
    assert gate.ask(GPU).request.shares_gpu is of_the_gpu
    assert not gate.ask(CPU).request.shares_gpu


def test_a_closed_gate_reads_no_baseline_any_more(options):
    write_run(options.runs / "there.jsonl", make_header(), make_observation())
    options = dataclasses.replace(options, baseline_run="there", models=("resnet18",))
    gate = open_gate(options, needs_environment=False)
    case = Case.parse(make_observation().case)
    assert gate.before.seen(case).digest is not None
    gate.close()
    with pytest.raises((ValueError, RunError)):
        gate.before.seen(case)
