"""The part of a run's config that the tables of schemes and norms read: its network, without torch."""

from __future__ import annotations

from typing import Protocol

Value = int | float | bool | str
"""The value of a resolved config key."""


class NetworkConfig(Protocol):
    """The config keys that determine the structure of the blocks. `RunConfig` implements it.

    A row of a table reads any other key through the `keys` that it declares. `mattering` returns the keys that affect
    the results.
    """

    @property
    def depth(self) -> int: ...
    @property
    def mixer(self) -> str: ...
    @property
    def norm(self) -> str: ...
    @property
    def final_norm(self) -> str: ...
    @property
    def qk_norm(self) -> str: ...
    @property
    def position(self) -> str: ...
    @property
    def residual(self) -> bool: ...
    @property
    def dtype(self) -> str: ...
    def mattering(self) -> frozenset[str]: ...
