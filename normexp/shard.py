"""A share of a sweep's runs, for one machine of several that know nothing of each other."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from normexp.errors import UserError

MOST = 10_000
"""Shards of a sweep."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard `number` of `count`, counted from 1. Raises ValueError where there is none such.

    A run belongs to a shard by its id alone: runs that a sweep gains or loses move no other.
    """

    number: int
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count <= MOST:
            raise ValueError(f"there is no shard {self.number} of {self.count}")

    def __str__(self) -> str:
        return f"shard {self.number} of {self.count}"

    @property
    def option(self) -> str:
        """As it is asked for: `2/4`."""
        return f"{self.number}/{self.count}"

    def has(self, run_id: str) -> bool:
        """Whether the run of this id is one of its own."""
        return of_run(run_id, self.count) == self

    def folder(self, whole: str) -> str:
        """The name of its folder, from that of the sweep."""
        return f"{whole}.shard-{self.number}-of-{self.count}"


def of_run(run_id: str, count: int) -> Shard:
    """Which of so many shards a run belongs to: the same everywhere and for ever."""
    digest = hashlib.sha256(run_id.encode()).digest()
    return Shard(int.from_bytes(digest[:8], "big") % count + 1, count)


def parse(text: str) -> Shard:
    """From `2/4`. Raises UserError that says what to write."""
    found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text.strip(), re.ASCII)
    if found is None:
        raise UserError(f"shard {text[:40]}: write 2/4 for shard 2 of 4")
    number, count = int(found[1]), int(found[2])
    try:
        return Shard(number, count)
    except ValueError:
        if not 1 <= count <= MOST:
            raise UserError(f"shard {text[:40]}: a sweep has 1 to {MOST} shards") from None
        raise UserError(f"shard {text[:40]}: shards are counted from 1: write 1/{count} to {count}/{count}") from None
