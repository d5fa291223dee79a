"""A NaN is a result, and no gap: in every frame, every export, and what comes back of them."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import records

import normexp
from normexp.analysis import explain, frames
from normexp.config.plan import Plan
from normexp.records.record import CurveRow, Death, RunRecord, Traces
from normexp.report import export, report
from normexp.storage.store import Store
from normexp.terminal import compare

INF, NAN = math.inf, math.nan
FINAL: Mapping[str, float | None] = {"a loss": 1.9, "NaN": NAN, "infinite": INF, "not measured": None}
"""How four runs end, by their final validation loss."""


@pytest.fixture
def plan() -> Plan:
    return records.plan({"lr": [1e-4, 1e-3, 1e-2, 1e-1]}, depth=2)


def ended(plan: Plan) -> dict[str, RunRecord]:
    """A run that learned, and three that died: at an evaluation, with NaN and with inf, and before it."""
    found = {}
    for config, loss in zip(plan.configs.values(), FINAL.values(), strict=True):
        record = records.done(config, 1.9)
        assert record.result is not None
        assert record.verdict is not None
        if loss != 1.9:
            death = Death(step=2, kind="nan", where="validation", tensor="head", layer=3)
            rows = (
                CurveRow(step=0, lr=None, train_loss=None, grad_norm=None, val_loss=4.25),
                CurveRow(step=1, lr=1e-3, train_loss=NAN, grad_norm=INF, val_loss=None),
                CurveRow(step=2, lr=1e-3, train_loss=4.5, grad_norm=NAN, val_loss=loss),
            )
            result = replace(record.result, steps_done=2, final_val_loss=loss, death=death)
            verdict = replace(record.verdict, outcome=normexp.Outcome.NONFINITE)
            record = replace(record, result=result, verdict=verdict, traces=Traces(curve=rows))
        found[record.run_id] = record
    return found


@pytest.fixture
def store(plan: Plan, tmp_path: Path) -> Store:
    store = Store(tmp_path / "results" / "made_up")
    store.begin(plan, [], force=False)
    for record in ended(plan).values():
        store.write(record)
    report.rebuild(store)
    return store


def cells_as_text(cells: Any) -> list[str]:
    """Each cell as `gap`, or the number."""
    return ["gap" if cell is None or cell is pd.NA else repr(float(cell)) for cell in cells]


WANTED = ["1.9", "nan", "inf", "gap"]
CURVE = {"train_loss": ["gap", "nan", "4.5"], "grad_norm": ["gap", "inf", "nan"], "val_loss": ["4.25", "gap", "nan"]}
"""Of the run that died with NaN."""


def of_arrow(content: bytes) -> dict[str, list[Any]]:
    return pytest.importorskip("pyarrow.parquet").read_table(io.BytesIO(content)).to_pydict()


def of_csv(content: bytes) -> dict[str, list[Any]]:
    header, *lines = [line.split(",") for line in content.decode().splitlines()]
    return {
        name: [float(cell) if cell else None for cell in column]
        for name, column in zip(header, zip(*lines, strict=True), strict=True)
        if name.endswith(("loss", "grad_norm"))
    } | {"run_id": [line[0] for line in lines]}


READ: Mapping[str, Callable[[bytes], dict[str, list[Any]]]] = {"csv": of_csv, "parquet": of_arrow}


@pytest.mark.parametrize("to", READ)
def test_exports_keep_them_apart_and_come_back(to: str, store: Store, plan: Plan, tmp_path: Path) -> None:
    files = dict(export.exporter(to).files(report.read(store), store))
    assert cells_as_text(READ[to](files[f"runs.{to}"])["final_val_loss"]) == WANTED
    died = list(plan.configs)[1]
    curves = READ[to](files[f"curves.{to}"])
    for name, wanted in CURVE.items():
        assert [
            cell for run, cell in zip(curves["run_id"], cells_as_text(curves[name]), strict=True) if run == died
        ] == wanted
    for stem in ("runs", "curves"):
        path = tmp_path / f"{stem}.{to}"
        path.write_bytes(files[path.name])
        read = normexp.load(path)
        again = {"csv": frames.to_csv, "parquet": lambda table: table.to_parquet(index=False)}[to](read)
        assert (again.encode() if isinstance(again, str) else again) == files[path.name], "to the byte"


def test_frames_keep_them_apart(store: Store) -> None:
    for frame in (
        normexp.load(store.folder),
        normexp.load(store.folder / "runs.csv"),
        normexp.load(store.folder.parent),
    ):
        assert cells_as_text(frame["final_val_loss"]) == WANTED
        assert list(frame["final_val_loss"].isna()) == [False, False, False, True]
        assert cells_as_text(frame[frame["outcome"] == "nonfinite"].sort_values("lr")["final_val_loss"]) == WANTED[1:]
        assert [row["final_val_loss"] is None for row in frames.rows(frame)] == [False, False, False, True]


def test_pandas_reads_parquet_so_with_arrow_types(store: Store) -> None:
    """As docs/export.md says."""
    pytest.importorskip("pyarrow")
    content = dict(export.exporter("parquet").files(report.read(store), store))["runs.parquet"]
    frame = pd.read_parquet(io.BytesIO(content), dtype_backend="pyarrow")
    assert cells_as_text(frame["final_val_loss"]) == WANTED


def test_json_keeps_them_apart(store: Store, plan: Plan) -> None:
    from normexp.storage.codec import to_json

    found = [store.read(run_id) for run_id in plan.configs]
    assert all(found)
    data = [json.loads(to_json(compare.as_data(compare.compare(found[0], one))))["b"] for one in found]  # type: ignore[arg-type]
    kinds = [(one["final_val_loss"], one.get("final_val_loss_kind")) for one in data]
    assert kinds == [(1.9, None), (None, "nan"), (None, "inf"), (None, None)]


def test_words_keep_them_apart(store: Store, plan: Plan) -> None:
    found = [store.read(run_id) for run_id in plan.configs]
    lines = [" ".join(explain.facts(one)) for one in found if one is not None]
    assert [
        word for word, line in zip(("1.900", "nan", "inf", "none"), lines, strict=True) if f"final {word} " in line
    ] == [
        "1.900",
        "nan",
        "inf",
        "none",
    ]
    shown = [compare.compare(found[0], one) for one in found if one is not None]  # type: ignore[arg-type]
    cells = [{name: b for name, _, b in compare._results(one).rows}["final loss"] for one in shown]
    assert cells == ["1.900", "nan", "inf", ""]


def test_tensorboard_marks_nan_and_has_no_event_for_a_gap(store: Store, plan: Plan, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    died = list(plan.configs)[1]
    for name, content in export.exporter("tensorboard").files(report.read(store), store):
        if name.startswith(died):
            (tmp_path / died).mkdir()
            (tmp_path / name).write_bytes(content)
    events = EventAccumulator(str(tmp_path / died)).Reload()
    for name, wanted in CURVE.items():
        assert cells_as_text(round(event.value, 6) for event in events.Scalars(name)) == [
            cell for cell in wanted if cell != "gap"
        ]


class TestLearnedFraction:
    """One definition, never clipped."""

    def test_tables_explain_and_pages_have_the_formula(self, store: Store) -> None:
        plan = records.plan({"seed": [0, 1, 2]}, depth=2)
        finals = [4.20, 3.9, 1.3]  # above the unigram loss, below it, and below the floor
        made = {
            run_id: records.done(config, final)
            for (run_id, config), final in zip(plan.configs.items(), finals, strict=True)
        }
        fractions = [(4.07 - final) / (4.07 - 1.5) for final in finals]
        found = report.of(store, plan, made)
        assert list(found.runs["learned_fraction"]) == pytest.approx(fractions)
        assert list(found.summary["learned_fraction"]) == pytest.approx([sum(fractions) / 3])
        mean = found.summary["mean_val_loss"][0]
        assert found.summary["learned_fraction"][0] == pytest.approx((4.07 - mean) / (4.07 - 1.5)), "it is linear"
        for record, fraction in zip(made.values(), fractions, strict=True):
            assert record.result is not None
            assert record.result.learned_fraction == pytest.approx(fraction)
            assert f"learned fraction: {fraction:.3f}" in explain.facts(record)
            rows = {name: a for name, a, _ in compare._results(compare.compare(record, record)).rows}
            assert rows["learned fraction"] == f"{fraction:.3f}"

    def test_the_learned_fraction_of_a_nonfinite_run_is_minus_infinity(self) -> None:
        result = records.dead(records.RunConfig(depth=2), 12).result
        assert result is not None
        assert result.learned_fraction == -math.inf
