"""Advice for configs written in the style of other programs: the same content in the form that normexp reads.

It serves error messages only: nothing in this form is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import yaml

from normexp.config.keys import counts_seeds, near_to

LONGEST = 200
"""Maximum number of characters of a rewritten config in a message."""
MAX_PARAMETERS = 20
LISTED_SEEDS = 5
LISTS = ("values", "choices", "choice", "options", "grid_search", "categories")
"""Keys below a parameter that hold its values: `values` of W&B, `choices` of Optuna, `grid_search` of Ray Tune."""
REMOVED = {
    "method": "every combination of the grid is run",
    "metric": "every run reports its validation loss",
    "program": "normexp trains the networks itself",
    "command": "normexp trains the networks itself",
    "defaults": "a config stands in one file",
    "hydra": "axes are under grid",
}
"""Top-level keys of sweeps for W&B and Hydra that have no equivalent, and why."""


def section(name: str, node: yaml.Node, keys: Iterable[str]) -> str:
    """Return what to write instead of a top-level entry of another program's config, or an empty text if unknown."""
    if name in REMOVED:
        return f"remove it: {REMOVED[name]}"
    if name == "parameters" and isinstance(node, yaml.MappingNode):
        return f"write {_sections(node, tuple(keys))}"
    if counts_seeds(name):
        return f"write grid: {{{seeds(node)}}}"
    return ""


def _sections(node: yaml.MappingNode, keys: Sequence[str]) -> str:
    """Return W&B's `parameters` as `base` and `grid`; an example if that is long or not understood."""
    base, grid = [], []
    for name_node, value in node.value[:MAX_PARAMETERS]:
        name = str(name_node.value)
        name = name if name in keys else near_to(name.lower(), keys) or name
        if counts_seeds(str(name_node.value)):
            grid.append(seeds(value))
        elif (fixed := _entries(value).get("value")) is not None and isinstance(fixed, yaml.ScalarNode):
            base.append(f"{name}: {fixed.value}")
        else:
            grid.append(f"{name}: {axis(value) or '[...]'}")
    parts = [f"{word}: {{{', '.join(part)}}}" for word, part in (("base", base), ("grid", grid)) if part]
    text = " and ".join(parts)
    return text if 0 < len(text) <= LONGEST else "grid: {lr: [1e-3, 1e-2]}"


def axis(node: yaml.Node) -> str:
    """Return `{values: [...]}`, `{value: x}` or `{min: a, max: b}` in normexp's form, or an empty text.

    Optuna's `low` and `high` stand for `min` and `max`.
    """
    entries = _entries(node)
    for name in LISTS:
        if isinstance(entries.get(name), yaml.SequenceNode):
            return listed(item.value for item in entries[name].value if isinstance(item, yaml.ScalarNode))
    if isinstance(node, yaml.SequenceNode):
        return listed(item.value for item in node.value if isinstance(item, yaml.ScalarNode))
    if isinstance(fixed := entries.get("value", node), yaml.ScalarNode):
        return str(fixed.value)[:LONGEST]
    low, high = entries.get("min", entries.get("low")), entries.get("max", entries.get("high"))
    if isinstance(low, yaml.ScalarNode) and isinstance(high, yaml.ScalarNode):
        logarithmic = "log" in _word(entries, "distribution") or _word(entries, "log").lower() == "true"
        spaced = "logspace" if logarithmic else "linspace"
        return f"{{{spaced}: [{low.value}, {high.value}, 5]}}"[:LONGEST]
    return ""


def called(text: str) -> str:
    """Return a sweep of Hydra, `choice(a, b)` or `range(stop)`, in normexp's form, or an empty text."""
    call = re.fullmatch(r"(choice|range)\(([^()]*)\)", text.strip())
    if call is None:
        return ""
    parts = [part.strip() for part in call[2].split(",")]
    if call[1] == "choice":
        return listed(parts)
    if not all(re.fullmatch(r"-?[0-9]{1,9}", part) for part in parts) or len(parts) > 3:
        return ""
    numbers = range(*map(int, parts)) if "0" not in parts[2:] else range(0)
    if len(numbers) < 2:
        return ""
    return listed(map(str, numbers)) if len(numbers) <= LISTED_SEEDS else _ranged(numbers)


def seeds(node: yaml.Node) -> str:
    """Return the axis of as many seeds as the node says, `seed: [0, 1, 2]` for 3."""
    node = _entries(node).get("value", node)
    text = str(node.value) if isinstance(node, yaml.ScalarNode) else ""
    if re.fullmatch(r"[1-9][0-9]{0,8}", text):
        numbers = range(int(text))
        return f"seed: {listed(map(str, numbers)) if len(numbers) <= LISTED_SEEDS else _ranged(numbers)}"
    listed_seeds = "" if isinstance(node, yaml.ScalarNode) else axis(node)
    return f"seed: {listed_seeds or '[0, 1, 2]'}"


def _ranged(numbers: range) -> str:
    """Return a range with its last value, which the builder `range` includes."""
    return f"{{range: [{numbers[0]}, {numbers[-1]}, {numbers.step}]}}"


def listed(values: Iterable[str]) -> str:
    """Return values as a YAML list; `[...]` if it is long."""
    text = f"[{', '.join(islice(values, LONGEST))}]"
    return text if len(text) <= LONGEST else "[...]"


def _word(entries: Mapping[str, yaml.Node], name: str) -> str:
    node = entries.get(name)
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def _entries(node: yaml.Node) -> Mapping[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        return {}
    return {name.value: value for name, value in node.value if isinstance(name, yaml.ScalarNode)}
