"""normexp convert."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from normexp.cli import options as common
from normexp.errors import UserError


class To(StrEnum):
    """The norms between which weights are converted."""

    RMS = "rms"
    LN = "ln"


def convert(
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
    from normexp.cli.show import say, show
    from normexp.config.network import read_network
    from normexp.interrupt import stoppable
    from normexp.results import weightfile
    from normexp.training.convert import convert as run
    from normexp.training.weights import network_from, weights_bytes
    from normexp.views import convert as view
    from normexp.views.console import Encodable, Uncut

    if final_norm is not None and to is To.LN:
        raise UserError("--final-norm is for --to rms: with --to ln every RMSNorm becomes LayerNorm")
    given = read_network(config or ())
    weightfile.check_target(target, force=force)
    data, origin = weightfile.read(out, source)
    read, network = network_from(data, origin=origin, config=given)
    say(f"converting {origin}: depth {read.depth}, norm {read.norm}, position {read.position}, mixer {read.mixer}")
    with stoppable():
        made = run(network, to.value, final_norm=None if final_norm is None else final_norm.value, calibrate=calibrate)
    weightfile.write(target, weights_bytes(made.network, made.config, history=view.history(made, origin)), force=force)
    show(Uncut(view.table(made)), Encodable(view.verdict(made)), f"Weights: {target}")
