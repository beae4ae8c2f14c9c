"""Which mode of torch.compile to use: the modes of each model and setting, against each other.

Two sources say how fast a mode is. Cases that differ in their mode alone were each timed against
eager, and the quotient of their speedups compares the modes. The practice ``backends`` times two
modes against each other in paired rounds, which is more exact and takes the quotient's place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compilegate.records.case import AXES
from compilegate.records.statistics import Interval
from compilegate.reports.columns import Figures

#: The mode that the others are compared with. It compiles soonest and restricts least.
DEFAULT = "default"
#: The place of the mode in a case id.
_PLACE = 1 + list(AXES).index("mode")
_SAME = Interval(1.0, 1.0, 1.0)


@dataclass(frozen=True)
class Mode:
    """How fast the code of one mode is.

    Attributes:
        name: The mode, as a case id has it.
        over_eager: Its speedup over eager; None where no case of the mode was timed.
        over_default: Its calls a second, relative to the mode *default*.
    """

    name: str
    over_eager: Interval | None
    over_default: Interval


@dataclass(frozen=True)
class ModeRow:
    """The modes of one model and setting.

    Attributes:
        case: The id of the case in the mode *default*.
        modes: The mode *default*, then the others, by name.
    """

    case: str
    modes: tuple[Mode, ...]

    @property
    def use(self) -> tuple[str, ...]:
        """The mode to use: the fastest of those whose interval lies above *default*.

        It is *default* where there is none, and several where their intervals overlap with that of
        the fastest.
        """
        faster = [mode for mode in self.modes if mode.over_default.low > 1]
        if not faster:
            return (DEFAULT,)
        best = max(faster, key=lambda mode: mode.over_default.value).over_default
        return tuple(mode.name for mode in faster if mode.over_default.high >= best.low)


def mode_rows(cases: Mapping[str, Figures]) -> list[ModeRow]:
    """Return a row for each model and setting in which several modes can be compared.

    Args:
        cases: The figures of the cases of one run, by case id.
    """
    speedups: dict[str, dict[str, Interval]] = {}
    direct: dict[str, Mapping[str, Interval]] = {}
    for case_id, figures in cases.items():
        words = case_id.split("-")
        usual = "-".join([*words[:_PLACE], DEFAULT, *words[_PLACE + 1 :]])
        if figures.speedup is not None:
            speedups.setdefault(usual, {})[words[_PLACE]] = figures.speedup
        if figures.modes:
            direct[usual] = figures.modes
    found = (
        ModeRow(case, _modes(speedups.get(case, {}), direct.get(case, {})))
        for case in sorted(speedups.keys() | direct.keys())
    )
    return [row for row in found if len(row.modes) > 1]


def _modes(speedups: Mapping[str, Interval], direct: Mapping[str, Interval]) -> tuple[Mode, ...]:
    usual = speedups.get(DEFAULT)
    over_default = dict(direct)
    for name, speedup in speedups.items():
        if usual is not None and name not in (DEFAULT, *direct):
            over_default[name] = _quotient(speedup, usual)
    others = (Mode(name, speedups.get(name), over_default[name]) for name in sorted(over_default))
    return (Mode(DEFAULT, usual, _SAME), *others)


def _quotient(one: Interval, other: Interval) -> Interval:
    """Return a quotient of two estimates, with the widest interval that theirs allow."""
    return Interval(one.value / other.value, one.low / other.high, one.high / other.low)
