"""A verdict that changes with the threshold of `learned` says so; stored records stay as they are."""

from __future__ import annotations

from pathlib import Path

import pytest
import records

from normexp.claims import evaluate
from normexp.claims.claim import Verdict, Word
from normexp.claims.evidence import plans
from normexp.claims.parser import parse
from normexp.records.record import Outcome
from normexp.storage.store import Store

SWEEP = "name: pair\nbase: {depth: 1, width: 8, heads: 1, steps: 100, eval_every: 25}\ngrid: {seed: [0, 1, 2]}\n"
CLAIM = """\
sweeps: [pair.yaml]
claims:
  - id: mine.learns
    section: "1"
    text: It learns
    stated: learns
    kind: sweep
    check: ends
    with: {outcomes: learned}
    runs: {sweeps: pair}
"""


def verdict(folder: Path, *fractions: float) -> Verdict:
    """Return the verdict on runs that close these fractions of the learnable gap."""
    (folder / "pair.yaml").write_text(SWEEP)
    file = parse(CLAIM, folder / "mine.yaml")
    (plan,) = plans(file, file.sweeps).values()
    store = Store(folder / "runs" / "pair")
    store.begin(plan, [], force=False)
    gap = records.LOSSES.guess - records.LOSSES.floor
    for config, fraction in zip(plan.configs.values(), fractions, strict=True):
        store.write(records.done(config, records.LOSSES.guess - fraction * gap))
    (found,) = evaluate.judged(file, file.claims, folder / "runs")
    stored = store.records().values()
    assert [record.verdict.outcome for record in stored if record.verdict] == [
        Outcome.LEARNED if fraction >= 0.03 else Outcome.PLATEAU for fraction in fractions
    ]
    return found


@pytest.mark.parametrize(
    ("fractions", "word", "threshold"),
    [
        ((0.5, 0.4, 0.3), Word.HOLDS, ""),
        ((0.5, 0.4, 0.04), Word.HOLDS, "with a threshold of 5 % of the learnable gap: inconclusive"),
        ((0.04, 0.04, 0.04), Word.HOLDS, "with a threshold of 5 % of the learnable gap: refuted"),
        ((0.025, 0.4, 0.4), Word.INCONCLUSIVE, "with a threshold of 2 % of the learnable gap: holds"),
        ((0.01, 0.01, 0.01), Word.REFUTED, ""),
    ],
)
def test_the_threshold_is_told_where_it_matters(
    fractions: tuple[float, ...], word: Word, threshold: str, tmp_path: Path
) -> None:
    found = verdict(tmp_path, *fractions)
    assert (found.word, found.threshold) == (word, threshold)
    assert set(found.by_threshold) == {"2 %", "5 %"}
