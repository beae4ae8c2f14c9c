"""Making the plan: every mistake is one sentence, and a stored run decides what is observed."""

import dataclasses
import datetime
import os

import pytest

from compilegate.records.case import Case
from compilegate.records.environment import Device
from compilegate.runs.reader import RunError
from compilegate.runs.writer import Writer
from compilegate.session.planning import make_plan
from compilegate.session.run_files import RunFiles
from compilegate.session.workers import Known
from tests.unit.making import make_environment, make_header, make_inventory, make_observation
from tests.unit.planned import CPU, GPU, make_options, write_run

TINY = Known([{"name": "tiny", "family": "tiny"}], make_environment())


@pytest.fixture
def options(tmp_path):
    return make_options(tmp_path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tier": "smok"}, "unknown tier 'smok'; did you mean 'smoke'"),
        ({"replay": "a", "resume": "a"}, "--replay and --resume exclude each other"),
        ({"save": "a", "resume": "a"}, "--save and --resume exclude each other"),
        ({"replay": "a", "baseline_python": "python"}, "--replay and --baseline-python exclude"),
        ({"pairs": 2}, "--pairs 2: at least 3 are needed to judge"),
        ({"resume": "paired"}, "compared with another PyTorch; name its interpreter again with"),
        ({"resume": "there", "baseline_python": "python"}, "began without it; start a new run"),
        ({"save": "there"}, "--save there: .* exists; .*--resume there"),
        ({"save": "nothing"}, "nothing.jsonl exists and is empty; choose another .* remove it$"),
        ({"shard": "3/2"}, "--shard 3/2: expected I/N"),
        ({"shard": "1/2", "resume": "there"}, "--shard selects cases of a new run"),
        ({"shard_by": "there"}, "name one with --shard I/N"),
        ({"shard": "1/2", "shard_by": "ther"}, "no run 'ther' in .*did you mean 'there'"),
        ({"case_timeout": 0.0}, "--case-timeout 0: expected seconds above 0"),
        ({"case_timeout": -2.5}, "--case-timeout -2.5: expected seconds above 0"),
        ({"zoo": ("nowhere.py",)}, "no zoo file nowhere.py"),
        ({"zoo": ("..",)}, "the zoo .. is a folder: name the Python file in it"),
        ({"budgets": ("nowhere.toml",)}, "cannot read the budgets file nowhere.toml"),
        ({"models": ("resnet81",)}, "did you mean 'resnet18'"),
        ({"cases": ("resnet81-cpu-infer-f32-default-static",)}, "did you mean 'resnet18'"),
        ({"replay": "ther"}, "no run 'ther' in .*did you mean 'there'"),
        ({"resume": "zzz"}, "no run 'zzz' in .*known: "),
        (
            {"replay": "there", "seed": 7, "explicit": ("seed",)},
            "cannot replay .*there.jsonl with --seed 7: the run began with --seed 0",
        ),
        (
            {"replay": "there", "backend": "eager", "explicit": ("backend",)},
            "with --backend eager: the run began with --backend inductor; leave the option out",
        ),
        ({"models": ("zzz*",)}, r"unknown model 'zzz\*'; known: .*, … \(\d+ in all\)"),
        ({"save": "a/b"}, "expected a name, not a path; the ini setting runs_dir names the folder"),
        (
            {"replay": "empty"},
            "empty.jsonl holds no observation: .*; --resume empty observes its 1 planned case$",
        ),
        ({"markers": "cpu and"}, "cpu and"),
    ],
)
def test_a_wrong_option_is_refused_in_one_sentence(options, changed, message):
    write_run(options.runs / "there.jsonl", make_header(), make_observation())
    write_run(options.runs / "empty.jsonl", make_header())
    (options.runs / "nothing.jsonl").touch()
    write_run(options.runs / "paired.jsonl", make_header(baseline="paired.baseline"))
    options = dataclasses.replace(options, **changed)
    with pytest.raises(pytest.UsageError, match=message):
        make_plan(options, needs_environment=False)


def test_markers_select_among_the_cases(options):
    options = dataclasses.replace(options, models=("resnet18",), markers="cpu", tier="full")
    plan = make_plan(options, needs_environment=False)
    assert plan.tier == {"cpu": "full"}
    assert plan.cases
    assert {(case.model, case.device) for case in plan.cases} == {("resnet18", "cpu")}


def test_a_replay_takes_cases_and_environment_from_the_run(options):
    made = make_observation(case=CPU.id, cold=True, wants=("capture",))
    write_run(options.runs / "there.jsonl", make_header(planned=(CPU.id, GPU.id)), made)
    plan = make_plan(dataclasses.replace(options, replay="there"), needs_environment=False)
    assert (plan.cases, plan.unobserved) == ([CPU], [GPU.id])
    assert plan.environment == make_environment()
    assert plan.is_cold(CPU)


def write_begun(options):
    header = make_header(planned=(CPU.id, GPU.id), seed=7, backend="aot_eager", tf32=True)
    write_run(options.runs / "there.jsonl", header, make_observation(case=CPU.id))


def resume(options, writes=False, **changed):
    options = dataclasses.replace(options, resume="there", **changed)
    return make_plan(options, needs_environment=False, writes=writes, known=TINY)


@pytest.mark.parametrize(
    "given", [{}, {"seed": 7, "tf32": True, "explicit": ("seed", "tf32")}], ids=["none", "same"]
)
def test_a_resumed_run_keeps_its_seed_backend_rounding_and_cases(options, given):
    write_begun(options)
    plan = resume(options, **given)
    assert plan.cases == [CPU, GPU]
    kept = plan.options
    assert (kept.seed, kept.backend, kept.tf32) == (7, "aot_eager", True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"seed": 0, "explicit": ("seed",)}, "with --seed 0: the run began with --seed 7; leave"),
        (
            {"backend": "inductor", "explicit": ("backend",)},
            "with --backend inductor: the run began with --backend aot_eager; leave the option out",
        ),
    ],
)
def test_a_run_is_not_resumed_with_another_option(options, given, message):
    write_begun(options)
    with pytest.raises(pytest.UsageError, match=message):
        resume(options, **given)


def test_a_run_is_not_resumed_with_tf32_if_it_began_without(options):
    write_run(options.runs / "there.jsonl", make_header(planned=(CPU.id,)))
    with pytest.raises(pytest.UsageError, match="with --tf32: the run began without it; leave"):
        resume(options, tf32=True, explicit=("tf32",))


def test_a_run_of_another_environment_is_not_resumed(options):
    write_run(options.runs / "there.jsonl", make_header(planned=(CPU.id,)))
    with pytest.raises(
        pytest.UsageError, match=r"began in another environment \(python 3.12.1 → 3.13.0\)"
    ):
        make_plan(
            dataclasses.replace(options, resume="there"),
            needs_environment=False,
            known=dataclasses.replace(TINY, environment=make_environment(python="3.13.0")),
        )


def test_a_run_is_not_resumed_with_another_variable(options):
    write_run(options.runs / "there.jsonl", make_header(planned=(CPU.id,)))
    other = make_environment(inventory=make_inventory(variables={"OMP_NUM_THREADS": "8"}))
    with pytest.raises(
        pytest.UsageError, match=r"began in another environment \(OMP_NUM_THREADS 4 → 8\); start"
    ):
        make_plan(
            dataclasses.replace(options, resume="there"),
            needs_environment=False,
            known=dataclasses.replace(TINY, environment=other),
        )


def test_a_run_that_is_being_written_is_not_resumed(options):
    write_begun(options)
    other = Writer.resume(options.runs / "there.jsonl")
    with pytest.raises(pytest.UsageError, match=rf"process {os.getpid()} is writing it; wait"):
        resume(options, writes=True)
    other.close()
    plan = resume(options, writes=True)
    assert plan.run_files.candidate.path == other.path
    plan.close()


def test_a_refused_session_leaves_no_file_and_no_lock(options):
    write_begun(options)
    with pytest.raises(pytest.UsageError, match="with --seed 3"):
        resume(options, writes=True, seed=3, explicit=("seed",))
    new = dataclasses.replace(options, save="new", models=("resnet81",))
    with pytest.raises(pytest.UsageError, match="did you mean 'resnet18'"):
        make_plan(new, needs_environment=False, writes=True)
    assert [path.name for path in options.runs.iterdir()] == ["there.jsonl"]
    resume(options, writes=True).close()


def test_a_run_without_a_name_gets_another_where_the_clock_was_set_back(options, monkeypatch):
    class Stopped(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 10, 25, 2, 30, tzinfo=tz)

    monkeypatch.setattr("datetime.datetime", Stopped)
    options = dataclasses.replace(options, models=("resnet18",))
    plans = [make_plan(options, needs_environment=False, writes=True) for _ in range(3)]
    names = [plan.run_files.candidate.path.stem for plan in plans]
    for plan in plans:
        plan.close()
    first = "2026-10-25-023000-000000"
    assert names == [first, f"{first}-2", f"{first}-3"]


def test_both_files_of_a_paired_run_are_created_or_none(options):
    (options.runs / "mine.baseline.jsonl").symlink_to(options.runs / "elsewhere")
    paired = dataclasses.replace(options, save="mine", baseline_python="python")
    with pytest.raises(RunError, match=r"mine\.baseline\.jsonl is a symbolic link"):
        RunFiles.create(paired, paired=True)
    assert [path.name for path in options.runs.iterdir()] == ["mine.baseline.jsonl"]
    (options.runs / "mine.baseline.jsonl").unlink()
    made = RunFiles.create(paired, paired=True)
    made.begin(make_header(baseline="mine.baseline"), make_environment())
    made.close()
    assert sorted(path.name for path in options.runs.iterdir()) == [
        *("mine.baseline.jsonl", "mine.jsonl")
    ]


H200 = Device(kind="cuda", name="H200", memory_bytes=2**37, cores=132, driver="580")
XEON = Device(kind="cpu", name="Xeon", memory_bytes=2**38, cores=32)


@pytest.mark.parametrize(
    ("changed", "refused"),
    [
        ({"devices": (dataclasses.replace(XEON, memory_bytes=2**37), H200)}, ""),
        ({"platform": "Linux-6.18"}, ""),
        ({"inventory": make_inventory(machine={"governor": "powersave"})}, ""),
        ({"inventory": None}, ""),
        ({"inventory": make_inventory(distributions={"pip": "26", "timm": "1.0.20"})}, "sympy"),
        ({"cuda": "12.8"}, r"\(CUDA 13.0 → 12.8\)"),
        ({"devices": (XEON,)}, r"\(cuda H200 → none\)"),
        ({"devices": (dataclasses.replace(XEON, cores=16), H200)}, r"\(cpu cores 32 → 16\)"),
        ({"devices": (XEON, dataclasses.replace(H200, name="H100"))}, r"\(cuda H200 → H100\)"),
    ],
)
def test_a_run_is_resumed_on_a_machine_of_the_same_kind(options, changed, refused):
    """Fewer GPUs, another kernel and another size of memory are accepted."""
    began = make_environment(devices=(XEON, H200, H200), platform="Linux-6.8", cuda="13.0")
    write_run(options.runs / "there.jsonl", make_header(planned=(GPU.id,), environment=began))
    known = dataclasses.replace(TINY, environment=dataclasses.replace(began, **changed))
    options = dataclasses.replace(options, resume="there", markers="gpu")
    if refused:
        with pytest.raises(pytest.UsageError, match=refused):
            make_plan(options, needs_environment=False, known=known)
    else:
        assert make_plan(options, needs_environment=False, known=known).cases == [GPU]


def test_closing_the_plan_closes_the_baseline(options):
    write_run(options.runs / "there.jsonl", make_header(), make_observation())
    options = dataclasses.replace(options, baseline_run="there", models=("resnet18",))
    plan = make_plan(options, needs_environment=False)
    case = Case.parse(make_observation().case)
    assert plan.before.seen(case).observation is not None
    plan.close()
    with pytest.raises((ValueError, RunError)):
        plan.before.seen(case)


# The user's zoo files.

HEAD = "from compilegate import Example, model\n\n\n"
MINE = HEAD + '@model("{}")\ndef mine():\n    return Example(abs, (1,))\n'


def list_zoo(options, **files):
    paths = []
    for name, text in files.items():
        path = options.runs / f"{name}.py"
        path.write_text(text)
        paths.append(str(path))
    return make_plan(
        dataclasses.replace(options, zoo=tuple(paths), models=("mine",)), needs_environment=False
    )


def test_the_models_of_zoo_files_join_the_zoo(options):
    plan = list_zoo(options, a=MINE.format("mine"), b=MINE.format("other"))
    assert {"mine", "other", "resnet18"} <= plan.models.keys()
    assert {case.model for case in plan.cases} == {"mine"}


def test_a_zoo_file_that_is_named_twice_is_listed_once(options):
    text = MINE.format("mine")
    twice = dataclasses.replace(options, zoo=(str(options.runs / "a.py"),))
    (options.runs / "a.py").write_text(text)
    twice = dataclasses.replace(twice, zoo=twice.zoo * 2, models=("mine",))
    assert make_plan(twice, needs_environment=False).cases


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a": "import os\n\n\nprint(1 / 0)\n"}, r"a\.py.*ZeroDivisionError.*a\.py:4"),
        ({"a": "import nowhere\n"}, r"No module named 'nowhere' at a\.py:1"),
        ({"a": "def (\n"}, r"SyntaxError.*a\.py:1"),
        ({"a": "x = 1\n"}, r"a\.py:1: the file defines no model"),
        ({"a": MINE.format("resnet18")}, r"a\.py:4: model 'resnet18' is already defined in"),
        (
            {"a": MINE.format("mine"), "b": MINE.format("mine")},
            r"b\.py:4: model 'mine' is already defined in .*a\.py:4",
        ),
        ({"a": "import os\nos._exit(3)\n"}, r"imported the zoo file .*a\.py exited with status 3"),
    ],
)
def test_a_wrong_zoo_file_is_refused_in_one_sentence(options, files, message):
    with pytest.raises(pytest.UsageError, match=message) as raised:
        list_zoo(options, **files)
    assert "\n" not in str(raised.value)


def test_shards_hold_each_planned_case_once(options):
    tier = dataclasses.replace(options, tier="standard", markers="gpu and not slow")
    whole = make_plan(tier, needs_environment=False)
    parts = [
        make_plan(dataclasses.replace(tier, shard=f"{number}/3"), needs_environment=False)
        for number in (1, 2, 3)
    ]
    planned = [case.id for part in parts for case in part.cases]
    assert sorted(planned) == sorted(case.id for case in whole.cases)
    assert all({*part.elsewhere} == {*planned} - {c.id for c in part.cases} for part in parts)


def test_a_worker_plans_by_the_run_that_the_controller_has_chosen(options, tmp_path):
    seen = make_observation(case=CPU.id, spent_s={"compile": 7.0})
    write_run(tmp_path / "chosen.jsonl", make_header(planned=(CPU.id,)), seen)
    known = dataclasses.replace(TINY, earlier_run=str(tmp_path / "chosen.jsonl"))
    plan = make_plan(options, needs_environment=False, known=known)
    assert plan.earlier.seconds(CPU) == 7.0
