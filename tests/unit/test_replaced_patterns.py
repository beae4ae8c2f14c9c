"""What a pass of Inductor replaces in a script: the pattern, and the lines of code."""

import json
import subprocess
import sys

import pytest

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
