"""The borders of a question as a table, as a conclusion, and as numbers for a figure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from normexp.analysis import frames
from normexp.analysis.edge_search import Search
from normexp.analysis.stability_edges import Edge, Finding, Number, Question, Share
from normexp.analysis.tables import TextTable, joined_values
from normexp.config.labels import Labels, exact_text, listed, plural, values_text
from normexp.records.record import RunRecord

if TYPE_CHECKING:
    import pandas as pd

UP_TO, FROM = "up to", "from"
ALONG = ""
"""The axis, as a key of labels: its values have more digits here than in tables of a sweep."""


def labels_of(edges: Sequence[Edge], ends: Collection[Number] = ()) -> Labels:
    """Labels that tell apart the values of the cells, and the values of the axis: those that were run and `ends`."""
    values = [*ends, *(share.value for edge in edges for share in edge.shares)]
    cells = [edge.values for edge in edges]
    return Labels(lambda key: values if key == ALONG else [cell[key] for cell in cells if key in cell])


def number_text(value: Number, labels: Labels) -> str:
    """A value of the axis with the digits that tell it from its neighbours, six or more."""
    return labels.text(ALONG, value)


def share_text(share: Share, labels: Labels) -> str:
    """`0.003 (2 of 3)`, `0.003 (1 of 3, 1 failed)`."""
    failed = f", {share.failed} failed" if share.failed else ""
    return f"{number_text(share.value, labels)} ({share.learned} of {share.seeds}{failed})"


def asked_text(question: Question) -> str:
    """What was asked, and what counts as learned."""
    span, seeds = question.span, len(question.seeds)
    low, high = (number_text(end, labels_of([], [span.low, span.high])) for end in (span.low, span.high))
    close = f"{span.resolution} apart or less" if span.whole else f"a ratio of {exact_text(span.resolution)} or less"
    needed = "the one seed" if seeds == 1 else f"at least {question.needed} of {seeds} seeds"
    return (
        f"{question.axis} from {low} to {high}, the ends of a bracket {close}. It learns at a value where {needed} did."
    )


def ends(edge: Edge) -> list[tuple[str, Share, Share]]:
    """The first and the last border: `up to` or `from`, the value at which it learns, the value at which not."""
    found = []
    for low, high in dict.fromkeys((*edge.borders[:1], *edge.borders[-1:])):
        found.append((UP_TO, low, high) if low.verdict else (FROM, high, low))
    return found


def is_window(edge: Edge) -> bool:
    """Whether it learns between two values and on neither side of them."""
    return len(edge.borders) == 2 and edge.borders[0][1].verdict is True


def table(question: Question, edges: Sequence[Edge]) -> TextTable:
    """A row a border: the brackets' ends with k of n; a cell without any says so."""
    names, labels = _names(edges), _labels(question, edges)
    header = (*names, "learns", "at", "but not at", "values run", "remark")
    rows = []
    for edge in edges:
        cell = [labels.text(name, edge.values[name]) for name in names]
        lines = [(kind, *(share_text(share, labels) for share in both)) for kind, *both in ends(edge)]
        lines = lines or [_without(edge, labels)]
        count, told = str(len(edge.shares)), remark(edge, labels)
        for index, line in enumerate(lines):
            rows.append((*cell, *line, *((count, told) if index == 0 else ("", ""))))
    note = "In brackets: seeds that learned. Both ends of a bracket were run; between them nothing is known."
    if len(_twins(edges)) < len(edges):
        note += " Cells that the same runs answer each show them."
    return TextTable(title=asked_text(question), header=header, rows=tuple(rows), note=note)


def _names(edges: Sequence[Edge]) -> list[str]:
    """What tells the cells apart."""
    return [name for name in edges[0].values if name != "label" or any(edge.values[name] for edge in edges)]


def _without(edge: Edge, labels: Labels) -> tuple[str, str, str]:
    """The line of a cell without a border."""
    both = " to ".join(share_text(share, labels) for share in (*edge.shares[:1], *edge.shares[1:][-1:]))
    if edge.finding is Finding.EVERYWHERE:
        return "at every value", both, ""
    return ("at no value", "", both) if edge.finding is Finding.NOWHERE else ("open", "", "")


def remark(edge: Edge, labels: Labels) -> str:
    """What a bracket alone would hide: other borders, mixed values elsewhere, no verdicts, an unfinished search."""
    told = []
    if edge.finding is Finding.SEVERAL:
        told.append("learns only in between" if is_window(edge) else f"not monotone: {_stretches(edge, labels)}")
    named = {id(share) for _, *both in ends(edge) for share in both}
    if not edge.borders:
        named = {id(share) for share in (*edge.shares[:1], *edge.shares[-1:])}
    mixed = [share for share in edge.shares if share.verdict is not None and 0 < share.learned < share.seeds]
    told += [f"mixed at {listed([share_text(share, labels) for share in mixed if id(share) not in named])}"]
    open_at = [share_text(share, labels) for share in edge.shares if share.verdict is None]
    told += [f"no verdict at {listed(open_at)}"] if open_at else []
    told += [] if edge.finished else ["not finished"]
    return "; ".join(part for part in told if part != "mixed at ")


def _stretches(edge: Edge, labels: Labels) -> str:
    """`learns at 0.001 to 0.003 and 0.03, not at 0.01 and 0.1 to 1`."""
    found: dict[bool, list[str]] = {True: [], False: []}
    decided = [share for share in edge.shares if share.verdict is not None]
    for verdict, group in groupby(decided, key=lambda share: bool(share.verdict)):
        values = [number_text(share.value, labels) for share in group]
        found[verdict].append(" to ".join(dict.fromkeys((values[0], values[-1]))))
    return f"learns at {listed(found[True])}, not at {listed(found[False])}"


def conclusion(question: Question, edges: Sequence[Edge]) -> str:
    """Where the borders lie lowest and highest, and how many cells have none: of runs that were made alone.

    Cells that the same runs answer are one.
    """
    labels = _labels(question, edges)
    edges = [_joined(alike, labels) for alike in _twins(edges)]
    plain = [edge for edge in edges if edge.finding is Finding.BORDER or is_window(edge)]
    told = []
    for kind in (UP_TO, FROM):
        found = [(edge, good, bad) for edge in plain for its, good, bad in ends(edge) if its == kind]
        told += [_compared(question, kind, found, labels)] if found else []
    low, high = (number_text(end, labels) for end in (question.span.low, question.span.high))
    span = f"{question.axis} {low} to {high}"
    others = {
        f"learns at all values run from {span}": [e for e in edges if e.finding is Finding.EVERYWHERE],
        f"learns at no value run from {span}": [e for e in edges if e.finding is Finding.NOWHERE],
        "is not monotone (see its remark)": [e for e in edges if e.finding is Finding.SEVERAL and not is_window(e)],
        "is open": [e for e in edges if e.finding is Finding.OPEN],
    }
    for words, matching in others.items():
        if matching:
            told.append(f"{_which(matching, edges, labels)} {words}.")
    return " ".join(told)


def _twins(edges: Sequence[Edge]) -> list[list[Edge]]:
    """The cells, those together that the same runs answer."""
    alike: dict[frozenset[str] | int, list[Edge]] = {}
    for index, edge in enumerate(edges):
        alike.setdefault(edge.run_ids or index, []).append(edge)
    return list(alike.values())


def _joined(alike: Sequence[Edge], labels: Labels) -> Edge:
    """One cell for several with the same runs, whose values stand beside each other: `pre/post`."""
    if len(alike) == 1:
        return alike[0]
    return replace(alike[0], values=joined_values([edge.values for edge in alike], labels))


def _which(matching: Sequence[Edge], edges: Sequence[Edge], labels: Labels) -> str:
    if len(edges) == 1:
        return "It"
    if len(matching) == len(edges):
        return f"Each of the {len(edges)} cells"
    first, *others = [name_of(edge, labels) for edge in matching]
    return listed([f"The cell {first}", *others])


def name_of(edge: Edge, labels: Labels) -> str:
    """A cell in words; empty where it is the only one."""
    return values_text(edge.values, labels)


def _labels(question: Question, edges: Sequence[Edge]) -> Labels:
    return labels_of(edges, [question.span.low, question.span.high])


def _compared(question: Question, kind: str, found: Sequence[tuple[Edge, Share, Share]], labels: Labels) -> str:
    """One border in words, or the lowest and the highest of several with the least factor between them."""
    axis = question.axis
    by_value = sorted(found, key=lambda item: (item[1].value, item[2].value))
    (lowest, low_good, low_bad), (highest, high_good, high_bad) = by_value[0], by_value[-1]
    if len(found) == 1:
        cell = name_of(lowest, labels)
        name = f"With {cell} it" if cell else "It"
        ending = "but not at" if kind == UP_TO else "on, but not at"
        return f"{name} learns {kind} {axis} {share_text(low_good, labels)} {ending} {share_text(low_bad, labels)}."
    least, most = max(low_good.value, low_bad.value), min(high_good.value, high_bad.value)
    what = f"The {axis} {kind} which it learns" if kind == UP_TO else f"The {axis} from which on it learns"
    if most <= least:
        values = [share.value for _, *both in found for share in both]
        low, high = (number_text(value, labels) for value in (min(values), max(values)))
        return f"{what} lies between {low} and {high} in {plural(len(found), 'cell')}."
    apart = f"at least {most - least} more" if question.span.whole else f"at least {_floor(most / least)} times as high"
    return (
        f"{what} is lowest with {name_of(lowest, labels)} ({_bracket(low_good, low_bad, labels)})"
        f" and highest with {name_of(highest, labels)} ({_bracket(high_good, high_bad, labels)}): {apart}."
    )


def _bracket(good: Share, bad: Share, labels: Labels) -> str:
    return f"{number_text(good.value, labels)}, not {number_text(bad.value, labels)}"


def _floor(factor: float) -> str:
    """Two significant digits, or of a factor near 1 two of what it adds to 1; never more than there is."""
    unit = 10 ** (math.floor(math.log10(factor if factor >= 1.1 else factor - 1)) - 1)
    return f"{math.floor(factor / unit + 1e-9) * unit:.12g}"


def cost(search: Search, records: Mapping[str, RunRecord], before: Collection[str] = ()) -> str:
    """The runs behind the brackets, of which those `before` were stored, and those of the grid that is as fine."""
    ended = search.ended(records)
    reused = len(ended & set(before))
    stored = f" ({reused} of them stored before)" if reused else ""
    return f"{plural(len(ended), 'run')}{stored}; the whole grid of this resolution would take {search.grid_runs}."


def borders_frame(edges: Sequence[Edge]) -> pd.DataFrame:
    """One row a border that the table shows, and one a cell without."""
    rows: list[dict[str, Any]] = []
    labels = labels_of(edges)
    for edge in edges:
        shared = {"finding": edge.finding.value, "finished": str(edge.finished).lower()}
        shared |= {"values_run": str(len(edge.shares)), "remark": remark(edge, labels)}
        rows += [] if ends(edge) else [{**edge.values, **shared}]
        for kind, *both in ends(edge):
            row = {**edge.values, "border": kind, **shared}
            for name, share in zip(("learns_at", "not_at"), both, strict=True):
                row |= {name: repr(share.value), f"{name}_k": str(share.learned), f"{name}_n": str(share.seeds)}
            rows.append(row)
    sides = [f"{name}{part}" for name in ("learns_at", "not_at") for part in ("", "_k", "_n")]
    return frames.frame(rows, [*edges[0].values, "finding", "border", *sides, "values_run", "finished", "remark"])


def shares_frame(question: Question, edges: Sequence[Edge]) -> pd.DataFrame:
    """One row a cell and value: k of n and the verdict."""
    words = {True: "learns", False: "not", None: "open"}
    rows = [
        {**edge.values, question.axis: share.value, "learned": share.learned, "seeds": str(share.seeds)}
        | {"failed": share.failed, "verdict": words[share.verdict]}
        for edge in edges
        for share in edge.shares
    ]
    return frames.frame(rows, [*edges[0].values, question.axis, "learned", "seeds", "failed", "verdict"])
