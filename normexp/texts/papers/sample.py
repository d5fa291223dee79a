"""What calculations at initialization share: the networks that a seed stands for, and how numbers are told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from normexp.claims.claim import Finding

NETWORK = "width 64, hidden 128, 4 heads, relu, Xavier weights, random tokens"
SERIES = "L = 4, 8, 16, 40"


def seeds_of(seed: int, count: int = 3) -> Sequence[int]:
    """The seeds of the networks of one calculation; those of seed 0 are 0, 1, 2."""
    return range(seed * count, (seed + 1) * count)


def row(values: Iterable[float], digits: int = 2) -> str:
    """`0.2, 0.18, 0.21`."""
    return ", ".join(f"{value:.{digits}g}" for value in values)


def ends(values: Iterable[float], digits: int = 2) -> str:
    """`0.91 to 1.9`."""
    found = sorted(values)
    return f"{found[0]:.{digits}g} to {found[-1]:.{digits}g}"


def told(holds: bool, measured: str, seeds: Sequence[int], network: str = NETWORK, *, depth: str = "") -> Finding:
    """A finding on networks of these seeds; `depth` is what the paper's L is here."""
    at = f"{depth}, " if depth else ""
    sentence = f"{measured}; {at}{network}, network seeds {seeds[0]} to {seeds[-1]}"
    return Finding(holds=bool(holds), measured=measured, sentence=sentence, seeds=len(seeds))
