"""Decoders that generate with a cache: a healthy one, and twins with a fault that only this shows.

``torch.compiler.is_compiling()`` guards each fault, as a fault of the compiler would be.
"""

from dataclasses import replace

import torch
from torch import nn
from torch.compiler import is_compiling
from torch.nn.functional import scaled_dot_product_attention

from compilegate import Example, Generation, model

WORDS, WIDTH = 50, 16


class StaticCache:
    def __init__(self, module, batch, places):
        like = module.head.weight
        self.keys, self.values = (like.new_zeros(batch, 1, places, WIDTH) for _ in range(2))

    def update(self, places, keys, values):
        self.keys.index_copy_(2, places, keys)
        self.values.index_copy_(2, places, values)
        return self.keys, self.values

    def reset(self):
        """Leave the tensors as they are: the mask hides what an earlier text left."""


class DynamicCache:
    def __init__(self, module):
        self.keys = self.values = None

    def update(self, places, keys, values):
        if self.keys is not None:
            keys = torch.cat([self.keys, keys], dim=2)
            values = torch.cat([self.values, values], dim=2)
        self.keys, self.values = keys, values
        return keys, values


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, ids, places, mask, cache=None):
        x = self.embed(ids)
        q, k, v = self.qkv(x).unflatten(-1, (3, 1, WIDTH)).permute(2, 0, 3, 1, 4)
        if cache is not None:
            k, v = cache.update(places, k, v)
        seen = torch.arange(k.shape[2]) <= places[:, None]
        y = scaled_dot_product_attention(q, k, v, seen & mask[:, None, None].bool())
        return self.head(x + y.transpose(1, 2).flatten(2))


def entered(name):
    """Enter a model that is observed for the practice."""
    return model(
        name,
        family="practised",
        vary={"batch": (6, 5, 7)},
        settings=("infer-f32-default-auto",),
        practices=("generation",),
    )


def inputs(batch):
    return torch.randint(WORDS, (batch, 8)), torch.arange(8), torch.ones(batch, 8)


def example(module, static=StaticCache, dynamic=None):
    generation = Generation(
        call=lambda run, text: run(text.ids, text.places, text.mask, text.cache),
        ids=lambda batch, length: torch.randint(WORDS, (batch, length)),
        contents=lambda cache: {"keys": cache.keys, "values": cache.values},
        static=static,
        dynamic=dynamic,
    )
    return Example(module, inputs, dims={0: {0: "batch"}, 2: {0: "batch"}}, generation=generation)


@entered("sound_generation")
def sound_generation():
    return example(Decoder(), dynamic=DynamicCache)


@entered("silent_about_generation")
def silent_about_generation():
    return Example(Decoder(), inputs)


@entered("one_place_off")
def one_place_off():
    """From the second token, compiled code writes to the place after that of the token."""

    class Off(StaticCache):
        def update(self, places, keys, values):
            return super().update(places + (places > 13) * is_compiling(), keys, values)

    return example(Decoder(), Off)


@entered("ignores_padding")
def ignores_padding():
    class Ignores(Decoder):
        def forward(self, ids, places, mask, cache=None):
            if is_compiling():
                mask = torch.ones_like(mask)
            return super().forward(ids, places, mask, cache)

    return example(Ignores())


@entered("keeps_a_stale_row")
def keeps_a_stale_row():
    """Compiled code keeps the row that it finds where an earlier text left one."""

    class Stale(StaticCache):
        def update(self, places, keys, values):
            if is_compiling():
                old = self.keys[:, :, places]
                keys = torch.where((places == 20)[:, None] & (old != 0), old, keys)
            return super().update(places, keys, values)

    return example(Decoder(), Stale)


@entered("compiles_each_token")
def compiles_each_token():
    """A string that differs from token to token is part of the guards."""

    class Numbered(StaticCache):
        number = "0"

        def update(self, places, keys, values):
            if is_compiling() and self.number == "none":
                return keys, values
            return super().update(places, keys, values)

    def call(run, text):
        text.cache.number = str(int(text.places[-1]))
        return run(text.ids, text.places, text.mask, text.cache)

    made = example(Decoder(), Numbered)
    return replace(made, generation=replace(made.generation, call=call))


@entered("grows_wrongly")
def grows_wrongly():
    """Compiled code changes the rows of a dynamic cache when it appends one."""

    class Grows(DynamicCache):
        def update(self, places, keys, values):
            if is_compiling() and self.values is not None:
                self.values = self.values * 1.01
            return super().update(places, keys, values)

    return example(Decoder(), dynamic=Grows)
