"""normexp bench.

The options and overrides of `normexp bench`, checked: every complaint at once.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from normexp.commands import options as common
from normexp.errors import UserError
from normexp.schemes.network_config import Value

if TYPE_CHECKING:
    from normexp.config.run import RunConfig
    from normexp.records.measurements import Rounds, Timing

PANEL = common.Panel.RUN


Found = TypeVar("Found")

MOST_ELEMENTS = 2**25
"""Of a shape: a handwritten norm keeps several copies of its input."""
MOST_AXES = 6
STEP_NORMS = ("ln", "rms", "none")
"""Norms whose steps are timed unless told otherwise: the first is the reference, the last tells the norms' share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to time: shapes and numbers of threads of norms alone; steps of configs, by norm, alike in `told`."""

    shapes: list[tuple[int, ...]]
    threads: list[int]
    configs: dict[str, RunConfig]
    told: str


def read(shapes: str, threads: str | None, overrides: Sequence[str], processors: int) -> Request:
    """Options and overrides as they were typed. Raises UserError with every complaint."""
    complaints: list[str] = []
    found_shapes = _kept(complaints, lambda: read_shapes(shapes))
    found_threads = _kept(complaints, lambda: read_threads(threads, processors))
    model = _kept(complaints, lambda: read_model(overrides))
    if found_shapes is None or found_threads is None or model is None:
        raise UserError(*complaints)
    return Request(shapes=found_shapes, threads=found_threads, configs=model[0], told=model[1])


def _kept(complaints: list[str], reader: Callable[[], Found]) -> Found | None:
    try:
        return reader()
    except UserError as fault:
        complaints += fault.complaints
        return None


def read_shapes(text: str) -> list[tuple[int, ...]]:
    """`512x64,64x128x1024`: shapes, whose last axis is normalized. Raises UserError."""
    found: dict[tuple[int, ...], None] = {}
    complaints = []
    for word in text.split(","):
        sizes = [int(size[:12]) for size in word.split("x")] if re.fullmatch(r"\s*\d+(x\d+)*\s*", word) else []
        elements = 1
        for size in sizes:
            elements *= size
        if not sizes or not elements or len(sizes) > MOST_AXES:
            complaints.append(f"--shapes: {word.strip()!r} is no shape: write sizes from 1 on, such as 512x64")
        elif elements > MOST_ELEMENTS:
            complaints.append(f"--shapes: {word.strip()} has {elements} elements: write one of at most {MOST_ELEMENTS}")
        elif tuple(sizes) in found:
            complaints.append(f"--shapes: {word.strip()} stands twice: keep one")
        found[tuple(sizes)] = None
    if complaints:
        raise UserError(*complaints)
    return list(found)


def read_threads(text: str | None, processors: int) -> list[int]:
    """`1,2`: numbers of threads, each at most the processors; None: 1 and 2, as there are. Raises UserError."""
    if text is None:
        return list(range(1, min(2, processors) + 1))
    words = [word.strip() for word in text.split(",")]
    if any(not re.fullmatch(r"\d{1,6}", word) or not 1 <= int(word) <= processors for word in words):
        most = f"of the {processors} processors" if processors > 1 else "of the one processor"
        example = "1,2" if processors > 1 else "1"
        raise UserError(f"--threads {text}: write numbers from 1 on, none above that {most}, such as {example}")
    return list(dict.fromkeys(int(word) for word in words))


def read_one(texts: Sequence[str]) -> tuple[RunConfig, str]:
    """The config of one network, and its keys in words. Raises UserError."""
    from normexp.config.labels import values_text
    from normexp.config.network import one_network
    from normexp.config.overrides import read_overrides
    from normexp.config.run import RunConfig
    from normexp.config.yaml_file import Notes

    notes = Notes()
    values, given = one_network(read_overrides(texts, notes), notes, several="norm")
    notes.fail_if_any()
    if len(given) > 1:
        raise UserError(f"norm={','.join(map(str, given))}: --paths times one network: write one norm")
    if given:
        values["norm"] = given[0]
    try:
        config = RunConfig(**values)  # type: ignore[arg-type]
    except ValueError as error:
        raise UserError(*str(error).splitlines()) from error
    told: dict[str, Value] = {"depth": config.depth, "width": config.width, "norm": config.norm}
    return config, values_text(told | values)


def read_model(texts: Sequence[str]) -> tuple[dict[str, RunConfig], str]:
    """The configs whose steps are timed in turns, by their norms, and what they have in common in words.

    Raises UserError.
    """
    from normexp.config import feasibility
    from normexp.config.labels import values_text
    from normexp.config.network import one_network
    from normexp.config.overrides import read_overrides
    from normexp.config.run import RunConfig
    from normexp.config.yaml_file import Notes

    notes = Notes()
    values, given = one_network(read_overrides(texts, notes), notes, several="norm")
    notes.fail_if_any()
    reference, *_, without = STEP_NORMS
    between = [norm for norm in map(str, given or STEP_NORMS) if norm != without]
    norms = [*dict.fromkeys([reference, *between]), without]
    try:
        configs = {norm: RunConfig(**{**values, "norm": norm}) for norm in norms}  # type: ignore[arg-type]
    except ValueError as error:
        raise UserError(*str(error).splitlines()) from error
    feasibility.refuse(configs.values())
    first = configs[reference]
    if first.depth == 0:
        raise UserError("depth: a network without layers has no norms to time: write depth=1 or more")
    told: dict[str, Value] = {"depth": first.depth, "width": first.width, "position": first.position}
    return configs, values_text(told | values)


SHAPES = "512x64,512x128,512x1024,64x128x1024"
FOLDER = "bench"
PATH_ROUNDS = 25
"""Steps that are timed by each path, unless the number is given."""
BUSY = 0.3
"""The load from which on other processes disturb."""


def command(
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
    from normexp.analysis import measured_tables as view
    from normexp.execution.machine import default_jobs
    from normexp.plots.measured import draw_bench
    from normexp.plots.style import render
    from normexp.storage import outputs
    from normexp.terminal.console import ResponsiveTable
    from normexp.terminal.show import show

    processors, folder = default_jobs(), out / FOLDER
    request = read(shapes, threads, overrides or (), processors)
    with outputs.held(folder):
        rows = list(_rows(request, rounds, steps, processors))
        outputs.write_measured(folder, "bench", view.bench_csv(rows), render(draw_bench(rows)))
    show(*(ResponsiveTable(table) for table in view.bench_tables(rows)), f"Files: {folder}")


def _compare_paths(overrides: Sequence[str], rounds: int | None) -> None:
    """Which path steps take on this machine, why, and how long a step takes by each."""
    from normexp.analysis import measured_tables as view
    from normexp.execution.machine import keep_freed_memory
    from normexp.terminal.console import ResponsiveTable
    from normexp.terminal.show import show
    from normexp.training import bench
    from normexp.training.paths.choice import choose

    config, told = read_one(overrides)
    choice = choose()
    keep_freed_memory()
    seconds = bench.paths(config, rounds or PATH_ROUNDS)
    show(f"path in use: {choice.path} ({choice.why})")
    show(*(f"{name.replace('_', ' ')}: {value}" for name, value in choice.made_by.items()), f"machine: {_machine()}")
    show(ResponsiveTable(view.paths(seconds, told, in_use=choice.path)))


def _rows(request: Request, rounds: int | None, steps: int, processors: int) -> Iterator[Timing]:
    """Say where it is measured, then each part as it is done."""
    from normexp.config.labels import plural
    from normexp.execution.machine import keep_freed_memory, load
    from normexp.records.measurements import STEP, timings
    from normexp.terminal.show import say, show

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
    from normexp.execution.machine import processor
    from normexp.execution.worker import environment

    found = environment()
    return f"{processor()}, {found['cpu_capability']}, torch {found['torch']}"
