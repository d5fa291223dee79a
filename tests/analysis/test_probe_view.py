"""Tables and figures of `normexp probe`: medians, layers, and quantities that not every network has."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import pytest
from drawn import crosses
from tinyprobe import KEYS_OF_TINY

from normexp.analysis import measured_tables as view
from normexp.config.run import RunConfig
from normexp.plots.measured import draw_probe
from normexp.plots.style import render
from normexp.records.measurements import QUANTITIES, Probed
from normexp.records.record import SignalRow
from normexp.training.inspection import inspect


def probed(network: str, seed: int, values: Sequence[float], quantity: str = "rms") -> Probed:
    rows = [SignalRow(step=0, layer=at, part="stream", quantity=quantity, value=v) for at, v in enumerate(values)]
    return Probed(network=network, config=RunConfig(seed=seed), rows=rows)


class TestViews:
    def test_cells_are_medians_with_lowest_and_highest_where_they_differ(self) -> None:
        found = [probed("a", seed, [1.0, x, y]) for seed, (x, y) in enumerate([(5.0, 1.0), (1.0, 1.01), (2.0, 1.02)])]
        (wide,) = view.probe_tables(view.profiles(found), spread=True)
        (narrow,) = view.probe_tables(view.profiles(found), spread=False)
        assert [row[1] for row in wide.rows] == ["1", "2 (1–5)", "1.01"]
        assert [row[1] for row in narrow.rows] == ["1", "2", "1.01"]

    def test_what_cells_are_is_said_of_several_seeds(self) -> None:
        assert "3 seeds" in view.note(3)
        assert "5 %" in view.note(3)
        assert view.note(1) == ""

    def test_a_part_at_the_end_of_each_network_has_one_row(self) -> None:
        def at(layer: int, network: str) -> Probed:
            row = SignalRow(step=0, layer=layer, part="logits", quantity="update", value=layer / 2)
            return Probed(network=network, config=RunConfig(), rows=[row])

        (table,) = view.probe_tables(view.profiles([at(3, "a"), at(9, "b")], "update"), spread=True)
        assert table.rows == (("depth + 1", "1.5", "4.5"),)
        (table,) = view.probe_tables(view.profiles([at(3, "a"), at(3, "b")], "update"), spread=True)
        assert table.rows == (("3", "1.5", "1.5"),)

    @pytest.mark.parametrize(("quantity", "part", "first"), [("rms", "stream", 1), ("grad_norm", "fc2", 3)])
    def test_gradients_break_from_the_top_down(self, quantity: str, part: str, first: int) -> None:
        values = [1.0, math.inf, math.nan, math.inf, 2.0]
        rows = [SignalRow(step=0, layer=at, part=part, quantity=quantity, value=v) for at, v in enumerate(values)]
        figure = draw_probe("title", view.profiles([Probed(network="a", config=RunConfig(), rows=rows)]))
        assert crosses(figure) == [(first, 1.0)]

    def test_what_is_not_finite_counts_as_the_highest(self) -> None:
        nan, inf = math.nan, math.inf
        found = [probed("a", seed, v) for seed, v in enumerate([(nan, nan, 1.0), (1.0, nan, 2.0), (2.0, inf, nan)])]
        (table,) = view.probe_tables(view.profiles(found), spread=True)
        assert [row[1] for row in table.rows] == ["2 (1–nan)", "nan (inf–nan)", "2 (1–nan)"]
        two = [probed("a", seed, v) for seed, v in enumerate([(1.0, 1.0), (2.0, inf)])]
        assert [row[1] for row in view.probe_tables(view.profiles(two), spread=False)[0].rows] == ["1.5", "inf"]

    def test_many_layers_are_thinned_and_each_network_keeps_its_last(self) -> None:
        found = [probed("deep", 0, [1.0] * 66), probed("shallow", 0, [1.0] * 6)]
        (table,) = view.probe_tables(view.profiles(found), spread=True)
        layers = [row[0] for row in table.rows]
        assert layers == ["0 (embedding)", "4", "5", "9", "18", "27", "36", "45", "54", "63", "64", "65"]
        assert [row[2] for row in table.rows if row[0] in ("5", "9")] == ["1", ""]

    def test_every_quantity_has_words_for_every_part(self) -> None:
        run = RunConfig(norm="bn", depth=1, **KEYS_OF_TINY)  # type: ignore[arg-type]
        found = [Probed(network="one", config=run, rows=inspect(run))]
        assert {row.quantity for row in found[0].rows} == set(QUANTITIES)
        titles = [profile.title for name in QUANTITIES for profile in view.profiles(found, name)]
        assert len(titles) == len(set(titles)) == len({(row.quantity, row.part) for row in found[0].rows})

    def test_panels_are_logarithmic_where_values_span_decades(self) -> None:
        nan = math.nan
        found = [
            dataclasses.replace(
                probed("a", 0, [1.0, 2.0]),
                rows=[
                    *probed("a", 0, [1.0, 2.0]).rows,
                    *probed("a", 0, [1.0, 0.001], "token_cosine").rows,
                    *probed("a", 0, [1.0, 30.0, nan, nan], "update").rows,
                ],
            )
        ]
        figure = draw_probe("title", view.profiles(found))
        assert [ax.get_yscale() for ax in figure.axes] == ["linear", "linear", "log"]
        crosses = [line for line in figure.axes[2].lines if line.get_marker() == "X"]
        assert [list(line.get_xdata()) for line in crosses] == [[2]]
        zeros = draw_probe("title", view.profiles([probed("a", 0, [0.0, 1.0, 100.0])]))
        assert zeros.axes[0].get_yscale() == "symlog"
        assert render(zeros)["png"][:4] == b"\x89PNG"

    def test_what_is_of_one_layer_is_no_panel_beside_others(self) -> None:
        run = RunConfig(norm="bn", depth=1, **KEYS_OF_TINY)  # type: ignore[arg-type]
        shown = view.profiles([Probed(network="one", config=run, rows=inspect(run))])
        titles = [ax.get_title() for ax in draw_probe("title", shown).axes if ax.axison]
        (leak,) = [profile for profile in shown if profile.quantity == "leak"]
        assert leak.title not in titles
        assert [ax.get_title() for ax in draw_probe("title", [leak]).axes] == [leak.title]

    def test_bands_go_from_lowest_to_highest(self) -> None:
        figure = draw_probe("title", view.profiles([probed("a", seed, [1.0, 2.0 + seed]) for seed in range(3)]))
        (band,) = figure.axes[0].collections
        assert band.get_paths()[0].get_extents().y1 == 4.0
        assert list(figure.axes[0].lines[0].get_ydata()) == [1.0, 3.0]
