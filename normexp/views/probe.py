"""Networks as they were measured, side by side: tables by layer, and tidy CSV."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from normexp.labels import plural, range_text
from normexp.probed import QUANTITIES, Probed
from normexp.run import KEYS
from normexp.views.pivot import TextTable

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


def tables(shown: Sequence[Profile], *, spread: bool) -> list[TextTable]:
    """A table a profile: layers by networks; medians over seeds, with lowest and highest where `spread` asks for it."""
    return [_table(profile, spread) for profile in shown]


def note(seeds: int) -> str:
    """What the cells of several seeds are."""
    if seeds == 1:
        return ""
    apart = f"lowest to highest where more than {VISIBLE:.0%} apart"
    return f"Medians over {plural(seeds, 'seed')}; in brackets, in tables with room for it, {apart}."


def _table(profile: Profile, spread: bool) -> TextTable:
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


def to_csv(probed: Sequence[Probed]) -> str:
    """One line a measurement: the network's name, run id and every key as asked, then layer, part, quantity, value."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["network", "run_id", *KEYS, "layer", "part", "quantity", "value"])
    for network in probed:
        values = {**network.config.to_dict(), **network.asked}
        about = [network.network, network.config.run_id, *(values[key] for key in KEYS)]
        writer.writerows([*about, row.layer, row.part, row.quantity, repr(row.value)] for row in network.rows)
    return text.getvalue()
