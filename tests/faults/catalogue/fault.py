"""The description of a planted fault, and what descriptions share."""

from __future__ import annotations

from dataclasses import dataclass

INFER = "infer-f32-default-static"
TRAIN = "train-f32-default-static"
INFER_BF16 = "infer-bf16-default-static"
TRAIN_BF16 = "train-bf16-default-static"
AUTO = "infer-f32-default-auto"
DYNAMIC = "infer-f32-default-dynamic"

#: Aspects that a wrong gradient may also fail: the child steps parameters along it between calls,
#: and compares it with the slope of the forward.
STEPPED = ("forward", "side_effects", "randomness")

#: The text on an output that is wrong from the first call on: how wrong it is, and where most.
FROM_THE_START = (
    r"call 1 \(.*\): output\S* \(\w+\): (root mean square error|largest error|scale) is .*"
    r"allowed .*\); worst at \[.*\]: compiled \S+, eager \S+, reference \S+"
)

#: The aspects that depend on the values of an output.
VALUES = ("forward", "gradients", "side_effects", "randomness")

#: The device that runs the planted faults, from ``--device``.
device = "cpu"
#: The prefix of models without a fault.
SOUND = "sound"


@dataclass(frozen=True)
class Fault:
    """One planted fault.

    Attributes:
        name: The name of its plant, and the first part of the names of its models.
        does: What compiled code does wrong, as a sentence.
        aspect: The aspect that must fail.
        says: A regular expression that the text of the failure must match.
        victim: The tiny victim that the tests plant it in.
        zoo: The models of the shipped zoo that the table plants it in.
        setting: The setting that shows it.
        also: Other aspects that may fail.
        inductor: Whether it changes what only Inductor has. Other faults change the decomposed
            graph, which every backend has.
        shipped: Whether it is planted in every model of its session, and these are unchanged models
            of the shipped zoo. On CPU, compilegate compiles no others in an empty cache.
    """

    name: str
    does: str
    aspect: str
    says: str
    victim: str = "dense"
    zoo: tuple[str, ...] = ("mlp", "conv_pool_linear")
    setting: str = INFER
    also: tuple[str, ...] = ()
    inductor: bool = False
    shipped: bool = False

    @property
    def victims(self) -> tuple[str, ...]:
        """All victims that it is planted in."""
        return (self.victim, *self.zoo)

    def case(self, victim: str) -> str:
        """Return the id of the case that shows it in a victim."""
        model = victim if self.shipped else f"{self.name}.{victim}"
        return f"{model}-{device}-{self.setting}"

    def twin(self, victim: str) -> str:
        """Return the id of the same case without the fault."""
        model = victim if self.shipped else f"{SOUND}.{victim}"
        return f"{model}-{device}-{self.setting}"
