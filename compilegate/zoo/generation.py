"""How a decoder generates: token by token, with a cache of keys and values.

A recipe says how its model is called in a generation loop, as the loop itself would::

    Example(
        Decoder(),
        generation=Generation(
            call=lambda run, text: run(text.ids, text.places, text.mask, text.cache),
            ids=lambda batch, length: torch.randint(1000, (batch, length)),
            static=lambda module, batch, length: StaticCache(module, batch, length),
            contents=lambda cache: {"keys": cache.keys, "values": cache.values},
        ),
    )

The recipe of transformers' models is in ``fixtures/transformers_generation.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

#: A ``torch.Tensor``. Recipes are listed without torch.
Tensor = Any


@dataclass(frozen=True, kw_only=True)
class Text:
    """The tokens of one call: those of a prompt, or the one that was generated last.

    Attributes:
        ids: The tokens, (batch, tokens).
        places: Where their keys and values belong in the cache, (tokens,).
        positions: Their positions in their texts, which do not count padding, (batch, tokens).
        mask: 1 for each place in the cache that is for a token, and 0 for padding, (batch, places).
            It covers a whole static cache, and a dynamic one up to the last of these tokens.
        cache: The cache, which the call reads and extends.
        source: What :attr:`Generation.source` returned.
    """

    ids: Tensor
    places: Tensor
    positions: Tensor
    mask: Tensor
    cache: Any
    source: Any = None


@dataclass(frozen=True, kw_only=True)
class Generation:
    """How to generate with a model.

    Attributes:
        call: Calls the model. It receives what to call instead of the module (the module itself, or
            what ``torch.compile`` returned) and a :class:`Text`. It returns the logits, (batch,
            tokens, vocabulary).
        ids: Returns random tokens on the CPU, (batch, length), given both numbers.
        contents: Returns the keys and values that a cache holds by name, each (batch, heads,
            places, width).
        static: Returns an empty cache of fixed length, given the module, the batch size and the
            length. Its method ``reset()`` empties it.
        dynamic: Returns an empty cache that grows, given the module; None if the model has none.
        source: Returns what an encoder-decoder reads, on the module's device, given the module and
            the batch size: the output of the encoder and the mask of its input.
        cross_contents: Returns the keys and values of the attention to the source, by name.
        left_padding: Whether prompts may be padded on the left.
    """

    call: Callable[[Any, Text], Tensor]
    ids: Callable[[int, int], Tensor]
    contents: Callable[[Any], Mapping[str, Tensor]]
    static: Callable[[Any, int, int], Any]
    dynamic: Callable[[Any], Any] | None = None
    source: Callable[[Any, int], Any] | None = None
    cross_contents: Callable[[Any], Mapping[str, Tensor]] | None = None
    left_padding: bool = True
