"""The shards of the nightly workflow: all are divided by the seconds of the last merged run."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

WORKFLOW = Path(__file__).parents[2] / ".github" / "workflows" / "gpu.yml"
JOBS = yaml.safe_load(WORKFLOW.read_text())["jobs"]


def words_of_pytest(folder, by=""):
    """Return what the job of a shard calls pytest with."""
    (script,) = (s["run"] for s in JOBS["shard"]["steps"] if s.get("name") == "Observe and judge")
    python = folder / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$@"\n')
    python.chmod(0o755)
    values = {"BY": by, "SHARD": "2", "SHARDS": "3", "TIER": "smoke", "RUNNER_TEMP": str(folder)}
    done = subprocess.run(
        ["bash", "-euc", script],
        env={**os.environ, **values},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not on PATH")
@pytest.mark.parametrize("count", ["1", "4"])
def test_shards_are_numbered(count, tmp_path):
    (step,) = (s for s in JOBS["shards"]["steps"] if s.get("id") == "count")
    output = tmp_path / "output"
    variables = {**os.environ, "SHARDS": count, "GITHUB_OUTPUT": str(output)}
    subprocess.run(["bash", "-euc", step["run"]], env=variables, check=True)
    name, _, numbers = output.read_text().strip().partition("=")
    assert name == "numbers"
    assert json.loads(numbers) == [*range(1, int(count) + 1)]
    assert JOBS["shard"]["strategy"]["matrix"] == {
        "shard": "${{ fromJSON(needs.shards.outputs.numbers) }}"
    }


@pytest.mark.parametrize(
    ("by", "kept", "expected"),
    [
        ("", False, None),
        ("", True, "earlier/gpu.jsonl"),
        ("mine.jsonl", True, "mine.jsonl"),
    ],
    ids=["first night", "later night", "named"],
)
def test_a_shard_is_divided_by_the_last_merged_run(tmp_path, by, kept, expected):
    if kept:
        (tmp_path / "earlier").mkdir()
        (tmp_path / "earlier" / "gpu.jsonl").touch()
    words = words_of_pytest(tmp_path, by)
    assert words[words.index("--shard") + 1] == "2/3"
    named = words[words.index("--shard-by") + 1] if "--shard-by" in words else None
    assert named == expected


def test_every_shard_gets_the_run_that_one_job_has_fetched():
    """If each fetched it, a run that ends in between would divide the others by another one."""
    uploads = [s["with"] for s in JOBS["shards"]["steps"] if "upload-artifact" in s.get("uses", "")]
    downloads = [
        s["with"] for s in JOBS["shard"]["steps"] if "download-artifact" in s.get("uses", "")
    ]
    assert [one["name"] for one in uploads] == ["earlier"]
    assert [one["pattern"] for one in downloads] == ["earlier"]
    fetching = [s["run"] for job in JOBS.values() for s in job["steps"] if "run" in s]
    assert sum("last-artifact gpu" in script for script in fetching) == 1
