"""Time a loop with an eager and a compiled optimizer: ``optimizer_steps.py [ROUNDS]``.

The model is compiled in both. It prints steps a second.
"""

import statistics
import sys
import time

import timm
import torch
from torch.nn.functional import cross_entropy

#: The images of a step, and the steps of a round.
BATCH, STEPS = 6, 10


class Loop:
    """A loop of AdamW over one batch."""

    def __init__(self, *, compiles_optimizer: bool) -> None:
        torch.manual_seed(0)
        self.net = timm.create_model("test_vit", img_size=64, num_classes=1000)
        self.images, self.labels = torch.randn(BATCH, 3, 64, 64), torch.randint(1000, (BATCH,))
        self.run = torch.compile(self.net)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=torch.tensor(1e-3))
        step = self.optimizer.step
        self.update = torch.compile(step) if compiles_optimizer else step

    def take_steps(self) -> float:
        """Take the steps of a round. Return how many there were a second."""
        start = time.perf_counter()
        for _ in range(STEPS):
            self.optimizer.zero_grad()
            cross_entropy(self.run(self.images), self.labels).backward()
            self.update()
        return STEPS / (time.perf_counter() - start)


def main(rounds: int) -> None:
    """Print the medians of rounds that are taken in turns, and that of their ratios."""
    loops = [Loop(compiles_optimizer=compiles) for compiles in (False, True)]
    for loop in loops:
        loop.take_steps()
    pairs = [[loop.take_steps() for loop in loops] for _ in range(rounds)]
    eager, compiled = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratio = statistics.median(ours / theirs for theirs, ours in pairs)
    print(f"{eager:.1f} steps/s with an eager optimizer, {compiled:.1f} compiled: {ratio:.2f}×")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
