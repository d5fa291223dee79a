"""normexp bench."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from normexp.cli import options as common

if TYPE_CHECKING:
    from normexp.config.bench import Request
    from normexp.timing import Rounds, Timing

SHAPES = "512x64,512x128,512x1024,64x128x1024"
FOLDER = "bench"
PATH_ROUNDS = 25
"""Steps that are timed by each path, unless the number is given."""
BUSY = 0.3
"""The load from which on other processes disturb."""


def bench(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="key=value: the network whose step is timed; norm=ln,dyt,none.", show_default=False),
    ] = None,
    shapes: Annotated[str, typer.Option(help="Shapes of the norms' input; the last axis is normalized.")] = SHAPES,
    threads: Annotated[
        str | None, typer.Option(help="Numbers of threads for the norms; default 1,2. A step always has one.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=3, max=10**5, help="Measurements of each norm; default: 5 to 100, by time.")
    ] = None,
    steps: Annotated[int, typer.Option(min=0, max=10**5, help="Steps that are timed with each norm; 0: none.")] = 25,
    paths: Annotated[
        bool, typer.Option("--paths", help="Time a step by each execution path instead, and say which one is in use.")
    ] = False,
    out: common.Out = common.OUT,
    plugin: common.Plugins = None,
) -> None:
    """Time RMSNorm beside LayerNorm: each norm by itself, and training steps of a network with them."""
    if paths:
        _compare_paths(overrides or (), rounds)
        return
    from normexp.cli.show import show
    from normexp.config.bench import read
    from normexp.execute.jobs import default_jobs
    from normexp.results import measured
    from normexp.views import bench as view
    from normexp.views.console import Uncut
    from normexp.views.figures.benchfigure import draw
    from normexp.views.figures.canvas import render

    processors, folder = default_jobs(), out / FOLDER
    request = read(shapes, threads, overrides or (), processors)
    with measured.held(folder):
        rows = list(_rows(request, rounds, steps, processors))
        measured.write(folder, "bench", view.to_csv(rows), render(draw(rows)))
    show(*(Uncut(table) for table in view.tables(rows)), f"Files: {folder}")


def _compare_paths(overrides: Sequence[str], rounds: int | None) -> None:
    """Which path steps take on this machine, why, and how long a step takes by each."""
    from normexp.cli.show import show
    from normexp.config.bench import read_one
    from normexp.execute.heap import keep_freed_memory
    from normexp.program.paths import choose
    from normexp.training import bench
    from normexp.views import bench as view
    from normexp.views.console import Uncut

    config, told = read_one(overrides)
    choice = choose()
    keep_freed_memory()
    seconds = bench.paths(config, rounds or PATH_ROUNDS)
    show(f"path in use: {choice.path} ({choice.why})")
    show(*(f"{name.replace('_', ' ')}: {value}" for name, value in choice.made_by.items()), f"machine: {_machine()}")
    show(Uncut(view.paths(seconds, told, in_use=choice.path)))


def _rows(request: Request, rounds: int | None, steps: int, processors: int) -> Iterator[Timing]:
    """Say where it is measured, then each part as it is done."""
    from normexp.cli.show import say, show
    from normexp.execute.heap import keep_freed_memory
    from normexp.execute.machine import load
    from normexp.labels import plural
    from normexp.timing import STEP, timings

    busy, machine = load(), _machine()
    show(f"{machine}; processors: {processors}; load: {'unknown' if busy is None else f'{busy:.2f}'}")
    if busy is not None and busy > BUSY:
        say(f"warning: load {busy:.2f}: other processes disturb; trust the ratios more than the times")
        if busy + max(request.threads) > processors:
            most = plural(max(request.threads), "thread")
            say(f"warning: with {most} besides, not all have a processor of their own: trust neither")
    keep_freed_memory()
    for found in _measure(request, rounds, steps):
        say(f"measured {found.part}, {found.where}, threads: {found.threads}")
        reference, *_, last = found.seconds
        without = last if found.part == STEP else None
        yield from timings(dataclasses.replace(found, machine=machine), reference, without)


def _measure(request: Request, rounds: int | None, steps: int) -> Iterator[Rounds]:
    """Steps first, since they may be refused."""
    from normexp.training import bench

    if steps:
        yield bench.steps(request.configs, steps, request.told)
    for count in request.threads:
        for shape in request.shapes:
            yield from bench.operators(shape, count, rounds)


def _machine() -> str:
    from normexp.execute.machine import processor
    from normexp.execute.worker import environment

    found = environment()
    return f"{processor()}, {found['cpu_capability']}, torch {found['torch']}"
