"""Show the stability limits found by a search: as a table, as a conclusion in words, and as data frames."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from normexp.analysis import frames
from normexp.analysis.edge_search import Search
from normexp.analysis.stability_edges import Edge, Finding, Question, Share
from normexp.analysis.tables import TextTable, joined_values
from normexp.config.labels import Labels, exact_text, listed, plural, values_text
from normexp.config.presets import Number
from normexp.records.record import RunRecord

if TYPE_CHECKING:
    import pandas as pd

UP_TO, FROM = "up to", "from"
ALONG = ""
"""The key under which labels hold the values of the axis: they need more digits here than in the tables of a sweep."""


def labels_of(edges: Sequence[Edge], ends: Collection[Number] = ()) -> Labels:
    """Return labels that distinguish the values of the cells, and the values of the axis (those run, and `ends`)."""
    values = [*ends, *(share.value for edge in edges for share in edge.shares)]
    cells = [edge.values for edge in edges]
    return Labels(lambda key: values if key == ALONG else [cell[key] for cell in cells if key in cell])


def number_text(value: Number, labels: Labels) -> str:
    """Return a value of the axis with as many digits as distinguish it from the others, at least six."""
    return labels.text(ALONG, value)


def share_text(share: Share, labels: Labels) -> str:
    """Return a value and how many of its seeds learned: `0.003 (2/3)`, `0.003 (1/3, 1 failed)`."""
    failed = f", {share.failed} failed" if share.failed else ""
    return f"{number_text(share.value, labels)} ({share.learned}/{share.seeds}{failed})"


def asked_text(question: Question) -> str:
    """Return the range, the resolution, and how many seeds must learn."""
    span, seeds = question.span, len(question.seeds)
    low, high = (number_text(end, labels_of([], [span.low, span.high])) for end in (span.low, span.high))
    close = f"a width of {span.resolution}" if span.whole else f"a factor of {exact_text(span.resolution)}"
    needed = "its seed learns" if seeds == 1 else f"at least {question.needed} of {seeds} seeds learn"
    trainable = f"A value counts as trainable if {needed}."
    return f"{question.axis} from {low} to {high}, brackets narrowed to {close}. {trainable}"


def ends(edge: Edge) -> list[tuple[str, Share, Share]]:
    """Return the first and the last limit as (kind, trainable, not trainable); the kind is `up to` or `from`."""
    return [
        (UP_TO, low, high) if low.verdict else (FROM, high, low)
        for low, high in dict.fromkeys((*edge.borders[:1], *edge.borders[-1:]))
    ]


def is_window(edge: Edge) -> bool:
    """Return whether a cell learns in one interval inside the range, and on neither side of it."""
    return len(edge.borders) == 2 and edge.borders[0][1].verdict is True


def table(question: Question, edges: Sequence[Edge]) -> TextTable:
    """Return one row per limit with both ends of its bracket and the seeds that learned. Every cell has a row."""
    names, labels = _names(edges), _labels(question, edges)
    header = (*names, "learns", "at", "but not at", "values run", "remark")
    rows = []
    for edge in edges:
        cell = [labels.text(name, edge.values[name]) for name in names]
        lines = [(kind, *(share_text(share, labels) for share in both)) for kind, *both in ends(edge)]
        lines = lines or [_without(edge, labels)]
        once = (str(len(edge.shares)), remark(edge, labels))
        for index, line in enumerate(lines):
            rows.append((*cell, *line, *(once if index == 0 else ("", ""))))
    note = "In brackets: seeds that learned. Both ends of each bracket were run; no value between them was."
    if len(_twins(edges)) < len(edges):
        note += " Cells that consist of the same runs are listed separately."
    return TextTable(title=asked_text(question), header=header, rows=tuple(rows), note=note)


def _names(edges: Sequence[Edge]) -> list[str]:
    """Return the keys that distinguish the cells; the label only if a cell has one."""
    return [name for name in edges[0].values if name != "label" or any(edge.values[name] for edge in edges)]


def _without(edge: Edge, labels: Labels) -> tuple[str, str, str]:
    """Return the entries of a cell without a limit: learns, at, but not at."""
    both = " to ".join(share_text(share, labels) for share in (*edge.shares[:1], *edge.shares[1:][-1:]))
    if edge.finding is Finding.EVERYWHERE:
        return "at every value", both, ""
    return ("at no value", "", both) if edge.finding is Finding.NOWHERE else ("open", "", "")


def remark(edge: Edge, labels: Labels) -> str:
    """Return what the bracket does not show: other limits, mixed values, missing verdicts, an unfinished search."""
    parts = []
    if edge.finding is Finding.SEVERAL:
        parts.append("learns only in between" if is_window(edge) else f"not monotone: {_intervals(edge, labels)}")
    shown = [share for _, *both in ends(edge) for share in both] or [*edge.shares[:1], *edge.shares[-1:]]
    mixed = [share for share in edge.shares if share.verdict is not None and 0 < share.learned < share.seeds]
    hidden = [share_text(share, labels) for share in mixed if not any(share is end for end in shown)]
    parts += [f"mixed at {listed(hidden)}"] if hidden else []
    open_at = [share_text(share, labels) for share in edge.shares if share.verdict is None]
    parts += [f"no verdict at {listed(open_at)}"] if open_at else []
    parts += [] if edge.finished else ["not finished"]
    return "; ".join(parts)


def _intervals(edge: Edge, labels: Labels) -> str:
    """List the trainable and the other intervals: `learns at 0.001 to 0.003 and 0.03, not at 0.01 and 0.1 to 1`."""
    by_verdict: dict[bool, list[str]] = {True: [], False: []}
    decided = [share for share in edge.shares if share.verdict is not None]
    for verdict, group in groupby(decided, key=lambda share: bool(share.verdict)):
        values = [number_text(share.value, labels) for share in group]
        by_verdict[verdict].append(" to ".join(dict.fromkeys((values[0], values[-1]))))
    return f"learns at {listed(by_verdict[True])}, not at {listed(by_verdict[False])}"


def conclusion(question: Question, edges: Sequence[Edge]) -> str:
    """Return the lowest and the highest limit, and the cells without a limit, in sentences.

    Cells that consist of the same runs are merged.
    """
    labels = _labels(question, edges)
    edges = [_joined(same_runs, labels) for same_runs in _twins(edges)]
    plain = [edge for edge in edges if edge.finding is Finding.BORDER or is_window(edge)]
    sentences = []
    for kind in (UP_TO, FROM):
        limits = [(edge, good, bad) for edge in plain for its_kind, good, bad in ends(edge) if its_kind == kind]
        sentences += [_limits_text(question, kind, limits, labels)] if limits else []
    low, high = (number_text(end, labels) for end in (question.span.low, question.span.high))
    span = f"{question.axis} {low} to {high}"
    not_monotone = [edge for edge in edges if edge.finding is Finding.SEVERAL and not is_window(edge)]
    others = (
        ("learns", "learn", f"at all values run from {span}", _with_finding(edges, Finding.EVERYWHERE)),
        ("learns", "learn", f"at no value run from {span}", _with_finding(edges, Finding.NOWHERE)),
        ("is", "are", "not monotone (see the remark)", not_monotone),
        ("is", "are", "open", _with_finding(edges, Finding.OPEN)),
    )
    for singular, plural_verb, rest, matching in others:
        if matching:
            verb = singular if len(matching) in (1, len(edges)) else plural_verb
            sentences.append(f"{_subject(matching, edges, labels)} {verb} {rest}.")
    return " ".join(sentences)


def _with_finding(edges: Sequence[Edge], finding: Finding) -> list[Edge]:
    return [edge for edge in edges if edge.finding is finding]


def _twins(edges: Sequence[Edge]) -> list[list[Edge]]:
    """Group the cells that consist of the same runs."""
    groups: dict[frozenset[str] | int, list[Edge]] = {}
    for index, edge in enumerate(edges):
        groups.setdefault(edge.run_ids or index, []).append(edge)
    return list(groups.values())


def _joined(edges: Sequence[Edge], labels: Labels) -> Edge:
    """Merge cells with the same runs into one, with joined values such as `pre/post`."""
    if len(edges) == 1:
        return edges[0]
    return replace(edges[0], values=joined_values([edge.values for edge in edges], labels))


def _subject(matching: Sequence[Edge], edges: Sequence[Edge], labels: Labels) -> str:
    if len(edges) == 1:
        return "The network"
    if len(matching) == len(edges):
        return f"Each of the {len(edges)} cells"
    names = listed([name_of(edge, labels) for edge in matching])
    return f"The cell {names}" if len(matching) == 1 else f"The cells {names}"


def name_of(edge: Edge, labels: Labels) -> str:
    """Return the name of a cell, empty if it is the only one."""
    return values_text(edge.values, labels)


def _labels(question: Question, edges: Sequence[Edge]) -> Labels:
    return labels_of(edges, [question.span.low, question.span.high])


def _limits_text(question: Question, kind: str, limits: Sequence[tuple[Edge, Share, Share]], labels: Labels) -> str:
    """Describe one limit, or the lowest and the highest of several and the least factor between them."""
    axis = question.axis
    by_value = sorted(limits, key=lambda limit: (limit[1].value, limit[2].value))
    (lowest, low_good, low_bad), (highest, high_good, high_bad) = by_value[0], by_value[-1]
    if len(limits) == 1:
        cell, good, bad = name_of(lowest, labels), share_text(low_good, labels), share_text(low_bad, labels)
        subject = f"With {cell}, the network" if cell else "The network"
        trainable = f"up to {axis} {good}" if kind == UP_TO else f"at {axis} {good} and above"
        return f"{subject} learns {trainable} but not at {bad}."
    least, most = max(low_good.value, low_bad.value), min(high_good.value, high_bad.value)
    limit = f"The {'highest' if kind == UP_TO else 'lowest'} trainable {axis}"
    if most <= least:
        values = [share.value for _, *both in limits for share in both]
        low, high = (number_text(value, labels) for value in (min(values), max(values)))
        return f"{limit} lies between {low} and {high} in {plural(len(limits), 'cell')}."
    apart = f"at least {most - least} more" if question.span.whole else f"at least {_floor(most / least)} times as high"
    return (
        f"{limit} is smallest for {name_of(lowest, labels)} ({_bracket(low_good, low_bad, labels)})"
        f" and largest for {name_of(highest, labels)} ({_bracket(high_good, high_bad, labels)}): {apart}."
    )


def _bracket(good: Share, bad: Share, labels: Labels) -> str:
    return f"{number_text(good.value, labels)}, not {number_text(bad.value, labels)}"


def _floor(factor: float) -> str:
    """Round a factor down to two significant digits; near 1, the digits of factor - 1 count."""
    unit = 10 ** (math.floor(math.log10(factor if factor >= 1.1 else factor - 1)) - 1)
    return f"{math.floor(factor / unit + 1e-9) * unit:.12g}"


def cost(search: Search, records: Mapping[str, RunRecord], before: Collection[str] = ()) -> str:
    """Return the number of runs that the search took, and the number that a full grid of this resolution would take.

    `before` holds the ids of the runs that were stored before the search.
    """
    ended = search.ended(records)
    reused = len(ended & set(before))
    stored = f" ({reused} of them stored before)" if reused else ""
    return f"{plural(len(ended), 'run')}{stored}; a full grid at this resolution would take {search.grid_runs}."


def borders_frame(edges: Sequence[Edge]) -> pd.DataFrame:
    """Return one row per limit shown in the table, and one per cell without a limit."""
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
    """Return one row per cell and value: how many seeds learned, and the verdict."""
    words = {True: "learns", False: "not", None: "open"}
    rows = [
        {**edge.values, question.axis: share.value, "learned": share.learned, "seeds": str(share.seeds)}
        | {"failed": share.failed, "verdict": words[share.verdict]}
        for edge in edges
        for share in edge.shares
    ]
    return frames.frame(rows, [*edges[0].values, question.axis, "learned", "seeds", "failed", "verdict"])
