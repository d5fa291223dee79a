"""Fills the tables of docs/speed.md from the benchmarks' CSV files: `python -m benchmarks.page [--check]`.

A table stands between `<!-- NAME -->` and `<!-- end -->`; `--check` changes nothing, and fails where one is old.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.harness import FOLDER

PAGE = FOLDER.parent / "docs" / "speed.md"
Row = Mapping[str, str]


def ratio(row: Row, name: str) -> str:
    """Return a ratio with its quartiles, or nothing where it was not measured."""
    return f"{row[name]} ({row[name + '_low']} to {row[name + '_high']})" if row.get(name) else ""


COLUMNS: Mapping[str, Mapping[str, Callable[[Row], str]]] = {
    "step": {
        "network": lambda row: ", ".join(
            [f"{row['depth']} layers", row["norm"], row["position"], row["mixer"]]
            + [f"QK-Norm {row['qk_norm']}"] * (row["qk_norm"] != "none")
            + ["ReLU"] * (row.get("activation") == "relu")
        ),
        "step, ms": lambda row: row["ours_ms"],
        "tape": lambda row: row.get("tape_ms", ""),
        "autograd": lambda row: row["autograd_ms"],
        "plain loop": lambda row: row["plain_ms"],
        "with fused Adam": lambda row: row["fused_ms"],
        "with torch.compile (compile time)": lambda row: (
            f"{row['torch_compile_ms']} ({row['compile_s']} s)" if row.get("torch_compile_ms") else ""
        ),
        "limit": lambda row: row["limit_ms"],
        "of the limit": lambda row: row["of_limit"],
        "to the tape": lambda row: ratio(row, "to_tape"),
        "to the plain loop": lambda row: ratio(row, "to_plain"),
        "to that with fused Adam": lambda row: ratio(row, "to_fused"),
    },
    "calls": {
        "calls": lambda row: row["call"],
        "a step": lambda row: row["calls"],
        "in place, ms": lambda row: row["in_place_ms"],
        "hot, ms": lambda row: row["hot_ms"],
    },
    "sweep": {
        "runs": lambda row: f"{row['runs']} of {row['steps']} steps: norm {row['norm']}, {row['mixer']}",
        "tool": lambda row: row["tool"],
        "seconds": lambda row: f"{row['seconds']} ({row['seconds_low']} to {row['seconds_high']})",
        "normexp takes of that": lambda row: (
            f"{row['ratio']} ({row['ratio_low']} to {row['ratio_high']})" if row["ratio"] else ""
        ),
    },
    **{
        name: {
            "what": lambda row: row["what"],
            "median": lambda row: f"{row['median']} {row['unit']}",
            "quartiles": lambda row: f"{row['low']} to {row['high']}" if row["low"] else "once",
        }
        for name in ("overhead", "scaling")
    },
    "shapes": {
        "network": lambda row: (
            f"{row['depth']} layers, width {row['width']}, {row['heads']} heads, hidden {row['hidden']}, "
            f"{row['seq_len']} tokens, batch {row['batch']}, {row['norm']}, {row['position']}, {row['mixer']}"
            + (f", QK-Norm {row['qk_norm']}" if row["qk_norm"] != "none" else "")
            + f", {row['activation']}"
        ),
        "compiled, ms": lambda row: row["compiled_ms"],
        "tape, ms": lambda row: row["tape_ms"],
        "compiled to tape": lambda row: ratio(row, "to_tape"),
    },
    "memory": {
        "layers": lambda row: row["depth"],
        "peak, MiB": lambda row: row["peak_mib"],
        "its own at the end, MiB": lambda row: row["private_mib"],
    },
}


def table(name: str, rows: Sequence[Row]) -> str:
    """A benchmark's rows as Markdown."""
    columns = COLUMNS[name]
    lines = [list(columns), ["---"] * len(columns), *([cell(row) for cell in columns.values()] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def filled(text: str, folder: Path = FOLDER) -> str:
    """The page with every table made anew."""

    def made(match: re.Match[str]) -> str:
        if not (folder / f"{match[1]}.csv").exists():
            sys.exit(f"{folder / match[1]}.csv is missing: run python -m benchmarks.{match[1]}")
        with (folder / f"{match[1]}.csv").open(newline="") as file:
            return f"<!-- {match[1]} -->\n\n{table(match[1], list(csv.DictReader(file)))}\n\n<!-- end -->"

    return re.sub(r"<!-- (\w+) -->\n.*?<!-- end -->", made, text, flags=re.DOTALL)


def main() -> None:
    """Fill the page, or check it."""
    old = PAGE.read_text("utf-8")
    new = filled(old)
    if "--check" not in sys.argv:
        PAGE.write_text(new, "utf-8")
    elif new != old:
        sys.exit(f"{PAGE} is older than the CSV files: run python -m benchmarks.page")


if __name__ == "__main__":
    main()
