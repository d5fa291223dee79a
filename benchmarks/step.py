"""Time of normexp's training step beside a plain eager loop of the same network, by depth, norm, position and mixer.

The plain loop trains benchmarks/peers/network.py as torch's documentation writes it, where that has the network:
zero_grad, forward, backward, Adam; no checks. It runs with torch's default Adam, with its fused one, and, in the first
rows, after torch.compile, whose compile time is reported apart. `tape` is normexp without compiled kernels. `--quick`
measures the first network alone, without torch.compile.

All take turns of ten steps on the same batches, in one process set up as a worker is, with one thread. The limit is the
time of the step's matrix products with weights, at the rate that this processor reaches on these very shapes with
operands at hand: for each matrix its product forward, that of the input's gradient, and that of its own. Prints median
ratios with their quartiles and the share of the limit, and writes benchmarks/step.csv.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import nn
from torch.nn import functional

from benchmarks.harness import say, say_machine, seconds, spread, write_csv
from benchmarks.peers import network as peer
from normexp.config.run import RunConfig
from normexp.data.tasks import Batch, Task
from normexp.execution.machine import keep_freed_memory
from normexp.model.network import build
from normexp.records.execution_path import ExecutionPath
from normexp.training.trainer import Trainer

RATE = 1e-4
ROWS: list[dict[str, int | str]] = [
    {"depth": 20},
    {"depth": 20, "position": "post"},
    {"depth": 6},
    {"depth": 30},
    *({"depth": 20, "norm": norm} for norm in ("none", "rms", "bn", "dyt", "scale")),
    *({"depth": 20, "mixer": mixer} for mixer in ("mean", "linear")),
    *({"depth": 20, "position": position} for position in ("sandwich", "deepnorm", "rezero")),
    *({"depth": 20, "qk_norm": qk_norm} for qk_norm in ("rms", "ln", "full", "l2")),
    {"depth": 20, "activation": "relu"},
]
TORCH_COMPILED = 4
"""The first rows, which also measure the loop by torch.compile: it compiles for a minute or more."""
TURNS, STEPS_OF_A_TURN = 16, 10
WARMUP_TURNS = 1

TOLD = ("depth", "norm", "position", "mixer", "qk_norm", "activation")
"""Keys that a row names."""

Step = Callable[[Batch], None]


def has_plain_loop(config: RunConfig) -> bool:
    """Return whether benchmarks/peers/network.py has the network of the config."""
    rest = {key: getattr(config, key) for key in ("qk_norm", "activation")}
    return config.position in ("pre", "post") and rest == {"qk_norm": "none", "activation": "gelu"}


def plain_step(config: RunConfig, *, fused: bool, compiled: bool = False) -> Step:
    """Return a step of the plain loop, whose network is given to torch.compile if it is `compiled`."""
    torch.manual_seed(0)
    eager = peer.Network(config.depth, config.norm, config.position, config.mixer)
    optimizer = torch.optim.Adam(eager.parameters(), lr=config.lr, fused=fused)
    network: Callable[[torch.Tensor], torch.Tensor] = torch.compile(eager) if compiled else eager

    def step(batch: Batch) -> None:
        optimizer.zero_grad()
        logits_btv = network(torch.from_numpy(batch.inputs_nt))[:, peer.ORDER - 1 :]
        targets_bt = torch.from_numpy(batch.targets_nt)[:, peer.ORDER - 1 :]
        loss = functional.cross_entropy(logits_btv.flatten(0, 1), targets_bt.flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def checked_step(config: RunConfig, path: ExecutionPath | None = None) -> Step:
    """A step as every run makes it, all checks on, by a path or the fastest."""
    trainer, numbers = Trainer(config, path=path), itertools.count(1)

    def step(batch: Batch) -> None:
        trainer.step(next(numbers), batch)

    return step


def shapes(config: RunConfig) -> Counter[tuple[int, int, int]]:
    """Rows, columns and common length of every product with a weight in one step, and how often it comes."""
    tokens, found = config.batch * config.seq_len, Counter[tuple[int, int, int]]()
    for module in build(config).modules():
        if isinstance(module, nn.Linear):
            wide, narrow = module.out_features, module.in_features
            found.update([(tokens, wide, narrow), (tokens, narrow, wide), (wide, narrow, tokens)])
    return found


def limit(config: RunConfig) -> float:
    """Seconds of all products at the rate of each shape by itself."""
    total = 0.0
    for (rows, columns, common), count in shapes(config).items():
        a, b, out = torch.randn(rows, common), torch.randn(common, columns), torch.empty(rows, columns)
        times = [seconds(partial(torch.mm, a, b, out=out)) for _ in range(100)]
        total += count * statistics.median(times[20:])
    return total


def turn(step: Step, batches: list[Batch]) -> float:
    """Seconds a step, over one turn."""

    def steps() -> None:
        for batch in batches:
            step(batch)

    return seconds(steps) / len(batches)


def turns(batches: Iterator[Batch]) -> Iterator[tuple[int, list[Batch]]]:
    """The batches of every turn, with its number."""
    for number in range(TURNS + WARMUP_TURNS):
        yield number, list(itertools.islice(batches, STEPS_OF_A_TURN))


def measure(config: RunConfig, *, compiled: bool = True) -> dict[str, object]:
    """All steps in turn, the first of a turn being another one each time; `compiled` adds the loop by torch.compile."""
    steps = {
        "ours": checked_step(config),
        "tape": checked_step(config, ExecutionPath.TAPE),
        "autograd": checked_step(config, ExecutionPath.AUTOGRAD),
    }
    if has_plain_loop(config):
        steps |= {"plain": plain_step(config, fused=False), "fused": plain_step(config, fused=True)}
    compile_seconds = None
    if compiled:
        steps["torch_compile"] = plain_step(config, fused=True, compiled=True)
        first = next(Task(config).batches(0, config.batch))
        compile_seconds = round(seconds(lambda: steps["torch_compile"](first)), 1)
    times: dict[str, list[float]] = {name: [] for name in (*steps, "limit")}
    for number, batches in turns(Task(config).batches(0, config.batch)):
        names = list(steps)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            times[name].append(turn(steps[name], batches))
        times["limit"].append(limit(config))
    kept = {name: values[WARMUP_TURNS:] for name, values in times.items()}
    row: dict[str, object] = {key: getattr(config, key) for key in TOLD}
    row |= {f"{name}_ms": round(1e3 * statistics.median(values), 2) for name, values in kept.items()}
    row["of_limit"] = round(statistics.median(kept["limit"]) / statistics.median(kept["ours"]), 3)
    row["compile_s"] = compile_seconds
    for name in [name for name in ("tape", "plain", "fused", "torch_compile") if name in kept]:
        ratios = [ours / other for ours, other in zip(kept["ours"], kept[name], strict=True)]
        row[f"to_{name}"], row[f"to_{name}_low"], row[f"to_{name}_high"] = spread(ratios)
    return row


def main() -> None:
    """Measure, print, write; the quick one writes nothing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one line for the network of 20 layers; writes nothing")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    keep_freed_memory()
    say_machine()
    rows = []
    for number, keys in enumerate(ROWS[:1] if quick else ROWS):
        compiled = number < TORCH_COMPILED and not quick
        rows.append(measure(RunConfig(lr=RATE, **keys), compiled=compiled))  # type: ignore[arg-type]
        say(rows[-1])
    if not quick:
        write_csv("step", rows)


if __name__ == "__main__":
    main()
