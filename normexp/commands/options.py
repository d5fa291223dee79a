"""JSON on standard output, for scripts.

Options that several commands share.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from normexp.config.keys import Key, with_point
from normexp.storage import RESULTS

OUT = RESULTS


def number(*, low: float = -math.inf, high: float = math.inf) -> Callable[[str], float]:
    """Return a parser of an option's number that reads, and complains, as the values of keys are read."""
    key = Key(kind=float, default=0.0, neutral=0.0, help="", low=low, high=high)

    def parse(text: str) -> float:
        if decimal := with_point(str(text)):
            raise typer.BadParameter(f"{text!r} has a decimal comma: write {decimal}")
        try:
            return float(key.parse(str(text)))
        except ValueError as fault:
            raise typer.BadParameter(str(fault)) from None

    return parse


Out = Annotated[Path, typer.Option("--out", help="Folder of all results.", file_okay=True)]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", min=1, help="Runs at a time; default: the processors, or a scheduler's workers."),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        parser=number(low=0.1), metavar="<float>", help="Seconds after which a run is given up; at least 0.1."
    ),
]
Executor = Annotated[str, typer.Option(help="How runs are executed: processes, inline or dask.")]
Scheduler = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Of dask: tcp://HOST:PORT, or local for workers on this machine."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would run, and write nothing.")]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Run failed, killed and timed-out runs again.")]
Plain = Annotated[bool, typer.Option("--plain", help="Make every step by autograd: slower, equal up to rounding.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts on standard output, and nothing else.")]
Force = Annotated[bool, typer.Option("--force", help="Run every point again, and take over another sweep's folder.")]


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
        help="A Python file with norms or schemes of one's own; may be given more than once.",
        is_eager=True,
        callback=_add_plugins,
    ),
]


def show_json(data: Mapping[str, Any]) -> None:
    """Print one strict JSON object in ASCII, whatever the locale; a non-finite number is null beside its `_kind`."""
    from normexp.storage.codec import to_json

    sys.stdout.write(re.sub(r"[^\x00-\x7f]", lambda found: json.dumps(found[0])[1:-1], to_json(data)))
