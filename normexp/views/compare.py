"""A comparison of two sweeps for people: tables, and what they come to in a few sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType

from normexp.errors import at_most
from normexp.keys import Value
from normexp.labels import Labels, loss_text, plural
from normexp.plan import SEED, Point
from normexp.views.comparison import CellDifference, Change, Comparison, Differing
from normexp.views.console import Encodable, Uncut
from normexp.views.pairing import Pair, Values
from normexp.views.pivot import TextTable, cell_text, joined_text, joined_values
from normexp.views.tables import PENDING

SHOWN_VALUES = 8
SHOWN_POINTS = 5


def comparison(found: Comparison) -> RenderableType:
    """What differs between two sweeps: keys, outcomes, losses, environments, and the whole in sentences."""
    a, b = names(found.a.name, found.b.name, found.a.folder, found.b.folder)
    parts: list[RenderableType] = [Encodable(f"{a} (A) against {b} (B)", "bold")]
    tables = [differing("Keys that differ", "key", found.keys)]
    if found.pairing.pairs:
        tables += [_changes(found), _cells(found)]
    tables.append(differing("Made with", "", found.environment))
    parts += [Uncut(table) for table in tables if table.rows]
    return Group(*parts, *(Encodable(sentence) for sentence in sentences(found)))


def names(a: str, b: str, a_folder: str, b_folder: str) -> tuple[str, str]:
    """What two sides are called: by their names, or, where these are one, by their folders."""
    return (a, b) if a != b else (a_folder, b_folder)


def differing(title: str, name: str, found: Sequence[Differing]) -> TextTable:
    """What differs, a line each, with the values of either side."""
    labels = Labels(lambda key: [value for item in found if item.name == key for value in (*item.a, *item.b)])
    rows = tuple((item.name, *(_values(item.name, side, labels) for side in (item.a, item.b))) for item in found)
    return TextTable(title=title, header=(name, "A", "B"), rows=rows)


def _values(key: str, values: Sequence[Value], labels: Labels) -> str:
    texts = [labels.text(key, value) or "(empty)" for value in values[:SHOWN_VALUES]]
    more = len(values) - len(texts)
    return ", ".join(texts) + (f" and {more} more" if more else "")


def _changes(found: Comparison) -> TextTable:
    labels = found.labels
    rows = tuple((change.a, change.b, str(len(change.pairs)), _points(change, labels)) for change in found.changes)
    return TextTable(title="Outcomes", header=("A", "B", "pairs", "which, where they differ"), rows=rows)


def _points(change: Change, labels: Labels) -> str:
    """The points whose outcome changed, the first of them by name."""
    if change.a == change.b:
        return ""
    named = [_named(pair.of_points, labels) for pair in change.pairs]
    return "; ".join(at_most(named, SHOWN_POINTS))


def _named(places: Sequence[Pair], labels: Labels) -> str:
    """`lr 0.003, seed 0, norm ln → rms`: where both agree, and what each has instead."""
    return ", ".join(
        filter(None, [joined_text([place.where for place in places], labels), _replacement(places, labels)])
    )


def _replacement(places: Sequence[Pair], labels: Labels) -> str:
    before, after = (joined_values(values, labels) for values in _sides(places))
    return ", ".join(f"{key} {before[key]} → {after[key]}" for key in before)


def _sides(places: Sequence[Pair]) -> tuple[list[Values], list[Values]]:
    return [place.before for place in places], [place.after for place in places]


def _cells(found: Comparison) -> TextTable:
    cells, labels = found.cells, found.labels
    wheres = [joined_values([place.where for place in cell.places], labels) for cell in cells]
    keys = [key for key in found.pairing.matched if key != SEED and len({where[key] for where in wheres}) > 1]
    replaced = [_replacement(cell.places, labels) for cell in cells]
    several = len(set(replaced)) > 1
    header = (*keys, *(["A → B"] if several else []), "A", "B", "B - A (95 % interval)", "pairs")
    rows = tuple(
        (
            *(where[key] for key in keys),
            *([replacement] if several else []),
            cell_text(cell.a),
            cell_text(cell.b),
            _difference(cell),
            f"{cell.compared} of {cell.pairs}",
        )
        for cell, where, replacement in zip(cells, wheres, replaced, strict=True)
    )
    return TextTable(
        title="Final validation loss in nats",
        header=header,
        rows=rows,
        note="B - A: the mean over pairs of one seed, of which both survived; the interval is a t-interval.",
    )


def _difference(cell: CellDifference) -> str:
    if cell.same_runs:
        return "the same runs"
    if not cell.same_task:
        return "other tasks"
    if cell.mean is None:
        return "no pair survived"
    if cell.low is None or cell.high is None:
        return _signed(cell.mean)
    return f"{_signed(cell.mean)} ({_signed(cell.low)} to {_signed(cell.high)})"


def _signed(number: float) -> str:
    return ("+" if number > 0 else "") + loss_text(number)


def sentences(found: Comparison) -> list[str]:
    """How many runs pair, how many outcomes changed, and in how many cells which side is lower; each run pair once."""
    pairs = found.pairing
    unpaired = _unpaired(pairs.only_a, "A") + _unpaired(pairs.only_b, "B")
    if not pairs.pairs:
        return [f"Nothing to pair: no point of A and of B agrees on {_listed(pairs.matched)}{''.join(unpaired)}."]
    runs, points = len(pairs.pairs), plural(len(pairs.of_points), "pair")
    answer = f"answer{'s' * (runs == 1)} {points} of points"
    paired = f"{points} of points" if points == plural(runs, "pair") else f"{plural(runs, 'pair')} of runs {answer}"
    told = [f"{paired}{''.join(unpaired)}."]
    ours, theirs = (len({ids[side] for ids in (pair.run_ids for pair in pairs.pairs)}) for side in (0, 1))
    if min(ours, theirs) < runs:
        told.append(
            f"They are of {plural(ours, 'run')} of A and {theirs} of B: pairs that share a run are not independent."
        )
    ended = [change for change in found.changes if PENDING not in (change.a, change.b)]
    changed = sum(len(change.pairs) for change in ended if change.a != change.b)
    both = sum(len(change.pairs) for change in ended)
    open_ = runs - both - found.same
    waits = f"; {open_} more {'has' if open_ == 1 else 'have'} a side that is pending" if open_ else ""
    same = f"; {found.same} more {'is' if found.same == 1 else 'are'} one run on both sides" if found.same else ""
    told.append(f"Outcomes: {changed} of {both} differ{waits}{same}.")
    measured = [cell for cell in found.cells if cell.low is not None and not cell.same_runs]
    if measured:
        lower, higher = [c for c in measured if (c.mean or 0) < 0], [c for c in measured if (c.mean or 0) > 0]
        told.append(
            f"Of {plural(len(measured), 'cell')} with two pairs or more, B is lower in {len(lower)} "
            f"(significantly in {_clear(lower)}) and higher in {len(higher)} (significantly in {_clear(higher)}); "
            "significant: the 95 % interval excludes 0, which one in twenty does by chance."
        )
    return told if found.keys else ["Both have the same keys.", *told]


def _clear(cells: Sequence[CellDifference]) -> int:
    return sum(cell.clear for cell in cells)


def _unpaired(points: Iterable[Point], name: str) -> list[str]:
    count = len(list(points))
    return [f"; {plural(count, 'point')} of {name} found none"] if count else []


def _listed(keys: Sequence[str]) -> str:
    return ", ".join(key for key in keys if key != "label")
