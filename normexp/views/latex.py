"""Tables in LaTeX: booktabs and nothing else; what users wrote is escaped, outcomes and k of n stay in the cells."""

from __future__ import annotations

import re
from collections.abc import Sequence

from normexp.labels import shown
from normexp.views.pivot import TextTable

SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "[": "{[}",  # after \\ it would begin an argument, as would a star
    "]": "{]}",
    "*": "{*}",
    "-": "{-}",  # two would become a dash
    "`": r"\textasciigrave{}",
    "'": r"\textquotesingle{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "→": r"$\to$",
    "–": "--",
    "—": "---",
    "…": r"\ldots{}",
    "\N{REPLACEMENT CHARACTER}": "?",
} | {character: f"\\{character}" for character in "&%$#_{}"}
PACKAGES = r"\usepackage[T1]{fontenc} \usepackage{booktabs,textcomp}"


def escape(text: str) -> str:
    """Text that LaTeX sets as it is, in one cell. Letters beyond Latin need XeLaTeX or LuaLaTeX, and a font."""
    one_line = " ".join(shown(text).split())
    return re.sub("|".join(map(re.escape, SPECIAL)), lambda found: SPECIAL[found[0]], one_line)


def document(title: str, name: str, tables: Sequence[TextTable], references: str) -> str:
    """One `table` environment for each table, to be put into a text with \\input."""
    parts = [f"% {' '.join(shown(title).split())}\n% needs {PACKAGES}"]
    for number, table in enumerate(tables, 1):
        caption = ". ".join(filter(None, [title.rstrip("."), table.title, table.note.rstrip("."), references]))
        label = "tab:" + re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") + (f"-{number}" if len(tables) > 1 else "")
        parts.append(_environment(table, escape(caption), label))
    return "\n\n".join(parts) + "\n"


def _environment(table: TextTable, caption: str, label: str) -> str:
    lines = [
        r"\begin{table}",
        r"\centering",
        f"\\caption{{{caption}}}",
        f"\\label{{{label}}}",
        f"\\begin{{tabular}}{{{'l' * len(table.header)}}}",
        r"\toprule",
        _row(table.header),
        r"\midrule",
        *map(_row, table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return " & ".join(map(escape, cells)) + r" \\"
