"""What an environment lacks makes no release of torch good or bad."""

import pytest

from compilegate.__main__ import main
from compilegate.commands import first_bad
from compilegate.triage.releases.lacks import lack, unstarted
from tests.unit.making import (
    make_call,
    make_environment,
    make_failed_observation,
    make_observation,
)
from tests.venvs import install, make_venv

VERSIONS = {"torch": "2.13.0", "timm": "0.4.0", "transformers": "4.1.0"}
FRAMES = 'Traceback (most recent call last):\n  File "torch/x.py", line 1, in f\n'


def why(status="raised", **failure):
    return lack(make_failed_observation(status, **failure), VERSIONS)


@pytest.mark.parametrize(
    ("stage", "kind", "message", "words"),
    [
        ("build", "ModuleNotFoundError", "No module named 'einops'", "lacks the module einops: M"),
        (
            *("build", "ImportError", "cannot import name 'Gemma' from 'transformers' (/x.py)"),
            "lacks a transformers that has Gemma (it has transformers 4.1.0): ImportError: cannot",
        ),
        (
            *("build", "AttributeError", "module 'torch.nn' has no attribute 'RMSNorm'"),
            "lacks a torch that has torch.nn.RMSNorm (it has torch 2.13.0): ",
        ),
        ("eager", "RuntimeError", "Numpy is not available", "lacks a NumPy that this torch can"),
        ("eager", "ValueError", "odd size", "eager cannot run the case: ValueError: odd size"),
        ("build", "TypeError", "no such field", "the model cannot be built: TypeError: no such"),
        (
            *("compile", "InductorError", "InvalidCxxCompiler: No working C++ compiler found"),
            "lacks a C++ compiler that works: InductorError: Inv",
        ),
        ("compile", "InductorError", "C++ compile error: omp.h: No such file", "header omp.h: "),
        (
            *("compile", "RuntimeError", "torch.compile is not supported on Python 3.14+"),
            "lacks a Python that this torch supports: not 3.14+: ",
        ),
        ("compile", "ImportError", "libcuda.so.1: cannot open shared object file", "libcuda.so.1"),
    ],
)
def test_what_an_environment_lacks_is_named(stage, kind, message, words):
    assert words in why(stage=stage, kind=kind, message=message, traceback=FRAMES)


@pytest.mark.parametrize(
    ("stage", "kind", "message"),
    [
        ("compile", "TorchRuntimeError", "it broke"),
        ("call", "AttributeError", "module 'torch' has no attribute 'gone'"),
        ("vary", "ImportError", "cannot import name 'x' from 'torch._inductor'"),
        ("compile", "ModuleNotFoundError", "No module named 'torch._inductor.gone'"),
        ("compile", "InductorError", "C++ compile error: ATen/gone.h: No such file"),
        ("compile", "InductorError", "C++ compile error: 'at' has not been declared"),
    ],
)
def test_what_the_compiler_does_is_not_what_an_environment_lacks(stage, kind, message):
    assert not why(stage=stage, kind=kind, message=message, traceback=FRAMES)


def test_a_process_that_dies_in_eager_says_nothing_of_the_compiler():
    assert why("crashed", stage="eager", kind="SIGSEGV") == "eager cannot run the case: SIGSEGV"
    assert not why("crashed", stage="compile", kind="SIGSEGV")
    assert not why("timed_out", stage="call", kind="timeout")


def test_a_library_that_cannot_be_imported_is_lacking():
    message = "timm cannot be imported: operator torchvision::nms does not exist"
    words = "the environment lacks a timm that can be imported (it has timm 0.4.0): timm cannot"
    assert why("unavailable", stage="build", message=message).startswith(words)
    message = "eager cannot run this model on this processor: could not create a primitive"
    assert why("unavailable", stage="eager", message=message) == message


def test_an_error_of_compilegate_itself_is_none_of_torch():
    error = "Traceback (most recent call last):\nAttributeError: gone\n"
    said = why(stage="compile", kind="AttributeError", message="gone", traceback=error)
    assert said == "compilegate itself cannot observe the case under torch 2.13.0: " + (
        "AttributeError: gone"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "python did not answer\n  File x\nAttributeError: gone",
            "compilegate cannot start there: ",
        ),
        (
            "python cannot start\nModuleNotFoundError: No module named 'typing_extensions'",
            "lacks the",
        ),
        ("cannot run python: not found", "cannot run python: not found"),
    ],
)
def test_a_process_that_does_not_start_has_one_line(text, words):
    said = unstarted(text)
    assert words in said
    assert said.endswith(text.splitlines()[-1])
    assert "\n" not in said


def test_a_model_that_raises_in_each_eager_call_is_not_good():
    raised = make_call(raised="AttributeError: module 'torch' has no attribute 'gone'")
    calls = (raised, raised)
    said = lack(make_observation(calls=calls), VERSIONS)
    assert said.startswith("the environment lacks a torch that has torch.gone (it has torch 2.13.0")
    assert not lack(make_observation(calls=(raised, make_call())), VERSIONS)
    assert not lack(make_observation(calls=calls, raises="AttributeError"), VERSIONS)
    assert not lack(make_observation(), VERSIONS)
    assert not lack(make_observation(calls=(make_call(raised="ValueError: odd"),)), VERSIONS)


class Releases:
    """Observes nothing: the release 1.0 lacks a module, and later ones show what they are given."""

    shown = make_observation()

    def __init__(self, launch, progress):
        self.is_old = launch.python.endswith("old/bin/python")

    def environment(self):
        return make_environment()

    def observe(self, request, **where):
        if self.is_old:
            error = {"kind": "ModuleNotFoundError", "message": "No module named 'einops'"}
            return make_failed_observation("raised", stage="build", traceback=FRAMES, **error)
        return self.shown

    def close(self):
        pass


def search(tmp_path, monkeypatch, shown):
    monkeypatch.setattr(Releases, "shown", shown)
    monkeypatch.setattr(first_bad, "Observer", Releases)
    words = ["first-bad", "mlp-cpu-infer-f32-default-static"]
    for name, version in (("old", "1.0"), ("new", "2.0")):
        words += ["--python", make_venv(tmp_path / name)]
        install(tmp_path / name, "torch", version)
    return main(words)


LEFT_OUT = "neither good nor bad: torch 1.0; where the environment lacks something, --with DIST"


def test_a_release_whose_environment_lacks_a_module_is_neither_good_nor_bad(
    tmp_path, monkeypatch, capsys
):
    assert search(tmp_path, monkeypatch, make_observation()) == 0
    old, new, every, left_out = capsys.readouterr().out.splitlines()
    assert old.startswith("1.0: unobservable: the environment lacks the module einops: Module")
    assert (new, every) == ("2.0: good", "every observed release is good")
    assert left_out.startswith(LEFT_OUT)


def test_a_failure_of_the_compiler_next_to_it_is_bad(tmp_path, monkeypatch, capsys):
    raised = make_failed_observation("raised", stage="compile", traceback=FRAMES)
    assert search(tmp_path, monkeypatch, raised) == 1
    _, new, every, left_out = capsys.readouterr().out.splitlines()
    assert new.startswith("2.0: bad: forward: raised in stage 'compile'")
    assert every == "every observed release is bad"
    assert left_out.startswith(LEFT_OUT)
