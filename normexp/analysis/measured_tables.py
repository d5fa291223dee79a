"""Tables of what was measured apart from runs: networks by layer, and the speed of norms."""

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
SPREAD = "In brackets: 10th to 90th percentile over rounds. Ratios are taken within a round."
SHARE = "The share of norms is what a step takes more than one with norm none in the same round."


def bench_tables(rows: Sequence[Timing]) -> list[TextTable]:
    """A table for each part and number of threads."""
    found: dict[tuple[str, int, str], list[Timing]] = {}
    for row in rows:
        found.setdefault((row.part, row.threads, row.where if row.part == STEP else ""), []).append(row)
    made = [
        _step_table(where, threads, part_rows) if part == STEP else _bench_table(part, threads, part_rows)
        for (part, threads, where), part_rows in found.items()
    ]
    last = max((index for index, table in enumerate(made) if not table.note), default=None)
    return [dataclasses.replace(table, note=SPREAD) if index == last else table for index, table in enumerate(made)]


def _bench_table(part: str, threads: int, rows: Sequence[Timing]) -> TextTable:
    return TextTable(
        title=f"{part.capitalize()}, {plural(threads, 'thread')}",
        header=("shape", "norm", "time", "ratio to LN", "params"),
        rows=tuple((row.where, row.norm, _time(row), _ratio(row), str(row.parameters)) for row in rows),
    )


def paths(seconds: Mapping[ExecutionPath, Sequence[float]], told: str, *, in_use: ExecutionPath) -> TextTable:
    """Median time of a step by each path, and how many times as fast as autograd it is."""
    medians = {path: statistics.median(values) for path, values in seconds.items()}
    reference = medians[ExecutionPath.AUTOGRAD]
    rows = tuple(
        (str(path), f"{1000 * time:.2f}", f"{reference / time:.2f}", "yes" if path is in_use else "")
        for path, time in medians.items()
    )
    return TextTable(
        title=f"Training step by path: {told}, 1 thread",
        header=("path", "ms", "times as fast as autograd", "in use"),
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
    """In microseconds, from ten thousand on in milliseconds."""
    unit, factor = ("µs", 1.0) if row.median_us < MANY_US else ("ms", 1e-3)
    median, low, high = (_three(time * factor) for time in (row.median_us, row.p10_us, row.p90_us))
    return f"{median} {unit} ({low}–{high})"


def _three(number: float) -> str:
    """Three significant digits, never as a power."""
    return f"{number:.0f}" if number >= 100 else f"{number:#.3g}".rstrip(".")


def _ratio(row: Timing) -> str:
    found = (row.ratio, row.ratio_p10, row.ratio_p90)
    median, low, high = (f"{ratio:.2f}" if ratio < 10 else _three(ratio) for ratio in found)
    return f"{median} ({low}–{high})"


def _share(row: Timing) -> str:
    if math.isnan(row.share) or row.share == row.share_p10 == row.share_p90 == 0:
        return ""
    return f"{row.share:z.1%} ({row.share_p10:z.1%} to {row.share_p90:z.1%})"


def bench_csv(rows: Sequence[Timing]) -> str:
    """One line a row; nan is an empty cell."""
    text = io.StringIO()
    names = [field.name for field in dataclasses.fields(Timing)]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: "" if value != value else value for name, value in dataclasses.asdict(row).items()})
    return text.getvalue()


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One norm's ratios with one number of threads, in a panel, at places on the axis of shapes."""

    panel: str
    norm: str
    threads: int
    points: tuple[tuple[int, Timing], ...]


def series(rows: Sequence[Timing]) -> tuple[list[str], list[Series]]:
    """The shapes, and what is drawn: every norm but the reference, whose ratio is 1, forward first."""
    rows = [row for row in rows if row.part in (FORWARD, BOTH)]
    shapes = list(dict.fromkeys(row.where for row in rows))
    found: dict[tuple[str, str, int], list[tuple[int, Timing]]] = {}
    for row in rows:
        if not row.ratio_p10 == row.ratio == row.ratio_p90 == 1:
            found.setdefault((row.part, row.norm, row.threads), []).append((shapes.index(row.where), row))
    lines = [
        Series(panel=part, norm=norm, threads=threads, points=tuple(points))
        for (part, norm, threads), points in found.items()
    ]
    return shapes, sorted(lines, key=lambda line: (line.panel != FORWARD, line.threads))


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
"""Quantity and part of what is shown unless a quantity is picked."""
SHOWN_LAYERS = 8
PARTS = {
    "stream": "the stream",
    "logits": "the logits",
    "mixer": "the mixer",
    "ffn": "the FFN",
    **{matrix: matrix for matrix in ("q", "k", "v", "out", "fc1", "fc2")},
    "embedding": "the embedding",
    "positions": "the position embedding",
    "head": "the head",
}
"""Parts in order, and what they are called."""
VISIBLE = 0.05
"""Share of the median that lowest and highest are apart at least where both are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A value over seeds: `middle` is the median, with NaN as the highest of all."""

    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Of at least one value."""
        found = sorted(values, key=lambda value: (value != value, value))
        return cls(low=found[0], middle=_median(found), high=found[-1])


def _median(found: Sequence[float]) -> float:
    """Of sorted values; between two of which one is not finite, the higher."""
    below, above = found[(len(found) - 1) // 2], found[len(found) // 2]
    return statistics.fmean((below, above)) if math.isfinite(below) and math.isfinite(above) else above


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One quantity of one part: for each network, its values over seeds by layer."""

    quantity: str
    part: str
    networks: Mapping[str, Mapping[int, Spread]]

    @property
    def title(self) -> str:
        """What it shows, in words."""
        return QUANTITIES[self.quantity].format(PARTS.get(self.part, self.part))

    @property
    def panel(self) -> str:
        """Its name in a figure."""
        return self.title

    @property
    def layers(self) -> list[int]:
        """All layers that a network has a value of."""
        return sorted({layer for values in self.networks.values() for layer in values})


def profiles(probed: Sequence[Probed], quantity: str | None = None) -> list[Profile]:
    """What is shown: every part of one quantity, or by default one part of most quantities."""
    found: dict[tuple[str, str], dict[str, dict[int, list[float]]]] = {}
    for network in probed:
        for row in network.rows:
            layers = found.setdefault((row.quantity, row.part), {}).setdefault(network.network, {})
            layers.setdefault(row.layer, []).append(row.value)
    names = [key for key in SHOWN if key in found] if quantity is None else _parts_of(quantity, found)
    return [
        Profile(
            quantity=quantity,
            part=part,
            networks={
                network: {layer: Spread.of(values) for layer, values in sorted(layers.items())}
                for network, layers in found[quantity, part].items()
            },
        )
        for quantity, part in names
    ]


def _parts_of(quantity: str, found: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return sorted((key for key in found if key[0] == quantity), key=lambda key: [*PARTS].index(key[1]))


def probe_tables(shown: Sequence[Profile], *, spread: bool) -> list[TextTable]:
    """A table a profile: layers by networks; medians over seeds, with lowest and highest where `spread` asks for it."""
    return [_probe_table(profile, spread) for profile in shown]


def note(seeds: int) -> str:
    """What the cells of several seeds are."""
    if seeds == 1:
        return ""
    apart = f"lowest to highest where more than {VISIBLE:.0%} apart"
    return f"Medians over {plural(seeds, 'seed')}; in brackets, in tables with room for it, {apart}."


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
    """Layers evenly spread over the deepest network, and the last two of each."""
    layers = sorted({layer for values in networks for layer in values})
    stride = max(1, math.ceil((len(layers) - 1) / SHOWN_LAYERS))
    return sorted({*layers[::stride], *(layer for values in networks for layer in sorted(values)[-2:])})


def _layer_name(profile: Profile, layer: int) -> str:
    alike = len({max(values) for values in profile.networks.values()}) == 1
    if profile.part == "stream" and layer == 0:
        return "0 (embedding)"
    return (
        f"{layer} (into the head)"
        if profile.part == "stream" and alike and layer == max(profile.layers)
        else str(layer)
    )


def _cell(spread: Spread, brackets: bool) -> str:
    """`0.123`, `0.123 (0.11–0.14)`; at three significant digits."""
    low, middle, high = (f"{value:.3g}" for value in (spread.low, spread.middle, spread.high))
    near = spread.high - spread.low <= VISIBLE * abs(spread.middle)  # never where one is not finite
    return middle if near or low == high or not brackets else f"{middle} ({low}–{high})"


def headline(state: str, told: str, probed: Sequence[Probed]) -> str:
    """`At initialization: depth 20, ln; seeds 0–2`."""
    seeds = sorted({network.config.seed for network in probed})
    return f"{state}: {f'{told}; ' if told else ''}{'seeds' if len(seeds) > 1 else 'seed'} {range_text(seeds)}"


def present(probed: Sequence[Probed]) -> str:
    """The quantities that there are, in words."""
    return ", ".join(name for name in QUANTITIES if any(row.quantity == name for found in probed for row in found.rows))


def probe_csv(probed: Sequence[Probed]) -> str:
    """One line a measurement: the network's name, run id and every key as asked, then layer, part, quantity, value."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["network", "run_id", *KEYS, "layer", "part", "quantity", "value"])
    for network in probed:
        values = {**network.config.to_dict(), **network.asked}
        about = [network.network, network.config.run_id, *(values[key] for key in KEYS)]
        writer.writerows([*about, row.layer, row.part, row.quantity, repr(row.value)] for row in network.rows)
    return text.getvalue()
