"""The program: its commands, its own options, and how faults and interruptions end it."""

from __future__ import annotations

import contextlib
import errno
import importlib
import logging
import os
import pkgutil
import sys
from typing import Annotated, Any, NoReturn

import typer

import normexp
import normexp.commands
from normexp.commands import completion, options
from normexp.commands.completion import show
from normexp.errors import EXIT_USAGE, UserError
from normexp.execution.machine import open_closed
from normexp.execution.signals import Stopped


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


app = typer.Typer(
    help="Does this deep network train, and if it does not, when, where and why does it break?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback()(program)


def commands() -> list[tuple[str, Any]]:
    """Name and module of every command: each module of the package that names its panel, panel by panel."""
    names = [module.name for module in pkgutil.iter_modules(normexp.commands.__path__) if module.name != "app"]
    modules = {name: importlib.import_module(f"normexp.commands.{name}") for name in names}
    found = [(name, module) for name, module in modules.items() if hasattr(module, "PANEL")]
    return sorted(found, key=lambda named: [*options.Panel].index(named[1].PANEL))


for name, module in commands():
    app.command(name=name, cls=options.Command, rich_help_panel=module.PANEL)(module.command)

EXIT_OUTPUT_FAILED = 1
EXIT_SIGPIPE = 128 + 13
OUTPUT_FAULTS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


def main() -> None:
    """Run the program; a fault of the user's is told in plain lines and exits with 2.

    Where the reader of the output has gone (`normexp list | head -1`), it ends quietly with 141, as a program that
    SIGPIPE ends: 0 would say that all is done. Where the output cannot be written, with one line and 1.
    """
    _open_streams()
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # what it says of caches is for who calls it
    try:
        try:
            completion.answer(typer.main.get_command(app)) if completion.VARIABLE in os.environ else app()
        finally:
            sys.stdout.flush()
    except UserError as fault:
        _end(EXIT_USAGE, *fault.complaints)
    except Stopped as stop:
        sys.exit(stop.exit_code)
    except SystemExit as end:
        # rich and Typer make a closed pipe an exit with 1.
        if isinstance(end.__context__, BrokenPipeError):
            _end(EXIT_SIGPIPE)
        raise
    except BrokenPipeError:
        _end(EXIT_SIGPIPE)
    except OSError as fault:
        if fault.errno is None and fault.filename is None:  # a library's words, as of matplotlib without a cache
            _end(EXIT_OUTPUT_FAILED, str(fault))
        if fault.filename is not None or fault.errno not in OUTPUT_FAULTS:
            raise
        _end(EXIT_OUTPUT_FAILED, f"cannot write to standard output: {fault.strerror}")
    except Exception as fault:
        if told := _of_a_plugin(fault):
            _end(EXIT_USAGE, told)
        raise


def _of_a_plugin(fault: Exception) -> str:
    """What is told of a fault that a user's plugin raised; empty for any other."""
    plugins = sys.modules.get("normexp.config.plugins")
    return plugins.blamed(fault) if plugins is not None else ""


def _open_streams() -> None:
    """Give each standard stream that was closed the null device; what an encoding lacks is replaced."""
    open_closed()
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(fd, "w" if fd else "r", encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]


def _end(exit_code: int, *complaints: str) -> NoReturn:
    """Tell what can still be told, and exit; what could not be written is dropped."""
    with contextlib.suppress(OSError):
        for complaint in complaints:
            print(f"normexp: {complaint}", file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(exit_code)
