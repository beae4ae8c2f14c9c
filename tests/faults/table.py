"""The table: faults planted in models of the zoo under Inductor, and which were detected."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.faults import costs
from tests.faults.catalogue import COSTS, FAULTS, Fault
from tests.faults.detection import missed, unsound
from tests.faults.sessions import observe, zoo_cases


@dataclass(frozen=True)
class Cell:
    """A fault in a model.

    Attributes:
        fault: The fault.
        model: The model.
        missed: Why it counts as not detected; empty if it was.
        unsound: What is wrong with the model without the fault; empty if nothing is.
        undecided: Whether the machine was too busy to say.
    """

    fault: Fault
    model: str
    missed: str
    unsound: str
    undecided: bool = False

    @property
    def detected(self) -> bool:
        """Whether the fault was detected, and nothing where there was none."""
        return not (self.missed or self.unsound)


@dataclass
class Table:
    """All faults in all their models."""

    cells: list[Cell]

    def summary(self) -> str:
        """How many were detected, in a sentence."""
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
        """The summary and one row a fault."""
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


def make(folder: Path) -> Table:
    """Plant everything in models of the zoo."""
    exact = observe(
        folder / "exact", zoo_cases(FAULTS), "-n", "2", backend="inductor", timeout_s=3600
    )
    cells = [
        Cell(
            fault,
            model,
            missed(fault, model, exact.run, exact.marks),
            unsound(fault, model, exact.run),
        )
        for fault in FAULTS
        for model in fault.zoo
    ]
    judged = costs.judge(folder / "costs", costs.zoo_pairs(), backend="inductor")
    undecided = [text.partition(":")[0] for text in judged.undecided()]
    for fault in COSTS:
        of, twins = judged.of(fault), judged.twin_of(fault)
        for model in fault.zoo:
            cells.append(
                Cell(
                    fault,
                    model,
                    missed(fault, model, of.run, of.marks),
                    unsound(fault, model, twins.run),
                    undecided=bool({fault.case(model), fault.twin(model)} & {*undecided}),
                )
            )
    return Table(cells)
