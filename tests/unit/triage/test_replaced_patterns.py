"""What a pass of Inductor replaces in a script: the pattern, and the lines of code."""

import json
import subprocess
import sys

import pytest

from compilegate.triage.findings import Findings
from compilegate.triage.report import issue
from compilegate.triage.report.title import title_of
from compilegate.triage.search.ladder import Stage
from tests.unit.failing import A, wrong
from tests.unit.making import make_environment
from tests.unit.triage.test_titles import suspect_of

SCRIPT = """\
import os
import torch


class Stop(torch._inductor.custom_graph_pass.CustomGraphPass):
    def __call__(self, graph):
        os._exit(0)  # before code is generated, which takes long

    def uuid(self):
        return b"stop"


def attend(q, k, v):
    weights = torch.softmax(q @ k.transpose(-2, -1) * 0.5, -1)
    return weights @ v + q.relu()


torch._inductor.config.post_grad_custom_pre_pass = Stop()
torch.compile(attend)(*[torch.randn(2, 4, 8, 16) for _ in range(3)])
raise SystemExit("no pass has stopped it")
"""
FOLLOW = """\
import sys
from pathlib import Path
import runpy
import torch._inductor.compile_fx, torch._inductor.custom_graph_pass
from compilegate.observe.dissect import patterns

patterns.follow(sys.argv[2], Path(sys.argv[3]))
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.mark.parametrize(
    ("named", "names"), [("pass_pattern_0", ["_sfdp_pattern_2"]), ("pass_pattern_1", [])]
)
def test_the_pattern_and_the_lines_are_named(named, names, tmp_path):
    script, file = tmp_path / "script.py", tmp_path / "patterns.json"
    script.write_text(SCRIPT)
    file.write_text("[]")
    words = [sys.executable, "-c", FOLLOW, str(script), named, str(file)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text())
    assert [one["name"] for one in found] == names
    for one in found:
        assert one["at"].startswith("torch/_inductor/fx_passes/fuse_attention.py:")
        assert one["lines"] == [
            "script.py:14: weights = torch.softmax(q @ k.transpose(-2, -1) * 0.5, -1)",
            "script.py:15: return weights @ v + q.relu()",
        ]


@pytest.mark.parametrize("names", [["_sfdp_pattern_2"], ["_sfdp_pattern_2", "fold"], []])
def test_a_report_names_them_and_the_title_one_that_is_alone(names):
    lines = [f"repro.py:{n}: y" for n in range(4)]
    found = [{"name": name, "at": "a.py:7", "lines": lines} for name in names]
    bisected = {"backend": "inductor", "subsystem": "joint_graph_passes", "patterns": found}
    findings = Findings(stage=Stage("inductor"), bisected=bisected | {"what": "pass_pattern_0"})
    suspect = suspect_of(wrong(A))
    text = issue.text(suspect, findings, make_environment(), "observe", "")
    said = ", ".join(f"`{line}`" for line in lines[:3])
    assert (f"It replaces `_sfdp_pattern_2` (`a.py:7`): {said}." in text) == bool(names)
    assert ("The fault is in one of 2 patterns that this pass replaces:" in text) == (
        len(names) == 2
    )
    named = title_of(suspect, findings).startswith("[Inductor] _sfdp_pattern_2 in")
    assert named == (len(names) == 1)
