"""The HTML page in headless Chromium: what it shows, and what one can do with it."""

import pytest

from compilegate.records.run import encode
from compilegate.runs import files
from tests.integration.conftest import faulty_case
from tests.integration.page.pages import (
    HOSTILE,
    NET,
    ROWS,
    page_of,
    page_of_two,
    shown_cases,
    until,
)
from tests.unit.making import make_memory, make_observation, make_timing, make_verdict
from tests.unit.runs import write_run


def test_values_are_those_of_a_real_run(show, faulty):
    run = files.read(faulty.run().path)
    page = show(page_of(run.path))
    assert f"{len(run.header.planned)} cases" in page.locator("h1").inner_text()
    for case in (faulty_case("breaks"), faulty_case("sound"), faulty_case("gradient_is_doubled")):
        observation = run.observations[case]
        page.evaluate("name => openCase(name)", case)
        page.wait_for_selector("dialog[open]")
        text = page.locator("#detail-body").inner_text()
        for (of, aspect), verdict in run.verdicts.items():
            if of == case:
                row = page.locator("#detail-body tr", has_text=aspect.replace("_", " ")).first
                assert row.locator("td").nth(1).inner_text() == verdict.outcome.replace("_", " ")
                assert row.locator("td").nth(2).inner_text() == " ".join(verdict.summary.split())
        assert observation.memory is not None
        assert f"{observation.memory.eager_peak_bytes} bytes" in text
        assert f"{observation.memory.compiled_peak_bytes} bytes" in text
        assert observation.capture is not None
        for found in observation.capture.breaks:
            assert str(found.place) in text
        assert f"python -m compilegate observe {case}" in text
        errors = {
            (error.name, call + 1): error
            for call, facts in enumerate(observation.calls)
            for group in (facts.outputs, facts.gradients, facts.state)
            for error in group.errors
        }
        cells = (
            page.locator("#detail-body table")
            .last.locator("tbody tr")
            .evaluate_all(
                "rows => rows.map((row) => [...row.cells].map((c) => c.title || c.textContent))"
            )
        )
        assert cells
        for name, _, call, dtype, scale, *figures in cells:
            error = errors[name, int(call)]
            assert dtype == error.dtype
            assert float(scale) == error.scale
            assert [float(figure) for figure in figures] == [
                error.eager_rms,
                error.compiled_rms,
                error.eager_max,
                error.compiled_max,
            ]


def test_classes_words_and_axes_filter_map_table_and_charts(show, faulty):
    run = files.read(faulty.run().path)
    failing = {case for (case, _), v in run.verdicts.items() if v.outcome == "failed"}
    page = show(page_of(run.path), height=3000)
    every = page.evaluate("view.length")
    assert every == len(run.header.planned)
    page.click("#kinds [data-kind=failed]")
    assert page.evaluate("view.length") == len(failing)
    assert set(shown_cases(page)) <= failing
    cells = page.locator("#map .cell")
    assert cells.count() == len(failing)
    assert f"{len(failing)} of {every} cases" in page.locator("#shown").inner_text()
    page.fill("#search", "br*ks-cpu STATIC")
    until(page, "view.length", 1)
    assert shown_cases(page) == [faulty_case("breaks")]
    page.click("#clear")
    assert page.evaluate("view.length") == every
    page.select_option("[data-axis=phase]", "train")
    training = [case for case in run.header.planned if "-train-" in case]
    assert set(shown_cases(page)) == set(training)
    page.fill("#search", "nothing like it")
    until(page, "view.length", 0)
    assert page.locator(".empty").is_visible()


def test_columns_sort_both_ways(show, faulty):
    run = files.read(faulty.run().path)
    page = show(page_of(run.path), height=6000)
    page.click("[data-sort=case]")
    assert shown_cases(page) == sorted(run.header.planned)
    page.click("[data-sort=case]")
    assert shown_cases(page) == sorted(run.header.planned, reverse=True)
    page.click("[data-sort=compile]")
    times = [run.observations[case].compile_time for case in shown_cases(page)]
    seconds = [time.total_s for time in times if time is not None]
    assert seconds == sorted(seconds)
    assert None not in times[: len(seconds)]  # what was not measured comes last
    page.click("[data-sort=compile]")
    assert None not in [run.observations[c].compile_time for c in shown_cases(page)][: len(seconds)]


def test_the_map_orders_settings_and_shows_the_chosen_metric(show, two):
    page = show(page_of_two(*two))
    settings = page.locator("#map .head span").evaluate_all("all => all.map((s) => s.title)")
    assert settings == [f"cpu-train-f32-default-{d}" for d in ("static", "auto", "dynamic")]
    assert "cpu, train, f32, default" in page.locator("#common").inner_text()
    letters = page.locator("#map .cell").all_inner_texts()
    assert letters == ["F", "R", ""]
    page.select_option("#metric", "speedup")
    titles = page.locator("#map .cell").evaluate_all("all => all.map((cell) => cell.title)")
    assert titles[0].endswith("static: not measured")
    assert titles[2].endswith("dynamic: 1.50×")
    assert page.locator("#legend .scale").is_visible()


def test_a_detail_opens_from_everywhere_and_closes(show, two):
    pieces = page_of_two(*two)
    page = show(pieces)
    dialog = page.locator("dialog#detail")
    for place in (
        "#map .cell >> nth=0",
        f"{ROWS} >> nth=0",
        ".first a >> nth=0",
    ):
        page.click(place)
        dialog.wait_for(state="visible")
        assert NET.format("static") in page.locator("#detail-title").inner_text()
        assert NET.format("static") in page.evaluate("location.hash")
        page.click("#close")
        dialog.wait_for(state="hidden")
        until(page, "location.hash", "")
    linked = show(pieces, fragment=f"#{NET.format('auto')}")
    linked.locator("dialog#detail").wait_for(state="visible")
    assert "1 new graph break" in linked.locator("#detail-body").inner_text()


def test_both_sides_of_a_comparison_are_plotted_round_by_round(show, two):
    page = show(page_of_two(*two), fragment=f"#{NET.format('dynamic')}")
    page.locator("dialog#detail").wait_for(state="visible")
    assert page.locator(".side h2").all_inner_texts() == [
        "baseline: torch 2.14.1",
        "candidate: torch 2.15.0",
    ]
    assert page.locator(".side svg").count() == 2
    rounds = page.locator(".side >> nth=1").locator("circle.compiled title").all_text_contents()
    timing = make_timing(1.5, spread=0.05)
    expected = [float(f"{value:.6g}") for value in timing.compiled_ns]
    assert [float(text.split(": ")[1].removesuffix(" ns")) for text in rounds] == expected
    assert [text.split(",")[0] for text in rounds][:2] == ["round 1", "round 2"]


def test_markup_in_a_run_is_shown_and_not_executed(show, two):
    page = show(page_of_two(*two))
    for dynamic in ("static", "auto"):
        page.evaluate("name => openCase(name)", NET.format(dynamic))
        page.locator("dialog#detail").wait_for(state="visible")
        assert HOSTILE in page.locator("#detail-body").inner_text()
        page.click("#close")
    assert HOSTILE in page.locator(".first").inner_text()
    assert page.evaluate("window.hurt") is None
    assert page.evaluate("document.querySelectorAll('img').length") == 0


def test_changes_of_speed_and_compile_time_are_columns_that_sort(show, two):
    page = show(page_of_two(*two))
    page.click("[data-sort=speedup_change]")
    assert page.locator("th[aria-sort=ascending]").inner_text().startswith("speedup Δ")
    assert shown_cases(page) == [NET.format(d) for d in ("auto", "dynamic", "static")]
    first = page.locator(ROWS).first.locator("td.num").all_inner_texts()
    assert "−37.5%" in first
    page.click("[data-sort=speedup_change]")
    assert page.locator("th[aria-sort=descending]").count() == 1
    assert shown_cases(page)[0] == NET.format("dynamic")
    assert page.locator("[data-sort=compile_change]").count() == 1


def test_mean_speedups_stand_at_the_top(show, two):
    page = show(page_of_two(*two))
    cells = page.locator(".means tbody td").all_inner_texts()
    assert cells[:4] == ["cpu", "train", "f32", "2"]
    assert cells[4] == "2.00×"
    assert cells[6].startswith("−")


def test_a_chart_without_a_value_is_not_shown(show, tmp_path):
    path = write_run(tmp_path / "a.jsonl", make_observation(), make_verdict())
    page = show(page_of(path))
    assert page.locator("#compile-chart").is_visible()
    assert not page.locator("#speedup-chart").is_visible()
    right = {
        name: (box := page.locator(name).bounding_box())["x"] + box["width"]
        for name in ("#compile-chart", "#table")
    }
    assert right["#compile-chart"] == right["#table"]  # nothing is empty next to the map
    assert page.locator(".means").count() == 0


@pytest.mark.long
def test_only_visible_rows_and_cells_of_ten_thousand_cases_are_drawn(show, tmp_path):
    models = [f"m{index}" for index in range(625)]
    settings = [
        f"{p}-{n}-default-{d}"
        for p in ("infer", "train")
        for n in ("f32", "bf16")
        for d in ("static", "auto", "dynamic", "marked")
    ]
    template = encode(make_observation(timing=make_timing(1.5, spread=0.1), memory=make_memory()))
    verdict = encode(make_verdict(summary="4 outputs over 4 calls, error 1.2e-07"))
    case = make_observation().case
    ids = [f"{model}-cpu-{setting}" for model in models for setting in settings]
    path = write_run(tmp_path / "big.jsonl", planned=ids, complete=False)
    with path.open("a") as file:
        for name in ids:
            file.write(template.replace(case, name, 1) + "\n")
            file.write(verdict.replace(case, name, 1) + "\n")
    pieces = page_of_two(path, path)
    page = show(pieces)
    assert page.evaluate("cases.length") == 10_000
    assert page.locator("#map .cell").count() < 2_000
    page.fill("#search", "m62*")
    until(page, "view.length", 6 * 16)
    page.locator("#map").evaluate("map => map.scrollTo(0, 1e6)")
    page.click("[data-sort=case]")
    assert shown_cases(page)[0].startswith("m62-")
