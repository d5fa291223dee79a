"""The results folder: what is written comes back, one driver at a time, and nothing half-written counts."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import re
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import records as made
from hypothesis import given, settings
from hypothesis import strategies as st

from normexp.errors import UserError
from normexp.keys import Key
from normexp.plan import Pivot, Plan, Published
from normexp.record import (
    CurveRow,
    Death,
    Losses,
    Outcome,
    Result,
    RunRecord,
    SignalRow,
    Status,
    Traces,
    Verdict,
)
from normexp.results import codec
from normexp.results.store import StorageError, Store
from normexp.run import KEYS, RunConfig
from normexp.views import report

ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True)
TEXT = st.text(max_size=20)
WORD = st.text(st.characters(exclude_categories=["C", "Z"]), max_size=9)


@pytest.fixture
def plan() -> Plan:
    return made.plan({"norm": ["ln", "none"], "lr": [1e-3, 1e-2]}, depth=2)


@pytest.fixture
def store(tmp_path: Path, plan: Plan) -> Store:
    store = Store(tmp_path / "results" / plan.folder)
    store.begin(plan, ["sweep", "made_up.yaml"], force=False)
    return store


def write_all(store: Store, plan: Plan) -> dict[str, RunRecord]:
    """Every run of the fixture's plan: those without norm are dead."""
    records = {
        run_id: made.dead(config, 12) if config.norm == "none" else made.done(config, 1.9)
        for run_id, config in plan.configs.items()
    }
    for record in records.values():
        store.write(record)
    return records


def same(one: object, other: object) -> bool:
    """Equality in which NaN equals NaN."""
    return repr(one) == repr(other)


def refuse(constant: str) -> float:
    raise AssertionError(f"{constant} is not JSON")


COUNT = st.integers(0, 2**40)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
DEATHS = st.builds(Death, step=st.integers(1, 99), kind=TEXT, where=TEXT, tensor=TEXT, layer=st.integers(0, 99))


def results(
    final: st.SearchStrategy[float | None], death: st.SearchStrategy[Death | None]
) -> st.SearchStrategy[Result]:
    return st.builds(
        Result,
        steps_done=st.integers(0, 10**6),
        losses=st.builds(Losses, floor=st.floats(0, 1), guess=st.floats(2, 5), bigram=FINITE),
        init_val_loss=ANY_FLOAT,
        best_val_loss=st.none() | ANY_FLOAT,
        final_val_loss=final,
        peak_lr=ANY_FLOAT,
        parameters=st.integers(0, 10**12),
        death=death,
    )


def verdicts(outcomes: list[Outcome]) -> st.SearchStrategy[Verdict]:
    thresholds = st.dictionaries(st.sampled_from(["trend", "blown_up"]), ANY_FLOAT)
    return st.builds(
        Verdict, outcome=st.sampled_from(outcomes), rule=TEXT, trend=st.none() | TEXT, thresholds=thresholds
    )


def run_records(statuses: list[Status], **parts: st.SearchStrategy[object]) -> st.SearchStrategy[RunRecord]:
    return st.builds(
        RunRecord,
        config=st.builds(
            RunConfig, lr=st.floats(1e-9, 10), seed=st.integers(0, 2**63 - 1), norm=st.sampled_from(["none", "ln"])
        ),
        status=st.sampled_from(statuses),
        error=st.none() | TEXT,
        seconds=st.dictionaries(st.sampled_from(["data", "total"]), ANY_FLOAT),
        environment=st.dictionaries(TEXT, TEXT | st.integers(-(2**63), 2**63 - 1)),
        numerics=st.integers(0, 9),
        reused_from=st.none() | TEXT,
        **parts,
    )


DONE, DEAD = Status.DONE, Outcome.NONFINITE
RECORDS = st.one_of(
    run_records([status for status in Status if status is not DONE]),
    run_records([DONE], result=results(st.none() | ANY_FLOAT, DEATHS), verdict=verdicts([DEAD])),
    run_records(
        [DONE],
        result=results(FINITE, st.none()),
        verdict=verdicts([outcome for outcome in Outcome if outcome is not DEAD]),
    ),
)


@settings(deadline=None)
@given(RECORDS)
def test_a_record_comes_back_from_strict_json(record: RunRecord) -> None:
    text = codec.record_to_json(record)
    json.loads(text, parse_constant=refuse)
    assert same(codec.record_from_json(text), record)


@settings(deadline=None)
@given(st.lists(st.builds(CurveRow, step=st.integers(0), **dict.fromkeys(codec.CURVE[1:], st.none() | ANY_FLOAT))))
def test_a_curve_comes_back_from_csv(curve: list[CurveRow]) -> None:
    assert same(codec.curve_from_csv(codec.curve_to_csv(curve)), curve)


@settings(deadline=None)
@given(
    st.lists(st.builds(SignalRow, step=st.integers(0), layer=st.integers(0), part=WORD, quantity=WORD, value=ANY_FLOAT))
)
def test_layers_come_back_from_csv(rows: list[SignalRow]) -> None:
    assert same(codec.signal_from_csv(codec.signal_to_csv(rows)), rows)


def values_of(key: Key) -> st.SearchStrategy[object]:
    if key.choices is not None:
        return st.sampled_from(key.choices())
    if key.kind is bool:
        return st.booleans()
    if key.kind is int:
        return st.integers(int(key.low), int(min(key.high, 2**63 - 1)))
    bounds = {"exclude_min": key.low_open, "exclude_max": key.high_open}
    return st.floats(key.low, min(key.high, 1e300), allow_nan=False, **bounds)


@st.composite
def any_configs(draw: st.DrawFn) -> RunConfig:
    names = draw(st.lists(st.sampled_from([*KEYS]), max_size=6, unique=True))
    try:
        return RunConfig(**{name: draw(values_of(KEYS[name])) for name in names})
    except ValueError:  # values that clash
        return RunConfig()


CURVES = st.lists(
    st.builds(CurveRow, step=st.integers(0, 9), **dict.fromkeys(codec.CURVE[1:], st.none() | ANY_FLOAT)), max_size=3
)
ROWS = st.lists(st.builds(SignalRow, step=COUNT, layer=COUNT, part=WORD, quantity=WORD, value=ANY_FLOAT), max_size=3)
TRACES = st.builds(Traces, curve=CURVES, layers=ROWS, death_layers=ROWS)


@settings(deadline=None, max_examples=40)
@given(RECORDS, any_configs(), st.none() | TRACES, st.none() | st.text())
def test_any_record_comes_back_from_its_folder(
    shelf: tuple[Store, dict[Path, str]], record: RunRecord, config: RunConfig, traces: Traces | None, log: str | None
) -> None:
    store = Store(shelf[0].folder.parent / "any")
    (store.folder / "runs").mkdir(parents=True, exist_ok=True)
    record = replace(record, config=config, traces=traces, log=log)
    store.write(record)
    whole = replace(
        record,
        traces=traces or Traces(curve=[], layers=[], death_layers=[]),
        log=(record.error or "") if log is None else log,
    )
    assert same(store.read(record.run_id), whole)
    assert store.warnings == []


def test_numpy_numbers_are_written_as_plain_ones() -> None:
    numpy = pytest.importorskip("numpy")
    row = CurveRow(step=1, lr=numpy.float64(0.1), train_loss=numpy.float64("nan"), grad_norm=None, val_loss=None)
    assert codec.curve_to_csv([row]) == "step,lr,train_loss,grad_norm,val_loss\n1,0.1,nan,,\n"


def test_a_dead_run_is_null_with_a_kind(store: Store, plan: Plan) -> None:
    record = made.dead(plan.points[2].config, 12, kind="inf")
    assert record.result is not None
    store.write(replace(record, result=replace(record.result, final_val_loss=-math.inf)))
    text = (store.folder / "runs" / record.run_id / "run.json").read_text("utf-8")
    stored = json.loads(text, parse_constant=refuse)
    assert (stored["result"]["final_val_loss"], stored["result"]["final_val_loss_kind"]) == (None, "-inf")
    assert stored["result"]["death"]["step"] == 12


def test_everything_written_comes_back(store: Store, plan: Plan) -> None:
    records = write_all(store, plan)
    for run_id, record in records.items():
        assert same(store.read(run_id), record)
    assert same(store.records(), {key: replace(record, traces=None, log=None) for key, record in records.items()})
    assert store.warnings == []


def test_death_csv_is_there_only_for_a_death(store: Store, plan: Plan) -> None:
    for run_id, record in write_all(store, plan).items():
        dead = record.result is not None and record.result.death is not None
        assert (store.folder / "runs" / run_id / "death.csv").exists() == dead


def test_the_plan_comes_back(tmp_path: Path) -> None:
    plan = made.plan(
        {"norm": ["ln", "none"], "lr": [1e-3, 1.0], "residual": [True]},
        label="as written",
        title="dépth α | `x`",
        pivot=Pivot(rows=("norm",), columns=("lr",)),
        published=[Published(where={"norm": "none", "lr": 1.0}, text="NaN", source="Table 1")],
    )
    store = Store(tmp_path / "x")
    store.begin(plan, [], force=False)
    assert store.read_plan() == plan
    manifest = json.loads((store.folder / "manifest.json").read_text("utf-8"), parse_constant=refuse)
    assert manifest["schema"] == 1
    assert [point["run_id"] for point in manifest["points"]] == [point.config.run_id for point in plan.points]


def test_a_younger_key_takes_its_neutral_value(store: Store, plan: Plan) -> None:
    record = made.done(plan.points[0].config, 1.9)
    store.write(record)
    path = store.folder / "runs" / record.run_id / "run.json"
    stored = json.loads(path.read_text("utf-8"))
    del stored["config"]["qk_norm"]
    path.write_text(json.dumps(stored), "utf-8")
    assert store.records()[record.run_id].config == record.config


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda text: text[: len(text) // 2], "Expecting|Unterminated|delimiter"),
        (lambda text: "", "Expecting value"),
        (lambda text: "[1, 2]", "not a JSON object"),
        (lambda text: text.replace('"norm": "ln"', '"norm": "rms"'), "its config is that of"),
        (lambda text: text.replace('"seed": 0', '"seed": 0,\n"flavour": 1'), "unknown keys flavour"),
        (lambda text: text.replace('"status": "done"', '"status": "dome"'), "dome"),
        (lambda text: text.replace('"schema": 1', '"schema": 99'), "newer normexp"),
        (lambda text: text.replace('"init_val_loss": 4.3', '"init_val_loss": NaN'), "NaN is not JSON"),
        (
            lambda text: text.replace('"init_val_loss": 4.3', '"init_val_loss": "4"'),
            "result.init_val_loss: '4' is not a n",
        ),
        (lambda text: text.replace('"data": 0.2', '"data": null'), "seconds.data: None is not a number"),
        (
            lambda text: text.replace('"torch_threads": 1', '"torch_threads": []'),
            r"environment.torch_threads: \[\] is not a",
        ),
        (lambda text: text.replace('"parameters": 123456', '"parameters": 1e3'), "1000.0 is not a whole number"),
        (lambda text: text.replace('"parameters": 123456', '"parameters": 1' + "0" * 30), "whole number of 64 bits"),
        (lambda text: text.replace('"guess": 4.07', '"guess": 1.5'), "nothing to learn"),
        (lambda text: text.replace('"outcome": "learned"', '"outcome": "nonfinite"'), "without a death"),
        (lambda text: text.replace('"final_val_loss": 1.9', '"final_val_loss": null'), "without a final"),
        (lambda text: text.replace('"status": "done"', '"status": "failed"'), "failed with result"),
        (lambda text: re.sub('"numerics": [0-9]+,', "", text), "it has no numerics"),
        (lambda text: "[" * 100_000, "nested too deeply"),
    ],
)
def test_a_garbled_record_is_told_and_pending(store: Store, plan: Plan, damage, told: str) -> None:
    records = write_all(store, plan)
    run_id = next(iter(records))
    path = store.folder / "runs" / run_id / "run.json"
    before = path.read_text("utf-8")
    path.write_text(damage(before), "utf-8")
    assert path.read_text("utf-8") != before
    assert list(store.records()) == list(records)[1:]
    assert len(store.warnings) == 1
    assert str(path) in store.warnings[0]
    assert "pending" in store.warnings[0]
    assert re.search(told, store.warnings[0])


PLAIN = (st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5))
JSON = st.recursive(
    st.one_of(*PLAIN, st.just(10**400), st.just("\ud800"), st.sampled_from(["lr", "norm", "done", "nan"])),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["lr", "x", "step"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def places(value: object) -> list[tuple[dict | list, object]]:
    """Each (holder, key) of a JSON value, holders of holders included."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in list(items) for found in ((value, key), *places(item))]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, dict[Path, str]]:
    """A folder of one run that learned and one dead, and its JSON files."""
    plan = made.plan(
        {"norm": ["ln", "none"], "seed": [0, 1]},
        depth=2,
        pivot=Pivot(rows=("norm",), columns=()),
        published=[Published(where={"norm": "none"}, text="NaN", source="Table 1")],
    )
    store = Store(tmp_path_factory.mktemp("shelf") / plan.folder)
    store.begin(plan, ["sweep"], force=False)
    write_all(store, plan)
    ends = [*store.folder.glob("runs/d2-none*/run.json"), *store.folder.glob("runs/d2-ln*/run.json")]
    return store, {path: path.read_text("utf-8") for path in (store.folder / "manifest.json", ends[0], ends[-1])}


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_any_value_in_a_file_may_be_garbled(shelf: tuple[Store, dict[Path, str]], data: st.DataObject) -> None:
    store, files = shelf
    path = data.draw(st.sampled_from(list(files)))
    content = json.loads(files[path])
    holder, key = data.draw(st.sampled_from(places(content)))
    holder[key] = data.draw(JSON)
    path.write_text(json.dumps(content), "utf-8")
    try:
        for use in (store.read_plan, store.records, lambda: report.rebuild(store)):
            with contextlib.suppress(UserError):
                use()
    finally:
        path.write_text(files[path], "utf-8")


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("schema", "x", "schema: 'x' is not a whole number"),
        ("runs", None, "runs: None is not an object"),
        ("runs", ["x"], "runs: \\['x'\\] is not an object"),
        ("points", [{"label": "", "values": {}, "run_id": 7}], r"points\[0\].run_id: 7 is not a text"),
        ("points", [{"label": "", "values": {}, "run_id": "d2"}], "asks for d2, which is not among the runs"),
        ("axes", ["flavour"], "unknown keys flavour"),
        ("axes", ["norm"], "other axes"),
        ("pivot", {"rows": "lr", "columns": []}, "pivot.rows: 'lr' is not a list"),
        ("title_kind", [], "title_kind"),
    ],
)
def test_a_garbled_manifest_is_told(store: Store, key: str, value: object, told: str) -> None:
    path = store.folder / "manifest.json"
    content = json.loads(path.read_text("utf-8"))
    content |= {key: value} | ({"title": None} if key == "title_kind" else {})
    path.write_text(json.dumps(content), "utf-8")
    with pytest.raises(UserError, match=rf"manifest\.json: .*{told}"):
        store.read_plan()


def test_a_deeply_nested_manifest_is_told(store: Store) -> None:
    (store.folder / "manifest.json").write_text('{"a":' * 100_000)
    with pytest.raises(UserError, match=r"manifest\.json: its JSON is nested too deeply"):
        store.records()


def test_another_sweep_with_garbled_configs_is_refused(store: Store, plan: Plan) -> None:
    write_all(store, plan)
    path = store.folder / "manifest.json"
    path.write_text(path.read_text("utf-8").replace('"width": 64', '"width": "wide"', 1), "utf-8")
    with pytest.raises(UserError, match="width: 64, wide there, 64 now"):
        store.begin(made.plan({"lr": [0.5]}), [], force=False)


def test_a_record_that_is_not_utf8_is_told(store: Store, plan: Plan) -> None:
    run_id = next(iter(write_all(store, plan)))
    (store.folder / "runs" / run_id / "run.json").write_bytes(b"\xff\xfe{")
    assert run_id not in store.records()
    assert len(store.warnings) == 1


def test_a_broken_curve_names_file_and_line(store: Store, plan: Plan) -> None:
    run_id = next(iter(write_all(store, plan)))
    path = store.folder / "runs" / run_id / "curve.csv"
    lines = path.read_text("utf-8").splitlines()
    path.write_text("\n".join([*lines[:101], "100,0.001,4"]), "utf-8")
    with pytest.raises(UserError, match=r"curve\.csv: line 102 has 3 cells, not 5"):
        store.traces(run_id)


def test_a_curve_with_a_huge_cell_names_file_and_line(store: Store, plan: Plan) -> None:
    run_id = next(iter(write_all(store, plan)))
    path = store.folder / "runs" / run_id / "curve.csv"
    path.write_text(path.read_text("utf-8") + "1" * 200_000, "utf-8")
    with pytest.raises(UserError, match=r"curve\.csv: line 103: field larger"):
        store.traces(run_id)


@pytest.mark.parametrize("run_id", ["../../etc", "a/b", "", ".", "..", ".hidden", "a\\b", "x\n"])
def test_no_run_id_leaves_the_folder(store: Store, run_id: str) -> None:
    for use in (store.read, store.traces, store.log):
        with pytest.raises(UserError, match="not a run id"):
            use(run_id)


def test_the_second_driver_is_refused_at_once(store: Store) -> None:
    with store.lock():
        message = rf"results/made_up is in use by pid {os.getpid()} on host .+ since \d{{4}}-"
        with pytest.raises(UserError, match=message), Store(store.folder).lock():
            pass
    with Store(store.folder).lock():
        pass


HOLD = "import sys, time; from pathlib import Path; from normexp.results.store import Store\n" + (
    "with Store(Path(sys.argv[1])).lock(): print('held', flush=True); time.sleep(60)"
)


def test_a_killed_driver_blocks_nobody(store: Store) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(store.folder)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        try:
            with pytest.raises(UserError, match=f"in use by pid {holder.pid} "), store.lock():
                pass
        finally:
            holder.send_signal(signal.SIGKILL)
    assert (store.folder / ".driver.json").exists()
    with store.lock():
        assert json.loads((store.folder / ".driver.json").read_text())["pid"] == os.getpid()
    assert not (store.folder / ".driver.json").exists()


@pytest.mark.parametrize("blocked", ["results", "results/made_up"])
def test_a_file_in_the_way_is_found_before_any_run(tmp_path: Path, plan: Plan, blocked: str) -> None:
    (tmp_path / blocked).parent.mkdir(exist_ok=True)
    (tmp_path / blocked).write_text("in the way")
    store = Store(tmp_path / "results" / "made_up")
    with pytest.raises(UserError, match=r"cannot make .*results/made_up"):
        store.begin(plan, [], force=False)
    with pytest.raises(UserError, match="cannot make"), store.lock():
        pass


@pytest.mark.parametrize("name", ["runs", "manifest.json", "sweep.yaml"])
def test_a_folder_or_file_in_the_place_of_ours_is_told(tmp_path: Path, plan: Plan, name: str) -> None:
    store = Store(tmp_path)
    (tmp_path / name).write_text("x") if name == "runs" else (tmp_path / name / "y").mkdir(parents=True)
    with pytest.raises(UserError, match=str(tmp_path / name)):
        store.begin(plan, [], force=False)


def test_a_folder_of_somebody_else_is_refused_even_by_force(tmp_path: Path, plan: Plan) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    (tmp_path / "manifest.json").write_text('{"name": "a web page"}')
    for force in (False, True):
        with pytest.raises(UserError, match=r"thesis\.tex.*--out"):
            Store(tmp_path).begin(plan, [], force=force)
    with pytest.raises(UserError, match=r"thesis\.tex"), Store(tmp_path).lock():
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.json", "thesis.tex"]


def test_notes_in_a_folder_of_ours_are_no_offence(store: Store, plan: Plan) -> None:
    (store.folder / "notes.txt").write_text("mine")
    store.begin(plan, [], force=False)
    assert (store.folder / "notes.txt").exists()


def test_another_sweep_is_refused_with_a_diff(store: Store, plan: Plan) -> None:
    write_all(store, plan)
    other = made.plan({"norm": ["ln", "rms"], "lr": [3e-3]}, depth=3)
    with pytest.raises(UserError) as refused:
        store.begin(other, [], force=False)
    complaints = "\n".join(refused.value.complaints)
    assert "4 stored runs" in complaints
    assert "depth: 2 there, 3 now" in complaints
    assert "norm: ln, none there, ln, rms now" in complaints
    assert "lr: 0.001, 0.01 there, 0.003 now" in complaints
    assert "width" not in complaints
    assert store.read_plan() == plan
    store.begin(other, [], force=True)
    assert store.read_plan() == other


def test_another_sweep_without_stored_runs_is_no_hindrance(store: Store) -> None:
    other = made.plan({"lr": [3e-3]}, depth=3)
    store.begin(other, [], force=False)
    assert store.read_plan() == other


def test_gained_and_lost_points_continue(store: Store, plan: Plan) -> None:
    records = write_all(store, plan)
    grown = made.plan({"norm": ["ln", "rms"], "lr": [1e-3, 1e-2]}, depth=2)
    store.begin(grown, [], force=False)
    assert list(store.records()) == [point.config.run_id for point in plan.points if point.values["norm"] == "ln"]
    assert store.strays() == sorted(key for key, record in records.items() if record.config.norm == "none")


def test_a_disk_that_is_full(store: Store, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    config = plan.points[0].config
    store.write(made.done(config, 1.9))

    def full(handle: int) -> None:
        if stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match=f"cannot write .*{config.run_id}.*: No space left on device"):
            store.write(made.done(config, 2.5))
    assert store.records() == {}
    assert store.warnings == []
    assert not list(store.folder.rglob("*.tmp"))
    store.write(made.done(config, 2.5))
    assert store.records()[config.run_id].result.final_val_loss == 2.5


def test_a_crash_while_overwriting_leaves_a_pending_run(
    store: Store, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = plan.points[0].config
    store.write(made.done(config, 1.9))

    def crash(text: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(codec, "signal_to_csv", crash)
    with pytest.raises(KeyboardInterrupt):
        store.write(made.done(config, 2.5))
    assert store.records()[config.run_id].result.final_val_loss == 1.9, "nothing had been touched yet"
    monkeypatch.undo()
    replaced = []

    def crash_late(path: Path, target: Path) -> None:
        replaced.append(target.name)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", crash_late)
    with pytest.raises(KeyboardInterrupt):
        store.write(made.done(config, 2.5))
    assert replaced == ["curve.csv"]
    assert store.records() == {}


def test_a_forced_rerun_leaves_nothing_of_the_dead(store: Store, plan: Plan) -> None:
    config = plan.points[2].config
    store.write(made.dead(config, 12))
    store.write(made.done(config, 1.9))
    assert store.traces(config.run_id).death_layers == []
    assert len(store.traces(config.run_id).curve) == made.STEPS + 1


def test_what_a_killed_writer_left_is_removed(store: Store, plan: Plan) -> None:
    run_id = next(iter(write_all(store, plan)))
    left = [store.folder / ".manifest.json.123.tmp", store.folder / "runs" / run_id / ".run.json.123.tmp"]
    for path in left:
        path.write_text("half")
    store.begin(plan, [], force=False)
    assert not any(path.exists() for path in left)
    assert len(store.records()) == 4


def test_reuse_from_another_sweep(store: Store, plan: Plan, tmp_path: Path) -> None:
    root, config = tmp_path / "results", plan.points[0].config
    other = Store(root / "other")
    other.begin(made.plan({"lr": [1e-3]}, depth=2), [], force=False)
    assert store.find_elsewhere(root, config.run_id) is None
    other.write(made.failed(config))
    assert store.find_elsewhere(root, config.run_id) is None
    other.write(made.done(config, 1.9, numerics=0))
    assert store.find_elsewhere(root, config.run_id) is None, "stale"
    record = made.done(config, 1.9)
    other.write(record)
    found = store.find_elsewhere(root, config.run_id)
    assert found is not None
    assert store.copy_from(found, config.run_id) == replace(record, reused_from="other")
    assert same(store.read(config.run_id), replace(record, reused_from="other"))
    assert other.find_elsewhere(root / "nowhere", config.run_id) is None


@pytest.mark.parametrize("content", [None, "step,lr,train_loss,grad_norm,val_loss\n"])
def test_a_run_without_its_curve_is_not_reused(store: Store, plan: Plan, tmp_path: Path, content: str | None) -> None:
    config, other = plan.points[0].config, Store(tmp_path / "results" / "other")
    other.begin(made.plan({"lr": [1e-3]}, depth=2), [], force=False)
    other.write(made.done(config, 1.9))
    path = other.folder / "runs" / config.run_id / "curve.csv"
    path.unlink() if content is None else path.write_text(content, "utf-8")
    with pytest.raises(UserError, match=r"curve\.csv is missing or empty"):
        store.copy_from(other, config.run_id)
    assert store.ended() == set()


def test_its_own_folder_is_not_elsewhere(store: Store, plan: Plan, tmp_path: Path) -> None:
    config = plan.points[0].config
    store.write(made.done(config, 1.9))
    assert store.find_elsewhere(tmp_path / "results", config.run_id) is None


def test_failures_keep_their_log(store: Store, plan: Plan) -> None:
    config = plan.points[0].config
    store.write(made.failed(config))
    assert store.log(config.run_id) == "started\n"
    store.write(replace(made.failed(config), log=None))
    assert store.log(config.run_id) == "Traceback: it broke"
    store.write(replace(made.failed(config), log="bad byte \udc80, α"))
    assert store.log(config.run_id) == "bad byte \\udc80, α"


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(UserError, match=r"not a results folder: it has no manifest\.json"):
            Store(folder).read_plan()
    (tmp_path / "manifest.json").write_text('{"normexp": "9.0", "schema": 99, "points": [], "runs": {}, "axes": []}')
    with pytest.raises(UserError, match=r"written by normexp 9\.0"):
        Store(tmp_path).records()


def test_files_are_utf8_with_plain_newlines(tmp_path: Path) -> None:
    plan = made.plan({"lr": [1e-3]}, title="dépth α")
    program = (
        "import sys; sys.path.insert(0, sys.argv[2]); import records as made; from pathlib import Path;"
        "from normexp.results.store import Store; from normexp.views import report;"
        "plan = made.plan({'lr': [1e-3]}, title='d\\u00e9pth \\u03b1'); store = Store(Path(sys.argv[1]));"
        "store.begin(plan, [], force=False); store.write(made.done(plan.points[0].config, 1.9)); report.rebuild(store)"
    )
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    arguments = [sys.executable, "-c", program, str(tmp_path / "x"), str(Path(__file__).parent)]
    subprocess.run(arguments, env=environment, check=True, timeout=60)
    assert Store(tmp_path / "x").read_plan().title == plan.title
    assert "dépth α" in (tmp_path / "x" / "summary.md").read_text("utf-8")
    for path in (tmp_path / "x").rglob("*"):
        assert path.is_dir() or b"\r" not in path.read_bytes()


def test_a_name_that_the_locale_lacks_is_told(tmp_path: Path) -> None:
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text("name: dépth α\nbase: {depth: 1, width: 8, steps: 5}\ngrid: {lr: [0.001]}\n", "utf-8")
    program = "import sys; from normexp.cli.app import main; sys.exit(main())"
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    arguments = [sys.executable, "-c", program, "sweep", str(sweep), "--out", str(tmp_path / "results")]
    ended = subprocess.run(arguments, env=environment, capture_output=True, timeout=60)
    told = ended.stderr.decode("ascii")
    assert ended.returncode == 2, told
    assert "Traceback" not in told
    assert "ascii, has no" in told
    assert "give the sweep another name, or set a UTF-8 locale" in told
