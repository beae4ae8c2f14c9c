"""A machine without a C++ compiler is refused in one sentence, before any process is started."""

import dataclasses
import subprocess
import tempfile

import pytest

from compilegate.__main__ import main
from compilegate.processes import cpp_compiler, foreground
from compilegate.processes.cpp_compiler import CompilerError
from compilegate.session.planning import make_plan
from tests.unit.planned import make_options

CASE = "matvec-cpu-infer-f32-default-static"


@pytest.fixture
def path(tmp_path, monkeypatch):
    """The only folder on the path, which is empty, and no ``CXX``."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CXX", raising=False)
    return folder


@pytest.fixture
def nothing_starts(monkeypatch):
    """Fail where any process is started."""

    def refuse(*arguments, **_):
        raise AssertionError(f"a process was started: {arguments}")

    monkeypatch.setattr(subprocess, "Popen", refuse)


def program(folder, name):
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)


def test_without_gxx_the_message_says_what_to_do(path):
    with pytest.raises(CompilerError, match=r"g\+\+ is not on the path; install g\+\+ or set CXX"):
        cpp_compiler.require("cpu", "inductor")


@pytest.mark.parametrize("named", ["no-such-compiler", "no-such-compiler -x", ""])
def test_cxx_that_names_no_program_is_refused(path, monkeypatch, named):
    program(path, "g++")
    monkeypatch.setenv("CXX", named)
    with pytest.raises(CompilerError, match=f"CXX is '{named}', which is no program"):
        cpp_compiler.require("cpu", "inductor")


def test_gxx_and_whatever_cxx_names_are_accepted(path, monkeypatch):
    program(path, "mine")
    monkeypatch.setenv("CXX", f"{path / 'mine'} -O1")
    cpp_compiler.require("cpu", "inductor")
    monkeypatch.delenv("CXX")
    program(path, "g++")
    cpp_compiler.require("cpu", "inductor")


@pytest.fixture(params=["TMPDIR", "TORCHINDUCTOR_CACHE_DIR"])
def folder_of(request, tmp_path, monkeypatch):
    """The name of a variable, and a function that has it name a folder in another one."""
    monkeypatch.setattr(tempfile, "tempdir", None)

    def set_to(name):
        (tmp_path / name / "inner").mkdir(parents=True)
        monkeypatch.setenv(request.param, str(tmp_path / name / "inner"))

    return request.param, set_to


@pytest.mark.parametrize("name", ["a blank", "a'quote", "a\\backslash"])
def test_a_folder_that_inductor_would_split_or_change_is_refused(folder_of, name):
    variable, set_to = folder_of
    set_to(name)
    with pytest.raises(
        CompilerError, match=rf"does not quote the path; set {variable} to a folder"
    ):
        cpp_compiler.require("cpu", "inductor")
    cpp_compiler.require("cpu", "aot_eager")
    cpp_compiler.require("cuda", "inductor")


def test_other_folders_are_accepted(folder_of):
    folder_of[1]("a-plain_(ü)_folder")
    cpp_compiler.require("cpu", "inductor")


@pytest.mark.parametrize(("device", "backend"), [("cuda", "inductor"), ("cpu", "aot_eager")])
def test_what_needs_no_compiler_is_accepted_without_one(path, device, backend):
    cpp_compiler.require(device, backend)


@pytest.mark.usefixtures("path", "nothing_starts")
@pytest.mark.parametrize("changed", [{"markers": "cpu", "zoo": (__file__,)}, {"cases": (CASE,)}])
def test_a_session_is_refused_before_it_starts_anything(tmp_path, changed):
    options = dataclasses.replace(make_options(tmp_path), **changed)
    with pytest.raises(pytest.UsageError, match=r"found no compiler: g\+\+ is not on the path"):
        make_plan(options, needs_environment=True)


@pytest.mark.usefixtures("path", "nothing_starts")
def test_collecting_needs_no_compiler(tmp_path):
    options = dataclasses.replace(make_options(tmp_path), markers="cpu")
    assert make_plan(options, needs_environment=False).cases


@pytest.mark.usefixtures("path")
def test_the_command_observe_is_refused_before_it_starts_anything(monkeypatch, capsys):
    started = []
    monkeypatch.setattr(foreground, "observe", started.append)
    assert main(["observe", CASE]) == 2
    assert "found no compiler: g++ is not on the path" in capsys.readouterr().err
    assert started == []
