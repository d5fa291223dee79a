"""Completion of the command line in bash, zsh and fish.

The script that `normexp --show-completion SHELL` prints calls the program with what is typed so far, in the variables
_NORMEXP_COMPLETE (complete_bash, ...), COMP_WORDS (a word a line) and COMP_CWORD (the number of the word at the
cursor), and gets a candidate a line. No file of the user's is run or parsed for it, and torch is not imported.

What may stand for an option's value or an argument: keys, their words, runs, sweeps, claims.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from normexp.commands.options import OUT
from normexp.config.run import KEYS
from normexp.errors import UserError
from normexp.schemes.norms import NORMS
from normexp.schemes.schemes import SCHEMES


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
    from normexp.config.sweep_file import text_of

    files = shipped()
    yield from (Candidate(name, "all of its claims") for name in files)
    depth = incomplete.count(".") + 1
    ids = [found for path in files.values() for found in re.findall(r"^ *- id: (\S+)$", text_of(path), re.MULTILINE)]
    heads = Counter(".".join(claim_id.split(".")[:depth]) for claim_id in ids)
    for head, count in heads.items():
        yield Candidate(head, "a claim") if head in ids else Candidate(f"{head}.", f"{count} of its claims")


def _settings(asked: Asked, incomplete: str) -> Iterator[Candidate]:
    from normexp.config.presets import SETTINGS

    yield from (Candidate(name, "setting") for name in SETTINGS)


def _executors(asked: Asked, incomplete: str) -> Iterator[Candidate]:
    from normexp.execution.executors import EXECUTORS

    yield from (Candidate(name, "executor") for name in EXECUTORS)


def _axes(asked: Asked, incomplete: str) -> Iterator[Candidate]:
    from normexp.analysis.stability_edges import AXES

    yield from (Candidate(name, KEYS[name].help) for name in AXES)


def _kinds(asked: Asked, incomplete: str) -> Iterator[Candidate]:
    from normexp.plots.kinds import KINDS

    yield from (Candidate(name, kind.help) for name, kind in KINDS.items())


def _exporters(asked: Asked, incomplete: str) -> Iterator[Candidate]:
    from normexp.report.export import EXPORTERS

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


VARIABLE = "_NORMEXP_COMPLETE"

BASH = """\
_normexp_completion() {
    mapfile -t COMPREPLY < <(
        IFS=$'\\n'
        _NORMEXP_COMPLETE=complete_bash COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD "$1" 2>/dev/null
    )
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/.] ]]; then compopt -o nospace; fi
}
complete -o bashdefault -o default -F _normexp_completion normexp
"""
ZSH = """\
#compdef normexp
_normexp() {
    local -a found open
    found=("${(@f)$(_NORMEXP_COMPLETE=complete_zsh COMP_WORDS="${(pj:\\n:)${(@Q)words[1,CURRENT]}}" \\
        COMP_CWORD=$((CURRENT - 1)) ${words[1]} 2>/dev/null)}")
    found=(${found:#})
    if (( ! ${#found} )); then _files; return; fi
    open=(${(M)found:#*[=/.]:*})
    found=(${found:#*[=/.]:*})
    (( ${#found} )) && _describe normexp found
    (( ${#open} )) && _describe normexp open -S ''
}
if [ "$funcstack[1]" = _normexp ]; then _normexp "$@"; else compdef _normexp normexp; fi
"""
FISH = """\
function __normexp_complete
    set -l words (commandline -opc) (commandline -ct)
    set -lx _NORMEXP_COMPLETE complete_fish
    set -lx COMP_WORDS (string join \\n -- $words | string collect)
    set -lx COMP_CWORD (math (count $words) - 1)
    set -l found (normexp 2>/dev/null)
    if set -q found[1]
        string join \\n -- $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete --command normexp --no-files --arguments '(__normexp_complete)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


@dataclass(frozen=True, slots=True)
class Line:
    """What is typed: the words before the cursor, and the one at it; `kept` of that the shell does not replace."""

    words: tuple[str, ...]
    incomplete: str
    kept: str = ""


def show(shell: str | None) -> None:
    """Print a shell's script, and end the program. Raises UserError."""
    if shell is None:
        return
    if shell not in SCRIPTS:
        raise UserError(f"--show-completion {shell}: there are {', '.join(SCRIPTS)}")
    sys.stdout.write(SCRIPTS[shell])
    raise typer.Exit


def answer(root: Any) -> None:
    """Print the candidates for the line in the environment; `root` is the program as a group of commands."""
    shell = os.environ[VARIABLE].removeprefix("complete_")
    if shell not in SCRIPTS:
        return
    line = read(os.environ.get("COMP_WORDS", ""), os.environ.get("COMP_CWORD", ""), splits=shell == "bash")
    for candidate in found(root, line):
        value = candidate.value.removeprefix(line.kept) if line.kept else candidate.value
        sys.stdout.write(_told(shell, value, candidate.help) + "\n")


def _told(shell: str, value: str, help: str) -> str:
    if shell == "bash":
        return value
    help = " ".join(help.split())
    if shell == "fish":
        return f"{value}\t{help}" if help else value
    escaped = value.replace("\\", "\\\\").replace(":", "\\:")
    return f"{escaped}:{help}"


def read(text: str, number: str, *, splits: bool) -> Line:
    """The line of COMP_WORDS and COMP_CWORD; bash `splits` words at `=`, which are joined again."""
    given = text.split("\n") if "\n" in text else text.split(" ")
    at = int(number) if number.isdigit() else len(given) - 1
    given = [*given, *[""] * (at + 1 - len(given))][: at + 1]
    if not splits:
        return Line(tuple(given[1:-1]), given[-1] if at else "")
    words: list[str] = []
    glued = False
    for word in given:
        if words and (glued or word == "="):
            words[-1] += word
        else:
            words.append(word)
        glued = word == "="
    last = words[-1]
    typed = "" if given[-1] == "=" else given[-1]
    return Line(tuple(words[1:-1]), last, last.removesuffix(typed) if typed else last * (given[-1] == "="))


def found(root: Any, line: Line) -> Iterator[Candidate]:
    """What may stand at the cursor and begins as what is typed there."""
    name = next((word for word in line.words if not word.startswith("-")), None)
    if name is None:
        choices = [Candidate(name, command.get_short_help_str(80)) for name, command in root.commands.items()]
        yield from _starting([*choices, *_options(root, line)], line.incomplete)
    elif name in root.commands:
        yield from _of_command(name, root.commands[name], line)


def _of_command(name: str, command: Any, line: Line) -> Iterator[Candidate]:
    options = {opt: param for param in command.params for opt in (*param.opts, *param.secondary_opts)}
    asked, pending = _before(name, options, line)
    incomplete = line.incomplete
    if pending is not None:
        yield from _starting(of_option(pending, asked, incomplete), incomplete)
    elif incomplete.startswith("-") and "=" in incomplete:
        option, _, value = incomplete.partition("=")
        if option in options:
            values = of_option(options[option], asked, value)
            yield from _starting([Candidate(f"{option}={item.value}", item.help) for item in values], incomplete)
    elif incomplete.startswith("-"):
        yield from _starting(_options(command, line), incomplete)
    else:
        arguments = [param for param in command.params if param.param_type_name == "argument"]
        place = _argument(arguments, len(asked.places))
        yield from _starting(of_argument(place, asked, incomplete) if place else (), incomplete)


def _before(name: str, options: Mapping[str, Any], line: Line) -> tuple[Asked, Any]:
    """What stands before the cursor, and the option whose value comes next, if one does."""
    given: dict[str, str] = {}
    places: list[str] = []
    pending: Any = None
    for word in line.words[line.words.index(name) + 1 :]:
        option, equals, value = word.partition("=")
        param = options.get(option) if word.startswith("-") else None
        if pending is not None:
            given[pending.name], pending = word, None
        elif param is not None and not param.is_flag and not equals:
            pending = param
        elif param is not None:
            given[param.name] = value
        elif not word.startswith("-"):
            places.append(word)
    return Asked(command=name, places=tuple(places), given=given), pending


def _argument(arguments: Sequence[Any], count: int) -> Any:
    """The argument that the next word belongs to."""
    for param in arguments:
        if param.nargs == -1 or count < param.nargs:
            return param
        count -= param.nargs
    return None


def _options(command: Any, line: Line) -> list[Candidate]:
    """Options by their long names, once each unless they may be repeated."""
    if not line.incomplete.startswith("-"):
        return []
    return [
        Candidate(max(names, key=len), param.help or "")
        for param in command.params
        if param.param_type_name == "option" and not param.hidden
        for names in (param.opts, param.secondary_opts)
        if names and (param.multiple or not any(word.partition("=")[0] in names for word in line.words))
    ]


def _starting(choices: Iterable[Candidate], incomplete: str) -> Iterator[Candidate]:
    """Those that go on from what is typed, each once."""
    yield from {choice.value: choice for choice in choices if choice.value.startswith(incomplete)}.values()
