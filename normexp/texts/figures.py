"""Compare computed values with printed figures, and build the findings of calculations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from normexp.claims.claim import Finding, Word, yes_or_no
from normexp.config.labels import listed

Figures = Sequence[str]
Observed = tuple[bool, str]
"""Whether something holds, and what was measured."""
LARGEST = 1e15
"""Larger values are never equal to a printed figure: they are not compared digit by digit."""


def same(value: float, figure: str) -> bool:
    """Return whether the value, rounded to the digits of the figure, equals the figure."""
    printed = Decimal(figure)
    return abs(value) < LARGEST and Decimal(value).quantize(printed) == printed


def compare_printed(values: Sequence[float], figures: Figures, procedure: str) -> Finding:
    """Compare values with printed figures: the finding holds if all agree in every printed digit."""
    holds = len(values) == len(figures) and all(map(same, values, figures))
    measured = ", ".join(map(_written, values, figures))
    printed = "as printed" if holds else f"printed: {', '.join(figures)}"
    sentence = f"{procedure}: {measured}, {printed}"
    return Finding(decision=yes_or_no(holds), measured=measured, sentence=sentence, seeds=1)


def _written(value: float, figure: str) -> str:
    digits = max(0, -int(Decimal(figure).as_tuple().exponent))
    return f"{value:z.{digits}f}" if abs(value) < 1e5 else f"{value:.3g}"


def one_seed(holds: bool, measured: str, sentence: str) -> Finding:
    """Return a finding of one seed."""
    return Finding(decision=yes_or_no(holds), measured=measured, sentence=sentence, seeds=1)


def contradiction(holds: bool, measured: str, sentence: str) -> Finding:
    """Return a finding on the consistency of a text: if it does not hold, the text contradicts itself."""
    word = None if holds else Word.CONTRADICTING
    return Finding(decision=yes_or_no(holds), measured=measured, sentence=sentence, seeds=1, word=word)


def by_condition(own: Mapping[str, Observed], elsewhere: Mapping[str, Observed], sentence: str) -> Finding:
    """Return a finding with several conditions, judged like a sweep claim: those of the text, and others.

    It holds if all conditions of the text do. Otherwise it holds only when the ones that hold are met, or if there are
    none, those of `elsewhere` that hold.
    """
    measured = "; ".join(f"{name}: {text}" for name, (_, text) in {**own, **elsewhere}.items())
    holds = all(held for held, _ in own.values())
    when = [name for name, (held, _) in own.items() if held] or [name for name, (held, _) in elsewhere.items() if held]
    partly = bool(when) and not holds
    return Finding(
        decision=yes_or_no(holds or partly),
        measured=measured,
        sentence=f"{sentence}: {measured}",
        seeds=1,
        setting=listed(when) if partly else "",
        word=Word.HOLDS_WHEN if partly else None,
    )
