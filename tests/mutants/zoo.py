"""Small models that use many parts of the compiler, each under the settings of its trial."""

import torch
from torch import nn
from torch.nn import functional

from compilegate import Example, model

INFER, TRAIN = "infer-f32-default-auto", "train-f32-default-static"
BOTH = (INFER, TRAIN)


class Convnet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.second, self.head = nn.Conv2d(8, 8, 3, stride=2), nn.Linear(32, 5)
        self.dropout = nn.Dropout(0.3)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.norm(self.first(x))), 2)
        x = functional.avg_pool2d(functional.silu(self.second(x)), 2, padding=1)
        return self.head(self.dropout(x.flatten(1)))


@model("convnet", vary={"batch": (6, 5, 7)}, settings=BOTH)
def convnet():
    return Example(Convnet(), lambda batch: (torch.randn(batch, 3, 17, 17),))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.norm = nn.Embedding(50, 32), nn.LayerNorm(32)
        self.mixed, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, tokens, labels):
        x = self.embedding(tokens)
        q, k, v = self.mixed(self.norm(x)).unflatten(-1, (3, 4, 8)).movedim(-2, 1).unbind(-2)
        first = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        second = (q @ k.mT * 0.35).softmax(-1) @ v
        x = x + self.out((first + second).movedim(1, 2).flatten(-2))
        x = x + self.down(functional.gelu(self.up(self.norm(x))))
        scores = x @ self.embedding.weight.T
        return scores, functional.cross_entropy(scores.flatten(0, 1), labels.flatten())


@model("block", vary={"length": (12, 9, 14)}, settings=(INFER, TRAIN, "train-bf16-default-dynamic"))
def block():
    return Example(
        Block(),
        lambda length: (torch.randint(50, (2, length)), torch.randint(50, (2, length))),
    )


class Cell(nn.Module):
    """A recurrent cell over the steps of a sequence."""

    def __init__(self):
        super().__init__()
        self.gates = nn.Linear(8 + 16, 64)

    def forward(self, x):
        hidden = state = x.new_zeros(x.shape[0], 16)
        outputs = []
        for step in x.unbind(1):
            into, forget, new, out = self.gates(torch.cat((step, hidden), 1)).chunk(4, 1)
            state = forget.sigmoid() * state + into.sigmoid() * new.tanh()
            hidden = out.sigmoid() * state.tanh()
            outputs.append(hidden)
        return torch.stack(outputs, 1), {"hidden": hidden, "state": state}


@model("cell", vary={"batch": (6, 5, 7)}, settings=BOTH)
def cell():
    return Example(Cell(), lambda batch: (torch.randn(batch, 3, 8),))


class Indexing(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x, index):
        x = self.linear(x)
        gathered = x.gather(1, index)
        scattered = torch.zeros_like(x).scatter_add(1, index, gathered * 2)
        summed = x.cumsum(1) / torch.arange(1, 17, device=x.device)
        ranked, order = x.sort(dim=1, descending=True, stable=True)
        best, where = x.topk(3, 1)
        chosen = torch.where(x > 0, summed, scattered)[:, index[0, :5]]
        spread = torch.var(x, 1, correction=1) + x.amax(1) - x.norm(dim=1)
        return scattered, chosen, ranked, order.argmax(1), best, where, spread, x.argmin(1)


@model("indexing", vary={"batch": (6, 5, 7)}, settings=BOTH)
def indexing():
    return Example(
        Indexing(), lambda batch: (torch.randn(batch, 16), torch.randint(16, (batch, 8)))
    )


class Stateful(nn.Module):
    """It changes an input, buffers and attributes, and returns aliases."""

    def __init__(self):
        super().__init__()
        self.linear, self.calls, self.last = nn.Linear(8, 12), 0, {}
        self.register_buffer("mean", torch.zeros(12))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, x, memory, *, scale=2.0):
        self.calls += 1
        y = self.linear(x).clamp(-1, 1) * scale
        self.mean.lerp_(y.detach().mean(0), 0.1)
        self.seen += x.shape[0]
        memory[1:, ::2].add_(y.detach()[:3, :6])
        self.last["spread"] = y.detach().std()
        view = y.view(-1, 3, 4).transpose(1, 2)
        return {"view": view, "part": view[:, 1:], "memory": memory.T, "same": x, "sum": y + 1}


@model("stateful", vary={"batch": (6, 5, 7)}, settings=BOTH)
def stateful():
    return Example(Stateful(), lambda batch: (torch.randn(batch, 8), torch.randn(4, 12)))


class Sampling(nn.Module):
    def __init__(self):
        super().__init__()
        self.narrow, self.norm = nn.Conv2d(4, 4, 1), nn.GroupNorm(2, 4)

    def forward(self, x, grid):
        x = functional.pad(self.norm(self.narrow(x)), (1, 2, 0, 1), mode="reflect")
        large = functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        near = functional.interpolate(x, size=(5, 6))
        sampled = functional.grid_sample(x, grid.tanh(), align_corners=True)
        return (
            large,
            near,
            functional.adaptive_avg_pool2d(x, (3, 2)),
            functional.leaky_relu(sampled, 0.1),
        )


@model("sampling", vary={"batch": (4, 3, 5)}, settings=BOTH)
def sampling():
    return Example(
        Sampling(), lambda batch: (torch.randn(batch, 4, 7, 8), torch.randn(batch, 6, 6, 2))
    )


class Pointwise(nn.Module):
    """Numbers of several types, a reduction of two dimensions, and noise."""

    def __init__(self):
        super().__init__()
        self.scale, self.linear = nn.Parameter(torch.rand(24) + 0.5), nn.Linear(24, 24)

    def forward(self, x, n):
        y = functional.dropout(self.linear(x), 0.4, self.training) * self.scale
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        flags = (n % 3 == 0) | (n // 4 > 1) & ~(n < 0)
        mixed = torch.where(flags, y.exp().log1p(), y.sin().abs().sqrt())
        integers = (n << 1 ^ 5).to(torch.uint8), n.sum(0).remainder(7), n.float().round()
        return mixed, mixed.sum((0, 1)).logsumexp(0), torch.maximum(mixed, y.roll(1, 0)), integers


@model(
    "pointwise",
    vary={"batch": (6, 5, 7)},
    settings=(INFER, TRAIN, "infer-f32-default-dynamic", "train-bf16-default-auto"),
)
def pointwise():
    return Example(
        Pointwise(),
        lambda batch: (torch.randn(batch, 3, 24), torch.randint(-9, 9, (batch, 3, 24))),
    )
