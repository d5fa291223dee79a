"""Frames have fixed columns and types, equal records give equal bytes, and `none` is read as a word."""

from __future__ import annotations

import csv
import math
import random
from pathlib import Path

import pandas as pd
import pytest
import records as made

from normexp.analysis import frames
from normexp.config.plan import Plan
from normexp.config.run import KEYS, RunConfig
from normexp.errors import UserError
from normexp.records.record import RunRecord, Status
from normexp.report import report
from normexp.storage.store import Store

AXES = {
    "norm": ["ln", "none"],
    "position": ["post", "pre"],
    "lr": [1e-3, 0.00316227766016838, 1e-2],
    "seed": [0, 2**63 - 1],
}


@pytest.fixture
def plan() -> Plan:
    return made.plan(AXES, depth=2)


def some_records(plan: Plan) -> dict[str, RunRecord]:
    """All kinds of ends; the last run is pending."""
    ends = [
        lambda config: made.done(config, 1.9),
        lambda config: made.done(config, 4.065),
        lambda config: made.done(config, 1e9),
        lambda config: made.dead(config, 12, kind="inf", reused_from="other"),
        lambda config: made.failed(config, Status.TIMEOUT),
    ]
    configs = list(plan.configs.items())[:-1]
    return {run_id: ends[index % len(ends)](config) for index, (run_id, config) in enumerate(configs)}


def test_points_name_their_run(plan: Plan) -> None:
    table = frames.points(plan)
    assert list(table.columns) == ["label", "norm", "position", "lr", "seed", "run_id"]
    assert len(table) == 24
    assert table["run_id"].nunique() == 18, "without a norm, post and pre are one"
    assert list(table["run_id"]) == [point.config.run_id for point in plan.points]
    assert set(table["position"][table["norm"] == "none"]) == {"post", "pre"}


def test_runs_have_every_config_key_and_every_state(plan: Plan) -> None:
    table = frames.runs(plan, some_records(plan)).set_index("run_id")
    assert list(table.columns) == [*frames.RUN_COLUMNS][1:]
    assert set(KEYS) < set(table.columns)
    assert len(table) == 18
    assert list(table["status"].iloc[[0, 4, -1]]) == ["done", "timeout", "pending"]
    dead, pending = table.iloc[3], table.iloc[-1]
    assert (dead["outcome"], dead["kind"], dead["step"], dead["layer"]) == ("nonfinite", "inf", 12, 4)
    assert dead["final_val_loss"] is pd.NA, "not measured"
    assert (pending["outcome"], pending["trend"]) == ("", "")
    assert pending["step"] is pd.NA
    assert list(table["learned_fraction"].iloc[:4]) == [
        (4.07 - 1.9) / (4.07 - 1.5),
        (4.07 - 4.065) / (4.07 - 1.5),
        (4.07 - 1e9) / (4.07 - 1.5),
        -math.inf,
    ]


def test_every_table_comes_back_from_csv(plan: Plan, tmp_path: Path) -> None:
    store = Store(tmp_path / "x")
    store.begin(plan, [], force=False)
    records = some_records(plan)
    for record in records.values():
        store.write(record)
    made_tables = {
        "points": frames.points(plan),
        "runs": frames.runs(plan, records),
        "timings": frames.timings(plan, records),
        "summary": report.rebuild(store).summary,
    }
    for name, table in made_tables.items():
        read = frames.read_csv(store.folder / f"{name}.csv")
        pd.testing.assert_frame_equal(read, table, check_exact=True)
        assert frames.to_csv(read) == frames.to_csv(table)
    assert made_tables["runs"]["step"].dtype == "Int64"
    assert "12," in frames.to_csv(made_tables["runs"])
    assert "12.0," not in frames.to_csv(made_tables["runs"])
    assert set(frames.read_csv(store.folder / "runs.csv")["seed"]) == {0, 2**63 - 1}


def test_columns_are_the_same_whatever_has_ended_and_how(plan: Plan) -> None:
    kinds = [{}, some_records(plan)]
    kinds += [{run_id: made.done(config, 1.9) for run_id, config in plan.configs.items()}]
    kinds += [{run_id: made.dead(config, 12) for run_id, config in plan.configs.items()}]
    texts = [frames.to_csv(frames.runs(plan, records)).splitlines() for records in kinds]
    assert {lines[0] for lines in texts} == {",".join(frames.RUN_COLUMNS)}, "a column that is empty throughout stays"
    assert {len(row) for lines in texts for row in csv.reader(lines)} == {len(frames.RUN_COLUMNS)}
    assert {len(lines) for lines in texts} == {19}, "a header, once, and a row a run"


def test_runs_csv_is_the_same_whatever_order_speed_or_machine(plan: Plan, tmp_path: Path) -> None:
    texts = []
    for index, name in enumerate(("one", "two")):
        store = Store(tmp_path / name)
        store.begin(plan, [name], force=False)
        records = list(some_records(plan).values())
        random.Random(index).shuffle(records)
        for record in records:
            other = {"seconds": {"total": index + 0.5}, "environment": {"torch_threads": index}, "reused_from": name}
            store.write(RunRecord(**{field: getattr(record, field) for field in RunRecord.__slots__} | other))
        report.rebuild(store)
        texts.append({path.name: path.read_bytes() for path in store.folder.glob("*.csv")})
    assert texts[0]["runs.csv"] == texts[1]["runs.csv"]
    assert texts[0]["summary.csv"] == texts[1]["summary.csv"]
    assert texts[0]["timings.csv"] != texts[1]["timings.csv"]


def test_timings_have_seconds_environment_and_origin(plan: Plan) -> None:
    records = some_records(plan)
    first = next(iter(records))
    table = frames.timings(plan, records).set_index("run_id")
    assert len(table) == 17
    assert list(table.loc[first, ["data_seconds", "total_seconds", "torch_threads", "torch"]]) == [
        0.2,
        3.75,
        "1",
        "2.13.0",
    ]
    assert set(table["reused_from"]) == {"", "other"}


@pytest.mark.parametrize("word", ["None", "none", "NONE", "null", "~", ""])
def test_a_norm_written_by_hand_keeps_its_row(tmp_path: Path, word: str) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(f"run_id,norm,step,final_val_loss\na,ln,,1.5\nb,{word},12,\nc,{word},7,inf\n", "utf-8")
    table = frames.read_csv(path)
    assert table.groupby("norm").size().to_dict() == {"ln": 1, "none": 2}
    assert list(table["step"].dropna()) == [12, 7]
    assert list(table["final_val_loss"].fillna(-1)) == [1.5, -1, math.inf]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"run_id,step\na,\nb,12.5\n", r"runs\.csv:3: .*12.5"),
        (b"run_id,final_val_loss\na,\nb,low\n", r"runs\.csv:3: .*low"),
        (b"run_id,stale\na,\nb,perhaps\n", r"runs\.csv:3: .*perhaps"),
        (b"lr\n" + b"1" * 200_000, r"runs\.csv:"),
        (b"lr\n\xff", r"runs\.csv:"),
    ],
    ids=["integer", "number", "Boolean", "huge", "encoding"],
)
def test_an_invalid_cell_is_an_error_with_its_line(tmp_path: Path, content: bytes, error: str) -> None:
    path = tmp_path / "runs.csv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=error):
        frames.read_csv(path)


def test_an_environment_named_like_a_column_harms_no_table(plan: Plan) -> None:
    config = plan.points[0].config
    environment = {"lr": "x", "steps_seconds": "x", "run_id": "x", "torch": "2.13.0"}
    table = frames.timings(plan, {config.run_id: made.done(config, 1.9, environment=environment)})
    assert list(table["run_id"]) == [config.run_id]
    assert list(table["torch"]) == ["2.13.0"]
    assert list(table["steps_seconds"]) == [3.25]
    assert table.columns.is_unique
    assert "lr" not in table


def test_text_that_looks_like_a_gap_stays(tmp_path: Path) -> None:
    plan = made.plan({"lr": [1e-3]}, label="NA")
    path = tmp_path / "points.csv"
    path.write_text(frames.to_csv(frames.points(plan)), "utf-8")
    assert list(frames.read_csv(path)["label"]) == ["NA"]


def test_no_runs_is_a_header() -> None:
    plan = made.plan({"lr": []})
    assert frames.to_csv(frames.points(plan)) == "label,lr,run_id\n"
    assert frames.to_csv(frames.runs(plan, {})) == ",".join(frames.RUN_COLUMNS) + "\n"


def test_no_column_of_a_result_is_a_config_key() -> None:
    config = RunConfig()
    assert not set(config.to_dict()) & {*frames.RESULT_COLUMNS, "run_id", "label", "status", "outcome", "trend"}
