"""docs/findings.md is what docs/findings.py writes."""

import importlib.util
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "docs" / "findings.py"


def load_script():
    spec = importlib.util.spec_from_file_location("findings", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date():
    script = load_script()
    assert script.PAGE.read_text() == script.page(), "run python docs/findings.py"


def test_every_known_bug_is_on_the_page_with_its_issue_and_its_failure():
    rows = [line for line in load_script().page().splitlines() if "| `gh" in line]
    assert len(rows) >= 41
    for row in rows:
        issue, model, what, fails = (cell.strip() for cell in row.strip("|").split(" | "))
        number = issue.partition("]")[0].strip("[")
        assert model.startswith(f"`gh{number}_"), row
        assert what, row
        assert fails, row


def test_what_is_not_in_the_tracker_is_on_the_page_with_its_failure_and_without_an_issue():
    rows = [line for line in load_script().page().splitlines() if "| `unreported" in line]
    assert len(rows) >= 13
    for row in rows:
        issue, _, what, fails = (cell.strip() for cell in row.removeprefix("|").split(" | "))
        assert not issue, row
        assert what, row
        assert fails, row


def test_writing_the_page_imports_no_torch():
    program = f"""
import runpy, sys
runpy.run_path({str(SCRIPT)!r})["page"]()
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
