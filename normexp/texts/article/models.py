"""Claims about mainstream models, checked against the program's table of models (section 2.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from normexp.claims.claim import Finding, Word, yes_or_no
from normexp.config.labels import listed
from normexp.schemes import models
from normexp.schemes.models import Model
from normexp.texts.figures import Observed, by_condition, one_seed

TIMELINE = {
    "Transformer": ("LN", "post", "none"),
    "BERT": ("LN", "post", "none"),
    "GPT-2": ("LN", "pre", "none"),
    "GPT-3": ("LN", "pre", "none"),
    "T5": ("LN", "pre", "none"),
    "LLaMA 1": ("RMS", "pre", "none"),
    "Qwen3": ("RMS", "pre", "RMS per head"),
}
"""Norm, norm placement and QK-norm of each model in the article's diagram."""


def _year(model: Model) -> int:
    return int(model.cells["year"].text)


def _is_rms(model: Model) -> bool:
    return model.cells["norm"].text.startswith("RMS")


def timeline(seed: int, stated: Mapping[str, tuple[str, str, str]] = TIMELINE) -> Finding:
    """Check that the models of the article's diagram have the norm, position and QK-norm that it gives them."""
    rows = {model.model: model for model in models.load()}
    in_table = {name: tuple(rows[name].cells[cell].text for cell in ("norm", "position", "qk_norm")) for name in stated}
    wrong = [f"{name} has {', '.join(in_table[name])}" for name in stated if in_table[name] != stated[name]]
    measured = "; ".join(wrong) or f"{len(stated)} models as stated"
    return Finding(
        decision=yes_or_no(not wrong),
        measured=measured,
        sentence=f"in the code and papers of the table of models, {measured}",
        seeds=1,
        word=Word.SOURCE_DIFFERS if wrong else None,
    )


def post_to_pre(seed: int, table: Sequence[Model] | None = None) -> Finding:
    """Check that the share of Pre-LN models rises after 2018, to more than half in 2019 and 2020.

    It is checked among the models of the article's diagram and among all models of the table, since a share depends on
    the choice of models.
    """
    rows = models.load() if table is None else table
    seen = {
        "among the models of its diagram": _moves_to_pre([m for m in rows if m.model in TIMELINE]),
        "among all models of normexp models": _moves_to_pre(rows),
    }
    return by_condition(seen, {}, "models with Pre-LN")


def _moves_to_pre(rows: Sequence[Model]) -> Observed:
    early, late = ([m for m in rows if _year(m) in years] for years in (range(2018 + 1), (2019, 2020)))
    before, after = (sum(m.cells["position"].text == "pre" for m in part) for part in (early, late))
    holds = before * len(late) < after * len(early) and 2 * after > len(late)
    return holds, f"{before} of {len(early)} to 2018, {after} of {len(late)} in 2019 and 2020"


def rms_replaces(seed: int, table: Sequence[Model] | None = None) -> Finding:
    """Check that the share of models with RMSNorm rises from up to 2020, over 2021–2023, to later years."""
    rows = models.load() if table is None else table
    spans = {"to 2020": range(2017, 2021), "2021 to 2023": range(2021, 2024), "since 2024": range(2024, 3000)}
    parts = {span: [_is_rms(m) for m in rows if _year(m) in years] for span, years in spans.items()}
    shares = [sum(part) / max(1, len(part)) for part in parts.values()]
    measured = ", ".join(f"{sum(part)} of {len(part)} {span}" for span, part in parts.items())
    first = min((m for m in rows if _is_rms(m)), key=_year, default=None)
    first_text = f"the first is {first.model} ({_year(first)})" if first else "there is none"
    return one_seed(shares[0] < shares[1] < shares[2], measured, f"models with RMSNorm: {measured}; {first_text}")


def mainstream(seed: int, table: Sequence[Model] | None = None) -> Finding:
    """Check that the most common combination since 2023 is RMSNorm, position pre, with a final norm."""
    rows = [m for m in (models.load() if table is None else table) if _year(m) >= 2023]
    kinds = Counter(
        (
            "RMS" if _is_rms(m) else "LN",
            m.cells["position"].text.partition(",")[0],
            f"final norm {m.cells['final_norm'].text}",
        )
        for m in rows
    )
    (most, count), *rest = kinds.most_common()
    measured = f"{count} of {len(rows)} models since 2023: {', '.join(most)}"
    others = listed([f"{number} {' '.join(kind[:2])}" for kind, number in rest])
    return one_seed(most == ("RMS", "pre", "final norm yes"), measured, f"{measured}; the others: {others or 'none'}")


def pre_has_final_norm(seed: int, table: Sequence[Model] | None = None) -> Finding:
    """Check that every model with position pre has a final norm, where the table knows it."""
    rows = [
        m
        for m in (models.load() if table is None else table)
        if m.cells["position"].text.startswith("pre") and m.cells["final_norm"].text
    ]
    without = [m.model for m in rows if m.cells["final_norm"].text != "yes"]
    measured = f"{len(rows) - len(without)} of {len(rows)} models"
    sentence = f"{measured} of position pre have a final norm; the others: {listed(without) or 'none'}"
    return one_seed(not without, measured, sentence)
