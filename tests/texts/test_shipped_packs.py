"""The packs of results/: their runs give the verdicts that the claims files expect, and train to the same losses."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from normexp import api
from normexp.claims import evaluate
from normexp.claims.claim import Claim, Kind, Word
from normexp.claims.files import choose, shipped
from normexp.records.numerics import numerics
from normexp.records.record import COMPARED, CurveRow, RunRecord
from normexp.storage import packs
from normexp.storage.codec import record_from_json
from normexp.storage.store import PACK, RUN, RUNS, Store

RESULTS = Path(__file__).parents[2] / "results"
QUICKLY_RESTORED = {"article": ("5.1", "5.2-deep", "6.2-depth"), "papers": ("deep", "norms", "shallow", "warmup")}
"""Small packs whose runs judge several claims by themselves."""
INITIAL_STEPS, TOLERANCE = 20, 1e-5
"""Another processor or path rounds differently. Over these steps, losses then differ by 1e-7, a unit in the last place
of float32, in networks of 2 to 20 layers; the tolerance is a hundred times that. Later steps are not compared, because
training multiplies a difference from step to step."""
LAYER_STEPS = 10_000
"""In the same circumstances, this many steps times depth have the same bits, or all steps of a shorter run."""


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


def unexpected(text: str, sweeps: Iterable[str], chosen: Sequence[Claim], folder: Path) -> dict[str, str]:
    """Judge claims from the packs of these sweeps, and return the verdicts that the claims file does not expect.

    A claim without an expected verdict lacks runs.
    """
    verdicts = evaluate.judged(choose([text])[0], chosen, restored(text, sweeps, folder), warn=pytest.fail)
    wrong = [verdict for verdict in verdicts if verdict.word not in expected_words(verdict.claim)]
    return {verdict.claim.id: f"{verdict.text}, expected {verdict.claim.expected}" for verdict in wrong}


def expected_words(claim: Claim) -> Collection[Word]:
    return claim.expected.words if claim.expected else [Word.NOT_ENOUGH]


def about_runs(text: str) -> list[Claim]:
    return [claim for claim in choose([text])[1] if claim.kind is Kind.SWEEP]


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
    names = QUICKLY_RESTORED[text]
    chosen = [claim for claim in about_runs(text) if set(claim.sweeps) <= set(names)]
    assert {name for claim in chosen for name in claim.sweeps} == set(names)
    assert unexpected(text, names, chosen, tmp_path) == {}


@pytest.mark.slow
@pytest.mark.parametrize("text", ["article", "papers"])
def test_all_packs_give_the_expected_verdicts(text: str, tmp_path: Path) -> None:
    assert unexpected(text, packed_sweeps(text), about_runs(text), tmp_path) == {}


def shortest(records: Iterable[RunRecord]) -> RunRecord:
    """Return the float32 run with the fewest steps times layers: 16-bit steps are slow, and always made by autograd."""
    finished = [record for record in records if record.result is not None and record.config.dtype == "float32"]
    return min(finished, key=lambda record: record.config.depth * record.config.steps)


def retrained(stored: RunRecord, steps: int) -> RunRecord:
    """Train the first steps of a stored run again, on the path that it names."""
    config = stored.config
    if config.schedule == "constant":  # the learning rates of other schedules depend on the number of steps
        config = replace(config, steps=min(config.steps, max(INITIAL_STEPS, steps)))
    return api.run(config, path=stored.repeated_by)


def same_circumstances(stored: RunRecord, now: RunRecord) -> bool:
    """Return whether both runs name the same versions, path and processor. Older runs name no processor."""
    return all(stored.made_with.get(name) == now.made_with[name] for name in COMPARED if name in now.made_with)


def losses(curve: Iterable[CurveRow]) -> list[tuple[int, float | None]]:
    return [(row.step, row.train_loss) for row in curve]


@pytest.mark.slow
@pytest.mark.parametrize(("text", "sweep"), [(text, name) for text in shipped() for name in packed_sweeps(text)])
def test_a_stored_run_of_each_pack_trains_to_the_same_losses(text: str, sweep: str, tmp_path: Path) -> None:
    store = Store(restored(text, [sweep], tmp_path) / sweep)
    record = shortest(store.records().values())
    stored = replace(record, traces=store.traces(record.run_id, record.result))
    now = retrained(stored, INITIAL_STEPS)
    assert stored.traces is not None
    assert now.traces is not None
    if same_circumstances(stored, now):
        now = retrained(stored, LAYER_STEPS // stored.config.depth)
        assert now.traces is not None
        before, after = losses(stored.traces.curve), losses(now.traces.curve)
        assert after == before[: len(after)], stored.run_id
        return
    before, after = losses(stored.traces.curve), losses(now.traces.curve)
    for (step, loss), (other_step, other_loss) in zip(before[1:], after[1 : INITIAL_STEPS + 1], strict=False):
        assert (other_step, other_loss) == (step, pytest.approx(loss, rel=TOLERANCE)), stored.run_id
