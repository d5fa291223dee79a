"""Update the generated tables of documents: `python -m normexp.reference [--check] docs/config.md ...`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from normexp.analysis.tables import TextTable
from normexp.config.keys import Key, as_typed
from normexp.config.run import KEYS
from normexp.errors import EXIT_OK, EXIT_RUNS_FAILED, EXIT_USAGE, UserError
from normexp.records.outcome import RULES
from normexp.schemes.network_config import Value
from normexp.schemes.norms import RESERVED
from normexp.terminal import models as tables

END = "<!-- end -->"


def config_table() -> str:
    """Return the keys of a run as a Markdown table, one row per key."""
    rows = [("key", "values (default first)", "limits", "has an effect when", "meaning"), ("---",) * 5]
    for name, key in KEYS.items():
        limits = key.limits() if key.choices is None and key.kind is not bool else ""
        rows.append((f"`{name}`", _values(key), limits, key.matters_when, key.help))
    return _lines(rows)


def rules_table() -> str:
    """Return the outcome rules as a Markdown table, in the order in which they are applied."""
    return "\n".join(["| outcome | rule |", "|---|---|", *(f"| `{name}` | {rule} |" for name, rule in RULES.items())])


def schemes_table(depth: int = 20) -> str:
    """Return the schemes as a Markdown table, with their constants at this depth."""
    return _markdown(tables.schemes(depth))


def norms_table() -> str:
    """Return the norms as a Markdown table."""
    return _markdown(tables.norms())


def commands_page() -> str:
    """Return the reference of all commands as Markdown."""
    from normexp.commands import app

    return app.documentation()


PARTS: Mapping[str, Callable[[], str]] = {
    "config reference": config_table,
    "outcome rules": rules_table,
    "schemes": schemes_table,
    "norms": norms_table,
    "commands": commands_page,
}
"""The texts that are put between `<!-- name -->` and `<!-- end -->`, by name."""


def replaced(text: str) -> str:
    """Return a document with the tables between its markers updated. Raises UserError if markers are missing."""
    names = [name for name in PARTS if f"<!-- {name} -->" in text]
    if not names:
        raise UserError(f"no <!-- {next(iter(PARTS))} --> ... {END}: put both markers where the table belongs")
    for name in names:
        begin = f"<!-- {name} -->"
        head, _, rest = text.partition(begin)
        _, end, tail = rest.partition(END)
        if not end:
            raise UserError(f"no {END} after {begin}: put both markers where the table belongs")
        text = f"{head}{begin}\n\n{PARTS[name]()}\n\n{END}{tail}"
    return text


def main(arguments: Sequence[str]) -> int:
    """Update each file in place, or with --check report those that are out of date. Return the exit code."""
    paths = [Path(argument) for argument in arguments if argument != "--check"]
    if not paths:
        print("usage: python -m normexp.reference [--check] FILE...", file=sys.stderr)
        return EXIT_USAGE
    code = EXIT_OK
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8")
            fresh = replaced(text)
        except (OSError, UnicodeDecodeError, UserError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            return EXIT_USAGE
        if fresh == text:
            continue
        if "--check" in arguments:
            print(f"{path}: tables are out of date: run python -m normexp.reference {path}")
            code = EXIT_RUNS_FAILED
        else:
            path.write_text(fresh, encoding="utf-8")
    return code


def _markdown(table: TextTable) -> str:
    rows = [(f"`{name}`", *cells) for name, *cells in table.rows]
    return _lines([table.header, ("---",) * len(table.header), *rows])


def _lines(rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)


def _values(key: Key) -> str:
    """Return the values of a key, default first. Those from a table of docs/schemes.md are not repeated."""
    values: list[Value] = [key.default]
    if key.choices is not None:
        words = [word for word in key.choices() if word in RESERVED] if key.extensible else key.choices()
        values += [word for word in words if word != key.default]
    elif key.kind is bool:
        values.append(not key.default)
    return ", ".join(map(as_typed, values)) + "; [all](schemes.md)" * key.extensible


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
