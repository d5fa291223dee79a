"""The `normexp` program: its commands, global options, and exit codes after errors and signals."""

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

EXIT_OUTPUT_FAILED = 1
EXIT_SIGPIPE = 128 + 13
OUTPUT_FAULTS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


def print_version(wanted: bool) -> None:
    """Print the version and exit."""
    if wanted:
        sys.stdout.write(f"normexp {normexp.__version__}\n")
        raise typer.Exit


def program(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=print_version)
    ] = False,
    show_completion: Annotated[
        str | None,
        typer.Option(
            metavar="SHELL",
            help="Print the completion script for bash, zsh or fish.",
            is_eager=True,
            callback=show,
        ),
    ] = None,
) -> None:
    """Declare the options that work without a command."""


app = typer.Typer(
    help="Does this deep network train, and if it does not, when, where and why does it break?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback()(program)


def commands() -> list[tuple[str, Any]]:
    """Return name and module of every command, sorted by panel.

    A module with a `PANEL` is a command. Its `EXAMPLE` is the end of its help.
    """
    names = [module.name for module in pkgutil.iter_modules(normexp.commands.__path__) if module.name != "app"]
    modules = {name: importlib.import_module(f"normexp.commands.{name}") for name in names}
    with_panel = [(name, module) for name, module in modules.items() if hasattr(module, "PANEL")]
    return sorted(with_panel, key=lambda command: [*options.Panel].index(command[1].PANEL))


for name, module in commands():
    app.command(name=name, cls=options.Command, rich_help_panel=module.PANEL, epilog=f"Example: {module.EXAMPLE}")(
        module.command
    )


def documentation() -> str:
    """Return the Markdown reference of all commands, without the options that docs/config.md lists: the config keys."""
    from typer.cli import get_docs_for_click
    from typer.core import MARKUP_MODE_KEY

    root: Any = typer.main.get_command(app)
    for command in root.commands.values():
        for option in command.params:
            option.hidden = getattr(option, "rich_help_panel", None) == options.RUN_KEYS
    context = typer.Context(root, obj={MARKUP_MODE_KEY: app.rich_markup_mode})
    return get_docs_for_click(obj=root, ctx=context, name="normexp", title="Commands").strip()


def main() -> None:
    """Run the program. Exits with 2 after a `UserError`, whose complaints go to standard error.

    Exits silently with 141 if the output pipe was closed (`normexp list | head -1`), like a program killed by SIGPIPE;
    exit code 0 would claim that all runs completed. Exits with 1 if standard output cannot be written.
    """
    _open_streams()
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # hides its remarks on font caches
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
        # rich and Typer turn a closed pipe into an exit with 1.
        if isinstance(end.__context__, BrokenPipeError):
            _end(EXIT_SIGPIPE)
        raise
    except BrokenPipeError:
        _end(EXIT_SIGPIPE)
    except OSError as fault:
        if fault.errno is None and fault.filename is None:  # raised by a library, e.g. matplotlib without a cache
            _end(EXIT_OUTPUT_FAILED, str(fault))
        if fault.filename is not None or fault.errno not in OUTPUT_FAULTS:
            raise
        _end(EXIT_OUTPUT_FAILED, f"cannot write to standard output: {fault.strerror}")
    except Exception as fault:
        plugins = sys.modules.get("normexp.config.plugins")
        if plugins is not None and (message := plugins.blamed(fault)):
            _end(EXIT_USAGE, message)
        raise


def _open_streams() -> None:
    """Open closed standard streams on the null device, and replace characters that an encoding lacks."""
    open_closed()
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(fd, "w" if fd else "r", encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]


def _end(exit_code: int, *complaints: str) -> NoReturn:
    """Print the complaints and exit. Output that cannot be written is dropped."""
    with contextlib.suppress(OSError):
        for complaint in complaints:
            print(f"normexp: {complaint}", file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(exit_code)
