"""The HTML page is readable: on every screen, in both schemes, and by assistive technology."""

import pytest

from compilegate.reports.page_data import OUTCOMES
from compilegate.upgrade.case_comparison import CLASSES
from tests.integration.page.pages import NET, ROWS, page_of, page_of_two, shown_cases
from tests.unit.making import (
    make_observation,
    make_timing,
    make_verdict,
)
from tests.unit.runs import write_run


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1280])
def test_it_is_readable_on_every_screen(show, two, scheme, width):
    page = show(page_of_two(*two), width=width, scheme=scheme)
    wide = "() => document.documentElement.scrollWidth - innerWidth"
    assert page.evaluate(wide) <= 0
    contrast = page.evaluate(
        """() => {
          const light = (text) => text.match(/\\d+/g).slice(0, 3).reduce((sum, v) => sum + +v, 0);
          const style = getComputedStyle(document.body);
          return [light(style.color), light(style.backgroundColor)];
        }"""
    )
    assert (contrast[0] > contrast[1]) == (scheme == "dark")
    assert abs(contrast[0] - contrast[1]) > 450
    page.evaluate("name => openCase(name)", NET.format("auto"))
    page.locator("dialog#detail").wait_for(state="visible")
    assert page.evaluate(wide) <= 0


#: The lowest contrast of any text, with the text; WCAG 2 asks for 4.5.
CONTRAST = """() => {
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data];
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((v) => v / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      if (colour[3] > 250) return colour;
    }
    return [255, 255, 255, 255];
  };
  let worst = [99, ""];
  for (const element of document.querySelectorAll("body *")) {
    const text = [...element.childNodes].filter((node) => node.nodeType === 3)
      .map((node) => node.data.trim()).join("");
    if (!text || !element.checkVisibility() || element.tagName === "OPTION") continue;
    const [x, y] = [light(rgba(getComputedStyle(element).color)), light(behind(element))];
    const contrast = (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
    if (contrast < worst[0]) worst = [contrast, text];
  }
  return worst;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_enough_contrast(show, tmp_path, scheme):
    outcomes = ("failed", "inconclusive", "expected_failure", "passed", "skipped")
    records = []
    for outcome, dynamic in zip(outcomes, ("static", "auto", "dynamic", "marked"), strict=False):
        case = NET.format(dynamic)
        records += [
            make_observation(case=case, timing=make_timing()),
            make_verdict(outcome, case=case),
        ]
    planned = [
        *(NET.format(d) for d in ("static", "auto", "dynamic", "marked")),
        "x" + NET.format("auto"),
    ]
    path = write_run(tmp_path / "a.jsonl", *records, planned=planned)
    page = show(page_of(path), scheme=scheme)
    contrast, text = page.evaluate(CONTRAST)
    assert contrast >= 4.5, text
    # Each class has its own colour, also the classes that this run lacks.
    for kind in (*CLASSES, *OUTCOMES):
        page.locator(".kind").evaluate_all(
            "(chips, kind) => { for (const chip of chips) chip.dataset.kind = kind; }", kind
        )
        contrast, text = page.evaluate(CONTRAST)
        assert contrast >= 4.5, (kind, text)


def test_tables_can_be_read_by_assistive_technology(show, two):
    page = show(page_of_two(*two))
    table = page.get_by_role("table", name="Cases, sortable by each column")
    assert table.get_by_role("columnheader").count() >= 9
    assert table.get_by_role("rowheader").count() == 3
    assert table.get_attribute("aria-rowcount") == "4"
    for scope in page.locator("th").evaluate_all("all => all.map((head) => head.scope)"):
        assert scope in ("col", "row")
    assert page.locator("table:not(:has(caption))").count() == 0


#: The texts of the table that are cut: elements whose content is larger than they are.
CUT = """all => all.filter((box) => box.checkVisibility() && box.scrollWidth > box.clientWidth + 1)
  .map((box) => box.textContent)"""


@pytest.mark.parametrize("width", [400, 1400])
def test_no_class_heading_or_id_is_cut(show, tmp_path, width):
    case = "a_model_with_a_long_name-cpu-train-bf16-max_autotune-marked"
    outcome = make_verdict("expected_failure", case=case)
    path = write_run(tmp_path / "a.jsonl", make_observation(case=case), outcome)
    page = show(page_of(path), width=width)
    texts = page.locator("#table th, #table td:not(.why), #table .id")
    assert texts.evaluate_all(CUT) == []


def test_a_narrow_screen_shows_the_figures_and_sorts_by_their_change(show, two):
    page = show(page_of_two(*two), width=400)
    row = page.locator(ROWS, has_text=NET.format("auto"))
    assert row.locator("td.num:visible").count() >= 4
    assert "−37.5%" in row.inner_text()
    too_high = "rows => rows.filter((row) => row.scrollHeight > row.clientHeight).length"
    assert page.locator(ROWS).evaluate_all(too_high) == 0
    page.select_option("#sort", "speedup_change")
    assert shown_cases(page) == [NET.format(d) for d in ("auto", "dynamic", "static")]
    page.click("#direction")
    assert shown_cases(page)[0] == NET.format("dynamic")
