"""Figures as a text prints them, beside what comes out: the same where they agree in every digit that is printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from normexp.claims.claim import Finding, Word
from normexp.config.labels import listed

Figures = Sequence[str]
Seen = tuple[bool, str]
"""Whether something holds, and what was measured."""
LARGEST = 1e15
"""Of what is compared digit by digit."""


def same(value: float, figure: str) -> bool:
    """Whether the value, rounded as the figure is, is the figure."""
    printed = Decimal(figure)
    return abs(value) < LARGEST and Decimal(value).quantize(printed) == printed


def beside(values: Sequence[float], figures: Figures, procedure: str) -> Finding:
    """What a procedure gives, in the digits that were printed: it holds where all of them are the same."""
    holds = len(values) == len(figures) and all(map(same, values, figures))
    measured = ", ".join(map(_written, values, figures))
    printed = "as printed" if holds else f"where {', '.join(figures)} is printed"
    return Finding(holds=holds, measured=measured, sentence=f"{procedure}: {measured}, {printed}", seeds=1)


def _written(value: float, figure: str) -> str:
    digits = max(0, -int(Decimal(figure).as_tuple().exponent))
    return f"{value:z.{digits}f}" if abs(value) < 1e5 else f"{value:.3g}"


def plain(holds: bool, measured: str, sentence: str) -> Finding:
    """A finding of one seed."""
    return Finding(holds=holds, measured=measured, sentence=sentence, seeds=1)


def contradiction(holds: bool, measured: str, sentence: str) -> Finding:
    """A finding about what a text says of itself: where it does not hold, the text contradicts itself."""
    return Finding(
        holds=holds, measured=measured, sentence=sentence, seeds=1, word=None if holds else Word.CONTRADICTING
    )


def circumstances(own: Mapping[str, Seen], elsewhere: Mapping[str, Seen], sentence: str) -> Finding:
    """Under names of circumstances, as sweep claims are judged: those of the text's own, and others.

    It holds where all of its own do. Else it does only when some of its own hold, or, without any, some others.
    """
    measured = "; ".join(f"{name}: {told}" for name, (_, told) in {**own, **elsewhere}.items())
    holds = all(seen for seen, _ in own.values())
    when = [name for name, (seen, _) in own.items() if seen] or [name for name, (seen, _) in elsewhere.items() if seen]
    partly = bool(when) and not holds
    return Finding(
        holds=holds or partly,
        measured=measured,
        sentence=f"{sentence}: {measured}",
        seeds=1,
        setting=listed(when) if partly else "",
        word=Word.ONLY_WHEN if partly else None,
    )
