"""A table of named rows, to which a plugin adds its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

Row = TypeVar("Row")

NAME = re.compile(r"[a-z][a-z0-9_]{0,31}\Z")
RESERVED = ("none", "auto")
"""Words that a key understands by itself."""


class Registry(Mapping[str, Row], Generic[Row]):
    """Rows in the order in which they came; each knows the `origin` that added it, "" for those of the package."""

    def __init__(self, noun: str, rows: Mapping[str, Row]) -> None:
        self.noun = noun
        self._rows = dict(rows)
        self._origins: dict[str, str] = {}

    def __getitem__(self, name: str) -> Row:
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def origin(self, name: str) -> str:
        """What added the row: "" for the package itself and for names that it does not have."""
        return self._origins.get(name, "")

    def check(self, name: str, origin: str) -> None:
        """Raise ValueError where `origin` may not add a row of this name."""
        if not NAME.match(name) or name in RESERVED:
            raise ValueError(f"a name is up to 32 small letters, digits and _, and none of {', '.join(RESERVED)}")
        if name in self._rows and self.origin(name) != origin:
            raise ValueError("is there already: choose another name")

    def add(self, name: str, row: Row, origin: str) -> None:
        """Add a row, or replace the one of the same name and origin. Raises ValueError, see `check`."""
        self.check(name, origin)
        self._rows[name], self._origins[name] = row, origin

    def remove(self, origin: str) -> None:
        """Take away the rows that `origin` added."""
        for name in [name for name, owner in self._origins.items() if owner == origin]:
            del self._rows[name], self._origins[name]
