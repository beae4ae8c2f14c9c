"""What is triaged: a case that stands for a culprit, and what shows that it still fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from compilegate.judging.aspects import ASPECTS, aspect_named
from compilegate.judging.budget import Budget
from compilegate.judging.judge import nothing_compiled
from compilegate.judging.rules import verdicts
from compilegate.records.case import Case
from compilegate.records.observation import WANTS, Observation, Want
from compilegate.records.verdict import Verdict
from compilegate.triage.culprits import Culprit
from compilegate.triage.evidence import evidence
from compilegate.triage.releases import Seen

#: The aspects of a part: whichever of its numbers the case is wrong in, one of these shows it.
_OF_PARTS = ("forward", "gradients", "side_effects")


@dataclass(frozen=True)
class Suspect:
    """A case that stands for a culprit.

    Attributes:
        culprit: The culprit.
        observation: The case as the run observed it.
        verdicts: What failed of it, outputs first.
        budget: Returns the budget of a case under a version of torch.
        release: The version of torch of the run.
    """

    culprit: Culprit
    observation: Observation
    verdicts: Sequence[Verdict]
    budget: Callable[[Case], Budget]
    release: str

    @property
    def case(self) -> Case:
        """The case."""
        return Case.parse(self.observation.case)

    @property
    def verdict(self) -> Verdict:
        """What failed first."""
        return self.verdicts[0]

    @property
    def text(self) -> str:
        """What it shows, in one line."""
        return evidence(self.observation, self.verdict)[0].text

    @property
    def fails_as_a_whole(self) -> bool:
        """Whether the case raised, crashed or hung, rather than that a number is wrong."""
        return self.observation.failure is not None

    @property
    def is_of_values(self) -> bool:
        """Whether tensors are compared, so that a script can compare them, too."""
        return not self.fails_as_a_whole and bool(aspect_named(self.verdict.aspect).tensors)

    @property
    def wants(self) -> tuple[Want, ...]:
        """What must be observed to see it."""
        names = [verdict.aspect for verdict in self.verdicts]
        if self.fails_as_a_whole:
            names = [name for name in names if ASPECTS[name].group != "cost"] or names
        else:
            names = names[:1]
        wanted = {want for name in names for want in aspect_named(name).wants}
        return tuple(want for want in WANTS if want in wanted) or ("capture",)

    def seen_in(self, observation: Observation, *, is_part: bool = False) -> Seen:
        """Return whether an observation shows the failure.

        Args:
            observation: Of the case or of a part of its model.
            is_part: Whether it is of a part.
        """
        if self.fails_as_a_whole:
            return self._failure_in(observation)
        if (failure := observation.failure) is not None:
            text = f"{observation.status} in stage {failure.stage}: {failure.kind}"
            return Seen("unobservable", f"{text}: {failure.message}")
        if is_part and nothing_compiled(observation):
            return Seen("good", "nothing of it is compiled")
        names = _OF_PARTS if is_part and self.is_of_values else (self.verdict.aspect,)
        budget = Budget() if is_part else self.budget(self.case)
        made = verdicts(observation, replace(budget, expected_failures=()))
        found = [verdict for verdict in made if verdict.aspect in names]
        for verdict in found:
            if verdict.outcome == "failed":
                return Seen("bad", f"{verdict.aspect}: {verdict.summary}")
        if any(verdict.outcome == "passed" for verdict in found):
            return Seen("good")
        return Seen("unobservable", next((v.summary for v in found), "it has no such aspect"))

    def _failure_in(self, observation: Observation) -> Seen:
        failure = observation.failure
        if failure is None:
            return Seen("good")
        text = f"{observation.status} in stage {failure.stage}: {failure.kind}: {failure.message}"
        is_compiled = observation.status != "raised" or bool(failure.call)
        if observation.status == self.observation.status and is_compiled:
            return Seen("bad", text)
        return Seen("unobservable", text)
