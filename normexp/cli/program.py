"""Options of the program itself."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import normexp
from normexp.cli.completion import show


def tell_version(wanted: bool) -> None:
    """Answer --version."""
    if wanted:
        sys.stdout.write(f"normexp {normexp.__version__}\n")
        raise typer.Exit


def program(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=tell_version)
    ] = False,
    show_completion: Annotated[
        str | None,
        typer.Option(
            metavar="SHELL",
            help="Print the script that makes bash, zsh or fish complete commands, keys, schemes and runs.",
            is_eager=True,
            callback=show,
        ),
    ] = None,
) -> None:
    """What can be asked without a command."""
