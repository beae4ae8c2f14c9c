"""The part of the machine that each worker may use."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from xdist.plugin import pytest_cmdline_main as cmdline_main

from compilegate.processes import file_locks
from compilegate.records.case import Case
from compilegate.records.environment import Device
from compilegate.session import start, xdist_hooks
from compilegate.session.workers import (
    USERS,
    Share,
    Workers,
    count_of,
    fitting,
    refuse_other_distributions,
)
from tests.unit.making import make_environment

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True)
def nothing_given(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(64)))
    for name in (*USERS, "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)


def machine(*gpus, host_bytes=1 << 40):
    devices = [Device(kind="cuda", name=name, memory_bytes=141 << 30) for name in gpus]
    host = Device(kind="cpu", name="EPYC", memory_bytes=host_bytes)
    return make_environment(devices=(host, *devices))


def test_workers_share_the_processor():
    assert Share().environment() == {}
    waiting = {"GOMP_SPINCOUNT": "10000"}
    assert Share(4).environment() == {"TORCHINDUCTOR_COMPILE_THREADS": "16", **waiting}
    assert Share(4, "2").environment() == {
        "CUDA_VISIBLE_DEVICES": "2",
        "TORCHINDUCTOR_COMPILE_THREADS": "16",
        "OMP_NUM_THREADS": "16",
    }


def test_the_compilers_of_workers_that_take_turns_share_the_processor_in_bursts():
    shared = Share(16, "0", turns="locks").environment()
    assert (shared["TORCHINDUCTOR_COMPILE_THREADS"], shared["OMP_NUM_THREADS"]) == ("24", "4")
    alone = Share(16, turns="locks").environment()
    assert alone == {
        "TORCHINDUCTOR_COMPILE_THREADS": "4",
        "TORCHINDUCTOR_QUIESCE_ASYNC_COMPILE_POOL": "0",
        "GOMP_SPINCOUNT": "10000",
    }


def test_the_users_variables_stay(monkeypatch):
    users = {"OMP_NUM_THREADS": "3", "TORCHINDUCTOR_QUIESCE_ASYNC_COMPILE_POOL": "1"}
    for name, value in users.items():
        monkeypatch.setenv(name, value)
    assert users.items() <= Share(2, "0", turns="locks").environment().items()


def test_each_worker_gets_its_own_gpu():
    workers = Workers(2, machine("H200", "H200"))
    shares = [Share(2, gpu, gpus=("0", "1")) for gpu in ("0", "1")]
    assert [workers.share(name) for name in ("gw0", "gw1")] == shares


def test_a_worker_that_replaces_another_gets_its_gpu():
    """xdist gives the new worker a new name."""
    workers = Workers(3, machine("H200", "H200", "H200"))
    for name in ("gw0", "gw1", "gw2"):
        workers.share(name)
    workers.ended("gw1")
    assert workers.share("gw3").gpu == "1"
    workers.ended("gw0")
    workers.ended("gw2")
    assert {workers.share(name).gpu for name in ("gw4", "gw5")} == {"0", "2"}


def test_more_workers_than_gpus_take_turns_to_time():
    workers = Workers(4, machine("H200", "H200"))
    shares = [workers.share(f"gw{index}") for index in range(4)]
    assert [share.gpu for share in shares] == ["0", "1", "0", "1"]
    (turns,) = {share.turns for share in shares}
    assert Path(turns).is_dir()
    assert not any(share.shares_gpu for share in shares)
    assert {share.workers_of_device("cuda") for share in shares} == {2}
    assert {share.workers_of_device("cpu") for share in shares} == {4}
    workers.close()
    assert not Path(turns).exists()


def test_the_workers_of_each_gpu_have_processors_and_turns_of_their_own():
    workers = Workers(5, machine("H200", "H200"), apart=True)
    shares = [workers.share(f"gw{index}") for index in range(5)]
    assert [share.gpu for share in shares] == ["0", "1", "0", "1", "0"]
    assert len({share.turns for share in shares}) == 2
    assert {share.cores for share in shares} == {tuple(range(32)), tuple(range(32, 64))}
    assert {(share.gpu, share.turns, share.cores) for share in shares} == {
        (share.gpu, share.turns, share.cores) for share in shares[:2]
    }
    assert all(Path(share.turns).is_dir() for share in shares)
    assert {share.workers_of_device(kind) for share in shares for kind in ("cpu", "cuda")} == {3}
    given = shares[0].environment()
    assert (given["TORCHINDUCTOR_COMPILE_THREADS"], given["OMP_NUM_THREADS"]) == ("64", "10")


@pytest.mark.parametrize(
    ("count", "parts"),
    [(1, [()]), (2, [(0, 1, 2), (3, 4, 5)]), (4, [(0,), (1, 2), (3,), (4, 5)])],
)
def test_each_worker_of_the_processor_has_a_part_of_it(count, parts, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(6)))
    workers = Workers(count, machine())
    assert [workers.share(f"gw{index}").part for index in range(count)] == parts
    assert workers.share(f"gw{count}").part == parts[0]  # xdist has replaced the first


def test_more_workers_than_processors_share_them(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {3, 7})
    workers = Workers(5, machine())
    assert {workers.share(f"gw{index}").part for index in range(5)} == {(3,), (7,)}


@pytest.mark.parametrize("gpus", [(), ("H200",), ("H200", "H200")])
def test_cases_of_the_processor_share_it_as_on_a_machine_without_gpus(gpus):
    workers = Workers.of(planned_on("cpu", models=2).cases, 2, machine(*gpus))
    shares = [workers.share(name) for name in ("gw0", "gw1")]
    assert [share.part for share in shares] == [tuple(range(32)), tuple(range(32, 64))]
    assert all(share.turns and share.gpu is None for share in shares)
    assert "OMP_NUM_THREADS" not in shares[0].environment()


def test_cases_of_a_gpu_share_it_next_to_those_of_the_processor():
    for plan in (planned_on("cuda", models=2), mixed_on(models=1)):
        share = Workers.of(plan.cases, 2, machine("H200")).share("gw0")
        assert (share.gpu, share.part) == ("0", ())


@pytest.mark.parametrize("count", [1, 2])
def test_a_worker_that_has_a_gpu_for_itself_has_all_processors(count):
    share = Workers(count, machine("H200", "H200"), apart=True).share("gw0")
    assert (share.turns, share.cores) == ("", ())


def test_workers_without_locks_time_at_once_and_say_so(monkeypatch):
    monkeypatch.setattr(file_locks, "are_possible", lambda folder: False)
    share = Workers(2, machine("H200")).share("gw0")
    assert share.shares_gpu
    assert not share.turns


@pytest.mark.parametrize("gpus", [(), ("H200",)])
def test_one_worker_takes_no_turns(gpus):
    assert not Workers(1, machine(*gpus)).share("gw0").turns


def test_the_gpus_that_the_user_named_are_handed_out(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,GPU-8932f937,7")
    workers = Workers(2, machine("H200", "H200"))
    assert [workers.share(name).gpu for name in ("gw0", "gw1")] == ["5", "GPU-8932f937"]


def test_without_a_gpu_the_processor_is_shared_in_turns():
    for environment in (machine(), None):
        share = Workers(2, environment).share("gw0")
        assert share == Share(2, turns=share.turns, part=share.part)
        assert share.turns


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ((), 1),
        (("-n", "3"), 3),
        (("-n", "0"), 1),
        (("-d", "--tx", "4*popen"), 4),
        (("--dist", "loadfile", "--tx", "popen", "--tx", "2*popen"), 3),
        (("--tx", "popen", "--tx", "popen"), 1),
    ],
)
def test_workers_are_counted_as_xdist_does(pytester, words, count):
    config = pytester.parseconfig("-p", "xdist", *words)
    cmdline_main(config)  # where xdist takes -n
    assert count_of(config) == count


@pytest.mark.parametrize(
    ("count", "gpus"), [(2, ("H200", "H200")), (1, ("H200", "A100")), (2, ("H200",)), (2, ())]
)
def test_gpus_of_one_kind_are_accepted(count, gpus):
    Workers(count, machine(*gpus)).refuse_unlike_gpus()


def test_workers_on_gpus_of_two_kinds_are_refused():
    with pytest.raises(pytest.UsageError, match=r"-n 2: .* differ \(A100, H200\)") as raised:
        Workers(2, machine("H200", "A100")).refuse_unlike_gpus()
    assert "CUDA_VISIBLE_DEVICES" in str(raised.value)


def planned_on(device, *gpus, replays=False, models=1):
    names = [f"matvec{number}-{device}-infer-f32-default-static" for number in range(models)]
    cases = [Case.parse(name) for name in names]
    return SimpleNamespace(cases=cases, environment=machine(*gpus), replays=replays)


def mixed_on(*gpus, models):
    plan = planned_on("cuda", *gpus, models=models)
    plan.cases.append(Case.parse("matvec-cpu-infer-f32-default-static"))
    return plan


@pytest.mark.parametrize(
    ("plan", "count"),
    [
        (planned_on("cuda", "H200", "H200"), 1),  # one case
        (planned_on("cuda", "H200", "H200", models=99), 46),  # by the memory of both GPUs
        (planned_on("cuda", *["H200"] * 4, models=99), 64),  # by the processors
        (mixed_on("H200", "H200", models=99), 2),
        (planned_on("cuda"), 1),
        (planned_on("cuda", "H200", models=99), 23),  # by the memory of the GPU
        (planned_on("cuda", "H200", models=4), 4),
        (planned_on("cpu", models=99), 32),  # two processors each
        (planned_on("cuda", "H200", "H200", replays=True), 1),
        (planned_on("cpu", "H200", "H200"), 1),
    ],
)
def test_auto_starts_as_many_workers_as_have_room(pytester, monkeypatch, plan, count):
    monkeypatch.setattr(start, "plan_of", lambda config: plan)
    monkeypatch.setattr(xdist_hooks, "judges_suites", lambda config: True)
    assert xdist_hooks.pytest_xdist_auto_num_workers(pytester.parseconfig()) == count


def test_few_processors_and_little_memory_limit_the_workers(monkeypatch):
    plan = planned_on("cpu", models=99)
    assert fitting(plan.cases, machine(host_bytes=16 << 30)) == 5
    assert fitting(plan.cases, machine(host_bytes=1)) == 1
    on_gpus = planned_on("cuda", models=99).cases
    assert fitting(on_gpus, machine("A10G", host_bytes=16 << 30)) == 4, "each has more compilers"
    for processors, workers in ((1, 1), (2, 2), (3, 2), (4, 2), (16, 8)):
        monkeypatch.setattr("os.sched_getaffinity", lambda _, n=processors: set(range(n)))
        assert fitting(plan.cases, machine()) == workers
    assert fitting(on_gpus, machine("H200")) == 16


@pytest.mark.parametrize("words", [(), ("-n", "0"), ("-n", "2"), ("-n", "auto")])
def test_a_baseline_interpreter_is_accepted_with_and_without_workers(pytester, words):
    config = pytester.parseconfig("-p", "xdist", *words)
    config.option.baseline_python = "python"
    refuse_other_distributions(config)


def test_other_distributions_are_refused(pytester):
    config = pytester.parseconfig("-p", "xdist", "-n", "2", "--dist", "worksteal")
    with pytest.raises(pytest.UsageError, match="--dist worksteal would spread"):
        refuse_other_distributions(config)
