"""Tables of `normexp probe` (quantities by layer) and `normexp bench` (the speed of norms)."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from normexp.analysis.tables import TextTable
from normexp.config.labels import plural, range_text
from normexp.config.run import KEYS
from normexp.records.execution_path import ExecutionPath
from normexp.records.measurements import BOTH, FORWARD, QUANTITIES, STEP, Probed, Timing

MANY_US = 1e4
"""Times from this many microseconds on are shown in milliseconds."""
SPREAD = "In brackets: 10th to 90th percentile over rounds. Ratios are computed within each round."
SHARE = "The share of norms is the extra time of a step over one with norm none in the same round, divided by its time."
SHOWN = (
    ("rms", "stream"),
    ("token_cosine", "stream"),
    ("grad_norm", "fc2"),
    ("grad_norm", "q"),
    ("update", "stream"),
    ("attention_entropy", "mixer"),
    ("max_logit", "mixer"),
    ("leak", "logits"),
    ("train_mode_loss", "logits"),
    ("eval_mode_loss", "logits"),
)
"""The (quantity, part) pairs shown by default."""
SHOWN_LAYERS = 8
PARTS = {
    "stream": "the residual stream",
    "logits": "the logits",
    "mixer": "the token mixer",
    "ffn": "the FFN",
    **{matrix: matrix for matrix in ("q", "k", "v", "out", "fc1", "fc2")},
    "embedding": "the embedding",
    "positions": "the position embedding",
    "head": "the LM head",
}
"""The parts of a network in order, and their names in titles."""
VISIBLE = 0.05
"""The range over seeds is shown if it exceeds this share of the median."""


def bench_tables(rows: Sequence[Timing]) -> list[TextTable]:
    """Return one table per benchmarked part and number of threads."""
    groups: dict[tuple[str, int, str], list[Timing]] = {}
    for row in rows:
        groups.setdefault((row.part, row.threads, row.where if row.part == STEP else ""), []).append(row)
    tables = [
        _step_table(where, threads, part_rows) if part == STEP else _bench_table(part, threads, part_rows)
        for (part, threads, where), part_rows in groups.items()
    ]
    last = max((index for index, table in enumerate(tables) if not table.note), default=None)
    return [dataclasses.replace(table, note=SPREAD) if index == last else table for index, table in enumerate(tables)]


def _bench_table(part: str, threads: int, rows: Sequence[Timing]) -> TextTable:
    return TextTable(
        title=f"{part.capitalize()}, {plural(threads, 'thread')}",
        header=("shape", "norm", "time", "ratio to LN", "params"),
        rows=tuple((row.where, row.norm, _time(row), _ratio(row), str(row.parameters)) for row in rows),
    )


def paths(seconds: Mapping[ExecutionPath, Sequence[float]], config: str, *, in_use: ExecutionPath) -> TextTable:
    """Return the median step time of each execution path, and its speedup over autograd. `config` names the network."""
    medians = {path: statistics.median(values) for path, values in seconds.items()}
    reference = medians[ExecutionPath.AUTOGRAD]
    rows = tuple(
        (str(path), f"{1000 * time:.2f}", f"{reference / time:.2f}", "yes" if path is in_use else "")
        for path, time in medians.items()
    )
    return TextTable(
        title=f"Training step by execution path: {config}, 1 thread",
        header=("path", "ms", "speedup over autograd", "in use"),
        rows=rows,
    )


def _step_table(where: str, threads: int, rows: Sequence[Timing]) -> TextTable:
    return TextTable(
        title=f"{STEP.capitalize()}: {where}, {plural(threads, 'thread')}",
        header=("norm", "time", "ratio to ln", "share of norms", "params"),
        rows=tuple((row.norm, _time(row), _ratio(row), _share(row), str(row.parameters)) for row in rows),
        note=f"{SHARE} {SPREAD}",
    )


def _time(row: Timing) -> str:
    """Return the median and the percentiles of a time, in microseconds or (from `MANY_US` on) milliseconds."""
    unit, factor = ("µs", 1.0) if row.median_us < MANY_US else ("ms", 1e-3)
    median, low, high = (_three(time * factor) for time in (row.median_us, row.p10_us, row.p90_us))
    return f"{median} {unit} ({low}–{high})"


def _three(number: float) -> str:
    """Format a number with three significant digits, never in exponent notation."""
    return f"{number:.0f}" if number >= 100 else f"{number:#.3g}".rstrip(".")


def _ratio(row: Timing) -> str:
    ratios = (row.ratio, row.ratio_p10, row.ratio_p90)
    median, low, high = (f"{ratio:.2f}" if ratio < 10 else _three(ratio) for ratio in ratios)
    return f"{median} ({low}–{high})"


def _share(row: Timing) -> str:
    if math.isnan(row.share) or row.share == row.share_p10 == row.share_p90 == 0:
        return ""
    return f"{row.share:z.1%} ({row.share_p10:z.1%} to {row.share_p90:z.1%})"


def bench_csv(rows: Sequence[Timing]) -> str:
    """Return the timings as CSV text, one line per timing; NaN is an empty cell."""
    text = io.StringIO()
    names = [field.name for field in dataclasses.fields(Timing)]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: "" if value != value else value for name, value in dataclasses.asdict(row).items()})
    return text.getvalue()


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The ratios of one norm with one number of threads: one line in a panel, by index of the shape."""

    panel: str
    norm: str
    threads: int
    points: tuple[tuple[int, Timing], ...]


def series(rows: Sequence[Timing]) -> tuple[list[str], list[Series]]:
    """Return the shapes, and one series per part, norm and number of threads, forward first.

    The reference norm, whose ratio is always 1, has no series.
    """
    rows = [row for row in rows if row.part in (FORWARD, BOTH)]
    shapes = list(dict.fromkeys(row.where for row in rows))
    points_by_line: dict[tuple[str, str, int], list[tuple[int, Timing]]] = {}
    for row in rows:
        if not row.ratio_p10 == row.ratio == row.ratio_p90 == 1:
            points_by_line.setdefault((row.part, row.norm, row.threads), []).append((shapes.index(row.where), row))
    lines = [
        Series(panel=part, norm=norm, threads=threads, points=tuple(points))
        for (part, norm, threads), points in points_by_line.items()
    ]
    return shapes, sorted(lines, key=lambda line: (line.panel != FORWARD, line.threads))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Minimum, median and maximum of a value over seeds. NaN counts as the highest value."""

    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Return the spread of at least one value."""
        ordered = sorted(values, key=lambda value: (value != value, value))
        return cls(low=ordered[0], middle=_median(ordered), high=ordered[-1])


def _median(ordered: Sequence[float]) -> float:
    """Return the median of sorted values. If one of two middle values is not finite, return the higher one."""
    below, above = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return statistics.fmean((below, above)) if math.isfinite(below) and math.isfinite(above) else above


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One quantity of one part: for each network, the spread over seeds by layer."""

    quantity: str
    part: str
    networks: Mapping[str, Mapping[int, Spread]]

    @property
    def title(self) -> str:
        """The quantity and the part in words."""
        return QUANTITIES[self.quantity].format(PARTS.get(self.part, self.part))

    @property
    def panel(self) -> str:
        """The name of its panel in a figure."""
        return self.title

    @property
    def layers(self) -> list[int]:
        """All layers for which some network has a value."""
        return sorted({layer for values in self.networks.values() for layer in values})


def profiles(probed: Sequence[Probed], quantity: str | None = None) -> list[Profile]:
    """Return the profiles to show: all parts of one quantity, or the (quantity, part) pairs in `SHOWN`."""
    measured: dict[tuple[str, str], dict[str, dict[int, list[float]]]] = {}
    for network in probed:
        for row in network.rows:
            layers = measured.setdefault((row.quantity, row.part), {}).setdefault(network.network, {})
            layers.setdefault(row.layer, []).append(row.value)
    names = [key for key in SHOWN if key in measured] if quantity is None else _parts_of(quantity, measured)
    return [
        Profile(
            quantity=quantity,
            part=part,
            networks={
                network: {layer: Spread.of(values) for layer, values in sorted(layers.items())}
                for network, layers in measured[quantity, part].items()
            },
        )
        for quantity, part in names
    ]


def _parts_of(quantity: str, measured: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return sorted((key for key in measured if key[0] == quantity), key=lambda key: [*PARTS].index(key[1]))


def probe_tables(shown: Sequence[Profile], *, spread: bool) -> list[TextTable]:
    """Return one table per profile: medians over seeds, layers by networks; with `spread`, also their ranges."""
    return [_probe_table(profile, spread) for profile in shown]


def note(seeds: int) -> str:
    """Return the note that explains cells of several seeds, empty for one seed."""
    if seeds == 1:
        return ""
    return (
        f"Medians over {seeds} seeds. Brackets: min–max over seeds, if they differ by more than {100 * VISIBLE:.0f} %."
    )


def _probe_table(profile: Profile, spread: bool) -> TextTable:
    networks = list(profile.networks.values())
    if all(len(values) == 1 for values in networks):
        (*_, only) = (layer for values in networks for layer in values)
        name = str(only) if profile.layers == [only] else "depth + 1"
        rows = [(name, *(_cell(cell, spread) for values in networks for cell in values.values()))]
    else:
        rows = [
            (
                _layer_name(profile, layer),
                *(_cell(values[layer], spread) if layer in values else "" for values in networks),
            )
            for layer in _thinned(networks)
        ]
    return TextTable(title=profile.title, header=("layer", *profile.networks), rows=tuple(rows))


def _thinned(networks: Sequence[Mapping[int, Spread]]) -> list[int]:
    """Return evenly spaced layers of the deepest network, and the last two layers of each network."""
    layers = sorted({layer for values in networks for layer in values})
    stride = max(1, math.ceil((len(layers) - 1) / SHOWN_LAYERS))
    return sorted({*layers[::stride], *(layer for values in networks for layer in sorted(values)[-2:])})


def _layer_name(profile: Profile, layer: int) -> str:
    same_depth = len({max(values) for values in profile.networks.values()}) == 1
    if profile.part == "stream" and layer == 0:
        return "0 (embedding)"
    return (
        f"{layer} (LM head input)"
        if profile.part == "stream" and same_depth and layer == max(profile.layers)
        else str(layer)
    )


def _cell(spread: Spread, brackets: bool) -> str:
    """Format a spread with three significant digits: `0.123`, `0.123 (0.11–0.14)`."""
    low, middle, high = (f"{value:.3g}" for value in (spread.low, spread.middle, spread.high))
    near = spread.high - spread.low <= VISIBLE * abs(spread.middle)  # always False if a value is not finite
    return middle if near or low == high or not brackets else f"{middle} ({low}–{high})"


def headline(state: str, config: str, probed: Sequence[Probed]) -> str:
    """Return the state, the configuration and the seeds: `At initialization: depth 20, ln; seeds 0–2`."""
    seeds = sorted({network.config.seed for network in probed})
    return f"{state}: {f'{config}; ' if config else ''}{'seeds' if len(seeds) > 1 else 'seed'} {range_text(seeds)}"


def present(probed: Sequence[Probed]) -> str:
    """List the quantities that were measured."""
    measured = {row.quantity for network in probed for row in network.rows}
    return ", ".join(name for name in QUANTITIES if name in measured)


def probe_csv(probed: Sequence[Probed]) -> str:
    """Return CSV text with one line per value: network, run id, configured keys, layer, part, quantity, value."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["network", "run_id", *KEYS, "layer", "part", "quantity", "value"])
    for network in probed:
        values = {**network.config.to_dict(), **network.asked}
        about = [network.network, network.config.run_id, *(values[key] for key in KEYS)]
        writer.writerows([*about, row.layer, row.part, row.quantity, repr(row.value)] for row in network.rows)
    return text.getvalue()
