"""normexp probe: measure networks layer by layer, without training or before and after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from normexp.commands import options as common
from normexp.config.labels import heading, plural
from normexp.config.plan import Plan, Point
from normexp.config.run import KEYS
from normexp.config.yaml_file import Notes, nearest
from normexp.errors import UserError
from normexp.schemes.network_config import Value

if TYPE_CHECKING:
    from normexp.analysis.measured_tables import Profile
    from normexp.config.plan import Plan, Point
    from normexp.records.measurements import Probed
    from normexp.records.record import RunRecord, SignalRow
    from normexp.storage.store import Store
    from normexp.training.trainer import Trainer

PANEL = common.Panel.RUN
EXAMPLE = "normexp probe depth=50 norm=ln,rms,none position=pre,post"
NAME = "probe"
BEFORE, AFTER = "before training", "after training"
SEEDS = 3
ALWAYS_TOLD = ("depth", "norm")
"""Keys that the title always shows."""
MOST_NETWORKS = 500
"""Largest number of networks times seeds in one probe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Networks by name, each with one point per seed; `description` names what they have in common."""

    networks: Mapping[str, Sequence[Point]]
    description: str
    folder: str
    warnings: tuple[str, ...] = ()


def _wrong_quantity(quantity: str | None) -> list[str]:
    from normexp.records.measurements import QUANTITIES

    if quantity is None or quantity in QUANTITIES:
        return []
    return [f"--quantity {quantity}: {nearest(quantity, QUANTITIES)}"]


def check_after(overrides: Sequence[str], seeds: int | None, quantity: str | None) -> None:
    """Raise UserError for options that a probe of a stored run does not take, and for an unknown quantity."""
    complaints = _wrong_quantity(quantity)
    if overrides:
        complaints.append(f"--after probes a stored run, which has no overrides: leave out {' '.join(overrides)}")
    if seeds is not None:
        complaints.append("--after probes one stored run, whose seed is fixed: leave out --seeds")
    if complaints:
        raise UserError(*complaints)


def read(overrides: Sequence[str], seeds: int | None, quantity: str | None) -> Request:
    """Parse overrides and options. Raise UserError with every complaint."""
    from normexp.config import grid, sweep_file
    from normexp.config.overrides import read_overrides, slug
    from normexp.config.plan import SEED

    notes = Notes()
    for complaint in _wrong_quantity(quantity):
        notes.fault(complaint)
    changes = read_overrides(overrides, notes)
    for change in changes:
        if change.axis is None:
            notes.fault(f"{change.origin}: a probe has no key {change.key}: leave it out")
        elif change.key == SEED and seeds is not None:
            notes.fault(f"{change.origin}: both seed and --seeds are given: keep one")
    notes.fail_if_any()
    source = f"grid: {{seed: {list(range(seeds or SEEDS))}}}"
    sweep = sweep_file.parse(source, origin=NAME, stem=NAME, overrides=overrides)
    runs = grid.count(sweep).points
    if runs > MOST_NETWORKS:
        raise UserError(
            f"{plural(runs, 'network')}, counting seeds: at most {MOST_NETWORKS} are allowed; give fewer values"
        )
    plan = grid.plan(sweep)
    suffix = slug([f"seeds={seeds}"] if seeds not in (None, SEEDS) else [])
    axes = {change.key: change.axis for change in changes if change.axis is not None}
    fixed = {key: axis.value(0) for key, axis in axes.items() if len(set(axis)) == 1 and key != SEED}
    common = {key: KEYS[key].default for key in ALWAYS_TOLD if key not in plan.axes} | fixed
    description = heading(tuple(common), tuple(common.values()))
    return Request(
        networks=_networks(plan, fixed), description=description, folder=sweep.folder + suffix, warnings=plan.warnings
    )


def _networks(plan: Plan, fixed: Mapping[str, Value]) -> dict[str, list[Point]]:
    """Group points by network. A network is named by the axes that vary, or by norm and position if none does."""
    varying = [key for key in plan.cell_axes if key not in fixed]
    networks, labels = dict[str, list[Point]](), plan.labels
    for point in plan.points:
        values = {key: point.values[key] for key in varying}
        values = values or {key: getattr(point.config, key) for key in ("norm", "position")}
        networks.setdefault(heading(tuple(values), tuple(values.values()), labels), []).append(point)
    return networks


def command(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="key=value; position=pre,post,deepnorm compares three networks.", show_default=False),
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, max=100, help="Seeds per network; default: 3.")] = None,
    quantity: Annotated[
        str | None,
        typer.Option(help="Show only this quantity: rms, grad_norm, update, token_cosine, ...; default: all."),
    ] = None,
    after: Annotated[
        str | None, typer.Option(metavar="RUN_ID", help="Probe the network of a stored run, before and after training.")
    ] = None,
    out: common.Out = common.OUT,
    plugin: common.Plugins = None,
) -> None:
    """Measure networks layer by layer at initialization: activations, gradients, the change by one step, attention."""
    from normexp.analysis import measured_tables as view
    from normexp.execution.machine import keep_freed_memory
    from normexp.execution.signals import stoppable
    from normexp.terminal.show import say

    keep_freed_memory()
    with stoppable():
        if after is None:
            request = read(overrides or (), seeds, quantity)
            for warning in request.warnings:
                say(f"warning: {warning}")
            networks, folder = list(_initial(request)), out / request.folder
            title = view.headline("At initialization", request.description, networks)
        else:
            check_after(overrides or (), seeds, quantity)
            networks = list(_stored(out, after))
            config = networks[0].config
            folder, title = out / f"probe+after={config.run_id}", f"{config.run_id}, before and after training"
        shown = view.profiles(networks, quantity)
        if not shown:
            raise UserError(f"--quantity {quantity}: none of these networks has it; they have {view.present(networks)}")
        _write(folder, title, networks, shown)
    _show(folder, title, networks, shown)


def _initial(request: Request) -> Iterator[Probed]:
    """Measure every network and seed. A network with several names is measured once."""
    from normexp.config.labels import plural
    from normexp.records.measurements import Probed
    from normexp.terminal.show import say
    from normexp.training.inspection import inspect

    rows_by_id: dict[str, list[SignalRow]] = {}
    for name, points in request.networks.items():
        say(f"probing {name}, {plural(len(points), 'seed')}")
        for point in points:
            if point.config.run_id not in rows_by_id:
                with _measuring(name):
                    rows_by_id[point.config.run_id] = inspect(point.config)
            yield Probed(network=name, config=point.config, rows=rows_by_id[point.config.run_id], asked=point.values)


def _stored(out: Path, name: str) -> Iterator[Probed]:
    """Measure a stored run's network at its initial and at its final weights. Raises UserError."""
    from normexp.records.measurements import Probed
    from normexp.storage import index
    from normexp.training.inspection import inspect, inspect_trainer

    store, record = index.find(out, name, traces=False)
    if record.result is None:
        raise UserError(f"{record.run_id}: {record.status}: it has no trained network; rerun its sweep")
    with _measuring(record.run_id):
        yield Probed(network=BEFORE, config=record.config, rows=inspect(record.config))
        trainer, steps = _trained(store, record), max(1, record.result.steps_done)
        yield Probed(network=AFTER, config=record.config, rows=inspect_trainer(trainer, number=steps))


def _trained(store: Store, record: RunRecord) -> Trainer:
    """Return a finished run's trained network, from its stored weights or else by training it again."""
    from normexp.config.labels import plural
    from normexp.terminal.show import say
    from normexp.training.inspection import restore, retrain

    path, weights = store.weights(record.run_id)
    if weights is not None:
        return restore(record.config, weights, str(path))
    assert record.result is not None
    say(f"no weights are stored: retraining, {plural(record.result.steps_done, 'step')}")
    trainer, stored = retrain(record.config, path=record.repeated_by), record.result.final_val_loss
    loss = trainer.evaluate()
    if stored is not None and repr(loss) != repr(stored):
        message = f"retraining ends at loss {loss!r}, the stored run at {stored!r}"
        say(f"warning: {message}; `normexp repro` shows the first step that differs")
    return trainer


@contextmanager
def _measuring(name: str) -> Iterator[None]:
    """Use one thread, as in training. Turn torch's errors into a UserError that names the network."""
    from normexp.training.trainer import thread_count

    try:
        with thread_count(1):
            yield
    except (MemoryError, RuntimeError) as fault:
        reason = (str(fault) or "out of memory").splitlines()[0]
        raise UserError(f"{name} cannot be measured: {reason}") from fault


def _write(folder: Path, title: str, networks: Sequence[Probed], shown: Sequence[Profile]) -> None:
    from normexp.analysis import measured_tables as view
    from normexp.plots.measured import draw_probe
    from normexp.plots.style import render
    from normexp.storage import outputs

    images = render(draw_probe(title, shown))
    with outputs.held(folder):
        outputs.write_measured(folder, "probe", view.probe_csv(networks), images)


def _show(folder: Path, title: str, networks: Sequence[Probed], shown: Sequence[Profile]) -> None:
    from normexp.analysis import measured_tables as view
    from normexp.terminal.console import Encodable, ResponsiveTable
    from normexp.terminal.show import show

    seeds = len({network.config.seed for network in networks})
    wide, narrow = (view.probe_tables(shown, spread=spread) for spread in (True, False))
    parts = [ResponsiveTable(*pair) for pair in zip(wide, narrow, strict=True)]
    notes = [Encodable(note)] if (note := view.note(seeds)) else []
    show(Encodable(title, "bold"), *parts, *notes, f"Files: {folder}")
