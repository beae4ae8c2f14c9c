"""Scripts with the source of a model: of the submodule at fault alone, or of the whole model."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from compilegate.records.case import Case
from compilegate.records.part import Construction
from compilegate.triage.findings import Findings
from compilegate.triage.scripts.script import Script, of_recipe
from compilegate.triage.scripts.shows import Shows
from compilegate.triage.search import place
from compilegate.triage.search.trials import OutOfTimeError, Trials, part
from compilegate.triage.source.definitions import NoSourceError
from compilegate.triage.source.recipe import Recipe, recipe_of_part, recipes_of
from compilegate.triage.steps import shown
from compilegate.zoo.registry import Model

#: The share of the time that is left for replacing submodules.
_OTHERS = 0.3


@dataclass(frozen=True, kw_only=True)
class RecipeScripts:
    """Makes the scripts of one suspect that hold source of its model.

    Attributes:
        trials: Observes parts of the model.
        findings: Stage and place.
        entry: The model.
        shows: What a script shows.
        backend: The backend that it uses.
        tf32: Whether f32 products round to TF32 on a GPU.
    """

    trials: Trials
    findings: Findings
    entry: Model
    shows: Shows
    backend: str
    tf32: bool

    def of_submodule(self) -> Iterator[Script]:
        """Yield scripts that make the submodule at fault by itself, from the shortest on.

        Raises:
            NoSourceError: What it is made or called with cannot be written down.
        """
        suspect = self.trials.suspect
        path = shown.part(suspect, self.findings, self.shows, of_any_call=True)
        if not path:
            return
        origin = f"the class of {path}"
        told, why = self.trials.told(part(path=path), "construction")
        if told is None:
            raise NoSourceError(why or f"what {path} is made and called with has no short text")
        made = Construction.of(told)
        recipe = recipe_of_part(Path(self.entry.source), made)
        calls: list[dict[str, int]] = [{} for _ in made.calls]
        # The inputs of the call are what a probing call changes them to.
        shows = replace(self.shows, change="")
        inside = [each for each in self._replaced if each.startswith(f"{path}.")]
        inner = [each.removeprefix(f"{path}.") for each in inside]
        for identities in [inner, []] if inner else [[]]:
            for how in shown.ways(shows):
                yield self._script(recipe, suspect.case, how, calls, origin, identities=identities)

    def of_model(self) -> Iterator[Script]:
        """Yield scripts that hold the recipe, from the shortest on.

        Raises:
            NoSourceError: The recipe has no source.
        """
        suspect, entry = self.trials.suspect, self.entry
        recipes = recipes_of(Path(entry.source), entry.name, suspect.case.device, entry.builder)
        reaches_limit = self.shows.recompilations is None
        calls = shown.calls(suspect, entry, reaches_limit=reaches_limit)
        replaced, smallest = self._replaced, self.findings.smallest
        # Alone, a submodule mostly shows it most clearly.
        alone = shown.part(suspect, self.findings, self.shows)
        ways: list[tuple[str, Sequence[str]]] = [(alone, [])] if alone else []
        ways += [("", each) for each in ([replaced, []] if replaced else [[]])]
        variants = [(suspect.case, calls)]
        if smallest:
            fewer = [{**call, **smallest.sizes} for call in calls]
            variants = [(smallest.case_of(suspect.case), fewer), *variants]
        for recipe in recipes:
            for case, given in variants:
                for path, identities in ways:
                    origin = f"{f'{path} in ' if path else ''}the recipe of {entry.name}"
                    for how in shown.ways(self.shows):
                        yield self._script(
                            recipe, case, how, given, origin, path=path, identities=identities
                        )

    def _script(
        self,
        recipe: Recipe,
        case: Case,
        how: Shows,
        calls: Sequence[Mapping[str, int]],
        origin: str,
        *,
        path: str = "",
        identities: Sequence[str] = (),
    ) -> Script:
        suspect = self.trials.suspect
        text = of_recipe(
            recipe,
            case,
            how,
            calls,
            seed=suspect.observation.seed,
            backend=self.backend,
            identities=identities,
            part=path,
            tf32=self.tf32,
            cold=self.findings.stage.is_cold,
        )
        return Script(
            text=text,
            origin=origin,
            says=how.reason or shown.COUNTED if how.counted else shown.says(suspect),
            is_exact=case != suspect.case,
            modules=recipe.modules,
            paths=recipe.paths,
            source=recipe.lines,
        )

    @functools.cached_property
    def _replaced(self) -> Sequence[str]:
        """The submodules without which it still fails."""
        if not self.trials.suspect.was_not_compiled:
            with contextlib.suppress(OutOfTimeError):
                self.trials.within(
                    _OTHERS,
                    lambda: place.replace_others(self.trials, self.findings.place, self.backend),
                )
        return self.findings.place.identities
