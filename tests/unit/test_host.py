"""What the child finds out about its environment."""

import sys

import pytest
import torch._functorch.config
import torch._inductor.config

from compilegate.observe.host import distributions, libraries, machine, settings
from compilegate.observe.host.distributions import Distribution, decisive, installed, needed_by


def install(folder, name, version, *requires):
    there = folder / f"{name}-{version}.dist-info"
    there.mkdir(parents=True)
    lines = [f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    (there / "METADATA").write_text("\n".join([*lines, "", "Name: a description", ""]))


def test_every_distribution_is_found_once_under_its_normalised_name(tmp_path, monkeypatch):
    install(tmp_path / "first", "My_Package", "2.0", "torch")
    install(tmp_path / "second", "my.package", "1.0")
    install(tmp_path / "second", "Other", "3")
    (tmp_path / "second" / "broken-1.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path / "first"), str(tmp_path / "second")])
    assert installed() == {
        "my-package": Distribution("2.0", ("torch",)),
        "other": Distribution("3"),
    }


FOUND = {
    "torch": Distribution(
        "2.15.0", ("sympy>=1.13", "setuptools", 'cuda-toolkit[cublas]==13; os_name == "posix"')
    ),
    "sympy": Distribution("1.14", ("mpmath<1.4",)),
    "mpmath": Distribution("1.3"),
    "setuptools": Distribution("80", ("only-for-setuptools",)),
    "only-for-setuptools": Distribution("1"),
    "cuda-toolkit": Distribution(
        "13", ('nvidia-cublas==13; extra == "cublas"', "nvidia-cufft; extra == 'cufft'")
    ),
    "nvidia-cublas": Distribution("13"),
    "nvidia-cufft": Distribution("12"),
    "transformers": Distribution("5", ("tokenizers", 'torch>=2.4; extra == "torch"', "tqdm")),
    "tokenizers": Distribution("1"),
    "tqdm": Distribution("4"),
    "xformers": Distribution("0.1", ("torch >= 2", "absent")),
    "pytest": Distribution("9", ("pluggy",)),
    "pluggy": Distribution("1"),
    "compilegate": Distribution("0.1", ("torch", "pytest", "jinja2")),
    "jinja2": Distribution("3"),
}


def test_requirements_are_followed_through_extras_and_not_through_tools():
    assert needed_by(["torch"], FOUND) == {
        "torch",
        "sympy",
        "mpmath",
        "cuda-toolkit",
        "nvidia-cublas",
    }


def test_torch_the_model_libraries_and_what_requires_torch_decide():
    assert decisive(FOUND) - needed_by(["torch"], FOUND) == {
        "transformers",
        "tokenizers",
        "xformers",
    }


def test_distributions_of_this_interpreter_are_found():
    found = installed()
    public = torch.__version__.partition("+")[0]
    assert found["torch"].version.partition("+")[0] == public
    assert {"torch", "numpy"} <= decisive(found)
    assert not {"pip", "pytest", "pytest-xdist", "ruff"} & decisive(found)


@pytest.mark.parametrize(
    ("option", "value", "shown"),
    [
        ("inductor.freezing", True, "True"),
        ("inductor.triton.cudagraphs", True, "True"),
        ("functorch.functionalize_rng_ops", True, "True"),
    ],
)
def test_a_changed_option_is_found_and_a_default_is_not(option, value, shown):
    module, _, name = option.partition(".")
    config = {"inductor": torch._inductor.config, "functorch": torch._functorch.config}[module]
    assert option not in settings.configuration()
    with config.patch({name: value}):
        assert settings.configuration()[option] == shown
    assert option not in settings.configuration()


def test_an_option_that_is_set_to_its_default_has_not_changed():
    config = torch._inductor.config
    with config.patch(freezing=config.freezing):
        assert "inductor.freezing" not in settings.configuration()


class Module:
    """A module of options, as a release of torch writes those that changed."""

    __name__ = "mine"

    @staticmethod
    def codegen_config():
        return "\n".join(
            [
                "import logging",
                "# mine omitted: partial callable cannot be re-imported",
                "mine.pre_pass = <function f at 0x7f12ab>",
                "mine.load_config({'a.b': 3, 'c': 'redis://me:planted@host'})",
            ]
        )


def test_options_that_imply_others_are_read_and_values_are_the_same_in_each_process(monkeypatch):
    monkeypatch.setattr(settings, "_MODULES", {"mine": "mine"})
    monkeypatch.setitem(sys.modules, "mine", Module())
    assert settings.configuration() == {
        "mine.pre_pass": "<function f>",
        "mine.a.b": "3",
        "mine.c": "(not stored)",
    }


def test_libraries_of_this_torch_have_their_versions():
    found = libraries.versions()
    assert "" not in found.values()
    assert found["torch build"] == torch.version.git_version[:10]
    if torch.backends.mkldnn.is_available():
        assert found["oneDNN"][0].isdecimal()
    if torch.backends.openmp.is_available():
        assert "omp" in found["OpenMP"]
    assert ("CUDA runtime" in found) == torch.backends.cuda.is_built()
    if torch.backends.cuda.is_built():
        assert torch.version.cuda.startswith(found["CUDA runtime"].partition(".")[0])
        assert found["cuBLAS"].count(".") == 2
        assert found["cuDNN"] == libraries.cudnn_version(torch.backends.cudnn.version())


@pytest.mark.parametrize(
    ("number", "version"), [(91501, "9.15.1"), (8907, "8.9.7"), (90100, "9.1.0")]
)
def test_numbers_of_cudnn_become_versions(number, version):
    assert libraries.cudnn_version(number) == version


def test_a_library_that_is_not_loaded_has_no_version():
    assert libraries._number("libcublas.so", "cublasGetProperty", [], 0) is None
    assert libraries._nccl([]) == libraries._cudnn([]) == ""


def test_a_library_without_a_version_is_named_with_a_digest_of_its_content(tmp_path):
    for folder, content in (("a", b"one"), ("b", b"two"), ("c", b"one")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "libgomp.so.1").write_bytes(content)
    first, other, twin = (libraries._exactly(tmp_path / f / "libgomp.so.1") for f in "abc")
    assert first == twin != other
    assert first.startswith("libgomp.so.1 ")


def test_the_machine_is_described_as_far_as_linux_reports_it(monkeypatch, tmp_path):
    (tmp_path / "cpu0" / "cpufreq").mkdir(parents=True)
    (tmp_path / "cpu0" / "cpufreq" / "scaling_governor").write_text("powersave\n")
    (tmp_path / "cpu0" / "cpufreq" / "cpuinfo_max_freq").write_text("3700000\n")
    monkeypatch.setattr(machine, "_PROCESSORS", tmp_path)
    monkeypatch.setattr(machine, "_HUGE_PAGES", tmp_path / "absent")
    found = machine.describe()
    assert found["governor"] == "powersave"
    assert found["maximum clock"] == "3700 MHz"
    assert found["kernel"]
    assert not {"base clock", "boost", "transparent huge pages"} & found.keys()


def test_tools_are_distributions_with_normalised_names():
    assert {distributions.normalised(name) for name in distributions._TOOLS} == {
        *distributions._TOOLS
    }
