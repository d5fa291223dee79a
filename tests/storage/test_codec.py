"""What is written comes back: records as strict JSON, curves and layers as CSV, all of a run from its folder."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy
import records as made
from hypothesis import given, settings
from hypothesis import strategies as st
from stored import refuse, same

from normexp.config.keys import Key
from normexp.config.plan import Plan
from normexp.config.run import KEYS, RunConfig
from normexp.records.record import (
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
from normexp.storage import codec
from normexp.storage.store import Store

ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True)
TEXT = st.text(max_size=20)
WORD = st.text(st.characters(exclude_categories=["C", "Z"]), max_size=9)
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
@given(
    st.lists(st.builds(CurveRow, step=st.integers(0), **dict.fromkeys(codec.CURVE_COLUMNS[1:], st.none() | ANY_FLOAT)))
)
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
    st.builds(CurveRow, step=st.integers(0, 9), **dict.fromkeys(codec.CURVE_COLUMNS[1:], st.none() | ANY_FLOAT)),
    max_size=3,
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
    if record.result is not None and traces is not None and traces.curve:  # one that ends sooner is refused
        record = replace(record, result=replace(record.result, steps_done=traces.curve[-1].step))
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
    row = CurveRow(step=1, lr=numpy.float64(0.1), train_loss=numpy.float64("nan"), grad_norm=None, val_loss=None)
    assert codec.curve_to_csv([row]) == "step,lr,train_loss,grad_norm,val_loss\n1,0.1,nan,,\n"


def test_infinite_losses_are_null_with_a_kind(store: Store, plan: Plan) -> None:
    record = made.dead(plan.points[2].config, 12, kind="inf")
    assert record.result is not None
    store.write(replace(record, result=replace(record.result, final_val_loss=-math.inf)))
    text = (store.folder / "runs" / record.run_id / "run.json").read_text("utf-8")
    stored = json.loads(text, parse_constant=refuse)
    assert (stored["result"]["final_val_loss"], stored["result"]["final_val_loss_kind"]) == (None, "-inf")
    assert stored["result"]["death"]["step"] == 12
