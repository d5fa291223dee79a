"""How mainstream models normalize, how far each cell was verified, and the keys that make the same block here."""

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
"""The release whose files a row's `transformers` names."""


class Checked(StrEnum):
    """How far a cell was verified."""

    CODE = "code"
    PAPER = "paper"
    SECOND_HAND = "second hand"
    UNVERIFIED = "unverified"


@dataclass(frozen=True, slots=True)
class Cell:
    """What a model does, in a few words (empty: not known), and how far that was verified."""

    text: str
    checked: Checked


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A row. `keys` make its block in normexp; they are empty where none do, and `no_keys` then tells why."""

    model: str
    cells: Mapping[str, Cell]
    transformers: str
    sources: tuple[str, ...]
    keys: Mapping[str, str]
    no_keys: str
    remark: str

    @property
    def command_line(self) -> str:
        """The keys of the block as `normexp sweep` takes them, but for eps; empty where there are none."""
        return " ".join(f"{key}={value}" for key, value in self.keys.items())

    @property
    def complete_command_line(self) -> str:
        """The same with eps, where it is not the default."""
        eps = self.cells["eps"].text
        more = f" eps={eps}" if self.keys and eps not in ("", DEFAULT_EPS) else ""
        return self.command_line + more

    def words(self, cell: str) -> set[str]:
        """What a filter on a cell compares with: its text and normexp's word for it."""
        return {self.cells[cell].text.casefold(), self.keys.get(cell, "")}


def load(text: str | None = None) -> tuple[Model, ...]:
    """The table that comes with the package, or another one of its form. Raises ValueError."""
    # BaseLoader leaves every scalar a text: `no` and 1e-5 are words of the table.
    rows = yaml.load(FILE.read_text("utf-8") if text is None else text, yaml.BaseLoader)
    return tuple(_model(row) for row in rows)


def _model(row: Mapping[str, Any]) -> Model:
    name = row.get("model", "a model without a name")
    but = row.get("but", {})
    missing = {"model", "checked", *CELLS} - set(row)
    if missing or set(row) - FIELDS or set(but) - set(CELLS):
        wrong = sorted((set(row) - FIELDS) | (set(but) - set(CELLS)))
        raise ValueError(f"{name}: missing {sorted(missing)}, not known {wrong}")
    if ("keys" in row) == ("no_keys" in row):
        raise ValueError(f"{name}: give either keys or no_keys")
    if "transformers" not in row and not row.get("sources"):
        raise ValueError(f"{name}: no source")
    return Model(
        model=name,
        cells={cell: Cell(row[cell], Checked(but.get(cell, row["checked"]))) for cell in CELLS},
        transformers=row.get("transformers", ""),
        sources=tuple(row.get("sources", ())),
        keys=row.get("keys", {}),
        no_keys=row.get("no_keys", ""),
        remark=row.get("remark", ""),
    )


def select(models: Iterable[Model], names: Sequence[str] = (), *, norm: str = "", position: str = "") -> list[Model]:
    """The models with any of the names and with the norm and the position; a part of the word will do, in any case.

    Raises UserError for each filter that nothing matches, with what there is, or where nothing matches all of them.
    """
    found = list(models)
    filters: dict[str, Callable[[Model], bool]] = {}
    complaints = []
    for name in names:
        if not any(_named(model, [name]) for model in found):
            complaints.append(f"no model is named like {name!r}: there are {_listed(model.model for model in found)}")
    if names:
        filters[f"name {' or '.join(names)}"] = lambda model: _named(model, names)
    for cell, asked in (("norm", norm), ("position", position)):
        if not asked:
            continue
        matches = _has(cell, asked)
        if not any(map(matches, found)):
            there = _listed(dict.fromkeys(model.cells[cell].text for model in found))
            complaints.append(f"no model has a {cell} like {asked!r}: there are {there}")
        filters[f"{cell} {asked}"] = matches
    if complaints:
        raise UserError(*complaints)
    chosen = [model for model in found if all(matches(model) for matches in filters.values())]
    if not chosen:
        raise UserError(
            f"no model has all of: {', '.join(filters)}",
            *(
                f"{told}: {_listed(model.model for model in found if matches(model))}"
                for told, matches in filters.items()
            ),
        )
    return chosen


def _named(model: Model, names: Sequence[str]) -> bool:
    return any(name.casefold() in model.model.casefold() for name in names)


def _has(cell: str, asked: str) -> Callable[[Model], bool]:
    return lambda model: any(asked.casefold() in word for word in model.words(cell))


def _listed(names: Iterable[str]) -> str:
    return "; ".join(names)
