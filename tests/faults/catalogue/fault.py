"""What is known of a fault before it is planted."""

from __future__ import annotations

from dataclasses import dataclass

INFER = "infer-f32-default-static"
TRAIN = "train-f32-default-static"
INFER_BF16 = "infer-bf16-default-static"
AUTO = "infer-f32-default-auto"
DYNAMIC = "infer-f32-default-dynamic"

#: What a wrong gradient changes besides: parameters are stepped along it between the calls, and the
#: slope of the forward is held against it.
STEPPED = ("forward", "side_effects", "randomness")

#: An output that is wrong from the first call on: by how much, and where most.
FROM_THE_START = (
    r"call 1 \(.*\): output\S* \(\w+\): (root mean square error|largest error|scale) is .*"
    r"allowed .*\); worst at \[.*\]: compiled \S+, eager \S+, fp64 \S+"
)

#: What depends on the values of an output.
VALUES = ("forward", "gradients", "side_effects", "randomness")

#: Where faults are planted: ``--device``.
device = "cpu"
#: The name of no fault.
SOUND = "sound"


@dataclass(frozen=True)
class Fault:
    """One planted fault.

    Attributes:
        name: The name of its plant, and the first part of its models' names.
        does: What compiled code does, in a sentence.
        aspect: The aspect that must fail.
        says: A regular expression that the failure's text must match.
        victim: The tiny victim that the tests plant it in.
        zoo: The victims of the table: models of the shipped zoo.
        setting: Where it shows.
        also: Aspects that may fail besides.
        inductor: Whether only Inductor has what it changes; the others are planted in its
            decomposed graph, whatever runs that.
        shipped: Whether its models are the shipped zoo's as they are, since no others are compiled
            in an empty cache on CPU: it is planted in every model of its session.
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
        """All that it is planted in."""
        return (self.victim, *self.zoo)

    def case(self, victim: str) -> str:
        """The case in which it shows in a victim."""
        model = victim if self.shipped else f"{self.name}.{victim}"
        return f"{model}-{device}-{self.setting}"

    def twin(self, victim: str) -> str:
        """The same case without the fault."""
        model = victim if self.shipped else f"{SOUND}.{victim}"
        return f"{model}-{device}-{self.setting}"
