"""normexp convert: turn LayerNorm weights into RMSNorm weights, or back."""

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
EXAMPLE = "normexp convert RUN_ID rms.safetensors --to rms"
EXACT = "Exact: the logits are unchanged up to rounding."


def verdict(conversion: Conversion) -> str:
    """Return `Exact: ...` or `Approximate: reasons`, with the conversion's remark."""
    words = f"Approximate: {'; '.join(conversion.reasons)}." if conversion.reasons else EXACT
    return f"{words} {conversion.remark[:1].upper()}{conversion.remark[1:]}." if conversion.remark else words


def conversion_table(conversion: Conversion) -> TextTable:
    """Return a table with a row per set of weights: original, each way of converting, and calibrated."""
    from normexp.analysis.tables import TextTable

    dtype, std = conversion.config.dtype, conversion.std
    return TextTable(
        title=f"Norm {conversion.config.norm}, final norm {conversion.config.final_norm}: {conversion.method}",
        header=("weights", "val loss", "max error", "rms error / std", f"max, {dtype}"),
        rows=tuple(_row(row, std) for row in conversion.measured),
        note="Errors are changes of the validation logits, computed in float64 except in the last column. "
        f"std {std:.3g}: standard deviation of the original logits. Losses in nats, computed in {dtype}.",
    )


def history(conversion: Conversion, origin: str) -> str:
    """Return the origin of the weights as text for the file's metadata."""
    exactness = "approximate" if conversion.reasons else "exact"
    words = f"{exactness} conversion ({conversion.method}) of {origin}"
    return f"{words}, then {conversion.steps} steps of training" if conversion.steps else words


def _row(row: Measured, std: float) -> tuple[str, ...]:
    from normexp.config.labels import loss_text

    relative = None if row.rms_error is None or not std else row.rms_error / std
    errors = (row.max_error, relative, row.run_error)
    return (row.name, loss_text(row.loss, digits=4), *("" if error is None else f"{error:.2g}" for error in errors))


class To(StrEnum):
    """Target norms of a conversion."""

    RMS = "rms"
    LN = "ln"


def command(
    source: Annotated[
        str, typer.Argument(metavar="IN", help="A .safetensors file, a run's folder, or (part of) a run id.")
    ],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The .safetensors file to write.")],
    to: Annotated[To, typer.Option(help="rms: LayerNorm to RMSNorm. ln: RMSNorm to LayerNorm.")],
    final_norm: Annotated[
        To | None,
        typer.Option(help="With --to rms: the final norm. Default: rms, unless only ln is exact."),
    ] = None,
    calibrate: Annotated[int, typer.Option(min=0, max=10**6, help="Training steps after the conversion.")] = 0,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", help="Network of weights from other programs: key=value or FILE.yaml."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite OUT.")] = False,
    out: common.Out = common.OUT,
    plugin: common.Plugins = None,
) -> None:
    """Convert LayerNorm weights to RMSNorm or back, exactly where possible, and measure the change of the logits."""
    from normexp.config.network import read_network
    from normexp.execution.signals import stoppable
    from normexp.storage import outputs
    from normexp.terminal.console import Encodable, ResponsiveTable
    from normexp.terminal.show import say, show
    from normexp.training.conversion import convert as run
    from normexp.training.weights import network_from, weights_bytes

    if final_norm is not None and to is To.LN:
        raise UserError("--final-norm needs --to rms: with --to ln every RMSNorm becomes LayerNorm")
    expected = read_network(config or ())
    outputs.check_target(target, force=force)
    data, origin = outputs.read(out, source)
    read, network = network_from(data, origin=origin, config=expected)
    say(f"converting {origin}: depth {read.depth}, norm {read.norm}, position {read.position}, mixer {read.mixer}")
    with stoppable():
        norm = None if final_norm is None else final_norm.value
        conversion = run(network, to.value, final_norm=norm, calibrate=calibrate)
    weights = weights_bytes(conversion.network, conversion.config, history=history(conversion, origin))
    outputs.write_weights(target, weights, force=force)
    show(ResponsiveTable(conversion_table(conversion)), Encodable(verdict(conversion)), f"Weights: {target}")
