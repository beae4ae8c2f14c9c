"""Texts that every side generates alike, and one side that writes them with its cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

from compilegate.observe.model.float64 import Lifting
from compilegate.observe.model.forward import setting
from compilegate.observe.model.seeding import seed_everything
from compilegate.observe.model.subject import Subject
from compilegate.zoo.generation import Generation, Text

#: The kinds of cache: of fixed length, or one that grows with each token.
Kind = Literal["static", "dynamic"]

#: The texts of a batch, and the tokens that follow the prompt. The first of these compile.
BATCH, TOKENS, FIRST = 4, 32, 2
#: The length of a static cache. Its last places stay empty: a write beyond the text shows there.
PLACES = 48
#: It is far from the seeds of weights and inputs.
_FIRST_SEED = 4_000_037


@dataclass(frozen=True)
class Script:
    """The tokens of a batch of texts, which are given, whatever a model would choose.

    Attributes:
        seed: The seed of the tokens and of the source.
        prompt: How many of the tokens are the prompt.
        ids: The tokens, (batch, prompt + TOKENS).
        mask: 0 for padding, (batch, PLACES).
        positions: The positions in the texts, without padding, (batch, PLACES).
    """

    seed: int
    prompt: int
    ids: torch.Tensor
    mask: torch.Tensor
    positions: torch.Tensor

    @classmethod
    def of(cls, example: Generation, device: str, seed: int, prompt: int, padding: int) -> Script:
        """Draw a script.

        Args:
            example: Draws the tokens.
            device: Where the tensors are.
            seed: Their seed.
            prompt: The tokens of the prompt.
            padding: How many of them are padding on the left of the first text.
        """
        seed_everything(_FIRST_SEED + seed)
        mask = torch.ones(BATCH, PLACES, dtype=torch.long)
        mask[0, : padding if example.left_padding else 0] = 0
        return cls(
            seed=_FIRST_SEED + seed,
            prompt=prompt,
            ids=example.ids(BATCH, prompt + TOKENS).to(device),
            mask=mask.to(device),
            positions=(mask.cumsum(1) - 1).clamp(min=0).to(device),
        )


@dataclass(frozen=True)
class Part:
    """What a side computed in a part of a text, as copies.

    Attributes:
        logits: The logits of the prompt's tokens without padding, or those of each token.
        contents: The keys and values of the cache after the part. Those of padding are zero.
    """

    logits: Mapping[str, torch.Tensor]
    contents: Mapping[str, torch.Tensor]


class Writer:
    """Writes texts with one model and its cache, as a generation loop does.

    A static cache is made once, and reset for each further text. A dynamic one is made for each.

    Args:
        subject: The model. Its recipe says how it generates.
        kind: The kind of cache.
        lifting: The lifting of a reference.
        prefill: What to call for the prompt; what the subject runs by default.
        decode: What to call for each further token; likewise.
    """

    def __init__(
        self,
        subject: Subject,
        kind: Kind,
        *,
        lifting: Lifting | None = None,
        prefill: Callable[..., Any] | None = None,
        decode: Callable[..., Any] | None = None,
    ) -> None:
        assert subject.example.generation is not None
        self._generation = subject.example.generation
        self._subject, self._kind, self._lifting = subject, kind, lifting
        self._prefill, self._decode = prefill or subject.run, decode or subject.run
        self._cache: Any = None
        self._source: Any = None

    def write(self, script: Script) -> Iterator[Part]:
        """Yield three parts of a text: the prompt, the first tokens, and the rest.

        Raises:
            Exception: What the model raises, or compiled code alone.
        """
        with setting(self._subject.case, self._lifting):
            is_token = script.mask[:, : script.prompt].bool()
            made = {"logits of the prompt": self._begin(script)[is_token]}
        yield Part(made, self._contents(script))
        for tokens in (range(FIRST), range(FIRST, TOKENS)):
            with setting(self._subject.case, self._lifting):
                made = {
                    f"logits of token {token + 1}": self._go_on(script, token)[:, 0].clone()
                    for token in tokens
                }
            yield Part(made, self._contents(script))

    def write_at_once(self, script: Script, tokens: int) -> None:
        """Write the beginning of a text, without copies of what is computed.

        Args:
            script: The text.
            tokens: How many tokens to write after the prompt.
        """
        with setting(self._subject.case, self._lifting):
            self._begin(script)
            for token in range(tokens):
                self._go_on(script, token)

    def _begin(self, script: Script) -> torch.Tensor:
        """Empty the cache, read the source, and return the logits of the prompt."""
        module, generation = self._subject.module, self._generation
        if self._kind == "dynamic":
            assert generation.dynamic is not None
            self._cache = generation.dynamic(module)
        elif self._cache is None:
            self._cache = generation.static(module, BATCH, PLACES)
        else:
            self._cache.reset()
        if generation.source is not None:
            seed_everything(script.seed)
            self._source = generation.source(module, BATCH)
        return self._call(self._prefill, script, 0, script.prompt)

    def _go_on(self, script: Script, token: int) -> torch.Tensor:
        """Return the logits of a token after the prompt."""
        place = script.prompt + token
        return self._call(self._decode, script, place, place + 1)

    def _call(self, run: Callable[..., Any], script: Script, start: int, end: int) -> torch.Tensor:
        text = Text(
            ids=script.ids[:, start:end].contiguous(),
            places=torch.arange(start, end, device=script.ids.device),
            positions=script.positions[:, start:end].contiguous(),
            mask=script.mask if self._kind == "static" else script.mask[:, :end].contiguous(),
            cache=self._cache,
            source=self._source,
        )
        logits: torch.Tensor = self._generation.call(run, text)
        return logits

    def _contents(self, script: Script) -> dict[str, torch.Tensor]:
        """Return copies of the cache's tensors, with zeros for padding, which may hold anything."""
        is_padding = script.mask[:, None, :, None] == 0
        found = {
            name: tensor.detach().masked_fill(is_padding[:, :, : tensor.shape[2]], 0)
            for name, tensor in self._generation.contents(self._cache).items()
        }
        if (cross_contents := self._generation.cross_contents) is not None:
            cross = cross_contents(self._cache)
            found |= {name: tensor.detach().clone() for name, tensor in cross.items()}
        return found
