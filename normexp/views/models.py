"""The table of models, for people and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from normexp.models import CELLS, TRANSFORMERS, Cell, Checked, Model
from normexp.views.pivot import TextTable

MARKS = {Checked.CODE: "", Checked.PAPER: "", Checked.SECOND_HAND: "~", Checked.UNVERIFIED: "?"}
LEGEND = f"""\
~ second hand, ? unverified; every other cell was read in the code or paper that is the source.
final: a norm before the head. HF m: models/m of {TRANSFORMERS}. A bare number is one of arXiv.
--csv has all sources, and how far each cell was verified.
Keys go behind the file of `normexp sweep`, with eps= of its column (1e-5 by default)."""


def table(models: Sequence[Model]) -> TextTable:
    """A row for each model; remarks stand below, each with its model."""
    header = ("model", "year", "norm", "position", "QK-norm", "final", "eps", "as normexp keys", "source")
    rows = tuple(
        (
            model.model,
            *(_marked(model.cells[cell]) for cell in CELLS),
            model.command_line or f"(none: {model.no_keys})",
            f"HF {model.transformers}" if model.transformers else model.sources[0].removeprefix("arXiv "),
        )
        for model in models
    )
    remarks = [f"{model.model}: {model.remark}." for model in models if model.remark]
    return TextTable(title="", header=header, rows=rows, note="\n".join(["", LEGEND, *remarks]))


def to_csv(models: Sequence[Model]) -> str:
    """A line for each model; after each cell's column stands one with how far it was verified."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    cells = [column for cell in CELLS for column in (cell, f"{cell}_checked")]
    writer.writerow(["model", *cells, "keys", "no_keys", "remark", "sources"])
    for model in models:
        values = [value for cell in CELLS for value in (model.cells[cell].text, model.cells[cell].checked)]
        writer.writerow(
            [model.model, *values, model.complete_command_line, model.no_keys, model.remark, "; ".join(_sources(model))]
        )
    return buffer.getvalue()


def _marked(cell: Cell) -> str:
    return f"{cell.text}{MARKS[cell.checked]}"


def _sources(model: Model) -> list[str]:
    code = f"{TRANSFORMERS} models/{model.transformers}" if model.transformers else ""
    return [source for source in (code, *model.sources) if source]
