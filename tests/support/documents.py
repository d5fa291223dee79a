"""The pages of the documentation: their commands, what they show of the output, and its shape."""

from __future__ import annotations

import itertools
import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from normexp.records.record import Outcome

ROOT = Path(__file__).parents[2]
GENERATED = "docs/commands.md"
"""Usage lines from the program: tests/whole_program/test_readme.py holds them to what it says of itself."""
PAGES = {
    str(path.relative_to(ROOT)): path
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if str(path.relative_to(ROOT)) != GENERATED
}
SHELL, SHOWN = ("sh", "bash"), "console"
LEFT_OUT = "..."

Item = tuple[str, tuple[str, ...]]
"""`told` with a line's fixed words, `header` with a table's cells, or LEFT_OUT."""


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the line of the page on which its text begins."""

    language: str
    text: str
    line: int


@dataclass(frozen=True)
class Command:
    """A line for a shell, and what the page shows of its output; no lines where it shows none."""

    page: str
    line: int
    text: str
    shown: Sequence[str] = field(default=())

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


def blocks(text: str) -> list[Block]:
    found = []
    for match in re.finditer(r"^( *)```(\w*)\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL):
        line = text[: match.start(3)].count("\n") + 1
        found.append(Block(match[2], textwrap.dedent(match[3]), line))
    return found


def commands(page: str, text: str) -> list[Command]:
    """Every command of a page in its order: of blocks each line, of `code` in prose what begins with normexp."""
    found = [command for block in blocks(text) for command in _of_block(page, block)]
    prose = re.sub(r"^( *)```.*?^\1```$", lambda match: re.sub(r"[^\n]", " ", match[0]), text, flags=re.M | re.S)
    for match in re.finditer(r"`(normexp\s[^`]+)`", prose):
        words = match[1].split()
        if len(words) > 2:  # with one word it is a command's name
            found.append(Command(page, prose[: match.start()].count("\n") + 1, " ".join(words)))
    return sorted(found, key=lambda command: command.line)


def _of_block(page: str, block: Block) -> Iterator[Command]:
    lines = block.text.splitlines()
    if block.language in SHELL:
        for number, line in enumerate(lines, block.line):
            if text := _bare(line):
                yield Command(page, number, text)
    elif block.language == SHOWN:
        starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            yield Command(page, block.line + start, _bare(lines[start][2:]), lines[start + 1 : end])


def _bare(line: str) -> str:
    return re.sub(r"(^|\s+)#.*", "", line).strip()


# The shape of an output.


def _plain(text: str) -> str:
    """Without what may differ: ids of runs, numbers, and so one or many."""
    text = re.sub(r"\bd\d+-[\w.+-]+", "RUN", text)
    text = re.sub(r"\b(nan|inf)\b", "#", text)
    text = re.sub(r"[+-]?\d[\d.,]*(e[+-]?\d+)?(\s*[–-]\s*\d[\d.]*)?", "#", text).strip()
    return re.sub(r"# (\w+?)s\b", r"# \1", text)


def _head(text: str) -> str:
    """A line's fixed words: up to its first stop; of a path all. Whether nothing collapsed is no matter of shape."""
    text = text.removeprefix("Nothing collapsed. ")
    if re.match(r"(Files|Tables|Tables and figures): ", text):
        return text
    return re.split(r"[;:,(](?:\s|$)|\s\(|\.\s", _plain(text))[0].rstrip(".")


def _is_rule(line: str) -> bool:
    return bool(re.fullmatch(r"\s*─{4,}\s*", line))


def _cells(line: str) -> tuple[str, ...]:
    """Of a row; neighbours that differ in numbers alone are one."""
    return tuple(cell for cell, _ in itertools.groupby(_plain(cell) for cell in re.split(r"\s{2,}", line.strip())))


def shape(lines: Sequence[str]) -> tuple[list[Item], set[str]]:
    """What an output consists of, in order, and the labels of its tables' rows, but for outcomes."""
    items: list[Item] = []
    labels: set[str] = set()
    in_table = False
    for number, line in enumerate(lines):
        after = lines[number + 1 : number + 3]
        if not line.strip() or _is_rule(line):
            in_table = _is_rule(line)
        elif line.strip() == LEFT_OUT:
            items.append((LEFT_OUT, ()))
            in_table = False
        elif after and _is_rule(after[0]):
            items.append(("header", _cells(line)))
        elif len(after) == 2 and _is_rule(after[1]):
            items.append(("told", (_plain(line),)))
            in_table = False
        elif in_table and re.search(r"\S\s{2,}\S", line):
            labels |= {_cells(line)[0]} - set(Outcome)
        else:
            items.append(("told", (_head(line),)))
            in_table = False
    return items, labels


def drift(shown: Sequence[str], printed: Sequence[str]) -> list[str]:
    """In what the shape of an output is not the one that is shown: complaints. A small sweep's warnings are its own."""
    if not shown:
        return []
    wanted, labels = shape(shown)
    if shown[0] == "{":
        return _json_drift(_parts(json.loads("\n".join(shown))), _parts(json.loads("\n".join(printed))))
    found, found_labels = shape([line for line in printed if line in shown or not line.startswith("warning: ")])
    whole = not any(kind == LEFT_OUT for kind, _ in wanted)
    complaints = []
    position, free = 0, False
    for item in wanted:
        if item[0] == LEFT_OUT:
            free = True
            continue
        if free:
            while position < len(found) and found[position] != item:
                position += 1
        if position == len(found) or found[position] != item:
            there = "nothing" if position >= len(found) else f"{found[position]}"
            return [*complaints, f"shown: {item}; printed: {there}"]
        position, free = position + 1, False
    if position < len(found) and not free:
        complaints.append(f"printed, not shown: {found[position]}")
    if whole and not found_labels <= labels:
        complaints.append(f"rows that are not shown: {sorted(found_labels - labels)}")
    return complaints


def _parts(value: Any, where: str = "") -> set[str]:
    """Where values are, but for words that are keys: outcomes."""
    if isinstance(value, list):
        return {part for inner in value for part in _parts(inner, f"{where}[]")}
    if not isinstance(value, dict) or where.endswith(".results"):
        return {where}
    return {part for key, inner in value.items() for part in _parts(inner, f"{where}.{key}")}


def _json_drift(wanted: set[str], found: set[str]) -> list[str]:
    return [] if wanted == found else [f"shown, not printed, or the other way: {sorted(wanted ^ found)}"]


# Configs made small.

SIZES = {"width": 8, "hidden": 8, "vocab": 8, "batch": 4, "seq_len": 12}
"""Defaults of keys, so that a run takes milliseconds."""
STEPS, LAYERS = 6, 2


def small(text: str, *, whole: bool = False) -> str:
    """The text of a config with few layers, steps, seeds, and rows of its table; its columns stay.

    `whole`: with every value but the seeds, of which it has one, and few steps.
    """
    config = _numbers(yaml.safe_load(text))
    rows = config.get("table", {}).get("rows", ())
    if not any("steps" in part.get("base", {}) for part in [config, *config.get("sweeps", ())]):
        config["base"] = {**config.get("base", {}), "steps": STEPS}
    for part in [config, *config.get("sweeps", ())]:
        base, grid = part.get("base", {}), part.get("grid", {})
        base.update({key: STEPS for key in ("steps", "eval_every") if key in base})
        if whole:
            grid.update({"seed": [0]} if "seed" in grid else {})
            continue
        base.update({key: LAYERS for key in ("depth",) if key in base})
        base.update({key: most for key, most in SIZES.items() if base.get(key, 0) > most})
        for axis in {"seed", *rows} & set(grid):
            if isinstance(grid[axis], list):
                grid[axis] = [value for at, value in enumerate(grid[axis]) if at < 2 or value in KEPT]
    return yaml.safe_dump(config, sort_keys=False)


def small_python(text: str) -> str:
    """The text of a program with few layers and steps."""
    return re.sub(r"(steps\W+)\d+", rf"\g<1>{STEPS}", re.sub(r"(depth\W+)\d+", rf"\g<1>{LAYERS}", text))


KEPT = ("deepnorm",)
"""Values that a page's claims ask for."""


def _numbers(value: Any) -> Any:
    """With 1e-3, which YAML 1.1 takes for a word, as a number."""
    if isinstance(value, dict):
        return {key: _numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_numbers(inner) for inner in value]
    if isinstance(value, str) and re.fullmatch(r"[+-]?\d[\d.]*e[+-]?\d+", value):
        return float(value)
    return value
