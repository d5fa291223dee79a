"""The table of known models: how each normalizes, how well that was verified, and the config keys for its block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from normexp.errors import UserError

FILE = Path(__file__).with_name("models.yaml")
CELLS = ("year", "norm", "position", "qk_norm", "final_norm", "eps")
DEFAULT_EPS = "1e-5"
FIELDS = {"model", *CELLS, "checked", "but", "transformers", "sources", "keys", "no_keys", "remark"}
TRANSFORMERS = "transformers 5.24.0"
"""The release that contains the files named under a row's `transformers`."""


class Checked(StrEnum):
    """How well a cell was verified."""

    CODE = "code"
    PAPER = "paper"
    SECOND_HAND = "second hand"
    UNVERIFIED = "unverified"


@dataclass(frozen=True, slots=True)
class Property:
    """A property of a model in a few words (empty if unknown), and how well it was verified."""

    text: str
    checked: Checked


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A row. `keys` build its block in normexp; they are empty if none do, and `no_keys` gives the reason."""

    model: str
    cells: Mapping[str, Property]
    transformers: str
    sources: tuple[str, ...]
    keys: Mapping[str, str]
    no_keys: str
    remark: str

    @property
    def command_line(self) -> str:
        """The keys of the block, except eps, as arguments of `normexp sweep`; empty if there are none."""
        return " ".join(f"{key}={value}" for key, value in self.keys.items())

    @property
    def complete_command_line(self) -> str:
        """The same with eps, unless it has the default."""
        eps = self.cells["eps"].text
        more = f" eps={eps}" if self.keys and eps not in ("", DEFAULT_EPS) else ""
        return self.command_line + more

    def words(self, cell: str) -> set[str]:
        """Return the texts that a filter on a cell matches: that of the cell and the value of the config key."""
        return {self.cells[cell].text.casefold(), self.keys.get(cell, "")}


def load(text: str | None = None) -> tuple[Model, ...]:
    """Read the table of the package, or another table in the same form. Raises ValueError."""
    # BaseLoader keeps every scalar as text, such as `no` and 1e-5.
    rows = yaml.load(FILE.read_text("utf-8") if text is None else text, yaml.BaseLoader)
    return tuple(_model(row) for row in rows)


def _model(row: Mapping[str, Any]) -> Model:
    name = row.get("model", "a model without a name")
    but = row.get("but", {})
    missing = {"model", "checked", *CELLS} - set(row)
    if missing or set(row) - FIELDS or set(but) - set(CELLS):
        wrong = sorted((set(row) - FIELDS) | (set(but) - set(CELLS)))
        raise ValueError(f"{name}: missing {sorted(missing)}, unknown {wrong}")
    if ("keys" in row) == ("no_keys" in row):
        raise ValueError(f"{name}: give either keys or no_keys")
    if "transformers" not in row and not row.get("sources"):
        raise ValueError(f"{name}: no source")
    return Model(
        model=name,
        cells={cell: Property(row[cell], Checked(but.get(cell, row["checked"]))) for cell in CELLS},
        transformers=row.get("transformers", ""),
        sources=tuple(row.get("sources", ())),
        keys=row.get("keys", {}),
        no_keys=row.get("no_keys", ""),
        remark=row.get("remark", ""),
    )


def select(models: Iterable[Model], names: Sequence[str] = (), *, norm: str = "", position: str = "") -> list[Model]:
    """Return the models that match any of the names, the norm and the position, by case-insensitive substrings.

    Raises UserError for each filter that matches nothing, listing the known values, or if no model matches them all.
    """
    known = list(models)
    filters: dict[str, Callable[[Model], bool]] = {}
    complaints = []
    for name in names:
        if not any(_named(model, [name]) for model in known):
            complaints.append(f"no model name contains {name!r}; known: {_listed(model.model for model in known)}")
    if names:
        filters[f"name {' or '.join(names)}"] = lambda model: _named(model, names)
    for cell, wanted in (("norm", norm), ("position", position)):
        if not wanted:
            continue
        matches = _has(cell, wanted)
        if not any(map(matches, known)):
            values = _listed(dict.fromkeys(model.cells[cell].text for model in known))
            complaints.append(f"no model has a {cell} that contains {wanted!r}; known: {values}")
        filters[f"{cell} {wanted}"] = matches
    if complaints:
        raise UserError(*complaints)
    selected = [model for model in known if all(matches(model) for matches in filters.values())]
    if not selected:
        raise UserError(
            f"no model matches all of: {', '.join(filters)}",
            *(
                f"{text}: {_listed(model.model for model in known if matches(model))}"
                for text, matches in filters.items()
            ),
        )
    return selected


def _named(model: Model, names: Sequence[str]) -> bool:
    return any(name.casefold() in model.model.casefold() for name in names)


def _has(cell: str, wanted: str) -> Callable[[Model], bool]:
    return lambda model: any(wanted.casefold() in word for word in model.words(cell))


def _listed(names: Iterable[str]) -> str:
    return "; ".join(names)
