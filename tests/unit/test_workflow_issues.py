"""The scripts by which workflows talk to GitHub, with a ``gh`` that notes what it is asked."""

import json
import subprocess
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]


def run_with_gh(tmp_path, script, *words, answers):
    """Run a script of .ci with a ``gh`` that notes its calls and answers as it should."""
    (tmp_path / "gh").write_text(
        "#!/usr/bin/env bash\n"
        f'echo "$*" >> {tmp_path}/calls\n'
        f'[[ "$*" == *"--body-file -"* ]] && cat >> {tmp_path}/texts\n'
        f'case "$1 $2" in\n{answers}\nesac\n'
    )
    (tmp_path / "gh").chmod(0o755)
    done = subprocess.run(
        [CHECKOUT / ".ci" / script, *words],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "GITHUB_REPOSITORY": "acme/gate"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    calls = tmp_path / "calls"
    return calls.read_text().splitlines() if calls.exists() else [], done.stdout


KNOWN, OTHER = "0123456789abcdef", "fedcba9876543210"
ISSUE_LIST = f"""'issue list') echo '[{{"number": 7, "body": "<!-- compilegate: {KNOWN} -->"}}]' ;;
'issue create') echo https://example.invalid/8 ;;"""


def test_an_issue_is_opened_once_for_each_culprit_and_then_updated(tmp_path):
    title = "nightly: forward of vision fails in 3 cases; $(touch pwned)"
    issues = [
        {"key": KNOWN, "title": "known", "body": "again"},
        {"key": OTHER, "title": title, "body": "first"},
    ]
    (tmp_path / "issues.json").write_text(json.dumps(issues))
    words = (tmp_path / "issues.json", "Found by a run")
    calls, _ = run_with_gh(tmp_path, "publish-issues", *words, answers=ISSUE_LIST)
    assert [call.split()[:3] for call in calls] == [
        ["label", "create", "compilegate"],
        ["issue", "list", "--label"],
        ["issue", "comment", "7"],
        ["issue", "create", "--title"],
    ]
    assert calls[2].startswith("issue comment 7 --edit-last --create-if-none ")
    assert title in calls[-1]
    texts = (tmp_path / "texts").read_text()
    assert f"<!-- compilegate: {OTHER} -->" in texts
    assert texts.count("Found by a run") == 2


def test_without_culprits_nothing_is_asked_of_github(tmp_path):
    (tmp_path / "issues.json").write_text("[]")
    words = (tmp_path / "issues.json",)
    assert run_with_gh(tmp_path, "publish-issues", *words, answers=ISSUE_LIST) == ([], "")


def test_one_night_opens_ten_issues_at_most(tmp_path):
    issues = [{"key": f"{n:016x}", "title": f"{n}", "body": ""} for n in range(12)]
    (tmp_path / "issues.json").write_text(json.dumps(issues))
    words = (tmp_path / "issues.json",)
    calls, output = run_with_gh(tmp_path, "publish-issues", *words, answers=ISSUE_LIST)
    assert sum(call.startswith("issue create") for call in calls) == 10
    assert output.count("not opened") == 2


def test_the_newest_history_is_fetched_and_the_first_night_has_none(tmp_path):
    words = ("history", tmp_path / "nights")
    answers = "'api --method') echo 4711 ;;"
    calls, _ = run_with_gh(tmp_path, "last-artifact", *words, answers=answers)
    assert 'select(.workflow_run.head_branch == "main")' in calls[0]
    assert calls[-1].startswith("run download 4711 --repo acme/gate --name history --dir")
    (tmp_path / "calls").unlink()
    calls, output = run_with_gh(tmp_path, "last-artifact", *words, answers="*) ;;")
    assert not [call for call in calls if "download" in call]
    assert "this is the first" in output
