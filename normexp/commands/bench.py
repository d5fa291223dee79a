"""normexp bench: time norms and training steps."""

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
EXAMPLE = "normexp bench norm=ln,rms,none --shapes 512x64"
SHAPES = "512x64,512x128,512x1024,64x128x1024"
FOLDER = "bench"
PATH_ROUNDS = 25
"""Default number of timed steps per execution path."""
BUSY = 0.3
"""Load average above which other processes disturb the measurement."""
MOST_ELEMENTS = 2**25
"""Largest number of elements in a shape. A handwritten norm keeps several copies of its input."""
MOST_AXES = 6
STEP_NORMS = ("ln", "rms", "none")
"""Norms whose steps are timed by default. The first is the reference; the last gives the norms' share of a step."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to time: norms by `shapes` and `threads`, and steps by `configs`, one per norm, otherwise equal.

    `description` names the keys that the configs have in common.
    """

    shapes: list[tuple[int, ...]]
    threads: list[int]
    configs: dict[str, RunConfig]
    description: str


def read(shapes: str, threads: str | None, overrides: Sequence[str], processors: int) -> Request:
    """Parse options and overrides. Raise UserError with every complaint."""
    complaints: list[str] = []
    parsed_shapes = _collect(complaints, lambda: read_shapes(shapes))
    parsed_threads = _collect(complaints, lambda: read_threads(threads, processors))
    model = _collect(complaints, lambda: read_model(overrides))
    if parsed_shapes is None or parsed_threads is None or model is None:
        raise UserError(*complaints)
    return Request(shapes=parsed_shapes, threads=parsed_threads, configs=model[0], description=model[1])


def _collect(complaints: list[str], reader: Callable[[], T]) -> T | None:
    """Return what `reader` returns, or add its complaints and return None."""
    try:
        return reader()
    except UserError as fault:
        complaints += fault.complaints
        return None


def read_shapes(text: str) -> list[tuple[int, ...]]:
    """Parse `512x64,64x128x1024`. The last axis of a shape is normalized. Raises UserError."""
    shapes: dict[tuple[int, ...], None] = {}
    complaints = []
    for word in text.split(","):
        sizes = [int(size[:12]) for size in word.split("x")] if re.fullmatch(r"\s*\d+(x\d+)*\s*", word) else []
        elements = 1
        for size in sizes:
            elements *= size
        if not sizes or not elements or len(sizes) > MOST_AXES:
            complaints.append(f"--shapes: {word.strip()!r} is not a shape: write positive sizes, such as 512x64")
        elif elements > MOST_ELEMENTS:
            complaints.append(f"--shapes: {word.strip()} has {elements} elements, more than {MOST_ELEMENTS}")
        elif tuple(sizes) in shapes:
            complaints.append(f"--shapes: {word.strip()} is given twice: keep one")
        shapes[tuple(sizes)] = None
    if complaints:
        raise UserError(*complaints)
    return list(shapes)


def read_threads(text: str | None, processors: int) -> list[int]:
    """Parse numbers of threads, `1,2`, each at most `processors`. The default is 1 and, if available, 2.

    Raises UserError.
    """
    if text is None:
        return list(range(1, min(2, processors) + 1))
    words = [word.strip() for word in text.split(",")]
    if any(not re.fullmatch(r"\d{1,6}", word) or not 1 <= int(word) <= processors for word in words):
        example = "1,2" if processors > 1 else "1"
        raise UserError(f"--threads {text}: write numbers from 1 to {processors} (the processors), such as {example}")
    return list(dict.fromkeys(int(word) for word in words))


def read_one(texts: Sequence[str]) -> tuple[RunConfig, str]:
    """Return the config of one network and a text with its main keys. Raises UserError."""
    from normexp.config.labels import values_text
    from normexp.config.network import one_network
    from normexp.config.overrides import read_overrides
    from normexp.config.run import RunConfig
    from normexp.config.yaml_file import Notes

    notes = Notes()
    values, norms = one_network(read_overrides(texts, notes), notes, several="norm")
    notes.fail_if_any()
    if len(norms) > 1:
        raise UserError(f"norm={','.join(map(str, norms))}: --paths times one network: write one norm")
    if norms:
        values["norm"] = norms[0]
    try:
        config = RunConfig(**values)  # type: ignore[arg-type]
    except ValueError as error:
        raise UserError(*str(error).splitlines()) from error
    shown: dict[str, Value] = {"depth": config.depth, "width": config.width, "norm": config.norm}
    return config, values_text(shown | values)


def read_model(texts: Sequence[str]) -> tuple[dict[str, RunConfig], str]:
    """Return the configs whose steps are timed, by norm, and a text with the keys that they have in common.

    Raises UserError.
    """
    from normexp.config import feasibility
    from normexp.config.labels import values_text
    from normexp.config.network import one_network
    from normexp.config.overrides import read_overrides
    from normexp.config.run import RunConfig
    from normexp.config.yaml_file import Notes

    notes = Notes()
    values, chosen = one_network(read_overrides(texts, notes), notes, several="norm")
    notes.fail_if_any()
    reference, *_, without = STEP_NORMS
    between = [norm for norm in map(str, chosen or STEP_NORMS) if norm != without]
    norms = [*dict.fromkeys([reference, *between]), without]
    try:
        configs = {norm: RunConfig(**{**values, "norm": norm}) for norm in norms}  # type: ignore[arg-type]
    except ValueError as error:
        raise UserError(*str(error).splitlines()) from error
    feasibility.refuse(configs.values())
    first = configs[reference]
    if first.depth == 0:
        raise UserError("depth: a network without layers has no norms to time: write depth=1 or more")
    shown: dict[str, Value] = {"depth": first.depth, "width": first.width, "position": first.position}
    return configs, values_text(shown | values)


def command(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="key=value for the timed network; norm=ln,dyt,none.", show_default=False),
    ] = None,
    shapes: Annotated[str, typer.Option(help="Input shapes of norms; the last axis is normalized.")] = SHAPES,
    threads: Annotated[
        str | None, typer.Option(help="Thread counts for norms; default: 1,2. Steps always use one thread.")
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(min=3, max=10**5, help="Measurements per norm; default: 5 to 100, depending on their time."),
    ] = None,
    steps: Annotated[int, typer.Option(min=0, max=10**5, help="Timed training steps per norm; 0 skips them.")] = 25,
    paths: Annotated[
        bool, typer.Option("--paths", help="Instead, time a step on each execution path, and show which one is used.")
    ] = False,
    out: common.Out = common.OUT,
    plugin: common.Plugins = None,
) -> None:
    """Compare the speed of RMSNorm and LayerNorm: the norms alone, and training steps of a network with each."""
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
    """Print the execution path used on this machine and the reason, and time a step on each path."""
    from normexp.analysis import measured_tables as view
    from normexp.execution.machine import keep_freed_memory
    from normexp.terminal.console import ResponsiveTable
    from normexp.terminal.show import show
    from normexp.training import bench
    from normexp.training.paths.choice import choose

    config, description = read_one(overrides)
    choice = choose()
    keep_freed_memory()
    seconds = bench.paths(config, rounds or PATH_ROUNDS)
    show(f"path in use: {choice.path} ({choice.why})")
    show(*(f"{name.replace('_', ' ')}: {value}" for name, value in choice.made_by.items()), f"machine: {_machine()}")
    show(ResponsiveTable(view.paths(seconds, description, in_use=choice.path)))


def _rows(request: Request, rounds: int | None, steps: int, processors: int) -> Iterator[Timing]:
    """Yield the timings, and print the machine first and then progress."""
    from normexp.config.labels import plural
    from normexp.execution.machine import keep_freed_memory, load
    from normexp.records.measurements import STEP, timings
    from normexp.terminal.show import say, show

    busy, machine = load(), _machine()
    show(f"{machine}; processors: {processors}; load: {'unknown' if busy is None else f'{busy:.2f}'}")
    if busy is not None and busy > BUSY:
        say(f"warning: load {busy:.2f}: other processes disturb the measurement; ratios are more reliable than times")
        if busy + max(request.threads) > processors:
            most = plural(max(request.threads), "thread")
            say(f"warning: too few processors for this load and {most}: neither times nor ratios are reliable")
    keep_freed_memory()
    for measured in _measure(request, rounds, steps):
        say(f"measured {measured.part}, {measured.where}, threads: {measured.threads}")
        reference, *_, last = measured.seconds
        without = last if measured.part == STEP else None
        yield from timings(dataclasses.replace(measured, machine=machine), reference, without)


def _measure(request: Request, rounds: int | None, steps: int) -> Iterator[Rounds]:
    """Measure the steps first: they may be refused."""
    from normexp.training import bench

    if steps:
        yield bench.steps(request.configs, steps, request.description)
    for count in request.threads:
        for shape in request.shapes:
            yield from bench.operators(shape, count, rounds)


def _machine() -> str:
    from normexp.execution.machine import processor
    from normexp.execution.worker import environment

    versions = environment()
    return f"{processor()}, {versions['cpu_capability']}, torch {versions['torch']}"
