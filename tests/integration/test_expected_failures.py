"""``[[expected_failure]]``: strict both ways, of an aspect or of all that a stage takes along."""

from tests.integration.conftest import EXACT, ZOOS

ENTRY = '[[expected_failure]]\nreason = "bug 7"\nissue = "https://bugs/7"\n'
CASES = ("--cases", "*-cpu-infer-f32-default-static", "-m", "cpu")


def replay(compilegate, write, *lines):
    entry = ENTRY + "".join(f"{line}\n" for line in lines)
    return compilegate(*EXACT, "--replay", "stored", "--budgets", write("mine.toml", entry), "-rx")


def test_a_failure_that_is_expected_is_xfailed(compilegate, stored, write):
    stored("breaks")
    session = replay(compilegate, write, 'model = "breaks"', 'aspect = "graph_breaks"')
    assert session.status == 0, session.output
    assert session.counts == {"passed": 4, "xfailed": 1}
    assert "bug 7 (https://bugs/7): 1 graph break not budgeted" in session.output


def test_a_pass_that_was_expected_to_fail_fails(compilegate, stored, write):
    stored("unbroken")
    session = replay(compilegate, write, 'model = "unbroken"', 'aspect = "graph_breaks"')
    assert session.status == 1
    assert session.counts == {"passed": 4, "failed": 1}
    assert "expected to fail, but passed: bug 7 (https://bugs/7)" in session.output
    assert "mine.toml:1" in session.output


def test_another_failure_than_the_expected_one_fails(compilegate, stored, write, hostile):
    stored("segfaults", of=hostile)
    assert replay(compilegate, write, 'aspect = "forward"').counts == {"failed": 5}
    assert replay(compilegate, write, 'stage = "compile"').counts == {"failed": 5}
    stored("uncompilable")
    assert replay(compilegate, write, 'stage = "crash"').counts == {"failed": 5}
    assert replay(compilegate, write, 'stage = "compile"').counts == {"xfailed": 5}


def test_an_entry_applies_to_its_torch_versions_only(compilegate, stored, write):
    stored("breaks")
    others = replay(compilegate, write, 'aspect = "graph_breaks"', 'torch = "<2.0"')
    assert others.counts == {"passed": 4, "failed": 1}
    ours = replay(compilegate, write, 'aspect = "graph_breaks"', 'torch = ">=2.0"')
    assert ours.counts == {"passed": 4, "xfailed": 1}
    stored("unbroken")
    others = replay(compilegate, write, 'aspect = "graph_breaks"', 'torch = "<2.0"')
    assert others.counts == {"passed": 5}


def test_one_entry_covers_a_crash_in_every_aspect(compilegate, write):
    mine = write("mine.toml", f'{ENTRY}model = "segfaults"\nstage = "crash"\n')
    models = ("--models", "healthy_first", "--models", "segfaults")
    zoo = ("--zoo", str(ZOOS / "hostile.py"))
    session = compilegate(*EXACT, *zoo, *models, *CASES, "--budgets", mine)
    assert session.status == 0, session.output
    assert session.counts == {"passed": 5, "xfailed": 5}
    assert session.outcomes("segfaults") == {"expected_failure"}
