"""The program: its commands, and how faults and interruptions end it."""

from __future__ import annotations

import contextlib
import os
import sys

import typer

from normexp.cli import collapse, inspect, sweep, views
from normexp.errors import EXIT_USAGE, UserError
from normexp.interrupt import Stopped

app = typer.Typer(
    help="Does this deep network train, and if it does not, when, where and why does it break?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (sweep.sweep, collapse.collapse, views.list_sweeps, views.report, views.schemes):
    app.command(name=command.__name__.removesuffix("_sweeps"))(command)
app.command()(inspect.explain)
app.command()(inspect.repro)


def main() -> None:
    """Run the program; a fault of the user's is told in plain lines and exits with 2."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        app()
    except UserError as fault:
        for complaint in fault.complaints:
            print(f"normexp: {complaint}", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    except Stopped as stop:
        sys.exit(stop.exit_code)
    except BrokenPipeError:
        # The reader of our output has gone: nothing more can be said, and nothing more is to be flushed to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
