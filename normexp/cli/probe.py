"""normexp probe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from normexp.cli import options as common
from normexp.errors import UserError

if TYPE_CHECKING:
    from normexp.config.probe import Request
    from normexp.probed import Probed
    from normexp.record import RunRecord, SignalRow
    from normexp.results.store import Store
    from normexp.training.trainer import Trainer
    from normexp.views.probe import Profile

BEFORE, AFTER = "before training", "after training"


def probe(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="key=value; position=pre,post,deepnorm stand side by side.", show_default=False),
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, max=100, help="Seeds of each network; default: 3.")] = None,
    quantity: Annotated[
        str | None, typer.Option(help="Show one quantity, of every part: rms, grad_norm, update, token_cosine, ...")
    ] = None,
    after: Annotated[
        str | None, typer.Option(metavar="RUN_ID", help="The network of a stored run, before and after its training.")
    ] = None,
    out: common.Out = common.OUT,
    plugin: common.Plugins = None,
) -> None:
    """Look inside networks at initialization, layer by layer: signal, gradients, what one step changes, attention."""
    from normexp.cli.show import say
    from normexp.config.probe import check_after, read
    from normexp.execute.heap import keep_freed_memory
    from normexp.interrupt import stoppable
    from normexp.views import probe as view

    keep_freed_memory()
    with stoppable():
        if after is None:
            request = read(overrides or (), seeds, quantity)
            for warning in request.warnings:
                say(f"warning: {warning}")
            found, folder = list(_initial(request)), out / request.folder
            title = view.headline("At initialization", request.told, found)
        else:
            check_after(overrides or (), seeds, quantity)
            found = list(_stored(out, after))
            config = found[0].config
            folder, title = out / f"probe+after={config.run_id}", f"{config.run_id}, before and after training"
        shown = view.profiles(found, quantity)
        if not shown:
            raise UserError(f"--quantity {quantity}: none of these networks has it; they have {view.present(found)}")
        _write(folder, title, found, shown)
    _show(folder, title, found, shown)


def _initial(request: Request) -> Iterator[Probed]:
    """Every network and seed; what stands under several names is measured once."""
    from normexp.cli.show import say
    from normexp.labels import plural
    from normexp.probed import Probed
    from normexp.training.inspection import inspect

    known: dict[str, list[SignalRow]] = {}
    for name, points in request.networks.items():
        say(f"probing {name}, {plural(len(points), 'seed')}")
        for point in points:
            if point.config.run_id not in known:
                with _alone(name):
                    known[point.config.run_id] = inspect(point.config)
            yield Probed(network=name, config=point.config, rows=known[point.config.run_id], asked=point.values)


def _stored(out: Path, name: str) -> Iterator[Probed]:
    """A run's network at its initial weights, and at those that it ended with."""
    from normexp.probed import Probed
    from normexp.results import library
    from normexp.training.inspection import inspect, inspect_trainer

    store, record = library.find(out, name, traces=False)
    if record.result is None:
        raise UserError(f"{record.run_id}: {record.status}: it has no trained network; run its sweep again")
    with _alone(record.run_id):
        yield Probed(network=BEFORE, config=record.config, rows=inspect(record.config))
        trainer, steps = _trained(store, record), max(1, record.result.steps_done)
        yield Probed(network=AFTER, config=record.config, rows=inspect_trainer(trainer, number=steps))


def _trained(store: Store, record: RunRecord) -> Trainer:
    """The network that a done run ended with, from its weights if they are stored, else trained again."""
    from normexp.cli.show import say
    from normexp.labels import plural
    from normexp.training.trained import restore, retrain

    path, weights = store.weights(record.run_id)
    if weights is not None:
        return restore(record.config, weights, str(path))
    assert record.result is not None
    say(f"no weights are stored: training it again, {plural(record.result.steps_done, 'step')}")
    trainer, stored = retrain(record.config, path=record.repeated_by), record.result.final_val_loss
    loss = trainer.evaluate()
    if stored is not None and repr(loss) != repr(stored):
        say(f"warning: it ends at loss {loss!r}, and its record at {stored!r}; `normexp repro` tells where they part")
    return trainer


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """One thread, as in training; what torch cannot do is told of the network by its name."""
    from normexp.training.threads import thread_count

    try:
        with thread_count(1):
            yield
    except (MemoryError, RuntimeError) as fault:
        reason = (str(fault) or "out of memory").splitlines()[0]
        raise UserError(f"{name} cannot be measured: {reason}") from fault


def _write(folder: Path, title: str, found: Sequence[Probed], shown: Sequence[Profile]) -> None:
    from normexp.results import measured
    from normexp.views import probe as view
    from normexp.views.figures.canvas import render
    from normexp.views.figures.probefigure import draw

    images = render(draw(title, shown))
    with measured.held(folder):
        measured.write(folder, "probe", view.to_csv(found), images)


def _show(folder: Path, title: str, found: Sequence[Probed], shown: Sequence[Profile]) -> None:
    from normexp.cli.show import show
    from normexp.views import probe as view
    from normexp.views.console import Encodable, Uncut

    seeds = len({network.config.seed for network in found})
    wide, narrow = (view.tables(shown, spread=spread) for spread in (True, False))
    parts = [Uncut(*pair) for pair in zip(wide, narrow, strict=True)]
    notes = [Encodable(note)] if (note := view.note(seeds)) else []
    show(Encodable(title, "bold"), *parts, *notes, f"Files: {folder}")
