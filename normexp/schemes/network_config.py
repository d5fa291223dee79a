"""What the tables of schemes and norms read of a run: its network, without torch and without the rest of the config."""

from __future__ import annotations

from typing import Protocol

Value = int | float | bool | str
"""What a resolved key of the config holds."""


class NetworkConfig(Protocol):
    """The keys that decide which blocks a network has; `RunConfig` is one.

    A table reads any other key through the `keys` that its row declares.
    `mattering` gives the keys that change numbers.
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
