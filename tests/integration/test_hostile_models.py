"""Models that do their worst get a verdict on every aspect, and their neighbours are judged."""

from pathlib import Path

import pytest
from torch._inductor.runtime.cache_dir_utils import cache_dir

from tests.integration.conftest import FORWARD
from tests.integration.processes import living, soon

CASE = "{}-cpu-infer-f32-default-static"
ASPECTS = {"forward", "side_effects", "graph_breaks", "recompiles", "memory"}


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("segfaults", "crashed in stage 'eager': the process died of SIGSEGV"),
        ("hangs", "timed out in stage 'eager': no progress for 20 s"),
        ("exits", "crashed in stage 'eager': the process exited with status 0 without an answer"),
        ("raises_in_build", "raised in stage 'build': RuntimeError: no such weights"),
        ("segfaults_in_build", "crashed in stage 'build': the process died of SIGSEGV"),
        ("raises_20_megabytes", "raised in stage 'build': RuntimeError: head mmm"),
        (
            "exhausts_its_address_space",
            "ran out of memory in stage 'eager': DefaultCPUAllocator: can't allocate memory: you "
            "tried to allocate 17179869184 bytes",
        ),
        ("wrong_shape", "raised in stage 'eager': RuntimeError: "),
        ("not_a_module", "holds str; it must hold a module or a function"),
        ("not_an_example", "returned Linear; it must return an Example"),
        (
            "inputs_are_a_tensor",
            "the value that inputs of Example returns must be a tuple of arguments",
        ),
        ("picks_a_missing_output", "SelectorError: output=… of Example raised AttributeError: "),
        ("other_weights_each_time", "parameter weight differs between two builds under one seed"),
    ],
)
def test_every_aspect_of_a_hostile_model_fails_and_is_explained_once(hostile, model, expected):
    failed = hostile.failed(model)
    assert failed.keys() == ASPECTS
    (summary,) = set(failed.values())
    assert expected in summary
    shown = hostile.message(f"test_outputs_match_eager[{CASE.format(model)}]")
    assert f"-m compilegate observe {CASE.format(model)} --zoo" in shown
    brief = hostile.message(f"test_state_changes_as_in_eager[{CASE.format(model)}]")
    assert brief.strip() == f"{summary} (explained above)"


@pytest.mark.parametrize(
    ("model", "frame"),
    [
        ("segfaults", "in <lambda>"),
        ("segfaults_among_threads", "in crash"),
        ("raises_in_build", "in raises_in_build"),
        ("segfaults_in_build", "in segfaults_in_build"),
    ],
)
def test_the_traceback_is_of_the_users_file_and_nothing_of_ours(hostile, model, frame):
    shown = hostile.message(f"test_outputs_match_eager[{CASE.format(model)}]")
    lines = [line for line in shown.splitlines() if line.strip().startswith("File ")]
    assert any('tests/zoos/hostile.py", line' in line and frame in line for line in lines)
    assert not any("/fixtures/" in line for line in lines)


@pytest.mark.parametrize(
    "model",
    [
        "healthy_first",
        "prints_a_megabyte",
        "has_names_of_a_megabyte",
        "leaves_a_thread",
        "leaves_a_process",
        "healthy_last",
    ],
)
def test_the_neighbours_pass_every_aspect(hostile, model):
    assert hostile.verdicts(model).keys() == ASPECTS
    assert hostile.outcomes(model) == {"passed"}


def test_texts_of_megabytes_are_cut_in_the_run_file_and_on_the_terminal(hostile):
    assert len(hostile.output) < 400_000
    (path,) = hostile.runs.glob("*.jsonl")
    text = path.read_text()
    assert len(text) < 2_000_000
    for model in ("raises_20_megabytes", "breaks_for_a_megabyte", "has_names_of_a_megabyte"):
        lines = (line for line in text.splitlines() if f'"case":"{model}-' in line)
        assert any("bytes left out" in line for line in lines), model
    assert hostile.failed("breaks_for_a_megabyte").keys() == {"graph_breaks"}


def test_what_models_print_is_not_shown_and_the_run_is_complete(hostile):
    assert hostile.status == 1
    assert "x" * 200 not in hostile.output
    assert "y" * 200 not in hostile.output
    run = hostile.run()
    assert run.missing == []
    assert run.closing is not None


def test_leftovers_of_a_killed_compiler_are_removed(hostile):
    assert hostile.outcomes("hangs") == {"failed"}
    folders = [*Path(cache_dir()).glob("*/hangs")]
    assert folders
    assert [file for folder in folders for file in folder.iterdir()] == []


def test_no_process_survives(hostile):
    assert soon(lambda: not living(hostile.runs)), living(hostile.runs)


FAILS = """
import os
import torch
from torch import nn
from compilegate.zoo.registry import Example, model

class Fails(nn.Linear):
    def forward(self, x):
        with open({log!r}, "a") as log:
            log.write(f"{{os.getpid()}}\\n")
        raise {error}

@model("fails")
def fails():
    return Example(Fails(4, 4), inputs=lambda: (torch.randn(2, 4),))
"""


@pytest.mark.parametrize(
    ("error", "ended"),
    [
        ('torch.OutOfMemoryError("CUDA out of memory")', ("out_of_memory", 2)),
        ('ValueError("odd")', ("raised", 1)),
    ],
)
def test_a_case_that_ran_out_of_memory_is_the_last_of_its_process(
    compilegate, write, tmp_path, error, ended
):
    status, processes = ended
    log = tmp_path / "processes"
    cases = [f"fails-cpu-infer-f32-default-{dynamic}" for dynamic in ("static", "auto")]
    session = compilegate(
        *(FORWARD, "--zoo", write("mine.py", FAILS.format(log=str(log), error=error))),
        *(word for case in cases for word in ("--cases", case)),
    )
    assert {session.run().observations[case].status for case in cases} == {status}
    assert len(set(log.read_text().split())) == processes
