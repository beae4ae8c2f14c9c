"""What eager writes, which bounds how far compiled code may be from the same texts in float64.

The tokens are given, so rounding reaches later tokens through the cache alone. Where compiled code
errs more than eager, eager writes again with weights that are nudged by a rounding error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

import torch

from compilegate.observe.compare.eager_noise import SAMPLES, UNIT, nudges_of
from compilegate.observe.compare.values import compare_values, is_doubtful
from compilegate.observe.model.float64 import Lifting
from compilegate.observe.practices.bench import Bench, Compared
from compilegate.observe.practices.eager_loops import IN_FULL
from compilegate.observe.practices.loops import Nudges
from compilegate.observe.practices.texts import Kind, Part, Script, Writer
from compilegate.observe.practices.unavailable import refuse_to_go_on, unless_eager_raises
from compilegate.observe.threads import one_thread
from compilegate.records.call import Checked

#: The parts of each text.
Texts = list[list[Part]]


class EagerTexts:
    """Texts that eager wrote, those of the reference, and nudged ones.

    Args:
        bench: Builds the models.
        kind: The kind of cache.
        scripts: The texts, which one model writes in this order.

    Raises:
        StepUnavailableError: Eager raises.
    """

    def __init__(self, bench: Bench, kind: Kind, scripts: Sequence[Script]) -> None:
        self._bench, self._kind, self._scripts = bench, kind, scripts
        with bench.progress.spend("run"), unless_eager_raises():
            self._eager = self._write(Writer(bench.build(), kind))
        self._truth: Texts | None = None
        self._samples: list[Texts] = []
        with bench.progress.spend("reference"):
            lifting = Lifting()
            try:
                self._truth = self._write(Writer(bench.builder(lifting), kind, lifting=lifting))
            except Exception as error:  # without float64, samples show eager's noise
                refuse_to_go_on(error)

    def _write(self, writer: Writer) -> Texts:
        written = []
        with one_thread():
            for script in self._scripts:
                written.append([*writer.write(script)])
                self._bench.progress.beat()
        return written

    def compare(self, compiled: Part, text: int, part: int) -> Compared:
        """Compare a part that compiled code wrote: logits, and the contents of the cache.

        Args:
            compiled: What compiled code computed.
            text: The number of the text.
            part: The number of the part.
        """
        checked = self._compare(compiled, text, part)
        for drawn, nudge in enumerate(nudges_of(self._bench.builder.case)):
            known = self._truth or self._samples
            if known and not any(is_doubtful(one, half=self._bench.half) for one in checked):
                break
            if drawn * SAMPLES >= len(self._samples):  # not drawn for an earlier comparison
                with self._bench.progress.spend("reference"):
                    self._sample(nudge)
            checked = self._compare(compiled, text, part)
        return checked

    def _sample(self, nudge: float) -> None:
        """Write the texts a few times with nudged weights."""
        case = self._bench.builder.case
        for _ in range(SAMPLES):
            nudged = self._bench.build()
            nudges = Nudges(nudge * UNIT[case.precision], case.device, len(self._samples))
            for parameter in nudged.parameters().values():
                nudges.apply(parameter)
            self._samples.append(self._write(Writer(nudged, self._kind)))

    def _compare(self, compiled: Part, text: int, part: int) -> Compared:
        def of(group: Callable[[Part], Mapping[str, torch.Tensor]]) -> Checked:
            return compare_values(
                group(self._eager[text][part]),
                group(compiled),
                [group(self._truth[text][part])] if self._truth else [],
                [(group(sample[text][part]), IN_FULL) for sample in self._samples],
                half=self._bench.half,
            )

        with self._bench.progress.spend("compare"), one_thread():
            return of(attrgetter("logits")), Checked(), of(attrgetter("contents"))
