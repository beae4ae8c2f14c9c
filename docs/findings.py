"""Write ``docs/findings.md`` from the recipes of known bugs and the shipped budgets."""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from compilegate.layout import SHIPPED_BUDGETS
from compilegate.zoo import registry

PAGE = Path(__file__).with_suffix(".md")
TEXT = """\
# Known bugs

<!-- Written by `python docs/findings.py`: change a recipe or a budget, then run it again. -->

What is wrong in released PyTorch, as far as compilegate's zoo shows it. A failure is expected on
the torch versions next to it; on others it must not occur. What was run on which version, and
reductions in plain PyTorch, are in [findings-notes.md](measurements/findings-notes.md).

## Issues of PyTorch

Each is a model of the zoo. Run all: `pytest suites/ -m cpu --tier full --models 'gh*'`.

{bugs}
## Not found among the issues of PyTorch

Each gives a wrong result without an error, except for one that does not compile, and is a
model of the zoo, too:
`pytest suites/ -m cpu --tier full --models 'unreported*'`.

{unreported}
## Failures of the zoo's other models

{others}"""
Entry = Mapping[str, Any]


def page() -> str:
    """Return the page."""
    texts = [file.read_text(encoding="utf-8") for file in sorted(SHIPPED_BUDGETS.glob("*.toml"))]
    entries = [entry for text in texts for entry in tomllib.loads(text).get("expected_failure", [])]
    zoo = sorted(registry.load().values(), key=lambda model: model.name)
    bugs = {model.name: _summary(model) for model in zoo if model.family == "regressions"}
    groups: dict[str, list[Entry]] = {what: [] for what in bugs.values()}
    for entry in entries:
        groups.setdefault(bugs.get(entry.get("model", ""), entry["reason"]), []).append(entry)
    return TEXT.format(
        bugs=_table(_popped(groups, bugs, "gh")),
        unreported=_table(_popped(groups, bugs, "unreported")),
        others=_table(groups.items()),
    )


def _popped(
    groups: dict[str, list[Entry]], bugs: Mapping[str, str], prefix: str
) -> Iterator[tuple[str, list[Entry]]]:
    for name, what in bugs.items():
        if name.startswith(prefix):
            yield what, groups.pop(what)


def _summary(bug: registry.Model) -> str:
    paragraph = (bug.build.__doc__ or "").strip().split("\n\n")[0]  # of the recipe's docstring
    return " ".join(paragraph.replace("``", "`").split())


def _fails(entry: Entry) -> str:
    aspect = entry.get("aspect") or f"stage *{entry['stage']}*"
    what = aspect if isinstance(aspect, str) else ", ".join(aspect)
    where = {"cpu": " on CPU", "cuda": " on a GPU"}.get(entry.get("device", ""), "")
    return f"{what}{where}" + (f" (`{entry['torch']}`)" if "torch" in entry else "")


def _issue(entry: Entry) -> str:
    return f"[{(url := entry['issue']).rpartition('/')[2]}]({url})" if "issue" in entry else ""


def _join(entries: Iterable[Entry], text: Callable[[Entry], str]) -> str:
    return ", ".join(dict.fromkeys(filter(None, map(text, entries))))


def _table(groups: Iterable[tuple[str, list[Entry]]]) -> str:
    lines = ["issue | model | what is wrong | what fails, on which torch", "--- | --- | --- | ---"]
    for what, entries in groups:
        cells = (
            _join(entries, _issue),
            _join(
                entries, lambda entry: f"`{entry['model']}`" if "model" in entry else "any model"
            ),
            what,
            _join(entries, _fails),
        )
        lines.append(" | ".join(cells))
    return "".join(f"| {line} |\n" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
