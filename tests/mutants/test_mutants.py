from __future__ import annotations

import ast
import importlib
import json
import sys
from dataclasses import asdict

import pytest

from tests.mutants import choosing, trial
from tests.mutants.__main__ import summary
from tests.mutants.baseline import Lines

mutation = choosing.mutation
SOURCE = '''
def f(x, y=2):
    """Return a number > 1."""
    total = 0
    for one in range(x):
        if one < y and not one == 1:
            total += one * 2
        else:
            continue
    text = f"{total} + {x} < 3"
    return max(total, len(text)), True
'''


def sources(kind):
    """The functions that changes of a kind make of the source."""
    found = []
    for number, site in enumerate(mutation.sites(ast.parse(SOURCE), has_templates=True)):
        if site.kind == kind:
            tree = ast.parse(SOURCE)
            mutation.sites(tree, has_templates=True)[number].apply()
            found.append(ast.unparse(ast.fix_missing_locations(tree)))
    return "\n".join(found)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("comparison", "one <= y"),
        ("comparison", "one != 1"),
        ("arithmetic", "one // 2"),
        ("arithmetic", "total -= one"),
        ("constant", "total = 1"),
        ("constant", "total = -1"),
        ("logic", "one < y or not"),
        ("condition", "if not (one < y and (not one == 1))"),
        ("statement", "pass"),
        ("arguments", "max(len(text), total)"),
        ("return", "return x"),
        ("boolean", "False"),
        ("text", "{total} - {x} <"),
        ("text", "+ {x} <= 3"),
        ("text", "< 4"),
    ],
)
def test_each_kind_of_change(kind, text):
    assert text in sources(kind)
    assert text not in ast.unparse(ast.parse(SOURCE))


def test_a_docstring_is_left_alone():
    everything = [site.before for site in mutation.sites(ast.parse(SOURCE), has_templates=True)]
    assert everything
    assert not any("Return a number" in before for before in everything)


def test_a_changed_module_is_loaded(tmp_path, monkeypatch):
    """It is loaded as it is, with one change, and with notes of the lines that are executed."""
    (tmp_path / "mutated.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    sites = mutation.sites(ast.parse(SOURCE))
    (number,) = (n for n, site in enumerate(sites) if site.after == "False")

    def load(changes):
        finder = mutation.Finder(changes)
        monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
        sys.modules.pop("mutated", None)
        return importlib.import_module("mutated").f(3)

    assert load({}) == (9, True)
    assert load({"mutated": None}) == (9, True)
    assert mutation.LINES.pop("mutated") == {4, 5, 6, 7, 9, 10, 11}
    assert load({"mutated": number}) == (9, False)


@pytest.mark.parametrize(
    ("line", "session", "expected"),
    [
        ({"crashed": "…"}, {"failed": ["…"]}, "crashed"),
        ({"crashed": "…"}, {}, "crash missed"),
        ({"differs": ["code", "numbers"]}, {"failed": ["…"]}, "detected"),
        ({"differs": ["numbers"], "over_eager": 20.0}, {}, "survived: other numbers"),
        ({"differs": ["numbers"], "over_eager": 2.0}, {}, "survived: rounded otherwise"),
        ({"differs": ["code", "numbers"]}, {"inconclusive": ["…"]}, "inconclusive"),
        ({"differs": ["code"]}, {}, "survived: same numbers"),
        ({"differs": ["guards", "graphs"]}, {}, "survived: other graphs"),
    ],
)
def test_classes(line, session, expected):
    session = {"failed": [], "inconclusive": [], "status": 0, **session}
    assert trial.classify([line], "", session) == expected


@pytest.mark.long
def test_a_mutant_reaches_the_compiler(tmp_path):
    """Its code and numbers differ, compilegate detects it, and its healthy twin is the same."""
    here = trial.Trial(tmp_path, "cpu", 1, 200.0)
    case = "pointwise-cpu-infer-f32-default-auto"
    stored, fault = here.plain("stored", [case], None, stores=True)
    assert not fault, stored
    ((twin,), fault) = here.plain("twin", [case], dict.fromkeys(choosing.modules()))
    assert (twin["differs"], fault) == ([], "")
    lines: dict[str, Lines] = {case: twin["lines"]}
    found = [
        mutant
        for mutant in choosing.order(lines, 0)
        if mutant.module.endswith("codegen.cpp") and mutant.kind == "return"
        if "log1p" in mutant.before
    ]
    result = here.examine(found[0])
    assert result["class"] == "detected", json.dumps(result)
    assert {"code", "numbers"} <= {*result["plain"][0]["differs"]}
    assert result["session"]["failed"][0][1] == "forward"
    record = {**asdict(found[0]), **result}
    assert "first failed aspect of detected: {'forward': 1}" in [*summary([record])]
