"""Pages of runs, and what a test reads from them."""

import time

from compilegate.reports import html
from compilegate.runs.archive import Archive
from compilegate.upgrade.comparison import compare

HOSTILE = "</script><script>window.hurt = 1</script><img src=x onerror='window.hurt = 1'>"
NET = "net-cpu-train-f32-default-{}"
ROWS = "#table tbody tr[data-case]"


def page_of(path):
    with Archive(path) as run:
        return list(html.of_run(run))


def page_of_two(old, new):
    with Archive(old) as baseline, Archive(new) as candidate:
        return list(html.of_comparison(compare(baseline, candidate), baseline, candidate))


def until(page, expression, value):
    """Wait here; the security policy of the page keeps Playwright from waiting in it."""
    deadline = time.monotonic() + 60
    while (seen := page.evaluate(expression)) != value and time.monotonic() < deadline:
        time.sleep(0.02)
    assert seen == value


def shown_cases(page):
    """The cases of the table, in order; all of them, since there are few."""
    return page.locator(ROWS).evaluate_all("rows => rows.map((r) => r.dataset.case)")
