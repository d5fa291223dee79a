"""What may stand for an option's value or an argument: keys, their words, runs, sweeps, claims."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from normexp.cli.options import OUT
from normexp.norms import NORMS
from normexp.run import KEYS
from normexp.schemes import SCHEMES


@dataclass(frozen=True, slots=True)
class Candidate:
    """A word, and what it is. After one that ends with `=`, `/` or `.`, the word goes on."""

    value: str
    help: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What stands before: the command, its arguments, and its options by their parameter's name."""

    command: str
    places: tuple[str, ...]
    given: Mapping[str, str]

    @property
    def out(self) -> Path:
        """The folder of results."""
        return Path(self.given.get("out") or OUT)


Finder = Callable[[Asked, str], Iterable[Candidate]]


def of_option(param: Any, asked: Asked, incomplete: str) -> Iterable[Candidate]:
    """Values of an option; none where the shell should name files."""
    finder = OPTIONS.get((asked.command, param.name)) or OPTIONS.get(("", param.name))
    if finder is not None:
        return finder(asked, incomplete)
    if asked.command == "collapse" and param.name in KEYS:
        return _words(param.name)
    return [Candidate(str(choice), param.help or "") for choice in getattr(param.type, "choices", ())]


def of_argument(param: Any, asked: Asked, incomplete: str) -> Iterable[Candidate]:
    """Values of an argument; none where the shell should name files."""
    finder = ARGUMENTS.get((asked.command, param.name)) or ARGUMENTS.get(("", param.name))
    return finder(asked, incomplete) if finder is not None else ()


def _words(name: str) -> list[Candidate]:
    """The words that a key takes, with what the tables of norms and schemes say; of a number, its default."""
    key = KEYS[name]
    if key.choices is not None:
        helps = {row: NORMS[row].help for row in NORMS} | {row: SCHEMES[row].help for row in SCHEMES}
        told = helps if key.extensible else {}
        return [Candidate(word, told.get(word, name)) for word in key.choices()]
    words = ("true", "false") if key.kind is bool else (f"{key.default:g}",)
    return [Candidate(word, "default" if word == str(key.default).lower() else name) for word in words]


def assignments(asked: Asked, incomplete: str) -> Iterator[Candidate]:
    """`lr=`, and after `position=pre,` the other words of the list."""
    name, equals, value = incomplete.partition("=")
    if not equals:
        taken = {word.partition("=")[0] for word in asked.places}
        yield from (Candidate(f"{name}=", key.help) for name, key in KEYS.items() if name not in taken)
    elif name in KEYS:
        before, comma, _ = value.rpartition(",")
        used = before.split(",")
        yield from (
            Candidate(f"{name}={before}{comma}{word.value}", word.help)
            for word in _words(name)
            if word.value not in used
        )


def run_ids(asked: Asked, incomplete: str) -> Iterator[Candidate]:
    """Runs of all sweeps under the results folder."""
    known = {path.name: path.parent.parent.name for path in _below(asked.out, "runs")}
    yield from (Candidate(run_id, sweep) for run_id, sweep in sorted(known.items()))


def _below(out: Path, *names: str) -> Iterator[Path]:
    """The folders in such a folder of each sweep."""
    for sweep in _folders(out):
        yield from _folders(sweep.joinpath(*names))


def _folders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return sorted(folder / entry.name for entry in entries if entry.is_dir() and entry.name[:1] != ".")
    except OSError:
        return []


def folders(asked: Asked, incomplete: str) -> Iterator[Candidate]:
    """Folders of sweeps: under the results folder, or where the word leads."""
    place = Path(incomplete).parent if "/" in incomplete else None
    for root in dict.fromkeys([asked.out, *([place] if place is not None else [])]):
        yield from (Candidate(str(path), "sweep") for path in _folders(root) if (path / "manifest.json").is_file())


def names(asked: Asked, incomplete: str) -> Iterator[Candidate]:
    """Sweeps by their names, and runs."""
    yield from (Candidate(path.name, "sweep") for path in _folders(asked.out) if (path / "manifest.json").is_file())
    yield from folders(asked, incomplete) if "/" in incomplete else run_ids(asked, incomplete)


def claim_ids(asked: Asked, incomplete: str) -> Iterator[Candidate]:
    """Claims of the package by the next part of their ids, with how many there are, and its files."""
    from normexp.claims.files import shipped
    from normexp.config.sweepfile import text_of

    files = shipped()
    yield from (Candidate(name, "all of its claims") for name in files)
    depth = incomplete.count(".") + 1
    ids = [found for path in files.values() for found in re.findall(r"^ *- id: (\S+)$", text_of(path), re.MULTILINE)]
    heads = Counter(".".join(claim_id.split(".")[:depth]) for claim_id in ids)
    for head, count in heads.items():
        yield Candidate(head, "a claim") if head in ids else Candidate(f"{head}.", f"{count} of its claims")


def _settings(asked: Asked, incomplete: str) -> Iterator[Candidate]:
    from normexp.settings import SETTINGS

    yield from (Candidate(name, "setting") for name in SETTINGS)


def _executors(asked: Asked, incomplete: str) -> Iterator[Candidate]:
    from normexp.execute.executors import EXECUTORS

    yield from (Candidate(name, "executor") for name in EXECUTORS)


def _axes(asked: Asked, incomplete: str) -> Iterator[Candidate]:
    from normexp.edge import AXES

    yield from (Candidate(name, KEYS[name].help) for name in AXES)


def _kinds(asked: Asked, incomplete: str) -> Iterator[Candidate]:
    from normexp.views.figures.kinds import KINDS

    yield from (Candidate(name, kind.help) for name, kind in KINDS.items())


def _exporters(asked: Asked, incomplete: str) -> Iterator[Candidate]:
    from normexp.views.export import EXPORTERS

    yield from (Candidate(name, row.help) for name, row in EXPORTERS.items())


def _keys(asked: Asked, incomplete: str) -> Iterator[Candidate]:
    yield from (Candidate(name, key.help) for name, key in KEYS.items())


OPTIONS: Mapping[tuple[str, str], Finder] = {
    ("", "only"): assignments,
    ("", "along"): assignments,
    ("", "after"): run_ids,
    ("", "setting"): _settings,
    ("", "executor"): _executors,
    ("", "show_completion"): lambda asked, incomplete: map(Candidate, ("bash", "zsh", "fish")),
    ("edge", "axis"): _axes,
    ("plot", "kind"): _kinds,
    ("plot", "x"): _keys,
    ("plot", "y"): _keys,
    ("plot", "facet"): _keys,
    ("export", "to"): _exporters,
    ("models", "norm"): lambda asked, incomplete: _words("norm"),
    ("models", "position"): lambda asked, incomplete: _words("position"),
}
"""Finders by command ("" for any) and parameter."""
ARGUMENTS: Mapping[tuple[str, str], Finder] = {
    ("", "overrides"): assignments,
    ("", "run_id"): run_ids,
    ("", "folder"): folders,
    ("", "folders"): folders,
    ("compare", "a"): names,
    ("compare", "b"): names,
    ("claims", "names"): claim_ids,
    ("convert", "source"): run_ids,
}
