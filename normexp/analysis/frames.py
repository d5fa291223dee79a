"""Data frames of plans and records, with fixed column types; writing them to CSV and reading them back is lossless."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from normexp.config.plan import Plan
from normexp.config.run import KEYS
from normexp.errors import UserError
from normexp.records.record import Outcome, Result, RunRecord

if TYPE_CHECKING:
    import pandas as pd

PENDING = "pending"
"""Status of a run without a record."""

TEXT, INTEGER, NUMBER, MEASURED, SWITCH = "str", "Int64", "float64", "Float64", "boolean"
"""Column types. In a MEASURED column, NaN is a measured value and NA a missing one; in a NUMBER column, NaN is a
missing value."""
_KINDS = {str: TEXT, int: INTEGER, float: NUMBER, bool: SWITCH}

CONFIG_COLUMNS = {name: _KINDS[key.kind] for name, key in KEYS.items()}
RESULT_COLUMNS = {
    "step": INTEGER,
    "kind": TEXT,
    "where": TEXT,
    "tensor": TEXT,
    "layer": INTEGER,
    "final_val_loss": MEASURED,
    "best_val_loss": MEASURED,
    "init_val_loss": MEASURED,
    "floor": NUMBER,
    "guess": NUMBER,
    "bigram": NUMBER,
    "learned_fraction": NUMBER,
    "steps_done": INTEGER,
    "peak_lr": NUMBER,
    "parameters": INTEGER,
    "numerics": INTEGER,
    "stale": SWITCH,
}
RUN_COLUMNS = {"run_id": TEXT, "status": TEXT, "outcome": TEXT, "trend": TEXT} | CONFIG_COLUMNS | RESULT_COLUMNS
POINT_COLUMNS = {"label": TEXT} | CONFIG_COLUMNS | {"run_id": TEXT}
COUNTS = ("planned", "done", *(outcome.value for outcome in Outcome), "failed", PENDING)
"""Run counts of a cell: planned = done + failed + pending, and done is the sum of the outcomes."""
LATER_COUNTS = ("first_dead_step", "last_dead_step", "stale_runs", "shared_runs")
"""Columns of a cell after its losses. `shared_runs` counts the runs that also belong to other cells."""
SECONDS = ("data", "steps", "eval", "replay", "total")
SECONDS_SUFFIX = "_seconds"
NUMBER_SUFFIXES = (SECONDS_SUFFIX, "_val_loss")

_CURVE_COLUMNS = dict.fromkeys(("train_loss", "grad_norm", "val_loss"), MEASURED)
_DTYPES = (
    _CURVE_COLUMNS
    | RUN_COLUMNS
    | POINT_COLUMNS
    | dict.fromkeys((*COUNTS, *LATER_COUNTS), INTEGER)
    | {"death_step": INTEGER}
)


def dtype(column: str) -> str:
    """Return the type of a column; unknown columns are text."""
    return _DTYPES.get(column, NUMBER if column.endswith(NUMBER_SUFFIXES) else TEXT)


def frame(rows: Iterable[Mapping[str, Any]], columns: Iterable[str]) -> pd.DataFrame:
    """Return a data frame with these columns. Missing texts are empty, other missing values NA (NaN in a NUMBER)."""
    import pandas as pd

    rows = list(rows)
    data = {}
    for name in columns:
        kind = dtype(name)
        cells = [row.get(name) for row in rows]
        if kind == TEXT:
            cells = ["" if cell is None else str(cell) for cell in cells]
        data[name] = pd.Series(_measured(cells) if kind == MEASURED else cells, dtype=kind)
    return pd.DataFrame(data)


def _measured(cells: Sequence[float | None]) -> pd.arrays.FloatingArray:
    """Return an array in which only None is missing: by default, pandas treats NaN as missing too."""
    import numpy as np
    import pandas as pd

    gaps = np.array([cell is None for cell in cells], dtype="bool")
    return pd.arrays.FloatingArray(np.array([0.0 if cell is None else cell for cell in cells], dtype="float64"), gaps)


def rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as dictionaries. Missing values are None; a measured NaN stays NaN."""
    import pandas as pd

    gaps = {str(name): table[name].dtype == NUMBER for name in table.columns}
    return [
        {
            str(name): None if cell is pd.NA or (gaps[str(name)] and math.isnan(cell)) else cell
            for name, cell in row.items()
        }
        for row in table.to_dict("records")
    ]


def points(plan: Plan) -> pd.DataFrame:
    """Return one row per point, in order: its label, its configured axis values, and the id of its run."""
    rows = ({"label": point.label, **point.values, "run_id": point.config.run_id} for point in plan.points)
    return frame(rows, ["label", *plan.axes, "run_id"])


def runs(plan: Plan, records: Mapping[str, RunRecord]) -> pd.DataFrame:
    """Return one row per distinct run, in order; runs without a record are pending. Equal records give equal bytes."""
    rows = []
    for run_id, config in plan.configs.items():
        record = records.get(run_id)
        row: dict[str, Any] = {"run_id": run_id, "status": PENDING, **config.to_dict()}
        if record is not None:
            row |= {"status": record.status.value, "numerics": record.numerics, "stale": record.outdated}
            row |= _verdict(record) | (_result(record.result) if record.result else {})
        rows.append(row)
    return frame(rows, RUN_COLUMNS)


def timings(plan: Plan, records: Mapping[str, RunRecord]) -> pd.DataFrame:
    """Return one row per run that has ended: seconds by part, environment, and the folder it was copied from."""
    ended = {run_id: records[run_id] for run_id in plan.configs if run_id in records}
    parts = dict.fromkeys([*SECONDS, *sorted({part for record in ended.values() for part in record.seconds})])
    names = {name for record in ended.values() for name in record.environment}
    environment = sorted(name for name in names - {"status", "run_id", "reused_from"} if dtype(name) == TEXT)
    rows = (
        dict(record.environment)
        | {"run_id": run_id, "status": record.status.value, "reused_from": record.reused_from}
        | {part + SECONDS_SUFFIX: seconds for part, seconds in record.seconds.items()}
        for run_id, record in ended.items()
    )
    columns = ["run_id", "status", "reused_from", *(part + SECONDS_SUFFIX for part in parts), *environment]
    return frame(rows, columns)


def to_csv(table: pd.DataFrame) -> str:
    """Return CSV text. Numbers have the fewest digits that read back exactly; missing values are empty, NaN `nan`."""
    return table.to_csv(index=False, lineterminator="\n")


def read_csv(path: Path) -> pd.DataFrame:
    """Read a table written by `to_csv`, or edited by hand: `None` in a config column is read as the word none.

    An empty cell is a missing value, and `nan` a number. Raises UserError if a cell does not have its column's type.
    """
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, restval="")
        try:
            names = list(reader.fieldnames or [])
            rows = [{name: _cell(name, row[name]) for name in names} for row in reader]
        except (ValueError, csv.Error) as error:
            raise UserError(f"{path}:{reader.line_num}: {error}") from error
    return frame(rows, names)


def read_parquet(path: Path) -> pd.DataFrame:
    """Read a table from Parquet, keeping NaN and null apart. Raises UserError for a file that cannot be read."""
    try:
        import pyarrow  # type: ignore[import-untyped]
        from pyarrow import parquet
    except ImportError as fault:
        raise UserError("Parquet needs pyarrow: pip install 'normexp[parquet]'") from fault
    try:
        table = parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as fault:
        raise UserError(f"{path}: {fault}") from fault
    return frame(table.to_pylist(), table.column_names)


def _cell(column: str, text: str) -> Any:
    kind = dtype(column)
    if kind == TEXT:
        return _word(column, text)
    if text == "":
        return None
    if kind == SWITCH:
        return _switch(text)
    return int(text) if kind == INTEGER else float(text)


def _switch(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is not a Boolean: write true or false")
    return text.lower() == "true"


def _word(column: str, text: str) -> Any:
    key = KEYS.get(column)
    if key is None or key.choices is None:
        return text
    try:
        return key.parse(text)
    except ValueError:
        return text


def _verdict(record: RunRecord) -> dict[str, Any]:
    verdict = record.verdict
    return {} if verdict is None else {"outcome": verdict.outcome.value, "trend": verdict.trend}


def _result(result: Result) -> dict[str, Any]:
    death, losses = result.death, result.losses
    row: dict[str, Any] = {
        name: getattr(result, name)
        for name in ("final_val_loss", "best_val_loss", "init_val_loss", "steps_done", "peak_lr", "parameters")
    }
    row |= {"floor": losses.floor, "guess": losses.guess, "bigram": losses.bigram}
    if death is not None:
        row |= {name: getattr(death, name) for name in ("step", "kind", "where", "tensor", "layer")}
    return row | {"learned_fraction": result.learned_fraction}
