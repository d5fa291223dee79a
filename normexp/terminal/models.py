"""Tables of norm placements, of norms and of mainstream models."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from normexp.analysis.tables import TextTable
from normexp.config.run import RunConfig
from normexp.schemes.models import CELLS, TRANSFORMERS, Checked, Model, Property
from normexp.schemes.norms import NORMS
from normexp.schemes.schemes import DOORS, ROLES, SCHEMES, Scheme, Site

MARKS = {Checked.CODE: "", Checked.PAPER: "", Checked.SECOND_HAND: "~", Checked.UNVERIFIED: "?"}
LEGEND = f"""\
~ second hand, ? unverified; all other cells were read in the code or paper given as the source.
final: a norm before the LM head. HF m: models/m of {TRANSFORMERS}. Bare numbers are arXiv ids.
--csv prints all sources and the verification status of each cell.
To use the keys, append them to `normexp sweep FILE.yaml`, with eps= from its column (default 1e-5)."""


def model_table(models: Sequence[Model]) -> TextTable:
    """Return a table with a row per model, and the remarks below it."""
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
    """Return CSV with a line per model. Each cell's column is followed by one with its verification status."""
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


def _marked(cell: Property) -> str:
    return f"{cell.text}{MARKS[cell.checked]}"


def _sources(model: Model) -> list[str]:
    code = f"{TRANSFORMERS} models/{model.transformers}" if model.transformers else ""
    return [source for source in (code, *model.sources) if source]


def schemes(depth: int) -> TextTable:
    """Return the table of norm placements: formula, norm sites, final norm, constants at `depth`, source."""
    header = ("position", "branch", "norm sites", "final norm", f"constants at depth {depth}", "source")
    rows = tuple(
        (
            name,
            scheme.help,
            _doors(scheme, depth),
            "yes" if scheme.final_norm else "no",
            ", ".join(_constants(scheme, depth)) or "none",
            scheme.source,
        )
        for name, scheme in SCHEMES.items()
    )
    return TextTable(title="Norm placements (key position)", header=header, rows=rows)


def norms() -> TextTable:
    """Return the table of norms: formula, whether a token's output depends only on that token, source."""
    rows = tuple((name, norm.help, "yes" if norm.causal else "no", norm.source) for name, norm in NORMS.items())
    return TextTable(title="Norms (key norm)", header=("norm", "output", "causal", "source"), rows=rows)


def _sites(scheme: Scheme, depth: int) -> list[Site]:
    """Return the branches of a network at this depth, with all other keys at their defaults."""
    return list(scheme.sites(RunConfig(depth=depth)))


def _doors(scheme: Scheme, depth: int) -> str:
    opened = {door for site in _sites(scheme, depth) for door in scheme.doors(site)}
    return ", ".join(door for door in DOORS if door in opened) or "none"


def _constants(scheme: Scheme, depth: int) -> list[str]:
    """Return the scales that are not 1 (bottom: not 0), from first to last layer if they differ, and the init gains."""
    constants = []
    for name, scale in scheme.scales("ffn").items():
        values = [scale.value(site) for site in _sites(scheme, depth) if site.branch == "ffn"]
        if set(values) != {0.0 if name == "bottom" else 1.0}:
            ends = f"{values[0]:.4g}" if len(set(values)) == 1 else f"{values[0]:.4g} to {values[-1]:.4g}"
            constants.append(f"{name} {ends}{' (learned)' * scale.learned}")
    gains = {role: scheme.gain(role, depth) for role in ROLES}
    for gain in sorted(set(gains.values()) - {1.0}):
        constants.append(f"gain {gain:.4g} on {' '.join(role for role in ROLES if gains[role] == gain)}")
    return constants
