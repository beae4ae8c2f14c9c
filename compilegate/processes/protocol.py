"""What arrives from a child and from its fork server, and what is refused.

A child runs a model, which may write anything to any descriptor. So an answer counts only if it is
one line of JSON, of one of the shapes here, of at most 64 MiB. The longest that was ever recorded
has 2 MB.
"""

from __future__ import annotations

import math
from typing import Annotated

import msgspec

from compilegate.records.environment import Environment
from compilegate.records.observation import Observation, Stage
from compilegate.runs.plausibility import implausible

#: The most bytes of one message of a child.
LONGEST_MESSAGE = 64 << 20
#: The most bytes of output of one child, which is kept in memory.
MOST_OUTPUT = 256 << 20
#: How many bytes of a refused answer are shown.
_SHOWN = 60


class MisbehaviourError(Exception):
    """A child does what no observer does, and is to be killed. The text says what.

    Attributes:
        kind: The kind of the failure, in words.
    """

    kind = ""


class GarbledAnswerError(MisbehaviourError):
    """A child sent something that is no answer. The text shows how it begins."""

    kind = "garbled answer"


class TooMuchOutputError(MisbehaviourError):
    """A child floods its output, which fills the memory of the machine."""

    kind = "too much output"


class Turn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rounds that a child has timed since its last turn.

    Attributes:
        iterations: The calls that it would have in a round.
        eager_ns: Nanoseconds of a call of eager, by round.
        compiled_ns: Those of compiled code.
    """

    iterations: Annotated[int, msgspec.Meta(ge=1)]
    eager_ns: tuple[float, ...] = ()
    compiled_ns: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.eager_ns) != len(self.compiled_ns):
            raise ValueError("both sides of a turn must have the same number of rounds")
        if not all(0 < ns < math.inf for ns in (*self.eager_ns, *self.compiled_ns)):
            raise ValueError("the rounds of a turn must take time")


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One message of a child. Exactly one of the first ten fields is set.

    Attributes:
        stage: The stage that the case has reached, or that lasts.
        turn: The child has timed the rounds that it was asked for.
        observation: The answer: the case is over.
        so_far: What was observed until now, before a practice that may end the process.
        environment: The answer to a request for the environment.
        alone: The child asks that no other child of the session runs, or no longer needs that.
        needed_bytes: What the case needs of the GPU's memory. The child waits for the answer.
        call: The probing call that begins.
        probing: The extreme numbers with which eager makes a probing call; empty after it.
        lost_in: The other probing call in which eager has lost the GPU.
        last: Of an observation: the child must observe no further case.
        held_bytes: Of a stage: what the child has reserved of the memory of GPUs.
    """

    stage: Stage | None = None
    turn: Turn | None = None
    observation: Observation | None = None
    so_far: Observation | None = None
    environment: Environment | None = None
    alone: bool | None = None
    needed_bytes: Annotated[int, msgspec.Meta(ge=0)] | None = None
    call: str | None = None
    probing: str | None = None
    lost_in: str | None = None
    last: bool = False
    held_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0


#: Stands for the absence of a message for some time. No child can send it.
SILENCE = Message()


class Packet(msgspec.Struct, frozen=True):
    """One packet of the fork server or its supervisor (see ``observe/server``).

    Attributes:
        ready: It can fork.
        pid: The process id of the child that it has started.
        failed: Why it could not start a child.
        ended: The process id of the child that has ended.
        status: The wait status of that child.
        server: The wait status of the fork server, which has ended.
    """

    ready: bool = False
    pid: int | None = None
    failed: str = ""
    ended: int | None = None
    status: int | None = None
    server: int | None = None


_messages = msgspec.json.Decoder(Message, strict=False)
_packets = msgspec.json.Decoder(Packet)


class Lines:
    """Puts the bytes that a child sends together to messages."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._searched = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing has arrived since the last message that was taken."""
        return not self._pending

    def add(self, chunk: bytes) -> None:
        """Add bytes in the order of their arrival."""
        self._pending += chunk

    def next_message(self) -> Message | None:
        """Take the first message; None if it is not complete.

        Raises:
            GarbledAnswerError: The first line is no message, or too long for one.
        """
        end = self._pending.find(b"\n", self._searched)
        if max(end, len(self._pending) - 1 if end < 0 else 0) > LONGEST_MESSAGE:
            longest = f"{LONGEST_MESSAGE >> 20} MiB"
            raise GarbledAnswerError(f"a message of more than {longest}: {self._shown(end)}")
        if end < 0:
            self._searched = len(self._pending)
            return None
        try:
            message = _messages.decode(bytes(self._pending[:end]))
            parts = (message.stage, message.turn, message.observation, message.environment)
            others = (message.alone, message.needed_bytes, message.so_far)
            calls = (message.call, message.probing, message.lost_in)
            if sum(part is not None for part in (*parts, *others, *calls)) != 1:
                raise ValueError("it has none of the fields of a message, or several")
            if wrong := implausible(message.observation or message.so_far):
                raise ValueError(wrong)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise GarbledAnswerError(f"{error}: {self._shown(end)}") from error
        del self._pending[: end + 1]
        self._searched = 0
        return message

    def incomplete(self) -> GarbledAnswerError:
        """Return the error of a message that never ends, because its child has ended."""
        return GarbledAnswerError(f"half a message: {self._shown(-1)}")

    def second_answer(self) -> GarbledAnswerError:
        """Return the error of what follows the answer of a case."""
        return GarbledAnswerError(f"more than one answer; it went on with {self._shown(-1)}")

    def _shown(self, end: int) -> str:
        """Return how the first line begins, printable whatever it holds."""
        line = bytes(self._pending[: min(end if end >= 0 else len(self._pending), _SHOWN + 1)])
        cut = "…" if len(line) > _SHOWN else ""
        return f"{line[:_SHOWN]!r}{cut}"


def decode_packet(packet: bytes) -> Packet:
    """Decode a packet; an empty one if it is none, as after the end of the fork server."""
    try:
        return _packets.decode(packet)
    except (msgspec.MsgspecError, ValueError):
        return Packet()
