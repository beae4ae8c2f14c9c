"""Distributions change together with what they require of each other."""

from compilegate.upgrade.attribution.distributions import Distribution
from compilegate.upgrade.attribution.groups import groups_of


def torch(version, triton, cudnn):
    return {
        "torch": Distribution(
            version,
            (
                "sympy>=1.13",
                f'triton=={triton}; platform_system == "Linux"',
                f"cuda-toolkit[cudnn]=={cudnn}",
                "optree>=0.11; extra == 'optree'",
            ),
        ),
        "triton": Distribution(triton),
        "cuda-toolkit": Distribution(cudnn, (f"nvidia-cudnn=={cudnn}; extra == 'cudnn'",)),
        "nvidia-cudnn": Distribution(cudnn),
        "torchvision": Distribution(f"0.{version}", ("numpy", f"torch=={version}")),
    }


COMMON = {"sympy": Distribution("1.14"), "numpy": Distribution("2.1")}
OLD = {**torch("2.14.1", "3.8.0", "9.10"), "timm": Distribution("1.0.30", ("torch",)), **COMMON}
NEW = {**torch("2.15.0", "3.9.0", "9.15"), "timm": Distribution("1.0.31", ("torch",)), **COMMON}


def groups(before, now):
    changed = {
        name
        for name in {*before, *now}
        if name not in before or name not in now or before[name].version != now[name].version
    }
    return groups_of(before, now, changed)


def names(found):
    return [set(group.names) for group in found]


def test_torch_brings_its_triton_its_cuda_libraries_and_its_torchvision():
    found = groups(OLD, NEW)
    together = {"torch", "triton", "cuda-toolkit", "nvidia-cudnn", "torchvision"}
    assert names(found) == [together, {"timm"}]
    assert [group.head for group in found] == ["torch", "timm"]


def test_triton_and_the_cuda_libraries_can_be_tried_apart_from_torch():
    first, _ = groups(OLD, NEW)
    assert names(first.parts) == [
        {"triton"},
        {"cuda-toolkit", "nvidia-cudnn"},
        {"torch", "torchvision"},
    ]
    assert names(first.parts[1].parts) == [{"cuda-toolkit"}, {"nvidia-cudnn"}]


def test_a_cudnn_that_torch_does_not_pin_changes_alone():
    old = {"torch": Distribution("2.11.0"), "nvidia-cudnn": Distribution("9.10")}
    assert names(groups(old, {**old, "nvidia-cudnn": Distribution("9.15")})) == [{"nvidia-cudnn"}]


def test_a_requirement_that_the_old_version_does_not_meet_comes_along():
    old = {"transformers": Distribution("5.0"), "tokenizers": Distribution("0.21")}
    new = {
        "transformers": Distribution("5.1", ("tokenizers>=0.22",)),
        "tokenizers": Distribution("0.22"),
    }
    assert names(groups(old, new))[0] == {"transformers", "tokenizers"}
    old["tokenizers"] = new["tokenizers"]
    assert names(groups(old, new)) == [{"transformers"}]


def test_what_only_the_candidate_requires_comes_along():
    old = {"timm": Distribution("1.0")}
    new = {"timm": Distribution("1.1", ("einops",)), "einops": Distribution("0.8")}
    assert names(groups(old, new)) == [{"timm", "einops"}]


def test_libraries_of_another_cuda_release_leave_with_the_torch_that_required_them():
    old = {
        "torch": Distribution("2.11", ("nvidia-cudnn-cu12==9.10",)),
        "nvidia-cudnn-cu12": Distribution("9.10", ("nvidia-cublas-cu12",)),
        "nvidia-cublas-cu12": Distribution("12.8"),
    }
    new = {
        "torch": Distribution("2.15", ("nvidia-cudnn-cu13==9.15",)),
        "nvidia-cudnn-cu13": Distribution("9.15"),
    }
    assert names(groups(old, new)) == [{*old, *new}]


def test_all_else_is_one_group_that_can_be_divided():
    old = {name: Distribution("1") for name in ("torch", "pip", "pluggy", "regex")}
    new = {name: Distribution("2") for name in old}
    first, rest = groups(old, new)
    assert first.names == {"torch"}
    assert names(rest.parts) == [{"pip"}, {"pluggy"}, {"regex"}]
    assert rest.names == {"pip", "pluggy", "regex"}
    assert rest.is_bundle
    assert not first.is_bundle


def test_every_change_is_in_a_group():
    old = {**OLD, "pip": Distribution("23"), "gone": Distribution("1")}
    new = {**NEW, "pip": Distribution("24"), "made": Distribution("local build")}
    found = set().union(*names(groups(old, new)))
    assert found == {*OLD, *NEW, "pip", "gone", "made"} - {*COMMON}


def test_metadata_that_no_tool_can_read_restricts_nothing():
    old = {"timm": Distribution("1.0", ("torch >>> 2",)), "torch": Distribution("my build")}
    new = {"timm": Distribution("1.1", ("torch>=2",)), "torch": Distribution("another build")}
    assert names(groups(old, new)) == [{"torch"}, {"timm"}]
