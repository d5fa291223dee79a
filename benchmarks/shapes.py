"""A step by compiled kernels beside the same step on the tape, over shapes that are not those of the default network.

Each network is drawn from a fixed seed: width (4 to 256, multiples of 16 or not), head size (4 to 64), sequence length
(4 to 128), batch, hidden width, depth, norm, position, mixer, QK norm, activation. Both paths take turns on the same
batches with one thread. Prints each median ratio, compiled to tape, with its quartiles; writes benchmarks/shapes.csv.
Exits with 1 if the lower quartile of any ratio is above 1.
"""

from __future__ import annotations

import itertools
import random
import statistics
import sys
from collections.abc import Iterator

import torch

from benchmarks.harness import say, say_machine, seconds, spread, write_csv
from benchmarks.step import checked_step, turn
from normexp.config.run import RunConfig
from normexp.data.tasks import Task
from normexp.execution.machine import keep_freed_memory
from normexp.records.execution_path import ExecutionPath

NETWORKS, TURNS = 60, 12
TURN_SECONDS = 0.06
"""A turn has as many steps as take about this long on the tape."""
SHOWN = ("depth", "width", "heads", "hidden", "seq_len", "batch", "norm", "position", "mixer", "qk_norm", "activation")


def networks() -> Iterator[RunConfig]:
    """Yield configs whose shapes differ in every respect."""
    draw = random.Random(0)
    while True:
        head, heads = draw.choice([4, 6, 8, 12, 16, 20, 32, 64]), draw.choice([1, 2, 3, 4, 8])
        if head * heads > 256:
            continue
        mixer = draw.choice(["attention", "attention", "attention", "mean", "linear"])
        yield RunConfig(
            depth=draw.choice([2, 4, 8]),
            width=head * heads,
            heads=heads,
            hidden=draw.choice([24, 50, 128, 200, 512]),
            seq_len=draw.choice([4, 7, 16, 31, 64, 128]),
            batch=draw.choice([1, 2, 5, 16, 32, 64]),
            norm=draw.choice(["ln", "rms", "bn", "dyt", "scale", "none"]),
            position=draw.choice(["pre", "post", "sandwich", "deepnorm", "rezero"]),
            mixer=mixer,
            qk_norm=draw.choice(["none", "none", "rms", "ln", "l2"]) if mixer == "attention" else "none",
            activation=draw.choice(["gelu", "relu"]),
            lr=1e-4,
        )


def measure(config: RunConfig) -> dict[str, object]:
    """Return the ratio of the times of both paths, in turns, with its quartiles."""
    compiled = checked_step(config, ExecutionPath.COMPILED)
    tape = checked_step(config, ExecutionPath.TAPE)
    batches = Task(config).batches(0, config.batch)
    warm = list(itertools.islice(batches, 3))
    for step in (compiled, tape):
        turn(step, warm)
    first = next(batches)
    steps = max(1, round(TURN_SECONDS / seconds(lambda: tape(first))))
    times: dict[str, list[float]] = {"compiled": [], "tape": []}
    for number in range(TURNS):
        own = list(itertools.islice(batches, steps))
        order = [("compiled", compiled), ("tape", tape)]
        for name, step in order if number % 2 else reversed(order):
            times[name].append(turn(step, own))
    ratios = [ours / other for ours, other in zip(times["compiled"], times["tape"], strict=True)]
    row: dict[str, object] = {key: getattr(config, key) for key in SHOWN}
    row |= {f"{name}_ms": round(1e3 * statistics.median(values), 3) for name, values in times.items()}
    row["to_tape"], row["to_tape_low"], row["to_tape_high"] = spread(ratios)
    return row


def main() -> None:
    """Measure, print, write."""
    torch.set_num_threads(1)
    keep_freed_memory()
    say_machine()
    rows = []
    for config in itertools.islice(networks(), NETWORKS):
        rows.append(measure(config))
        say(rows[-1])
    write_csv("shapes", rows)
    slower = [row for row in rows if float(str(row["to_tape_low"])) > 1]
    if slower:
        sys.exit(f"{len(slower)} of {len(rows)} networks are slower by compiled kernels than on the tape")


if __name__ == "__main__":
    main()
