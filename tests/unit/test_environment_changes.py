"""What differs between two environments: what decides is named, the rest decides nothing."""

from dataclasses import replace

import pytest

from compilegate.records.environment import Device
from compilegate.records.environment_changes import (
    compare,
    deciding,
    hardware_changes,
    headline,
    is_unknown,
    refusals,
)
from tests.unit.making import make_environment, make_inventory

H200 = Device(kind="cuda", name="H200", memory_bytes=2**37, cores=132, driver="580")
LIBRARIES = {"cuDNN": "9.10.2", "cuBLAS": "13.1.0", "glibc": "2.39", "NCCL": "2.27.5"}
WHEELS = {"nvidia-cudnn-cu13": "9.10.2.21", "sympy": "1.14.0", "timm": "1.0.20", "pip": "25.0"}
CHANGED = {
    "cuDNN": {"libraries": {**LIBRARIES, "cuDNN": "9.15.1"}},
    "OMP_NUM_THREADS": {"variables": {"OMP_NUM_THREADS": "8"}},
    "inductor.max_autotune": {"configuration": {"inductor.max_autotune": "True"}},
    "sympy": {"distributions": {**WHEELS, "sympy": "1.15.0"}},
    "glibc": {"libraries": {**LIBRARIES, "glibc": "2.40"}},
    "allocator": {"libraries": {**LIBRARIES, "allocator": "libjemalloc.so.2"}},
    "xformers": {
        "distributions": {**WHEELS, "xformers": "0.1"},
        "decisive": ("sympy", "timm", "xformers"),
    },
}
HARMLESS = {
    "pip": {"distributions": {**WHEELS, "pip": "26.0"}},
    "TORCHINDUCTOR_CACHE_DIR": {"variables": {"TORCHINDUCTOR_CACHE_DIR": "/tmp/other"}},
    "TORCH_HOME": {"variables": {"TORCH_HOME": "/home/me"}},
    "CUDA_VISIBLE_DEVICES": {"variables": {"CUDA_VISIBLE_DEVICES": "3"}},
    "TORCH_HUB_TOKEN": {"variables": {"TORCH_HUB_TOKEN": "(not stored)"}},
    "CUDNN_VERSION": {"variables": {"CUDNN_VERSION": "9.1"}},
    "inductor.trace.debug_dir": {"configuration": {"inductor.trace.debug_dir": "'/tmp/x'"}},
    "governor": {"machine": {"governor": "powersave", "kernel": "6.8"}},
    "maximum clock": {"machine": {"governor": "performance", "maximum clock": "3700 MHz"}},
}


def here(**changed):
    """An environment whose inventory is changed."""
    fields = {
        "libraries": LIBRARIES,
        "distributions": WHEELS,
        "torch_needs": ("nvidia-cudnn-cu13", "sympy"),
        "decisive": ("nvidia-cudnn-cu13", "sympy", "timm"),
        "variables": {},
    }
    return make_environment(inventory=make_inventory(**fields | changed))


def names(found):
    return [change.name for change in found]


@pytest.mark.parametrize("name", CHANGED)
def test_what_decides_is_named_and_belongs_to_no_other_run(name):
    found = deciding(here(), here(**CHANGED[name]))
    assert names(found) == [name]
    assert headline(found) in "; ".join(refusals(here(), here(**CHANGED[name])))
    assert deciding(here(**CHANGED[name]), here(**CHANGED[name])) == []


@pytest.mark.parametrize("name", HARMLESS)
def test_what_decides_nothing_is_shown_and_refuses_nothing(name):
    other = here(**HARMLESS[name])
    assert name in names(compare(here(), other))
    assert deciding(here(), other) == []
    assert refusals(here(), other) == []


def test_a_library_and_its_wheel_are_named_once():
    other = here(**CHANGED["cuDNN"], distributions={**WHEELS, "nvidia-cudnn-cu13": "9.15.1.9"})
    assert headline(deciding(here(), other)) == "cuDNN 9.10.2 → 9.15.1"
    assert "nvidia-cudnn-cu13" in names(compare(here(), other))
    wheel_alone = here(distributions={**WHEELS, "nvidia-cudnn-cu13": "9.15.1.9"})
    assert names(deciding(here(), wheel_alone)) == ["nvidia-cudnn-cu13"]


def test_absent_values_have_words_of_their_own():
    other = here(
        libraries={**LIBRARIES, "allocator": "libjemalloc.so.2"},
        variables={"OMP_NUM_THREADS": "4"},
        configuration={"inductor.freezing": "True"},
    )
    assert headline(deciding(here(), other)) == (
        "inductor.freezing default → True, OMP_NUM_THREADS unset → 4, "
        "allocator none → libjemalloc.so.2"
    )


def test_the_most_important_differences_come_first_and_the_rest_is_counted():
    other = here(
        libraries={**LIBRARIES, "cuDNN": "9.15.1", "NCCL": "2.28"},
        variables={"OMP_NUM_THREADS": "8"},
        distributions={**WHEELS, "timm": "1.0.29", "sympy": "1.15"},
        configuration={"inductor.freezing": "True"},
    )
    other = replace(other, compiler="g++ 14")
    assert headline(deciding(here(), other)) == (
        "cuDNN 9.10.2 → 9.15.1, timm 1.0.20 → 1.0.29, compiler g++ 13 → g++ 14 and 4 more"
    )


def test_what_comes_with_another_torch_is_left_out_of_the_headline_but_not_of_the_list():
    other = here(
        libraries={**LIBRARIES, "cuDNN": "9.15.1", "glibc": "2.40"},
        distributions={**WHEELS, "sympy": "1.15.0", "timm": "1.0.29"},
    )
    other = replace(other, versions={"torch": "2.16.0"})
    assert names(deciding(here(), other)) == ["torch", "timm", "glibc"]
    assert {"cuDNN", "sympy"} <= {*names(compare(here(), other))}


def test_unknown_facts_neither_equal_nor_differ():
    old = replace(here(), inventory=None)
    assert is_unknown(old, here())
    assert is_unknown(old, old)
    assert not is_unknown(here(), here())
    assert compare(old, here(**CHANGED["cuDNN"])) == []
    assert names(deciding(replace(old, python="3.11.0"), here())) == ["python"]


def test_hardware_decides_whether_costs_compare_and_a_driver_is_software():
    began = replace(here(), devices=(H200,))
    updated = replace(began, devices=(replace(H200, driver="590"),))
    assert headline(deciding(began, updated)) == "driver 580 → 590"
    assert hardware_changes(H200, updated.devices[0]) == []
    assert hardware_changes(H200, replace(H200, cores=78)) == ["cores 132 → 78"]
    assert deciding(began, replace(began, devices=(replace(H200, cores=78),))) == []


def test_hardware_that_one_run_does_not_record_is_unknown():
    old = Device(kind="cpu", name="Xeon", memory_bytes=1, cores=8)
    new = replace(old, instructions="avx2 avx512f")
    assert hardware_changes(old, new) == []
    assert hardware_changes(replace(old, instructions="avx2"), new) == [
        "vector instructions avx2 → avx2 avx512f"
    ]


def test_more_and_larger_devices_of_one_kind_are_shown_only():
    one = replace(here(), devices=(H200,))
    two = replace(here(), devices=(replace(H200, memory_bytes=2**36), H200))
    assert list(map(str, compare(one, two))) == [
        "cuda memory 128 GiB → 64 GiB",
        "number of cuda devices 1 → 2",
    ]
    assert refusals(one, two) == []


def test_a_refusal_counts_what_it_does_not_name():
    other = here(variables={f"OMP_{i}": "1" for i in range(12)})
    found = refusals(here(), other)
    assert len(found) == 9
    assert found[-1] == "and 4 more"
