"""Every command that reads a run, in this process."""

import contextlib
import io

from compilegate.__main__ import main
from tests.unit.damage import content, whole_run


def whole_runs(folder):
    """Write a baseline, and a twin of its candidate, which may be damaged."""
    (folder / "old.jsonl").write_bytes(content(whole_run("2.14.1")))
    twin = whole_run("2.15.0", created="2026-02-02T00:00:00+00:00")
    (folder / "twin.jsonl").write_bytes(content(twin))
    return folder


def run_command(*words):
    """A command's exit status, and what it wrote to its two outputs."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        status = main([str(word) for word in words])
    return status, output.getvalue(), errors.getvalue()


def commands(folder, run):
    """Every command that reads a run, and the file that it writes."""
    page, merged = folder / "page.html", folder / "merged.jsonl"
    old, twin = folder / "old.jsonl", folder / "twin.jsonl"
    return {
        "compare": (("compare", old, run), None),
        "compare, as baseline": (("compare", run, old), None),
        "html": (("html", run, "-o", page), page),
        "html of two": (("html", run, old, "-o", page), page),
        "markdown": (("markdown", run), None),
        "merge": (("merge", run, "-o", merged), merged),
        "thresholds": (("thresholds", run, twin), None),
    }
