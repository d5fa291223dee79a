"""Step time of normexp's training step beside a plain eager loop of the same network, alternating in one process.

The plain loop is torch as its documentation writes it: zero_grad, forward, backward, fused Adam; no checks. Both run in
a process set up as a worker is. The limit is what the step's matrix products take alone, with weights and results in
place: three for each matrix (forward, gradient of the input, gradient of the weights), timed in turn with the steps.
Prints the median ratio with its quartiles and the share of the limit, and writes benchmarks/step.csv.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.nn import functional

from benchmarks.harness import say, say_machine, seconds, spread, write_csv
from normexp.execute.heap import keep_freed_memory
from normexp.nn.network import build
from normexp.run import RunConfig
from normexp.tasks import Batch, Task
from normexp.training.trainer import Trainer

CONFIGS = [
    RunConfig(depth=20, norm="ln", lr=1e-4),
    RunConfig(depth=20, norm="ln", position="post", lr=1e-4),
    RunConfig(depth=20, norm="rms", lr=1e-4),
    RunConfig(depth=20, norm="none", mixer="mean", init="torch", lr=1e-4),
    RunConfig(depth=20, norm="ln", mixer="linear", init="torch", lr=1e-4),
    RunConfig(depth=6, norm="ln", lr=1e-4),
]
PAIRS = 150
WARMUP = 10


def plain_step(config: RunConfig) -> Callable[[Batch], None]:
    """A step of the plain loop."""
    network, first = build(config), Task(config).first
    optimizer = torch.optim.Adam(network.parameters(), lr=config.lr, fused=True)

    def step(batch: Batch) -> None:
        optimizer.zero_grad()
        logits_btv = network(torch.from_numpy(batch.inputs_nt))[:, first:]
        targets_bt = torch.from_numpy(batch.targets_nt)[:, first:]
        loss = functional.cross_entropy(logits_btv.flatten(0, 1), targets_bt.flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def checked_step(config: RunConfig) -> Callable[[Batch], None]:
    """A step as every run makes it, all checks on."""
    trainer, numbers = Trainer(config), itertools.count(1)

    def step(batch: Batch) -> None:
        trainer.step(next(numbers), batch)

    return step


def matrix_products(config: RunConfig) -> Callable[[], None]:
    """All matrix products of one step on the shapes that it has, and nothing else."""
    tokens = config.batch * config.seq_len
    pairs = []
    for module in build(config).modules():
        if isinstance(module, nn.Linear):
            x, grad = torch.randn(tokens, module.in_features), torch.randn(tokens, module.out_features)
            weight = module.weight.detach()
            pairs += [(x, weight.t()), (grad, weight), (grad.t(), x)]
    outs = [torch.mm(a, b) for a, b in pairs]

    def products() -> None:
        for (a, b), out in zip(pairs, outs, strict=True):
            torch.mm(a, b, out=out)

    return products


def measure(config: RunConfig) -> dict[str, object]:
    """Alternate the two on the same batches."""
    ours, plain, products = checked_step(config), plain_step(config), matrix_products(config)
    batches = Task(config).batches(0, config.batch)
    ratios, ours_ms, plain_ms, limit_ms = [], [], [], []
    for number, batch in enumerate(itertools.islice(batches, PAIRS + WARMUP)):
        if number % 2:
            one, other = seconds(partial(ours, batch)), seconds(partial(plain, batch))
        else:
            other, one = seconds(partial(plain, batch)), seconds(partial(ours, batch))
        if number >= WARMUP:
            ratios.append(one / other)
            ours_ms.append(1e3 * one)
            plain_ms.append(1e3 * other)
            limit_ms.append(1e3 * seconds(products))
    median, low, high = spread(ratios)
    keys = ("depth", "norm", "position", "mixer")
    return {
        **{key: getattr(config, key) for key in keys},
        "ours_ms": round(statistics.median(ours_ms), 2),
        "plain_ms": round(statistics.median(plain_ms), 2),
        "limit_ms": round(statistics.median(limit_ms), 2),
        "of_limit": round(statistics.median(limit_ms) / statistics.median(ours_ms), 3),
        "ratio": median,
        "ratio_low": low,
        "ratio_high": high,
    }


def main() -> None:
    """Measure, print, write."""
    torch.set_num_threads(1)
    keep_freed_memory()
    say_machine()
    rows = []
    for config in CONFIGS:
        rows.append(measure(config))
        say(rows[-1])
    write_csv("step", rows)


if __name__ == "__main__":
    main()
