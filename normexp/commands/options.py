"""Options, help panels, argument parsing and JSON output that commands share."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from normexp.config.keys import Key, counts_seeds, translated, with_point
from normexp.config.run import KEYS
from normexp.errors import UserError
from normexp.storage import RESULTS

OUT = RESULTS
RENAMED = {"--plain": "--autograd", "--refresh": "--rerun-outdated"}
"""Former option names, which still work."""
WORKERS = {"workers", "num_workers", "n_jobs", "processes", "threads", "cpus"}
"""Names that other programs use for --jobs."""


RUN_KEYS = "Run keys"
"""The panel of options that set a config key."""


class Panel(StrEnum):
    """Groups of `normexp --help`, in order. A module of this package with a `PANEL` is a command."""

    RUN = "Run"
    READ = "Read results"
    CLAIMS = "Check claims"
    PAPER = "For a paper"
    MACHINES = "Several machines"
    REFERENCE = "Reference"


class Command(TyperCommand):
    """A command that accepts former option names and explains how to write a config key given as an option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(self._current(args)))

    def _current(self, args: Sequence[str]) -> Iterator[str]:
        names = {name for option in self.params for name in option.opts}
        for number, argument in enumerate(args, start=1):
            option, _, value = argument.partition("=")
            word = option.removeprefix("--").replace("-", "_")
            key = word if word in KEYS else translated(word)
            if not argument.startswith("--") or option in names:
                yield argument
            elif RENAMED.get(argument) in names:
                print(f"warning: {argument} is now called {RENAMED[argument]}", file=sys.stderr)
                yield RENAMED[argument]
            elif key in KEYS and "overrides" in names:
                after = next((text for text in args[number : number + 1] if not text.startswith("-")), "VALUE")
                after = "0,1,2" if counts_seeds(word) else value or after
                raise UserError(f"No such option: {option}: write {key}={after}, without dashes")
            elif word in WORKERS and "--jobs" in names:
                raise UserError(f"No such option: {option}: write --jobs")
            elif f"--{key.replace('_', '-')}" in names and not counts_seeds(word):
                raise UserError(f"No such option: {option}: write --{key.replace('_', '-')}")
            else:
                yield argument


def number(*, low: float = -math.inf, high: float = math.inf) -> Callable[[str], float]:
    """Return a parser for a numeric option with the syntax and error messages of config values."""
    key = Key(kind=float, default=0.0, neutral=0.0, help="", low=low, high=high)

    def parse(text: str) -> float:
        if decimal := with_point(str(text)):
            raise typer.BadParameter(f"{text!r} has a decimal comma: write {decimal}")
        try:
            return float(key.parse(str(text)))
        except ValueError as fault:
            raise typer.BadParameter(str(fault)) from None

    return parse


RunId = Annotated[str, typer.Argument(help="A run id, any unique part of one, or the path of the run's folder.")]
SweepFolder = Annotated[Path, typer.Argument(help="The folder of a sweep, or a folder of sweeps.", show_default=False)]
Out = Annotated[Path, typer.Option("--out", help="Results folder.", file_okay=True)]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", min=1, help="Parallel runs; default: one per processor, or per Dask worker."),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        parser=number(low=0.1), metavar="<float>", help="Time limit per run in seconds, at least 0.1; default: none."
    ),
]
Executor = Annotated[str, typer.Option(help="Executor of runs: processes, inline or dask.")]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="With --executor dask, its scheduler: tcp://HOST:PORT, or local for workers here; default: none.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would run; write nothing.")]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Rerun failed, killed and timed-out runs.")]
Autograd = Annotated[
    bool,
    typer.Option("--autograd", help="Compute gradients with autograd (slower, same result up to rounding)."),
]
Json = Annotated[bool, typer.Option("--json", help="Print only JSON on standard output.")]
Force = Annotated[bool, typer.Option("--force", help="Rerun everything; also overwrite a folder of another sweep.")]


def _add_plugins(paths: list[Path] | None) -> list[Path] | None:
    if paths:
        from normexp.config import plugins

        for path in paths:
            plugins.add(plugins.read(path))
    return paths


Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        help="Python file that defines norms, schemes or calculations; repeatable.",
        is_eager=True,
        callback=_add_plugins,
    ),
]


def show_json(data: Mapping[str, Any]) -> None:
    """Print one strict JSON object in ASCII, whatever the locale. Non-finite numbers are null, beside a `_kind`."""
    from normexp.storage.codec import to_json

    sys.stdout.write(re.sub(r"[^\x00-\x7f]", lambda match: json.dumps(match[0])[1:-1], to_json(data)))
