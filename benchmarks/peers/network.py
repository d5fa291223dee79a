"""The network and its training, as a user of another tool would write them: plain eager torch, and nothing of normexp.

The same network, source of tokens, training batches, evaluations and optimizer as normexp's, with weights drawn in
torch's usual way. Axes: n or b sequences, t tokens, d features, v vocabulary, c contexts.
"""

from __future__ import annotations

import csv
import functools
import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

VOCAB, SEQ_LEN, WIDTH, HIDDEN, HEADS, EPS = 64, 16, 64, 128, 4, 1e-5
ORDER, SHARPNESS = 2, 4.0
BATCH, EVAL_EVERY, VALIDATION_SEQUENCES, BATCHES_A_BLOCK = 32, 500, 512, 64


class BatchNorm(nn.BatchNorm1d):
    """BatchNorm1d over sequences and tokens."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.flatten(0, 1)).view_as(x)


class DyT(nn.Module):
    """weight * tanh(alpha * x) + bias."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.tensor(0.5))
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * torch.tanh(self.alpha * x) + self.bias


class ScaleNorm(nn.Module):
    """gain * x / |x|."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(math.sqrt(width)))
        self.floor = width * EPS

    def forward(self, x: Tensor) -> Tensor:
        return self.gain * x * torch.rsqrt(x.square().sum(-1, keepdim=True) + self.floor)


NORMS: Mapping[str, Callable[[int], nn.Module]] = {
    "none": lambda width: nn.Identity(),
    "ln": functools.partial(nn.LayerNorm, eps=EPS),
    "rms": functools.partial(nn.RMSNorm, eps=EPS),
    "bn": functools.partial(BatchNorm, eps=EPS),
    "dyt": DyT,
    "scale": ScaleNorm,
}


class Attention(nn.Module):
    """Causal, with queries, keys and values from one matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        q, k, v = (part.view(b, t, HEADS, d // HEADS).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, d))  # type: ignore[no-any-return]


class RunningMean(nn.Module):
    """The mean of the tokens so far, then a matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        count = torch.arange(1, x.shape[1] + 1)[:, None]
        return self.out(x.cumsum(dim=1) / count)  # type: ignore[no-any-return]


MIXERS: Mapping[str, Callable[[], nn.Module]] = {
    "attention": Attention,
    "mean": RunningMean,
    "linear": lambda: nn.Linear(WIDTH, WIDTH),
}


class Block(nn.Module):
    """x + f(norm(x)) or norm(x + f(x)), for the mixer and then for the FFN."""

    def __init__(self, norm: str, position: str, mixer: str) -> None:
        super().__init__()
        self.pre = position == "pre"
        self.mixer_norm, self.mixer = NORMS[norm](WIDTH), MIXERS[mixer]()
        self.ffn_norm = NORMS[norm](WIDTH)
        self.ffn = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        if self.pre:
            x = x + self.mixer(self.mixer_norm(x))
            return x + self.ffn(self.ffn_norm(x))  # type: ignore[no-any-return]
        x = self.mixer_norm(x + self.mixer(x))
        return self.ffn_norm(x + self.ffn(x))  # type: ignore[no-any-return]


class Network(nn.Module):
    """Logits (b, t, v) of the next token from tokens (b, t)."""

    def __init__(self, depth: int, norm: str, position: str, mixer: str) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, WIDTH)
        self.positions = nn.Embedding(SEQ_LEN, WIDTH) if mixer != "linear" else None
        self.blocks = nn.Sequential(*(Block(norm, position, mixer) for _ in range(depth)))
        self.final_norm = NORMS[norm if position == "pre" else "none"](WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)
        for linear in self.blocks.modules():
            if isinstance(linear, nn.Linear):
                nn.init.xavier_normal_(linear.weight)
                nn.init.zeros_(linear.bias)
        if self.positions is not None:
            nn.init.normal_(self.positions.weight, std=0.1)

    def forward(self, tokens_bt: Tensor) -> Tensor:
        x = self.embedding(tokens_bt)
        if self.positions is not None:
            x = x + self.positions.weight
        return self.head(self.final_norm(self.blocks(x)))  # type: ignore[no-any-return]


def generator(*names: object) -> np.random.Generator:
    """Random numbers that depend on the names alone: those of normexp, so that the tokens are the same."""
    text = "\x1f".join(map(str, names))
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
    return np.random.Generator(np.random.PCG64(seed))


class Markov:
    """Tokens whose logits are a sum of a table row for each of the latest ORDER tokens."""

    name = ("task", "markov", VOCAB, ORDER, SHARPNESS, 0, 0.0, SEQ_LEN)

    def __init__(self) -> None:
        logits = np.zeros((1, VOCAB))
        for lag in range(ORDER, 0, -1):
            table = generator("markov", 0, VOCAB, lag).standard_normal((VOCAB, VOCAB))
            logits = (logits[:, None, :] + table[None, :, :]).reshape(-1, VOCAB)
        logits *= SHARPNESS / math.sqrt(ORDER)
        weights_cv = np.exp(logits - logits.max(axis=1, keepdims=True))
        cumulative_cv = np.cumsum(weights_cv / weights_cv.sum(axis=1, keepdims=True), axis=1)
        cumulative_cv[:, -1] = 1.0
        self.steps = (np.arange(len(cumulative_cv))[:, None] + cumulative_cv).ravel()

    def sample(self, random: np.random.Generator, n: int) -> Tensor:
        """Tokens (n, t + 1)."""
        uniform_tn = random.random((SEQ_LEN + 1, n))
        tokens_tn = np.empty(uniform_tn.shape, dtype=np.int64)
        tokens_tn[:ORDER] = uniform_tn[:ORDER] * VOCAB
        for at in range(ORDER, SEQ_LEN + 1):
            context = tokens_tn[at - ORDER]
            for lag in range(ORDER - 1, 0, -1):
                context = context * VOCAB + tokens_tn[at - lag]
            found = np.searchsorted(self.steps, context + uniform_tn[at], side="right")
            tokens_tn[at] = np.minimum(found - context * VOCAB, VOCAB - 1)
        return torch.from_numpy(np.ascontiguousarray(tokens_tn.T))

    def validation(self) -> Tensor:
        """The same for every run."""
        return self.sample(generator(*self.name, "validation"), VALIDATION_SEQUENCES)

    def batches(self) -> Iterator[Tensor]:
        """Training batches without end, drawn many at a time."""
        for block in itertools.count():
            random = generator(*self.name, "train", 0, BATCH, block)
            yield from torch.split(self.sample(random, BATCHES_A_BLOCK * BATCH), BATCH)


def loss_of(network: nn.Module, tokens: Tensor) -> Tensor:
    """Mean cross-entropy over the targets whose whole context is in view."""
    logits_btv = network(tokens[:, :-1])[:, ORDER - 1 :]
    return functional.cross_entropy(logits_btv.flatten(0, 1), tokens[:, ORDER:].flatten())


@torch.no_grad()
def evaluate(network: nn.Module, tokens: Tensor) -> float:
    """Validation loss."""
    network.eval()
    loss = loss_of(network, tokens).item()
    network.train()
    return loss


def curve(network: nn.Module, lr: float, steps: int, fused: bool | None = None) -> Iterator[tuple[Any, Any, Any]]:
    """Train, and give step, training loss and validation loss, the last two where there is one."""
    optimizer = torch.optim.Adam(network.parameters(), lr=lr, fused=fused)
    task = Markov()
    validation, batches = task.validation(), task.batches()
    yield 0, None, evaluate(network, validation)
    for step in range(1, steps + 1):
        loss = loss_of(network, next(batches))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        evaluated = step % EVAL_EVERY == 0 or step == steps
        yield step, loss.item(), evaluate(network, validation) if evaluated else None


def train(keys: Mapping[str, Any], folder: Path, report: Callable[[int, float], object] | None = None) -> float:
    """One run by its keys; curve.csv and run.json land in the folder. Gives the last validation loss."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = Network(keys["depth"], keys["norm"], keys["position"], keys["mixer"])
    folder.mkdir(parents=True, exist_ok=True)
    val_loss = math.nan
    with (folder / "curve.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("step", "train_loss", "val_loss"))
        for row in curve(network, keys["lr"], keys["steps"], keys.get("fused") or None):
            writer.writerow(row)
            if row[2] is not None:
                val_loss = row[2]
                if report is not None:
                    report(row[0], val_loss)
    (folder / "run.json").write_text(json.dumps({"config": dict(keys), "val_loss": val_loss}))
    return val_loss
