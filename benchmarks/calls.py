"""Where the time of a training step goes: each kernel or call in its place, and the same one repeated by itself.

The difference is what it waits for its operands: a step's buffers do not fit into the cache nearest to the processor.
20 layers, LayerNorm, attention, one thread. Writes benchmarks/calls.csv.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from benchmarks.harness import say, say_machine, seconds, write_csv
from normexp.config.run import RunConfig
from normexp.data.tasks import Task
from normexp.execution.machine import keep_freed_memory
from normexp.model.network import build
from normexp.records.execution_path import ExecutionPath
from normexp.training.optimizers import FlatParameters
from normexp.training.paths.choice import choose
from normexp.training.paths.compiled.program import CompiledProgram
from normexp.training.paths.compiled.table import JoinedRows, joined
from normexp.training.paths.program import Program

STEPS, REPEATS = 60, 40
SHOWN = 0.3
"""Milliseconds a step from which a kind of call has a row of its own."""
NAMES = {
    "mm": "products with weights",
    "addmm": "products with weights",
    "bmm": "products of attention",
    "baddbmm": "products of attention",
    "copy_": "copies between tokens and heads",
    "index_select": "copies between tokens and heads",
    "gelu": "GELU",
    "gelu_backward": "GELU, backward",
    "_softmax": "softmax",
    "_softmax_backward_data": "softmax, backward",
    "sum": "gradients of biases",
    "add": "additions of skip paths",
    "forward": "LayerNorm",
    "kernel": "LayerNorm, backward",
    "_late": "LayerNorm's gradients to their places",
}
"""Of a call, by the name of its function."""


def name_of(call: Callable[[], object]) -> str:
    """What a call is a part of; a kernel by its own name."""
    if isinstance(call, JoinedRows):
        return call.rows[0].kernel.replace("_", " ")
    function: Any = call.func if isinstance(call, partial) else call
    name = str(getattr(function, "__name__", function)).split(".")[0]
    return NAMES.get(name, name)


def times_of(program: Program) -> dict[str, list[tuple[float, float]]]:
    """Milliseconds of every call in place and hot, by what it is a part of."""
    calls = list[Callable[[], object]]()
    for call in program.tape.calls:
        calls += [joined([row]) for row in call.rows] if isinstance(call, JoinedRows) else [call]
    times: list[list[float]] = [[] for _ in calls]
    with torch.no_grad():
        for _ in range(STEPS):
            for number, call in enumerate(calls):
                times[number].append(seconds(call))
        hot = [statistics.median(seconds(call) for _ in range(REPEATS)) for call in calls]
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for call, taken, alone in zip(calls, times, hot, strict=True):
        found[name_of(call)].append((1e3 * statistics.median(taken), 1e3 * alone))
    return found


def row(name: str, pairs: list[tuple[float, float]]) -> dict[str, object]:
    """Sums over calls."""
    place, hot = (round(sum(column), 2) for column in zip(*pairs, strict=True))
    return {"call": name, "calls": len(pairs), "in_place_ms": place, "hot_ms": hot}


def measure(config: RunConfig) -> list[dict[str, object]]:
    """A row a name, the longest first; short ones together; all."""
    network, task = build(config), Task(config)
    FlatParameters(network)
    make = CompiledProgram if choose().path is ExecutionPath.COMPILED else Program
    program = make(network, config.batch, config.seq_len, task.first)
    program(next(task.batches(0, config.batch)))
    found = times_of(program)
    total = {name: sum(place for place, _ in pairs) for name, pairs in found.items()}
    shown = sorted((name for name in found if total[name] >= SHOWN), key=lambda name: -total[name])
    short = [pair for name, pairs in found.items() if total[name] < SHOWN for pair in pairs]
    every = [pair for pairs in found.values() for pair in pairs]
    return [*(row(name, found[name]) for name in shown), row("others", short), row("all", every)]


def main() -> None:
    """Measure, print, write."""
    torch.set_num_threads(1)
    keep_freed_memory()
    say_machine()
    rows = measure(RunConfig(lr=1e-4))
    for each in rows:
        say(each)
    write_csv("calls", rows)


if __name__ == "__main__":
    main()
