"""What is said of mainstream models, by this program's table of them (section 2.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from normexp.claims.claim import Finding, Word
from normexp.config.labels import listed
from normexp.schemes import models
from normexp.schemes.models import Model
from normexp.texts.figures import plain

TIMELINE = {
    "Transformer": ("LN", "post", "none"),
    "BERT": ("LN", "post", "none"),
    "GPT-2": ("LN", "pre", "none"),
    "GPT-3": ("LN", "pre", "none"),
    "T5": ("LN", "pre", "none"),
    "LLaMA 1": ("RMS", "pre", "none"),
    "Qwen3": ("RMS", "pre", "RMS per head"),
}
"""Norm, position and norm of queries and keys, as its diagram has them."""


def _year(model: Model) -> int:
    return int(model.cells["year"].text)


def _is_rms(model: Model) -> bool:
    return model.cells["norm"].text.startswith("RMS")


def timeline(seed: int, stated: Mapping[str, tuple[str, str, str]] = TIMELINE) -> Finding:
    """The models of its diagram have the norm, position and QK-norm that it gives them."""
    rows = {model.model: model for model in models.load()}
    found = {name: tuple(rows[name].cells[cell].text for cell in ("norm", "position", "qk_norm")) for name in stated}
    wrong = [f"{name} has {', '.join(found[name])}" for name in stated if found[name] != stated[name]]
    measured = "; ".join(wrong) or f"{len(stated)} models as stated"
    return Finding(
        holds=not wrong,
        measured=measured,
        sentence=f"in the code and papers of the table of models, {measured}",
        seeds=1,
        word=Word.MISQUOTED if wrong else None,
    )


def post_to_pre(seed: int, table: Sequence[Model] | None = None) -> Finding:
    """The share of Pre-LN models rises from those to 2018 to those of 2019 and 2020, where it is more than half."""
    rows = models.load() if table is None else table
    early, late = ([m for m in rows if _year(m) in years] for years in (range(2018 + 1), (2019, 2020)))
    before, after = ([m.model for m in part if m.cells["position"].text == "pre"] for part in (early, late))
    measured = f"{len(before)} of {len(early)} to 2018, {len(after)} of {len(late)} in 2019 and 2020"
    holds = len(before) * len(late) < len(after) * len(early) and 2 * len(after) > len(late)
    others = listed([m.model for m in late if m.model not in after])
    return plain(holds, measured, f"Pre-LN in the table of models: {measured}; Post-LN then still {others or 'none'}")


def rms_replaces(seed: int, table: Sequence[Model] | None = None) -> Finding:
    """The share of models with RMSNorm rises from those up to 2020 to 2021-2023 and to those since."""
    rows = models.load() if table is None else table
    spans = {"to 2020": range(2017, 2021), "2021 to 2023": range(2021, 2024), "since 2024": range(2024, 3000)}
    parts = {span: [_is_rms(m) for m in rows if _year(m) in years] for span, years in spans.items()}
    shares = [sum(part) / max(1, len(part)) for part in parts.values()]
    measured = ", ".join(f"{sum(part)} of {len(part)} {span}" for span, part in parts.items())
    first = min((m for m in rows if _is_rms(m)), key=_year, default=None)
    told = f"the first, {first.model}, is of {_year(first)}" if first else "none has it"
    return plain(shares[0] < shares[1] < shares[2], measured, f"models with RMSNorm: {measured}; {told}")


def mainstream(seed: int, table: Sequence[Model] | None = None) -> Finding:
    """Since 2023, the most common combination is RMSNorm, position pre, with a final norm."""
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
    return plain(most == ("RMS", "pre", "final norm yes"), measured, f"{measured}; the others: {others or 'none'}")


def pre_has_final_norm(seed: int, table: Sequence[Model] | None = None) -> Finding:
    """Every model whose position is pre and whose final norm is known has one."""
    rows = [
        m
        for m in (models.load() if table is None else table)
        if m.cells["position"].text.startswith("pre") and m.cells["final_norm"].text
    ]
    without = [m.model for m in rows if m.cells["final_norm"].text != "yes"]
    measured = f"{len(rows) - len(without)} of {len(rows)} models"
    sentence = f"a final norm have {measured} of position pre; not: {listed(without) or 'none'}"
    return plain(not without, measured, sentence)
