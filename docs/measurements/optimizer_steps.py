"""Time a loop with an eager and a compiled optimizer: ``optimizer_steps.py [OPTIONS]``.

The model is compiled in both. It prints steps a second.
"""

import argparse
import contextlib
import statistics
import time

import timm
import torch
from torch.nn.functional import cross_entropy

#: The steps of a round.
STEPS = 10


class Loop:
    """A loop of AdamW over one batch, in bf16 autocast where `device` is a GPU."""

    def __init__(self, model: str, device: str, batch: int, size: int, *, compiles: bool) -> None:
        torch.manual_seed(0)
        options = {"img_size": size} if "vit" in model else {}
        self.device = device
        self.net = timm.create_model(model, num_classes=1000, **options).to(device)
        self.images = torch.randn(batch, 3, size, size, device=device)
        self.labels = torch.randint(1000, (batch,), device=device)
        self.run = torch.compile(self.net)
        rate = torch.tensor(1e-3, device=device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=rate)
        step = self.optimizer.step
        self.update = torch.compile(step) if compiles else step

    def take_steps(self) -> float:
        """Take the steps of a round. Return how many there were a second."""
        start = time.perf_counter()
        for _ in range(STEPS):
            self.optimizer.zero_grad()
            with self.autocast():
                loss = cross_entropy(self.run(self.images), self.labels)
            loss.backward()
            self.update()
        if self.device != "cpu":
            torch.accelerator.synchronize()
        return STEPS / (time.perf_counter() - start)

    def autocast(self) -> contextlib.AbstractContextManager[object]:
        """Return bf16 autocast on a GPU, and nothing on a CPU."""
        if self.device == "cpu":
            return contextlib.nullcontext()
        return torch.autocast(self.device, torch.bfloat16)


def main() -> None:
    """Print the medians of rounds that are taken in turns, and that of their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="test_vit", help="a model of timm")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=6)
    parser.add_argument("--size", type=int, default=64, help="height and width of an image")
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    loops = [
        Loop(options.model, options.device, options.batch, options.size, compiles=compiles)
        for compiles in (False, True)
    ]
    for loop in loops:
        loop.take_steps()
    pairs = [[loop.take_steps() for loop in loops] for _ in range(options.rounds)]
    eager, compiled = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratio = statistics.median(ours / theirs for theirs, ours in pairs)
    print(f"{eager:.1f} steps/s with an eager optimizer, {compiled:.1f} compiled: {ratio:.2f}×")


if __name__ == "__main__":
    main()
