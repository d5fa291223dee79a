"""Packs: what comes back is what was there, damage is told, and nothing is overwritten."""

from __future__ import annotations

import io
import json
import lzma
import shutil
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import records as made
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from normexp.cli.app import app
from normexp.errors import UserError
from normexp.plan import Plan
from normexp.record import CurveRow, RunRecord, SignalRow, Status, Traces
from normexp.results import codec, compact, library
from normexp.results import pack as packing
from normexp.results.pack import pack, unpack
from normexp.results.store import CURVE, DEATH, LAYERS, LOG, MANIFEST, PACK, RUN, RUNS, SWEEP, Store
from normexp.views import report, repro, tables
from normexp.views.figures.choice import Choice, Source
from normexp.views.figures.curves import loss_curves
from normexp.work import Options, work_of

NUMBERS = st.floats() | st.floats(width=32) | st.integers(-3, 3).map(float)
CURVES = st.lists(
    st.builds(
        CurveRow,
        step=st.integers(0, 9) | st.integers(0, 10**9),
        lr=st.none() | st.sampled_from([1e-3, 3e-4]) | NUMBERS,
        train_loss=st.none() | NUMBERS,
        grad_norm=st.none() | NUMBERS,
        val_loss=st.none() | NUMBERS,
    ),
    max_size=12,
)
SIGNALS = st.lists(
    st.builds(
        SignalRow,
        step=st.integers(0, 10**6),
        layer=st.integers(0, 99),
        part=st.sampled_from(["stream", "mixer", "1.5s"]),
        quantity=st.sampled_from(["rms", "grad_norm", "leak"]),
        value=NUMBERS,
    ),
    max_size=12,
)


def plain(rows: Sequence[CurveRow] | Sequence[SignalRow]) -> list[str]:
    """Rows without what a pack leaves out; NaN equals NaN."""
    kept = [replace(row, grad_norm=None) if isinstance(row, CurveRow) else row for row in rows]
    return [repr(row) for row in kept if not (isinstance(row, SignalRow) and row.quantity == "grad_norm")]


@given(CURVES)
@settings(deadline=None)
def test_curves_come_back_to_the_last_digit(rows: list[CurveRow]) -> None:
    text = compact.to_curve(compact.from_curve(codec.curve_to_csv(rows)))
    assert plain(codec.curve_from_csv(text)) == plain(rows)
    assert codec.curve_to_csv(codec.curve_from_csv(text)) == text


@given(SIGNALS)
@settings(deadline=None)
def test_layers_come_back_to_the_last_digit(rows: list[SignalRow]) -> None:
    text = compact.to_layers(compact.from_layers(codec.signal_to_csv(rows)))
    assert plain(codec.signal_from_csv(text)) == plain(rows)
    assert codec.signal_to_csv(codec.signal_from_csv(text)) == text


def test_single_precision_takes_few_digits() -> None:
    row = CurveRow(step=1, lr=1e-3, train_loss=4.311762809753418, grad_norm=0.9572846484316849, val_loss=None)
    other = replace(row, step=2, train_loss=4.3117628)
    short = compact.from_curve(codec.curve_to_csv([row, other]))
    assert short.splitlines()[1:] == ["1,0.001,4.311763s,,", ",,4.3117628,,"]


HEADER = "step,lr,train_loss,grad_norm,val_loss\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "line 1 is not step"),
        ("step\n", "line 1 is not step"),
        (f"{HEADER},0.1,1.0,,\n", "line 2 follows no step"),
        (f"{HEADER}1,0.1,1.0,\n", "line 2 has 4 cells, not 5"),
        (f"{HEADER}1,0.1,1.0,,", "line 2 has no end"),
    ],
)
def test_what_is_no_curve_is_refused(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        compact.to_curve(text)


@pytest.fixture
def plan() -> Plan:
    return made.plan({"norm": ["ln", "none"], "lr": [1e-3, 1e-2]}, depth=2)


@pytest.fixture
def store(tmp_path: Path, plan: Plan) -> Store:
    """A sweep with runs that learned, died and failed."""
    store = Store(tmp_path / "here" / plan.folder)
    store.begin(plan, ["sweep", "made_up.yaml"], force=False)
    ends = ("1.9", "2.5", "nan@12", Status.FAILED.value)
    for config, how in zip(plan.configs.values(), ends, strict=True):
        record = made.end(config, how)
        assert record is not None
        store.write(record)
    return store


def carried(store: Store, tmp_path: Path) -> Path:
    """The pack alone, in the folder of another machine."""
    target = tmp_path / "there" / store.folder.name / PACK
    target.parent.mkdir(parents=True)
    shutil.copy(store.folder / PACK, target)
    return target


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
        source = Source(plan=plan, records=records, runs=tables.runs(plan, records), traces=one.traces)
        drawn.append(loss_curves(source, Choice()).data.to_csv())
    assert drawn[0] == drawn[1]
    work = work_of(plan, other, other.records(), Options(out=tmp_path / "there", jobs=1))
    assert (work.done, work.failed, work.todo) == (3, 1, [])


def test_equal_runs_give_equal_packs(store: Store, tmp_path: Path) -> None:
    pack(store)
    first = (store.folder / PACK).read_bytes()
    target = carried(store, tmp_path)
    pack(Store(unpack(target).folder))
    assert target.read_bytes() == first


def test_what_is_there_stays(store: Store, plan: Plan, tmp_path: Path) -> None:
    pack(store)
    run_ids = list(plan.configs)
    here = {run_id: (store.folder / RUNS / run_id / RUN) for run_id in run_ids}
    other = replace(made.done(plan.configs[run_ids[0]], 1.7), log="another\n")
    store.write(other)
    (store.folder / SWEEP).write_text("changed\n")
    here[run_ids[1]].unlink()
    text = here[run_ids[0]].read_text()
    restored = unpack(store.folder / PACK)
    assert (restored.runs, restored.kept) == (1, 3)
    assert here[run_ids[0]].read_text() == text
    assert store.log(run_ids[0]) == "another\n"
    assert (store.folder / SWEEP).read_text() == "changed\n"
    assert here[run_ids[1]].exists()


def test_a_run_that_cannot_be_used_is_left_out_and_told(store: Store, plan: Plan) -> None:
    run_id = next(iter(plan.configs))
    (store.folder / RUNS / run_id / RUN).write_text("{")
    packed = pack(store)
    assert packed.runs == 3
    assert run_id in packed.warnings[0]


def remade(path: Path, change: dict[str, bytes | None]) -> None:
    """A whole pack with some members changed, added or (None) lost."""
    files = {}
    with tarfile.open(path, "r:xz") as tar:
        for member in tar:
            content = tar.extractfile(member)
            assert content is not None
            files[member.name] = content.read()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz") as tar:
        for name, data in {**files, **change}.items():
            if data is not None:
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    path.write_bytes(buffer.getvalue())


def refused(path: Path, told: str) -> None:
    before = sorted(path.parent.rglob("*"))
    with pytest.raises(UserError, match=told) as fault:
        unpack(path)
    assert f"{path} is damaged" in fault.value.complaints[0]
    assert sorted(path.parent.rglob("*")) == before


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_changed_byte_or_a_lost_end_is_told(store: Store, tmp_path: Path, share: float) -> None:
    pack(store)
    path = carried(store, tmp_path)
    data = bytearray(path.read_bytes())
    path.write_bytes(data[: int(share * len(data))])
    refused(path, "nothing of it was restored")
    data[int(share * len(data))] ^= 0x55
    path.write_bytes(data)
    refused(path, "nothing of it was restored")


def test_a_pack_that_is_none_is_told(store: Store, plan: Plan, tmp_path: Path) -> None:
    pack(store)
    path = carried(store, tmp_path)
    whole = path.read_bytes()
    one, other = list(plan.configs)[:2]
    text = (store.folder / RUNS / other / RUN).read_bytes()
    cases: list[tuple[dict[str, bytes | None], str]] = [
        ({MANIFEST: None}, "it lacks manifest.json"),
        ({MANIFEST: b"{}"}, "not a normexp manifest"),
        ({"../../evil.txt": b"x"}, "'../../evil.txt' has no place in it"),
        ({f"{RUNS}/{one}/weights.safetensors": b"x"}, "has no place in it"),
        ({f"{RUNS}/{one}/{RUN}": None}, f"it lacks run.json of {one}"),
        ({f"{RUNS}/{one}/{RUN}": text}, f"the config of {one} is that of {other}"),
        ({f"{RUNS}/{one}/{RUN}": b"[]"}, "not a JSON object"),
        ({f"{RUNS}/{one}/{CURVE}": b"step\n1\n"}, "line"),
        ({f"{RUNS}/{one}/{LAYERS}": b"\xff"}, "utf-8"),
    ]
    for change, told in cases:
        path.write_bytes(whole)
        remade(path, change)
        refused(path, told)
    path.write_bytes(lzma.compress(b"no tar"))
    refused(path, "nothing of it was restored")
    path.write_bytes(whole)
    assert unpack(path).runs == 4


def test_a_folder_in_use_is_left_alone(store: Store) -> None:
    pack(store)
    with store.lock(), pytest.raises(UserError, match="in use"):
        unpack(store.folder / PACK)


def test_the_commands_take_a_sweep_or_a_folder_of_sweeps(store: Store, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["pack", str(store.folder.parent)])
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{store.folder / PACK}: 4 runs, {(store.folder / PACK).stat().st_size / 1e6:.2f} MB\n"
    target = carried(store, tmp_path)
    assert library.waiting(tmp_path / "there") == [target]
    done = CliRunner().invoke(app, ["unpack", str(target.parent)])
    assert done.stdout == f"{target.parent}: 4 runs restored from {PACK}\n"
    assert library.waiting(tmp_path / "there") == []
    again = CliRunner().invoke(app, ["unpack", str(tmp_path / "there")])
    assert again.stdout == f"{target.parent}: 0 runs restored from {PACK}, 4 there already\n"
    for command in ("pack", "unpack"):
        nothing = CliRunner().invoke(app, [command, str(tmp_path)])
        assert nothing.exit_code != 0
        assert isinstance(nothing.exception, UserError)


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


def copied(store: Store, plan: Plan) -> Store:
    """The same plan beside it, its runs copied as a sweep does."""
    other = Store(store.folder.parent / "other")
    other.begin(plan, ["sweep", "made_up.yaml"], force=False)
    for run_id in plan.configs:
        if (store.records()[run_id]).status is Status.DONE:
            other.copy_from(store, run_id)
    return other


def test_what_another_sweep_has_is_packed_once_and_comes_back(store: Store, plan: Plan, tmp_path: Path) -> None:
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
        with pytest.raises(UserError, match="put its pack there, too"):
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


def test_a_copy_that_has_changed_since_is_not_taken_for_the_same(store: Store, plan: Plan, tmp_path: Path) -> None:
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
    with pytest.raises(UserError, match="has not got it"):
        unpack(there / "other" / PACK)


def test_an_interrupted_unpack_goes_on(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack(store)
    path = carried(store, tmp_path)
    written: list[Path] = []

    def until_the_second(folder: Path, files: dict[str, bytes], last: str) -> None:
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(folder)
        write(folder, files, last)

    write = packing._write
    monkeypatch.setattr(packing, "_write", until_the_second)
    with pytest.raises(KeyboardInterrupt):
        unpack(path)
    monkeypatch.undo()
    assert len(Store(path.parent).ended()) == 2
    assert not (path.parent / MANIFEST).exists(), "it would count as a whole sweep"
    assert library.waiting(path.parent.parent) == [path]
    restored = unpack(path)
    assert (restored.runs, restored.kept) == (2, 2)
    assert library.waiting(path.parent.parent) == []
    assert len(Store(path.parent).records()) == 4


def test_a_pack_waits_while_its_folder_lacks_a_run_of_it(store: Store, plan: Plan) -> None:
    path = pack(store).path
    assert library.waiting(store.folder) == []
    shutil.rmtree(store.folder / RUNS / list(plan.configs)[3])
    assert library.waiting(store.folder) == [path]
    unpack(path)
    assert library.waiting(store.folder) == []


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


def test_what_no_point_asks_for_leaves_the_pack_once_it_is_in_the_folder(store: Store, plan: Plan) -> None:
    pack(store)
    fewer = made.plan({"norm": ["ln"], "lr": [1e-3, 1e-2]}, depth=2)
    store.begin(fewer, ["sweep"], force=False)
    shutil.rmtree(store.folder / RUNS / list(plan.configs)[2])
    assert pack(store).runs == 3, "the third would be lost"
    unpack(store.folder / PACK)
    assert pack(store).runs == 2


def test_a_run_that_is_being_written_is_left_out_and_told(
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
        told = repro.verdict(stored, now)[0]
        assert told.startswith("bit-identical over ")
        assert told.endswith("; gradient norms are not stored (packing leaves them out) and were not compared")
        assert "gradient" not in repro.verdict(now, now)[0]
        rows = list(now.traces.curve)
        rows[5] = replace(rows[5], train_loss=0.0)
        assert repro.verdict(stored, replace(now, traces=Traces(curve=rows)))[0].startswith("differs first at step 5: ")
        assert not repro.identical(now, stored), "norms that are not made now are a difference"
