"""Known bugs of the zoo that a culprit may be: those of its operator, at its stage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from compilegate.culprits.grouping import issue_of
from compilegate.triage.findings import Findings
from compilegate.triage.search.suspect import Suspect


@dataclass(frozen=True)
class Bug:
    """A known bug of which an operator and its stage are known.

    Attributes:
        model: The model of the zoo that shows it, named after its issue.
        backend: The first backend that shows it.
        operators: The names of its operator, as code calls it and as PyTorch decomposes it.
    """

    model: str
    backend: str
    operators: tuple[str, ...]

    @property
    def issue(self) -> str:
        """The address of its issue."""
        return issue_of(self.model)


_DECOMPOSED, _INDUCTOR = "aot_eager_decomp_partition", "inductor"
#: Those whose operator and stage triage found: ``docs/measurements/triage.md``. Their neighbours
#: share the faulty code: each was compiled, and fails in the same way. So ``amax``, ``minimum``,
#: ``fmod`` and ``all``, which are right, are none. An operator that half of all models call, such
#: as ``mul``, tells nothing.
BUGS = (
    Bug("gh185246_bernoulli_range", _DECOMPOSED, ("bernoulli",)),
    Bug(
        "gh192668_batch_norm_strides",
        _DECOMPOSED,
        ("batch_norm", "native_batch_norm", "_native_batch_norm_legit"),
    ),
    Bug("gh193757_target_range", _DECOMPOSED, ("binary_cross_entropy",)),
    Bug("gh194501_negative_beta", _DECOMPOSED, ("smooth_l1_loss",)),
    Bug("gh197109_channel_shuffle", _DECOMPOSED, ("channel_shuffle", "native_channel_shuffle")),
    Bug(
        "gh198364_transposed_first",
        _DECOMPOSED,
        ("xlogy", "copysign", "xlog1py", "special_xlog1py", "lerp"),
    ),
    Bug(
        "gh198201_unchanged_size",
        "aot_eager",
        ("interpolate", "upsample", "upsample_nearest2d", "upsample_bilinear2d"),
    ),
    Bug("gh191499_uint8_minimum", _INDUCTOR, ("min", "amin", "aminmax", "argmin")),
    Bug(
        "gh195675_unrepresentable_limit",
        _INDUCTOR,
        ("clamp", "clamp_max", "clamp_min", "clip", "hardtanh", "threshold"),
    ),
    Bug("gh198057_infinite_divisor", _INDUCTOR, ("remainder", "mod")),
    Bug("gh198081_any_byte", _INDUCTOR, ("any",)),
    Bug(
        "gh198119_overhanging_windows",
        _INDUCTOR,
        (
            *("avg_pool1d", "avg_pool2d", "avg_pool3d"),
            *("avg_pool2d_backward", "avg_pool3d_backward"),
        ),
    ),
)


def candidates(suspect: Suspect, findings: Findings) -> Iterator[tuple[str, str, str]]:
    """Yield the issues that a culprit may be, what they are, and the models that show them.

    Stage and operator must be those of the bug, and a budget must expect that this aspect fails on
    the version of torch of the run. The issue that a model is named after is known without that.

    Args:
        suspect: The case that stands for the culprit.
        findings: What was found.
    """
    stage, operator = findings.stage, findings.operator.rstrip("_")
    backend = "" if stage.cure else stage.backend
    for bug in BUGS:
        is_alike = bug.backend == backend and operator in bug.operators
        if is_alike and bug.model != suspect.case.model:
            budget = suspect.budget(replace(suspect.case, model=bug.model))
            for entry in budget.expected_failures:
                if entry.issue == bug.issue and entry.aspect in ("", suspect.verdict.aspect):
                    yield bug.issue, entry.reason, bug.model
                    break
