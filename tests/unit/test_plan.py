"""The plan: markers, devices, the compiler and the reproduction command. No child is started."""

import dataclasses

import pytest

from compilegate.judging.aspects import ASPECTS
from compilegate.judging.budgets import Budgets, Entry, Machine
from compilegate.records.case import Case
from compilegate.records.environment import Device
from compilegate.records.practice import PRACTICES
from compilegate.runs.files import read
from compilegate.runs.reproduction import python
from compilegate.session.description import describe
from compilegate.session.plan import check_compiler, unmatched_budgets
from compilegate.zoo.registry import Model
from tests.unit.making import make_environment, make_header, make_observation
from tests.unit.planned import CPU, GPU, make_options, make_plan_of, write_run

H200 = Device(kind="cuda", name="NVIDIA H200", memory_bytes=1)


@pytest.fixture
def plan(tmp_path):
    return make_plan_of(make_options(tmp_path))


@pytest.mark.parametrize(
    ("case", "marks"),
    [
        (CPU, ("cpu",)),
        (GPU, ("gpu",)),
        (dataclasses.replace(CPU, model="large"), ("cpu", "slow")),
        (dataclasses.replace(CPU, mode="max_autotune"), ("cpu", "slow")),
        (dataclasses.replace(CPU, model="gone"), ("cpu",)),
    ],
)
def test_a_case_carries_its_device_and_slow(plan, case, marks):
    assert plan.marks(case) == marks


def test_the_plan_gives_the_reason_for_an_absent_device(plan):
    assert plan.lacks(CPU) == ""
    assert plan.lacks(GPU) == "no GPU that torch 2.15.0+cpu can use on this machine"
    plan.environment = None
    assert plan.lacks(GPU) == ""


def test_a_mixed_selection_is_accepted(plan):
    plan.check_devices([CPU, GPU])
    plan.check_devices([])


def test_a_selection_without_a_runnable_case_is_refused(plan):
    with pytest.raises(pytest.UsageError, match=r"no GPU .*every selected case needs one; -m cpu"):
        plan.check_devices([GPU])


def test_a_selection_whose_device_exists_is_accepted(plan):
    plan.environment = make_environment(devices=(H200,))
    plan.check_devices([GPU])
    assert plan.machine("cuda") == Machine("NVIDIA H200")
    assert plan.machine("cpu") == Machine()


def test_a_machine_is_its_hardware_and_its_host(plan):
    (processor,) = make_environment().devices
    plan.environment = make_environment(devices=(H200, processor))
    assert plan.machine("cuda") == Machine("NVIDIA H200", "AMD EPYC 9655 (2 cores)")
    assert plan.machine("cpu") == Machine("AMD EPYC 9655", "AMD EPYC 9655 (2 cores)")


def test_a_missing_compiler_is_refused(plan):
    plan.environment = make_environment(compiler="")
    with pytest.raises(pytest.UsageError, match=r"found no compiler: install g\+\+ or set CXX"):
        check_compiler(plan)


@pytest.mark.parametrize(
    "changed",
    [
        {"cases": [GPU]},
        {"backend": "aot_eager"},
        {"environment": None},
        {"environment": make_environment()},
        {"replay": "stored"},
    ],
)
def test_a_session_that_needs_no_compiler_starts_without_one(tmp_path, changed):
    fields = {"environment": make_environment(compiler="")}
    fields |= {key: changed[key] for key in ("cases", "environment") if key in changed}
    options = {key: changed[key] for key in ("backend", "replay") if key in changed}
    check_compiler(make_plan_of(make_options(tmp_path, **options), **fields))


# The reproduction command.


def test_the_command_carries_every_option_that_matters(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    zoo = ("my zoo.py", str(tmp_path / "more.py"), "/elsewhere/zoo.py")
    plan = make_plan_of(make_options(tmp_path, zoo=zoo, budgets=("b.toml",)))
    observed = make_observation(case=CPU.id, seed=3, backend="aot_eager", cold=True, tf32=True)
    assert plan.reproduction(observed) == (
        f"{python()} -m compilegate observe {CPU.id} --zoo 'my zoo.py' --zoo more.py "
        "--zoo /elsewhere/zoo.py --budgets b.toml --seed 3 --backend aot_eager --tf32 --cold"
    )


def test_the_command_of_a_replay_names_the_zoo_of_its_run(tmp_path):
    from compilegate.runs.files import read

    arguments = ("suites", "--zoo=mine.py", "--budgets", "then.toml", "--zoo", "more.py")
    write_run(tmp_path / "a.jsonl", make_header(arguments=arguments), make_observation())
    options = make_options(tmp_path, replay="a", budgets=("/now.toml",))
    plan = make_plan_of(options, stored=read(tmp_path / "a.jsonl"))
    case = Case.parse(make_observation().case).id
    assert plan.reproduction(make_observation()) == (
        f"{python()} -m compilegate observe {case} --zoo mine.py --zoo more.py --budgets /now.toml"
    )


def test_the_command_names_a_practice_that_the_tier_alone_asks_for(tmp_path):
    trained = Case.parse("tiny-cpu-train-f32-default-static")
    plain = Model("tiny", "tiny")
    observed = make_observation(case=trained.id)
    for model, words in (
        (plain, " --want twins"),
        (dataclasses.replace(plain, practices=("twins",)), ""),
    ):
        plan = make_plan_of(make_options(tmp_path), cases=[trained], models={"tiny": model})
        command = f"{python()} -m compilegate observe {trained.id}"
        assert plan.reproduction(observed, "twins") == command + words
        assert plan.reproduction(observed) == command


# The header of pytest's output.


def test_the_header_describes_the_plan(plan):
    assert describe(plan) == [
        "compilegate: tier smoke on cpu and standard on cuda, 2 cases, seed 0",
        "observed: torch 2.15.0+cpu, cpu AMD EPYC 9655",
    ]


@pytest.mark.parametrize(
    ("glob", "reported"),
    [("tiny-*-train-*", True), ("tiny-*-infer-f32-*", False), (CPU.id, False)],
)
def test_the_header_names_a_glob_without_a_case(tmp_path, glob, reported):
    plan = make_plan_of(make_options(tmp_path, cases=("tiny-cuda-*", glob)))
    line = f"no case of this session matches --cases {glob!r}; try a larger tier: --tier full"
    assert (line in describe(plan, width=200)) is reported
    plan.tier = dict.fromkeys(plan.tier, "full")  # no tier is larger
    assert (line.partition(";")[0] in describe(plan, width=200)) is reported


@pytest.mark.parametrize(("version", "warns"), [("3.13.0", True), ("3.13.1", False)])
def test_the_header_names_a_python_whose_guards_are_slow(tmp_path, version, warns):
    environment = make_environment(python=version)
    text = " ".join(describe(make_plan_of(make_options(tmp_path), environment=environment)))
    assert ("with Python 3.13.0, PyTorch checks guards more slowly" in text) is warns


@pytest.mark.parametrize(("save", "warns"), [(None, True), ("again", False)])
def test_a_replay_reports_that_it_writes_no_run_file(tmp_path, save, warns):
    from compilegate.runs.files import read

    write_run(tmp_path / "a.jsonl", make_header(), make_observation())
    options = make_options(tmp_path, replay="a", save=save)
    lines = describe(make_plan_of(options, stored=read(tmp_path / "a.jsonl")))
    line = "this session writes no run file: --save NAME writes one"
    assert (line in lines) is warns
    assert any(line.startswith("replayed:") for line in lines)


def test_a_run_file_cannot_move_the_cursor(tmp_path):
    plan = make_plan_of(
        make_options(tmp_path), environment=make_environment(versions={"torch": "2\x1b[2J"})
    )
    assert all(line.isprintable() for line in describe(plan))


# Budget entries that match nothing.


def entry(model, line=1):
    return Entry({"model": model}, {}, "", 1, f"mine.toml:{line}")


def test_a_session_of_some_models_reports_entries_of_models_that_do_not_exist(tmp_path):
    entries = [entry("tiny"), entry("large*"), entry("tinny", 3), Entry({}, {}, "", 1, "a:1")]
    options = make_options(tmp_path, filtered=True, models=("large",))
    plan = make_plan_of(options, budgets=Budgets(entries))
    assert unmatched_budgets(plan) == [
        "mine.toml:3: matches no model: 'tinny'; did you mean 'tiny'?"
    ]


@pytest.mark.parametrize("filtered", [False, True])
def test_a_whole_replay_reports_only_a_name_close_to_a_model_of_its_run(tmp_path, filtered):
    planned = ("my_net-cpu-infer-f32-default-static",)
    write_run(tmp_path / "a.jsonl", make_header(planned=planned), make_observation())
    entries = [entry("my_nett"), entry("my_net", 2), entry("of_another_zoo", 3)]
    options = make_options(tmp_path, replay="a", filtered=filtered)
    stored = read(tmp_path / "a.jsonl")
    plan = make_plan_of(options, budgets=Budgets(entries), stored=stored)
    reported = ["mine.toml:1: matches no model: 'my_nett'; did you mean 'my_net'?"]
    assert unmatched_budgets(plan) == ([] if filtered else reported)


@pytest.mark.parametrize(
    ("selectors", "is_reported"),
    [
        ({"model": "tiny"}, False),
        ({"model": "tiny", "device": "cpu"}, False),  # this session selects the GPU
        ({"model": "tiny", "device": "cuda"}, True),
        ({"model": "tinny"}, True),
    ],
)
def test_an_entry_for_a_model_of_another_device_is_not_unused(tmp_path, selectors, is_reported):
    model = Model("tiny", "tiny", devices=("cpu",))
    written = Entry(selectors, {}, "", 1, "mine.toml:1")
    plan = make_plan_of(
        make_options(tmp_path),
        tier={"cuda": "standard"},
        models={"tiny": model},
        budgets=Budgets([written]),
    )
    assert bool(unmatched_budgets(plan)) is is_reported


# Compile work.

TRAINED = Case.parse("tiny-cpu-train-f32-default-auto")


def test_only_a_sample_of_the_cases_has_its_compile_work_counted(tmp_path):
    plan = make_plan_of(make_options(tmp_path), cases=[CPU, TRAINED])
    assert plan.cases_of(ASPECTS["compile_work"]) == [TRAINED]
    assert "compile_work" in plan.wants_of(ASPECTS["upgrade"], TRAINED)
    probing = {"reuse", "respecialise", "every_layout"}
    assert plan.wants_of(ASPECTS["upgrade"], CPU) == {*ASPECTS["upgrade"].wants, *probing} - {
        "compile_work",
        *PRACTICES,
    }


def test_only_the_cases_of_a_practice_are_observed_for_it(tmp_path):
    practised = Model("tiny", "tiny", practices=("checkpoints",))
    plan = make_plan_of(make_options(tmp_path), cases=[CPU, TRAINED], models={"tiny": practised})
    assert plan.cases_of(ASPECTS["checkpoints"]) == [CPU]
    assert "checkpoints" in plan.wants_of(ASPECTS["upgrade"], CPU)
    assert "checkpoints" not in plan.wants_of(ASPECTS["upgrade"], TRAINED)


def test_a_replay_judges_compile_work_where_the_run_counted_it(tmp_path):
    made = make_observation(case=CPU.id, wants=("capture", "compile_work"))
    without = make_observation(case=TRAINED.id, wants=("capture",))
    write_run(tmp_path / "a.jsonl", make_header(), made, without)
    plan = make_plan_of(
        make_options(tmp_path, replay="a"),
        stored=read(tmp_path / "a.jsonl"),
        cases=[CPU, TRAINED],
    )
    assert plan.cases_of(ASPECTS["compile_work"]) == [CPU]
