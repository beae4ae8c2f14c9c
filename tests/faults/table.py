"""The table of faults that were planted in models of the zoo, with the detected ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.faults import costs
from tests.faults.catalogue import FAULTS, Fault
from tests.faults.detection import missed, unsound
from tests.faults.sessions import observe, zoo_cases


@dataclass(frozen=True)
class Cell:
    """One fault that was planted in one model.

    Attributes:
        fault: The fault.
        model: The model.
        missed: Why the fault counts as not detected; empty if it was detected.
        unsound: The failures of the model without the fault; empty if there are none.
        undecided: Whether the machine was too busy for a verdict.
    """

    fault: Fault
    model: str
    missed: str
    unsound: str
    undecided: bool = False

    @property
    def detected(self) -> bool:
        """Whether compilegate failed the fault and passed its sound twin."""
        return not (self.missed or self.unsound)


@dataclass
class Table:
    """All faults in all their models."""

    cells: list[Cell]

    def summary(self) -> str:
        """Return the number of detected faults, as a sentence."""
        decided = [cell for cell in self.cells if not cell.undecided]
        detected = sum(not cell.missed for cell in decided)
        kinds = len({cell.fault.name for cell in self.cells})
        models = len({cell.model for cell in self.cells})
        twins = {(cell.fault.twin(cell.model)): cell.unsound for cell in decided}
        sound = sum(not trouble for trouble in twins.values())
        left = len(self.cells) - len(decided)
        share = detected / len(decided)
        return (
            f"{detected} of {len(decided)} planted faults detected ({share:.1%}): "
            f"{kinds} kinds in {models} models; {sound} of {len(twins)} sound twins pass"
            + (f"; {left} undecided, the machine was busy" if left else "")
        )

    def markdown(self) -> str:
        """Return the summary, then one row for each fault."""
        lines = [self.summary(), "", "| fault | aspect | setting | detected in | not in |"]
        lines.append("|---|---|---|---|---|")
        for fault in dict.fromkeys(cell.fault for cell in self.cells):
            cells = [cell for cell in self.cells if cell.fault == fault]
            kept = [cell for cell in cells if not cell.undecided]
            words = (
                fault.does,
                f"`{fault.aspect}`",
                f"`{fault.setting}`",
                _names(cell.model for cell in kept if not cell.missed),
                _names(cell.model for cell in kept if cell.missed),
            )
            lines.append(f"| {' | '.join(words)} |")
        return "\n".join(lines) + "\n"


def _names(models: Iterable[str]) -> str:
    return ", ".join(f"`{model}`" for model in models)


def make(folder: Path, backend: str) -> Table:
    """Plant every fault in models of the zoo, and judge them.

    Args:
        folder: An empty folder for the files of the sessions.
        backend: The backend that compiles. Faults in generated code always use Inductor.
    """
    by_backend: dict[str, list[Fault]] = {}
    for fault in FAULTS:
        by_backend.setdefault("inductor" if fault.inductor else backend, []).append(fault)
    cells = []
    for compiler, faults in by_backend.items():
        cases = zoo_cases(faults)
        made = observe(folder / compiler, cases, "-n", "2", backend=compiler, timeout_s=7200)
        cells += [
            Cell(
                fault,
                model,
                missed(fault, model, made.run, made.marks),
                unsound(fault, model, made.run),
            )
            for fault in faults
            for model in fault.zoo
        ]
    return Table([*cells, *_of_costs(costs.judge(folder / "costs", costs.zoo_pairs(), backend))])


def _of_costs(judged: costs.Judged) -> Iterator[Cell]:
    undecided = {text.partition(":")[0] for text in judged.undecided()}
    for fault, model in costs.zoo_pairs():
        of = judged.of(fault)
        yield Cell(
            fault,
            model,
            missed(fault, model, of.run, of.marks),
            unsound(fault, model, judged.twin_of(fault).run),
            undecided=not undecided.isdisjoint((fault.case(model), fault.twin(model))),
        )
