"""The packs of results/: their runs give the verdicts that the claims files expect, and train to the same losses."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from normexp import api
from normexp.claims import evaluate
from normexp.claims.claim import Kind
from normexp.claims.files import choose, shipped
from normexp.records.numerics import numerics
from normexp.records.record import COMPARED, CurveRow, RunRecord
from normexp.storage import packs
from normexp.storage.codec import record_from_json
from normexp.storage.store import PACK, RUN, RUNS, Store

RESULTS = Path(__file__).parents[2] / "results"
QUICKLY_RESTORED = {"article": ("5.1", "5.2-deep", "6.2-depth"), "papers": ("deep", "norms", "shallow", "warmup")}
"""Small packs whose runs judge several claims by themselves."""
LAYER_STEPS = 10_000
"""Retrained steps times depth: about ten seconds. A shorter run is retrained to its end."""
INITIAL_STEPS, TOLERANCE = 20, 1e-3
"""Another processor or path rounds differently. Its losses agree within this relative tolerance at first; later they
may not, because training multiplies a difference at every step."""


def packed_sweeps(text: str) -> list[str]:
    return sorted(path.parent.name for path in (RESULTS / text).glob(f"*/{PACK}"))


def packed_records(path: Path) -> list[RunRecord]:
    """Read the records of a pack, which come before all other files of its runs."""
    records = []
    for name, content in packs.files_of(path):
        if name.endswith(f"/{RUN}"):
            records.append(record_from_json(content.decode()))
        elif name.startswith(f"{RUNS}/"):
            break
    return records


def restored(text: str, sweeps: Iterable[str], folder: Path) -> Path:
    """Copy the packs of a text, restore some of them, and return their folder. Results/ is only read."""
    for name in packed_sweeps(text):  # a pack may refer to another one
        (folder / text / name).mkdir(parents=True)
        shutil.copy(RESULTS / text / name / PACK, folder / text / name / PACK)
    for name in sweeps:
        packs.unpack(folder / text / name / PACK)
    return folder / text


def unexpected(text: str, sweeps: Iterable[str], folder: Path) -> tuple[int, dict[str, str]]:
    """Judge the claims that need these sweeps only; return their number, and the verdicts that differ from the file."""
    names = set(sweeps)
    file, claims, _ = choose([text])
    chosen = [claim for claim in claims if claim.kind is Kind.SWEEP and set(claim.sweeps) <= names]
    verdicts = evaluate.judged(file, chosen, restored(text, names, folder), warn=pytest.fail)
    wrong = [verdict for verdict in verdicts if str(verdict.word) != str(verdict.claim.expected)]
    return len(chosen), {verdict.claim.id: f"{verdict.text}, expected {verdict.claim.expected}" for verdict in wrong}


def test_every_text_has_packs() -> None:
    assert {text for text in shipped() if packed_sweeps(text)} == {"article", "papers"}
    for text, names in QUICKLY_RESTORED.items():
        assert set(names) <= set(packed_sweeps(text))


@pytest.mark.parametrize(("text", "sweep"), [(text, name) for text in shipped() for name in packed_sweeps(text)])
def test_no_packed_run_is_outdated(text: str, sweep: str) -> None:
    records = packed_records(RESULTS / text / sweep / PACK)
    assert records
    assert [record.run_id for record in records if record.numerics != numerics(record.config)] == []


@pytest.mark.parametrize("text", ["article", "papers"])
def test_small_packs_give_the_expected_verdicts(text: str, tmp_path: Path) -> None:
    count, wrong = unexpected(text, QUICKLY_RESTORED[text], tmp_path)
    assert count > 0
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("text", ["article", "papers"])
def test_all_packs_give_the_expected_verdicts(text: str, tmp_path: Path) -> None:
    count, wrong = unexpected(text, packed_sweeps(text), tmp_path)
    assert count == sum(claim.kind is Kind.SWEEP for claim in choose([text])[1])
    assert not wrong


def shortest(records: Iterable[RunRecord]) -> RunRecord:
    """Return the float32 run with the fewest steps times layers: 16-bit steps are slow, and always made by autograd."""
    finished = [record for record in records if record.result is not None and record.config.dtype == "float32"]
    return min(finished, key=lambda record: record.config.depth * record.config.steps)


def retrained(stored: RunRecord) -> RunRecord:
    """Train the first steps of a stored run again, on the path that it names."""
    config = stored.config
    if config.schedule == "constant":  # other schedules depend on the number of steps
        config = replace(config, steps=min(config.steps, max(1, LAYER_STEPS // config.depth)))
    return api.run(config, path=stored.repeated_by)


def same_circumstances(one: RunRecord, other: RunRecord) -> bool:
    """Return whether both runs name the same versions, processor and path. Older records do not name the processor."""
    named = [name for name in COMPARED if name in one.made_with]
    return all(one.made_with[name] == other.made_with.get(name) for name in named)


def losses(curve: Iterable[CurveRow]) -> list[tuple[int, float | None]]:
    return [(row.step, row.train_loss) for row in curve]


@pytest.mark.slow
@pytest.mark.parametrize(("text", "sweep"), [(text, name) for text in shipped() for name in packed_sweeps(text)])
def test_a_stored_run_of_each_pack_trains_to_the_same_losses(text: str, sweep: str, tmp_path: Path) -> None:
    store = Store(restored(text, [sweep], tmp_path) / sweep)
    record = shortest(store.records().values())
    stored = replace(record, traces=store.traces(record.run_id, record.result))
    now = retrained(stored)
    assert stored.traces is not None
    assert now.traces is not None
    before, after = losses(stored.traces.curve), losses(now.traces.curve)
    assert len(after) > INITIAL_STEPS
    if same_circumstances(stored, now):
        assert [pair for pair in zip(before, after, strict=False) if pair[0] != pair[1]] == [], stored.run_id
        final = now.traces.evaluations[-1]
        assert len(after) < len(before) or final == stored.traces.evaluations[-1]
        return
    for (step, loss), (other_step, other_loss) in list(zip(before, after, strict=False))[1 : INITIAL_STEPS + 1]:
        assert step == other_step
        assert other_loss == pytest.approx(loss, rel=TOLERANCE), f"{stored.run_id}: step {step}"
