"""A pack restores its sweep, and packing again loses nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import records as made
from commandline import invoke
from packs import carried, copied, ended, plain

from normexp.analysis import frames
from normexp.config.plan import Plan
from normexp.errors import UserError
from normexp.plots.choice import Choice, Source
from normexp.plots.runs import loss_curves, signal
from normexp.records.record import RunRecord, Traces
from normexp.report import report
from normexp.runner.run_selection import Options, work_of
from normexp.storage import codec
from normexp.storage import packs as packing
from normexp.storage.packs import pack, unpack
from normexp.storage.store import CURVE, DEATH, LAYERS, LOG, MANIFEST, PACK, RUN, RUNS, SWEEP, Store
from normexp.terminal import repro


@pytest.fixture
def store(tmp_path: Path, plan: Plan) -> Store:
    return ended(tmp_path / "here", plan)


def test_a_restored_sweep_gives_the_same_tables_and_figures_and_has_nothing_to_do(
    store: Store, plan: Plan, tmp_path: Path
) -> None:
    packed = pack(store)
    assert (packed.runs, packed.warnings) == (4, ())
    assert packed.size_bytes == packed.path.stat().st_size
    other = Store(unpack(carried(store, tmp_path)).folder)
    for run_id in plan.configs:
        for name in (RUN, LOG):
            assert (other.folder / RUNS / run_id / name).read_bytes() == (
                store.folder / RUNS / run_id / name
            ).read_bytes()
        for name in (CURVE, LAYERS, DEATH):
            assert (other.folder / RUNS / run_id / name).exists() == (store.folder / RUNS / run_id / name).exists()
        there, here = other.traces(run_id), store.traces(run_id)
        for part in ("curve", "layers", "death_layers"):
            assert plain(getattr(there, part)) == plain(getattr(here, part))
    for name in (SWEEP, MANIFEST):
        assert (other.folder / name).read_bytes() == (store.folder / name).read_bytes()
    assert report.read(other).markdown == report.read(store).markdown
    drawn = []
    for one in (store, other):
        records = one.records()
        source = Source(plan=plan, records=records, runs=frames.runs(plan, records), traces=one.traces)
        drawn.append([figure(source, Choice()).data.to_csv() for figure in (loss_curves, signal)])
    assert drawn[0] == drawn[1]
    work = work_of(plan, other, other.records(), Options(out=tmp_path / "there", jobs=1))
    assert (work.done, work.failed, work.todo) == (3, 1, [])


def test_equal_runs_give_equal_packs(store: Store, tmp_path: Path) -> None:
    pack(store)
    first = (store.folder / PACK).read_bytes()
    target = carried(store, tmp_path)
    pack(Store(unpack(target).folder))
    assert target.read_bytes() == first


def test_a_damaged_run_is_left_out_with_a_warning(store: Store, plan: Plan) -> None:
    run_id = next(iter(plan.configs))
    (store.folder / RUNS / run_id / RUN).write_text("{")
    packed = pack(store)
    assert packed.runs == 3
    assert run_id in packed.warnings[0]
    done = invoke("pack", store.folder)
    assert (done.code, run_id in done.err, ": 3 runs, " in done.out) == (1, True, True)
    shutil.rmtree(store.folder / RUNS / run_id)
    assert invoke("pack", store.folder).code == 0


def test_runs_without_a_curve_and_with_weights_are_packed_without_either(
    store: Store, plan: Plan, tmp_path: Path
) -> None:
    config = next(iter(plan.configs.values()))
    record: RunRecord = replace(made.done(config, 1.9), weights=b"not packed", traces=Traces(curve=()))
    store.write(record)
    pack(store)
    other = Store(unpack(carried(store, tmp_path)).folder)
    assert other.weights(config.run_id)[1] is None
    assert json.loads((other.folder / RUNS / config.run_id / RUN).read_text())["run_id"] == config.run_id
    assert other.traces(config.run_id).curve == []


def test_traces_of_another_sweep_are_packed_once_and_restored(store: Store, plan: Plan, tmp_path: Path) -> None:
    other = copied(store, plan)
    alone = pack(other)
    both = [store, other]
    pack(store, both)
    together = pack(other, both)
    assert together.size_bytes < 0.8 * alone.size_bytes
    files = {
        run_id: {p.name: p.read_bytes() for p in (other.folder / RUNS / run_id).iterdir()}
        for run_id in plan.configs
        if (other.folder / RUNS / run_id).exists()
    }
    for from_pack in (True, False):
        there = tmp_path / f"there {from_pack}" / "other"
        there.mkdir(parents=True)
        shutil.copy(other.folder / PACK, there)
        with pytest.raises(UserError, match=f"{there.parent / store.folder.name}.*pack"):
            unpack(there / PACK)
        shutil.copytree(store.folder, there.parent / store.folder.name)
        if not from_pack:
            (there.parent / store.folder.name / PACK).unlink()
        assert unpack(there / PACK).runs == len(files)
        for run_id, contents in files.items():
            for name, content in contents.items():
                new = (there / RUNS / run_id / name).read_bytes()
                if name == CURVE:
                    assert plain(codec.curve_from_csv(new.decode())) == plain(codec.curve_from_csv(content.decode()))
                elif name in (RUN, LOG):
                    assert new == content


def test_a_changed_copy_is_not_referred_to(store: Store, plan: Plan, tmp_path: Path) -> None:
    other = copied(store, plan)
    run_id, config = next(iter(plan.configs.items()))
    store.write(made.done(config, 1.7))
    pack(other, [store, other])
    there = tmp_path / "there"
    shutil.copytree(store.folder.parent, there)
    shutil.rmtree(there / "other" / RUNS)
    unpack(there / "other" / PACK)
    assert (there / "other" / RUNS / run_id / RUN).read_bytes() == (other.folder / RUNS / run_id / RUN).read_bytes()
    assert plain(Store(there / "other").traces(run_id).curve) == plain(other.traces(run_id).curve)
    Store(there / store.folder.name).write(made.done(list(plan.configs.values())[1], 1.6))
    shutil.rmtree(there / "other" / RUNS)
    with pytest.raises(UserError, match=str(there / store.folder.name)):
        unpack(there / "other" / PACK)


def test_packing_again_keeps_the_runs_that_only_the_pack_has(store: Store, plan: Plan, tmp_path: Path) -> None:
    other = copied(store, plan)
    run_ids = list(plan.configs)
    for one in (store, other):
        pack(one, [store, other])
    before = {name: (store.folder / RUNS / run_ids[0] / name).read_bytes() for name in (LOG, LAYERS)}
    for one in (store, other):
        shutil.rmtree(one.folder / RUNS / run_ids[0])
        (one.folder / RUNS / run_ids[1] / RUN).write_text("{")
    changed = made.done(plan.configs[run_ids[0]], 1.7)
    assert pack(other).runs == 3, "with the traces that the other pack has"
    store.write(changed)
    assert pack(store).runs == 4
    path = carried(other, tmp_path)
    assert unpack(path).runs == 3
    new = {name: (path.parent / RUNS / run_ids[0] / name).read_bytes() for name in before}
    assert new[LOG] == before[LOG]
    layers = [plain(codec.signal_from_csv(text[LAYERS].decode())) for text in (new, before)]
    assert layers[0] == layers[1]
    assert Store(path.parent).traces(run_ids[0]).curve[-1].val_loss == 1.9
    assert Store(path.parent).records()[run_ids[1]].result is not None


def test_orphaned_runs_leave_the_pack_once_they_are_in_the_folder(store: Store, plan: Plan) -> None:
    pack(store)
    fewer = made.plan({"norm": ["ln"], "lr": [1e-3, 1e-2]}, depth=2)
    store.begin(fewer, ["sweep"], force=False)
    shutil.rmtree(store.folder / RUNS / list(plan.configs)[2])
    assert pack(store).runs == 3, "the third would be lost"
    unpack(store.folder / PACK)
    assert pack(store).runs == 2


def test_a_run_that_is_being_written_is_left_out_with_a_warning(
    store: Store, plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver removes run.json first, and writes it last."""
    lost, written = list(plan.configs)[:2]
    read_those = packing.read_those

    def meanwhile(folder: Path, names: Sequence[str]) -> dict[str, bytes]:
        if folder.name == lost:
            (folder / RUN).unlink(missing_ok=True)
        found = read_those(folder, names)
        if folder.name == written and CURVE in names:
            store.write(made.done(plan.configs[written], 1.7))
        return found

    monkeypatch.setattr(packing, "read_those", meanwhile)
    packed = pack(store)
    assert packed.runs == 2
    assert [run_id in warning for run_id, warning in zip((lost, written), packed.warnings, strict=True)] == [True, True]
    assert "is being written" in packed.warnings[0]
    assert unpack(carried(store, tmp_path)).runs == 2


def test_an_unpacked_run_is_reproduced_but_for_its_gradient_norms(store: Store, plan: Plan, tmp_path: Path) -> None:
    pack(store)
    other = Store(unpack(carried(store, tmp_path)).folder)
    for run_id in list(plan.configs)[:3]:
        stored, now = other.read(run_id), store.read(run_id)
        assert stored is not None
        assert now is not None
        assert now.traces is not None
        assert repro.identical(stored, now)
        line = repro.verdict(stored, now)[0]
        assert [fact for fact in ("bit-identical", "gradient norms") if fact not in line] == []
        assert "gradient" not in repro.verdict(now, now)[0]
        rows = list(now.traces.curve)
        rows[5] = replace(rows[5], train_loss=0.0)
        assert "step 5: " in repro.verdict(stored, replace(now, traces=Traces(curve=rows)))[0]
        assert not repro.identical(now, stored), "gradient norms missing now are a difference"


def test_a_damaged_older_pack_stops_packing(store: Store) -> None:
    path = store.folder / PACK
    path.write_bytes(b"no archive")
    with pytest.raises(UserError) as fault:
        pack(store)
    assert str(path) in fault.value.complaints[0]
    assert "remove" in fault.value.complaints[1]
    assert path.read_bytes() == b"no archive"
    path.unlink()
    assert pack(store).runs == 4
