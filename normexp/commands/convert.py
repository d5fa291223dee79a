"""normexp convert."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from normexp.commands import options as common
from normexp.errors import UserError

if TYPE_CHECKING:
    from normexp.analysis.tables import TextTable
    from normexp.training.conversion import Conversion, Measured

PANEL = common.Panel.RUN


EXACT = "Exact: the logits are those of before, up to rounding."


def verdict(made: Conversion) -> str:
    """`Exact: ...` or `Approximate: why`, and what stayed as it was."""
    words = f"Approximate: {'; '.join(made.reasons)}." if made.reasons else EXACT
    return f"{words} {made.remark[:1].upper()}{made.remark[1:]}." if made.remark else words


def conversion_table(made: Conversion) -> TextTable:
    """A row for each set of weights: those before, each way of converting, and after calibration."""
    from normexp.analysis.tables import TextTable

    return TextTable(
        title=f"Norm {made.config.norm}, final norm {made.config.final_norm}: {made.method}",
        header=("weights", "val loss", "max error", "rms error / std", f"max, {made.config.dtype}"),
        rows=tuple(_row(row, made.std) for row in made.measured),
        note="Errors are differences of validation logits from those before, in float64 but for the last column; "
        f"std {made.std:.3g} is that of the logits before. Losses in nats, in {made.config.dtype}.",
    )


def history(made: Conversion, origin: str) -> str:
    """How the weights came to be, in words for the file's metadata."""
    words = f"{'exact' if not made.reasons else 'approximate'} conversion ({made.method}) of {origin}"
    return f"{words}, then {made.steps} steps of training" if made.steps else words


def _row(row: Measured, std: float) -> tuple[str, ...]:
    from normexp.config.labels import loss_text

    relative = None if row.rms_error is None or not std else row.rms_error / std
    errors = (row.max_error, relative, row.run_error)
    return (row.name, loss_text(row.loss, digits=4), *("" if error is None else f"{error:.2g}" for error in errors))


class To(StrEnum):
    """The norms between which weights are converted."""

    RMS = "rms"
    LN = "ln"


def command(
    source: Annotated[
        str, typer.Argument(metavar="IN", help="A .safetensors file, a run's folder, or a run id (or a part of one).")
    ],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The .safetensors file to write.")],
    to: Annotated[To, typer.Option(help="rms: RMSNorm for LayerNorm. ln: LayerNorm for RMSNorm.")],
    final_norm: Annotated[
        To | None,
        typer.Option(help="With --to rms: the norm before the head. Default: rms, unless that costs exactness."),
    ] = None,
    calibrate: Annotated[int, typer.Option(min=0, max=10**6, help="Train so many steps after converting.")] = 0,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", help="For files from elsewhere: key=value or FILE.yaml, the network that IN is of."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite OUT.")] = False,
    out: common.Out = common.OUT,
    plugin: common.Plugins = None,
) -> None:
    """LayerNorm weights to RMSNorm or back: exact where theory allows it, else approximate, measured either way."""
    from normexp.config.network import read_network
    from normexp.execution.signals import stoppable
    from normexp.storage import outputs
    from normexp.terminal.console import Encodable, ResponsiveTable
    from normexp.terminal.show import say, show
    from normexp.training.conversion import convert as run
    from normexp.training.weights import network_from, weights_bytes

    if final_norm is not None and to is To.LN:
        raise UserError("--final-norm is for --to rms: with --to ln every RMSNorm becomes LayerNorm")
    given = read_network(config or ())
    outputs.check_target(target, force=force)
    data, origin = outputs.read(out, source)
    read, network = network_from(data, origin=origin, config=given)
    say(f"converting {origin}: depth {read.depth}, norm {read.norm}, position {read.position}, mixer {read.mixer}")
    with stoppable():
        made = run(network, to.value, final_norm=None if final_norm is None else final_norm.value, calibrate=calibrate)
    outputs.write_weights(target, weights_bytes(made.network, made.config, history=history(made, origin)), force=force)
    show(ResponsiveTable(conversion_table(made)), Encodable(verdict(made)), f"Weights: {target}")
