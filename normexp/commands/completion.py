"""Command line completion for bash, zsh and fish: commands, options, config keys and values, runs, sweeps, claims.

The script that `normexp --show-completion SHELL` prints calls the program with the typed words in the environment:
_NORMEXP_COMPLETE (complete_bash, ...), COMP_WORDS (one word per line) and COMP_CWORD (index of the word at the
cursor). The program prints one candidate per line. It neither runs nor parses user files, and does not import torch.
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
    """A completion with its description. The shell adds no space after one that ends with `=`, `/` or `.`."""

    value: str
    help: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What is typed before the cursor: the command, its arguments, and option values by parameter name."""

    command: str
    arguments: tuple[str, ...]
    options: Mapping[str, str]

    @property
    def out(self) -> Path:
        """Return the results folder."""
        return Path(self.options.get("out") or OUT)


Finder = Callable[[Context, str], Iterable[Candidate]]


def of_option(param: Any, context: Context, incomplete: str) -> Iterable[Candidate]:
    """Return the candidates for an option's value. Without candidates, the shell completes file names."""
    finder = OPTIONS.get((context.command, param.name)) or OPTIONS.get(("", param.name))
    if finder is not None:
        return finder(context, incomplete)
    if context.command == "collapse" and param.name in KEYS:
        return _words(param.name)
    return [Candidate(str(choice), param.help or "") for choice in getattr(param.type, "choices", ())]


def of_argument(param: Any, context: Context, incomplete: str) -> Iterable[Candidate]:
    """Return the candidates for an argument. Without candidates, the shell completes file names."""
    finder = ARGUMENTS.get((context.command, param.name)) or ARGUMENTS.get(("", param.name))
    return finder(context, incomplete) if finder is not None else ()


def _words(name: str) -> list[Candidate]:
    """Return the values of a key with their help. The only candidate for a number is its default."""
    key = KEYS[name]
    if key.choices is not None:
        helps = {row: NORMS[row].help for row in NORMS} | {row: SCHEMES[row].help for row in SCHEMES}
        return [Candidate(word, helps.get(word, name) if key.extensible else name) for word in key.choices()]
    words = ("true", "false") if key.kind is bool else (f"{key.default:g}",)
    return [Candidate(word, "default" if word == str(key.default).lower() else name) for word in words]


def assignments(context: Context, incomplete: str) -> Iterator[Candidate]:
    """Complete `lr=`, and after `position=pre,` the remaining values."""
    name, equals, value = incomplete.partition("=")
    if not equals:
        taken = {word.partition("=")[0] for word in context.arguments}
        yield from (Candidate(f"{name}=", key.help) for name, key in KEYS.items() if name not in taken)
    elif name in KEYS:
        before, comma, _ = value.rpartition(",")
        used = before.split(",")
        yield from (
            Candidate(f"{name}={before}{comma}{word.value}", word.help)
            for word in _words(name)
            if word.value not in used
        )


def run_ids(context: Context, incomplete: str) -> Iterator[Candidate]:
    """Complete ids of stored runs, with the name of their sweep."""
    paths = [path for sweep in _folders(context.out) for path in _folders(sweep / "runs")]
    sweeps = {path.name: path.parent.parent.name for path in paths}
    yield from (Candidate(run_id, sweep) for run_id, sweep in sorted(sweeps.items()))


def _folders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return sorted(folder / entry.name for entry in entries if entry.is_dir() and entry.name[:1] != ".")
    except OSError:
        return []


def folders(context: Context, incomplete: str) -> Iterator[Candidate]:
    """Complete folders of sweeps under the results folder and under the typed path."""
    typed = [Path(incomplete).parent] if "/" in incomplete else []
    for root in dict.fromkeys([context.out, *typed]):
        yield from (Candidate(str(path), "sweep") for path in _folders(root) if (path / "manifest.json").is_file())


def names(context: Context, incomplete: str) -> Iterator[Candidate]:
    """Complete names of sweeps and run ids."""
    yield from (Candidate(path.name, "sweep") for path in _folders(context.out) if (path / "manifest.json").is_file())
    yield from folders(context, incomplete) if "/" in incomplete else run_ids(context, incomplete)


def claim_ids(context: Context, incomplete: str) -> Iterator[Candidate]:
    """Complete the bundled claims files and the next part of claim ids, with the number of claims."""
    from normexp.claims.files import shipped
    from normexp.config.sweep_file import text_of

    files = shipped()
    yield from (Candidate(name, "all claims of this file") for name in files)
    depth = incomplete.count(".") + 1
    texts = [text_of(path) for path in files.values()]
    ids = [claim_id for text in texts for claim_id in re.findall(r"^ *- id: (\S+)$", text, re.MULTILINE)]
    heads = Counter(".".join(claim_id.split(".")[:depth]) for claim_id in ids)
    for head, count in heads.items():
        yield Candidate(head, "claim") if head in ids else Candidate(f"{head}.", f"{count} claims")


def _settings(context: Context, incomplete: str) -> Iterator[Candidate]:
    from normexp.config.presets import SETTINGS

    yield from (Candidate(name, "setting") for name in SETTINGS)


def _executors(context: Context, incomplete: str) -> Iterator[Candidate]:
    from normexp.execution.executors import EXECUTORS

    yield from (Candidate(name, "executor") for name in EXECUTORS)


def _axes(context: Context, incomplete: str) -> Iterator[Candidate]:
    from normexp.config.presets import EDGE_AXES

    yield from (Candidate(name, KEYS[name].help) for name in EDGE_AXES)


def _kinds(context: Context, incomplete: str) -> Iterator[Candidate]:
    from normexp.plots.kinds import KINDS

    yield from (Candidate(name, kind.help) for name, kind in KINDS.items())


def _exporters(context: Context, incomplete: str) -> Iterator[Candidate]:
    from normexp.report.export import EXPORTERS

    yield from (Candidate(name, row.help) for name, row in EXPORTERS.items())


def _keys(context: Context, incomplete: str) -> Iterator[Candidate]:
    yield from (Candidate(name, key.help) for name, key in KEYS.items())


OPTIONS: Mapping[tuple[str, str], Finder] = {
    ("", "only"): assignments,
    ("", "along"): assignments,
    ("", "after"): run_ids,
    ("", "setting"): _settings,
    ("", "executor"): _executors,
    ("", "show_completion"): lambda context, incomplete: map(Candidate, ("bash", "zsh", "fish")),
    ("edge", "axis"): _axes,
    ("plot", "kind"): _kinds,
    ("plot", "x"): _keys,
    ("plot", "y"): _keys,
    ("plot", "facet"): _keys,
    ("export", "to"): _exporters,
    ("models", "norm"): lambda context, incomplete: _words("norm"),
    ("models", "position"): lambda context, incomplete: _words("position"),
}
"""Functions that find the candidates, by command ("" for any) and parameter."""
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
    """The words before the cursor and the incomplete word at it. The shell keeps its prefix `kept`."""

    words: tuple[str, ...]
    incomplete: str
    kept: str = ""


def show(shell: str | None) -> None:
    """Print the completion script of a shell and exit. Raises UserError for an unknown shell."""
    if shell is None:
        return
    if shell not in SCRIPTS:
        raise UserError(f"--show-completion {shell}: write one of {', '.join(SCRIPTS)}")
    sys.stdout.write(SCRIPTS[shell])
    raise typer.Exit


def answer(root: Any) -> None:
    """Print the candidates for the line in the environment. `root` is the program's Click group."""
    shell = os.environ[VARIABLE].removeprefix("complete_")
    if shell not in SCRIPTS:
        return
    line = read(os.environ.get("COMP_WORDS", ""), os.environ.get("COMP_CWORD", ""), splits=shell == "bash")
    for candidate in candidates(root, line):
        value = candidate.value.removeprefix(line.kept) if line.kept else candidate.value
        sys.stdout.write(_formatted(shell, value, candidate.help) + "\n")


def _formatted(shell: str, value: str, help: str) -> str:
    if shell == "bash":
        return value
    help = " ".join(help.split())
    if shell == "fish":
        return f"{value}\t{help}" if help else value
    escaped = value.replace("\\", "\\\\").replace(":", "\\:")
    return f"{escaped}:{help}"


def read(text: str, number: str, *, splits: bool) -> Line:
    """Parse COMP_WORDS and COMP_CWORD. Bash `splits` words at `=`; they are joined again."""
    parts = text.split("\n") if "\n" in text else text.split(" ")
    at = int(number) if number.isdigit() else len(parts) - 1
    parts = [*parts, *[""] * (at + 1 - len(parts))][: at + 1]
    if not splits:
        return Line(tuple(parts[1:-1]), parts[-1] if at else "")
    words: list[str] = []
    glued = False
    for word in parts:
        if words and (glued or word == "="):
            words[-1] += word
        else:
            words.append(word)
        glued = word == "="
    last = words[-1]
    typed = "" if parts[-1] == "=" else parts[-1]
    return Line(tuple(words[1:-1]), last, last.removesuffix(typed) if typed else last * (parts[-1] == "="))


def candidates(root: Any, line: Line) -> Iterator[Candidate]:
    """Yield the candidates that start with the incomplete word."""
    name = next((word for word in line.words if not word.startswith("-")), None)
    if name is None:
        choices = [Candidate(name, command.get_short_help_str(80)) for name, command in root.commands.items()]
        yield from _starting([*choices, *_options(root, line)], line.incomplete)
    elif name in root.commands:
        yield from _of_command(name, root.commands[name], line)


def _of_command(name: str, command: Any, line: Line) -> Iterator[Candidate]:
    options = {opt: param for param in command.params for opt in (*param.opts, *param.secondary_opts)}
    context, pending = _before(name, options, line)
    incomplete = line.incomplete
    if pending is not None:
        yield from _starting(of_option(pending, context, incomplete), incomplete)
    elif incomplete.startswith("-") and "=" in incomplete:
        option, _, value = incomplete.partition("=")
        if option in options:
            values = of_option(options[option], context, value)
            yield from _starting([Candidate(f"{option}={item.value}", item.help) for item in values], incomplete)
    elif incomplete.startswith("-"):
        yield from _starting(_options(command, line), incomplete)
    else:
        arguments = [param for param in command.params if param.param_type_name == "argument"]
        argument = _argument(arguments, len(context.arguments))
        yield from _starting(of_argument(argument, context, incomplete) if argument else (), incomplete)


def _before(name: str, options: Mapping[str, Any], line: Line) -> tuple[Context, Any]:
    """Return the context of the cursor, and the option whose value comes next or None."""
    values: dict[str, str] = {}
    arguments: list[str] = []
    pending: Any = None
    for word in line.words[line.words.index(name) + 1 :]:
        option, equals, value = word.partition("=")
        param = options.get(option) if word.startswith("-") else None
        if pending is not None:
            values[pending.name], pending = word, None
        elif param is not None and not param.is_flag and not equals:
            pending = param
        elif param is not None:
            values[param.name] = value
        elif not word.startswith("-"):
            arguments.append(word)
    return Context(command=name, arguments=tuple(arguments), options=values), pending


def _argument(arguments: Sequence[Any], count: int) -> Any:
    """Return the argument that the next word belongs to, after `count` words."""
    for param in arguments:
        if param.nargs == -1 or count < param.nargs:
            return param
        count -= param.nargs
    return None


def _options(command: Any, line: Line) -> list[Candidate]:
    """Return the options by their long names, without those already given that cannot be repeated."""
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
    """Yield the choices that start with the incomplete word, each once."""
    yield from {choice.value: choice for choice in choices if choice.value.startswith(incomplete)}.values()
