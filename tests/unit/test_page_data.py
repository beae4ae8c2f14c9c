"""The data of a page: every case, with the figures of the run file, safe in a script."""

import base64
import json
import re
import zlib

import pytest

from compilegate.judging.aspects import ASPECTS
from compilegate.output.visible import visible
from compilegate.records.performance import Energy
from compilegate.reports import html, page_data
from compilegate.reports.columns import COLUMNS, figures_of
from compilegate.reports.page_data import FIELDS, OUTCOMES, PageData, details, encode, number
from compilegate.reports.speedup_means import speedup_means
from compilegate.runs.archive import Archive, CaseRecord
from compilegate.runs.reproduction import command, files_of
from compilegate.runs.slim import slim_observation
from compilegate.upgrade.case_comparison import CaseComparison
from compilegate.upgrade.verdict_changes import Change
from tests.unit.making import (
    CASE_ID,
    make_break,
    make_call,
    make_capture,
    make_checked,
    make_compilation,
    make_error,
    make_failed_observation,
    make_header,
    make_memory,
    make_observation,
    make_timing,
    make_verdict,
)
from tests.unit.runs import UNOBSERVED, compare_files, seen, write_run

HOSTILE = "</script><script>alert(1)</script><!--\u2028]]>&amp;'\""


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        (3, 3),
        (2.0, 2),
        (1.234567891, 1.23457),
        (1.2e-7, 1.2e-7),
        (1e300, 1e300),
        (float("nan"), "NaN"),
        (float("inf"), "∞"),
        (float("-inf"), "-∞"),
    ],
)
def test_numbers_keep_the_digits_of_a_run_file(value, shown):
    assert number(value) == shown
    json.dumps(number(value), allow_nan=False)


def test_no_text_can_end_its_script_element():
    text = encode({HOSTILE: [HOSTILE]})
    assert not re.search(r"[<>&\u2028\u2029]", text)
    assert json.loads(text) == {visible(HOSTILE): [visible(HOSTILE)]}


def test_no_text_of_a_page_acts_on_what_stands_next_to_it():
    assert json.loads(encode(["a\u202eb", ["\x1b[8m"], "é 日本"])) == [
        r"a\u202eb",
        [r"\u001b[8m"],
        "é 日本",
    ]


def test_details_are_read_back_unchanged():
    data = PageData()
    for index in range(page_data.CHUNK + 3):
        data.add([f"case {index}"], {"case": f"case {index}", "text": HOSTILE})
    data.close()
    assert len(data.rows) == page_data.CHUNK + 3
    chunks = [json.loads(zlib.decompress(base64.b64decode(chunk))) for chunk in data.chunks]
    assert [len(chunk) for chunk in chunks] == [page_data.CHUNK, 3]
    assert chunks[1][2] == {"case": f"case {page_data.CHUNK + 2}", "text": visible(HOSTILE)}
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", data.chunks[0])


def row(record):
    return dict(zip(FIELDS, page_data.row_of_run(CASE_ID, record), strict=True))


def test_a_row_has_the_figures_of_its_case():
    observation = make_observation(timing=make_timing(2.0), memory=make_memory(100, 125), cold=True)
    assert row(seen(observation, forward="failed", memory="passed")) == {
        "case": CASE_ID,
        "kind": OUTCOMES.index("failed"),
        "speedup": 2,
        "low": 2,
        "high": 2,
        "compile": 4,
        "cold": 1,
        "memory": 1.25,
        "breaks": 0,
        "recompiles": 0,
        "forward": 1e-7,
        "gradients": 1e-7,
        "reason": "forward: forward failed",
        "speedup_before": None,
        "compile_before": None,
    }


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        (seen(forward="passed"), "passed"),
        (seen(forward="passed", memory="inconclusive"), "inconclusive"),
        (CaseRecord(True, slim_observation(make_observation())), "not judged"),
        (UNOBSERVED, "not observed"),
    ],
)
def test_a_row_has_the_result_of_its_case(record, kind):
    assert OUTCOMES[row(record)["kind"]] == kind


def test_a_row_of_two_runs_has_the_figures_of_both():
    before, now = (seen(make_observation(timing=make_timing(s))) for s in (2.0, 1.5))
    item = CaseComparison(CASE_ID, "broken", (Change("forward", "broken", "off"),))
    cells = dict(zip(FIELDS, page_data.row_of_comparison(item, before, now), strict=True))
    assert (cells["speedup"], cells["speedup_before"], cells["reason"]) == (1.5, 2, "forward: off")
    elsewhere = page_data.row_of_comparison(item, before, now, times_compare=False)
    cells = dict(zip(FIELDS, elsewhere, strict=True))
    assert (cells["speedup"], cells["speedup_before"], cells["compile_before"]) == (
        1.5,
        None,
        None,
    )
    gone = page_data.row_of_comparison(CaseComparison(CASE_ID, "gone"), before, UNOBSERVED)
    assert dict(zip(FIELDS, gone, strict=True))["speedup"] is None


def figures(speedup):
    return figures_of(make_observation(timing=make_timing(speedup)))


def test_speedups_are_averaged_by_device_phase_and_precision():
    cases = {
        "a-cpu-infer-f32-default-static": (None, figures(1.0)),
        "b-cpu-infer-f32-default-auto": (None, figures(4.0)),
        "a-cpu-train-bf16-default-static": (None, figures(3.0)),
        "c-cpu-train-bf16-default-static": (None, figures_of(make_observation())),
    }
    infer, train = speedup_means(cases)
    assert (infer.axes, infer.cases, infer.before) == (("cpu", "infer", "f32"), 2, None)
    assert infer.mean == pytest.approx(2.0)
    assert (train.axes, train.cases) == (("cpu", "train", "bf16"), 1)
    assert train.mean == pytest.approx(3.0)


def test_means_of_two_runs_are_over_the_cases_that_both_timed():
    cases = {
        "a-cpu-infer-f32-default-static": (figures(2.0), figures(1.0)),
        "b-cpu-infer-f32-default-auto": (None, figures(4.0)),
    }
    (mean,) = speedup_means(cases)
    assert mean.cases == 1
    assert mean.change_percent == pytest.approx(-50.0)


def test_every_column_of_the_registry_is_a_column_of_reports():
    assert [column.name for column in COLUMNS] == [a.column for a in ASPECTS.values() if a.column]


def side(observation, header=None, **outcomes):
    (shown,) = details(CASE_ID, [(header or make_header(), seen(observation, **outcomes))])["sides"]
    return shown


def test_details_hold_all_that_was_measured():
    tensors = [make_error(f"t{i}", compiled_rms=(i + 1) * 1e-7) for i in range(20)]
    tensors.append(make_error("nan", compiled_rms=float("nan")))
    observation = make_observation(
        calls=(make_call(outputs=make_checked(*tensors), gradients=make_checked()),),
        capture=make_capture(
            breaks=(make_break(),),
            fallbacks=(make_break(), make_break("other")),
            compilations=(make_compilation(), make_compilation(2, "size 4")),
            limits=("8 times",),
        ),
        timing=make_timing(2.0, rounds=9),
        memory=make_memory(100, 125),
        energy=Energy(eager_j=2.0, compiled_j=1.5),
        tf32=True,
    )
    shown = side(observation, forward="failed")
    assert shown["verdicts"] == [["forward", "failed", "forward failed"]]
    assert shown["capture"]["breaks"][0] == [
        "Call to `print`",
        "GB0001",
        "net.py:10 in forward",
        "model",
    ]
    assert [found[0] for found in shown["capture"]["breaks"]] == ["Call to `print`", "other"]
    assert shown["capture"]["recompiles"] == [[3, "net.py:10 in forward", "size 4"]]
    assert shown["capture"]["limits"] == ["8 times"]
    assert shown["eager_ns"] == [1000000] * 9
    assert shown["compiled_ns"] == [500000] * 9
    assert shown["speedup"] == [2, 2, 2]
    assert shown["compile_s"] == [4, 1, 1, 1, 1]
    assert shown["memory_bytes"] == [100, 125]
    assert shown["energy_j"] == [2, 1.5]
    assert ["TF32", "on"] in shown["facts"]
    assert shown["tensor_count"] == 21
    assert [found[2] for found in shown["tensors"]][:3] == ["nan", "t19", "t18"]
    assert shown["tensors"][0][-3] == "NaN"
    json.dumps(shown, allow_nan=False)


def test_a_failure_is_shown_with_the_end_of_its_traceback():
    lines = "\n".join(map(str, range(100)))
    observation = make_failed_observation("raised", traceback=lines, output="last words")
    failure = side(observation)["failure"]
    assert failure["stage"] == "compile"
    assert failure["traceback"].splitlines()[-1] == "99"
    assert len(failure["traceback"].splitlines()) == page_data.LINES
    assert failure["output"] == "last words"


def test_a_side_that_was_not_observed_shows_whether_it_was_planned():
    shown = details(CASE_ID, [(make_header(), UNOBSERVED)])["sides"][0]
    assert shown == {"torch": "2.15.0", "planned": True, "verdicts": []}


@pytest.mark.parametrize(
    ("changed", "arguments", "words"),
    [
        ({}, (), ""),
        ({"seed": 3, "cold": True}, (), " --seed 3 --cold"),
        ({"backend": "eager", "tf32": True}, (), " --backend eager --tf32"),
        ({}, ("suites/", "--zoo", "my zoo.py", "--zoo=b.py"), " --zoo 'my zoo.py' --zoo b.py"),
    ],
)
def test_the_command_observes_the_case_again(changed, arguments, words):
    digest = slim_observation(make_observation(**changed))
    assert (
        command(digest, files_of(make_header(arguments=arguments)))
        == f"python -m compilegate observe {CASE_ID}{words}"
    )


# The page itself, as text. What it does is in tests/integration/page/.


@pytest.fixture
def pages(tmp_path):
    failed = make_verdict("failed", summary=HOSTILE)
    hostile = make_failed_observation("raised", message=HOSTILE, traceback=HOSTILE)
    a = write_run(tmp_path / "a.jsonl", make_observation(), make_verdict())
    b = write_run(tmp_path / "b.jsonl", hostile, failed, arguments=(HOSTILE,), revision=HOSTILE)
    with Archive(a) as before, Archive(b) as now:
        compared = html.of_comparison(compare_files(a, b), before, now)
        return {"run": "".join(html.of_run(now)), "compared": "".join(compared)}


@pytest.mark.parametrize("name", ["run", "compared"])
def test_a_page_refers_to_no_other_file(pages, name):
    page = re.sub(r"http://www\.w3\.org/2000/svg", "", pages[name])
    assert not re.search(r"https?://|@import|url\(|<link|src=|<iframe", page)
    assert "default-src 'none'" in page


@pytest.mark.parametrize("name", ["run", "compared"])
def test_nothing_of_a_run_is_markup_in_a_page(pages, name):
    assert pages[name].count("<script") == pages[name].count("</script>") == 3
    assert "alert(1)</script>" not in pages[name]
    assert "&lt;/script&gt;" in pages[name]


def test_the_verdict_is_the_first_thing_on_a_page(pages):
    heading = re.search(r"<h1>(.*)</h1>", pages["compared"])
    assert heading
    assert heading[1] == "do not upgrade: 1 broken"
    assert "<h1>1 case, 1 failed</h1>" in pages["run"]


@pytest.mark.parametrize("outcome", ["passed", "failed", "inconclusive"])
def test_the_mean_leaves_out_what_a_busy_machine_timed(tmp_path, outcome):
    seen = make_observation(timing=make_timing(2.0))
    path = write_run(tmp_path / "a.jsonl", seen, make_verdict(outcome, aspect="speedup"))
    with Archive(path) as run:
        page = "".join(html.of_run(run))
    assert ("Geometric mean" in page) is (outcome != "inconclusive")
