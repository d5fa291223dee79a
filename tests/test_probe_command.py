"""normexp probe: networks side by side, its files, a trained run, refusals that write nothing."""

from __future__ import annotations

import csv
import dataclasses
import math
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from normexp.cli import probe as command
from normexp.cli.app import app
from normexp.config.probe import MOST, read
from normexp.errors import UserError
from normexp.probed import QUANTITIES, Probed
from normexp.record import SignalRow
from normexp.results.store import WEIGHTS, Store
from normexp.run import KEYS, RunConfig
from normexp.training.inspection import inspect, inspect_trainer
from normexp.training.trained import retrain
from normexp.training.weights import weights_bytes
from normexp.views import probe as view
from normexp.views.figures.canvas import render
from normexp.views.figures.probefigure import draw

TINY = ("width=8", "hidden=8", "heads=2", "vocab=8", "seq_len=6", "batch=4", "order=1")
KEYS_OF_TINY = {"width": 8, "hidden": 8, "heads": 2, "vocab": 8, "seq_len": 6, "batch": 4, "order": 1}
ONE_PANEL = ("--quantity", "token_cosine")
MADE = ("position=pre,post", "norm=[ln, none]", "depth=2", *TINY, "--seeds", "2", *ONE_PANEL)


def probe(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["probe", *arguments])
    assert done.exit_code == 0, done.output + repr(done.exception)
    return done.output


def refused(*arguments: str) -> list[str]:
    done = CliRunner().invoke(app, ["probe", *arguments])
    assert isinstance(done.exception, UserError), done.output
    return list(done.exception.complaints)


def lines(folder: Path) -> list[dict[str, str]]:
    with (folder / "probe.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder that the command has made, with what it printed."""
    out = tmp_path_factory.mktemp("probe") / "new" / "results"
    told = probe(*MADE, "--out", str(out))
    (folder,) = out.iterdir()
    return folder, told


class TestTheFiles:
    def test_the_folder_says_what_was_changed(self, made: tuple[Path, str]) -> None:
        folder, told = made
        assert folder.name.startswith("probe+")
        assert "position=pre,post" in read(["position=pre,post"], None, None).folder
        assert str(folder) in told
        assert {path.name for path in folder.iterdir()} - {".lock"} == {"probe.csv", "probe.png", "probe.svg"}

    def test_every_network_seed_and_quantity_is_a_line(self, made: tuple[Path, str]) -> None:
        found = lines(made[0])
        assert list(found[0]) == ["network", "run_id", *KEYS, "layer", "part", "quantity", "value"]
        names = list(dict.fromkeys(line["network"] for line in found))
        assert names == ["pre, ln", "pre, none", "post, ln", "post, none"]
        run = RunConfig(norm="ln", position="post", depth=2, seed=1, **KEYS_OF_TINY)
        mine = [line for line in found if line["network"] == "post, ln" and line["seed"] == "1"]
        assert {line["run_id"] for line in mine} == {run.run_id}
        told = [(int(m["layer"]), m["part"], m["quantity"], float(m["value"])) for m in mine]
        assert told == [(row.layer, row.part, row.quantity, row.value) for row in inspect(run)]

    def test_keys_are_told_as_they_were_asked(self, made: tuple[Path, str]) -> None:
        """Without a norm, pre and post are one network, and yet two columns."""
        found = [line for line in lines(made[0]) if line["network"].endswith("none")]
        assert {line["position"] for line in found} == {"pre", "post"}
        values = {name: [x["value"] for x in found if x["position"] == name] for name in ("pre", "post")}
        assert values["pre"] == values["post"]
        assert len({line["run_id"] for line in found}) == 2

    def test_again_gives_the_same_bytes(self, made: tuple[Path, str], tmp_path: Path) -> None:
        folder = made[0]
        probe(*MADE, "--out", str(tmp_path))
        for name in ("probe.csv", "probe.svg", "probe.png"):
            assert (tmp_path / folder.name / name).read_bytes() == (folder / name).read_bytes()


class TestTheTables:
    def test_have_layers_by_networks(self, made: tuple[Path, str]) -> None:
        told = made[1]
        assert "At initialization: depth 2, width 8, hidden 8, heads 2, vocab 8, seq_len 6, batch 4, order 1" in told
        assert "seeds 0–1" in told
        assert "Medians over 2 seeds" in told
        table = told[told.index("Mean cosine between tokens of the stream") :].splitlines()
        assert re.split(r"\s{2,}", table[1].strip()) == ["layer", "pre, ln", "pre, none", "post, ln", "post, none"]
        assert [line.split("  ")[0] for line in table[3:7]] == ["0 (embedding)", "1", "2", "3 (into the head)"]

    def test_one_quantity_comes_with_all_its_parts(self, tmp_path: Path) -> None:
        told = probe("depth=1", *TINY, "--quantity", "grad_norm", "--out", str(tmp_path))
        titles = re.findall("^Gradient norm of (.*)$", told, re.MULTILINE)
        parts = ["q", "k", "v", "out", "fc1", "fc2"]
        assert titles == ["the mixer", "the FFN", *parts, "the embedding", "the position embedding", "the head"]

    def test_seeds_may_be_given(self, tmp_path: Path) -> None:
        told = probe("seed=7", "depth=0", *TINY, *ONE_PANEL, "--out", str(tmp_path))
        assert "seed 7" in told
        assert "Median" not in told
        assert {line["seed"] for line in lines(*[tmp_path / f for f in tmp_path.iterdir()])} == {"7"}


def probed(network: str, seed: int, values: Sequence[float], quantity: str = "rms") -> Probed:
    rows = [SignalRow(step=0, layer=at, part="stream", quantity=quantity, value=v) for at, v in enumerate(values)]
    return Probed(network=network, config=RunConfig(seed=seed), rows=rows)


class TestViews:
    def test_cells_are_medians_with_lowest_and_highest_where_they_differ(self) -> None:
        found = [probed("a", seed, [1.0, x, y]) for seed, (x, y) in enumerate([(5.0, 1.0), (1.0, 1.01), (2.0, 1.02)])]
        (wide,) = view.tables(view.profiles(found), spread=True)
        (narrow,) = view.tables(view.profiles(found), spread=False)
        assert [row[1] for row in wide.rows] == ["1", "2 (1–5)", "1.01"]
        assert [row[1] for row in narrow.rows] == ["1", "2", "1.01"]

    def test_what_cells_are_is_said_of_several_seeds(self) -> None:
        assert "Medians over 3 seeds; in brackets, " in view.note(3)
        assert "lowest to highest where more than 5% apart" in view.note(3)
        assert view.note(1) == ""

    def test_a_part_at_the_end_of_each_network_has_one_row(self) -> None:
        def at(layer: int, network: str) -> Probed:
            row = SignalRow(step=0, layer=layer, part="logits", quantity="update", value=layer / 2)
            return Probed(network=network, config=RunConfig(), rows=[row])

        (table,) = view.tables(view.profiles([at(3, "a"), at(9, "b")], "update"), spread=True)
        assert table.rows == (("depth + 1", "1.5", "4.5"),)
        (table,) = view.tables(view.profiles([at(3, "a"), at(3, "b")], "update"), spread=True)
        assert table.rows == (("3", "1.5", "1.5"),)

    def test_what_is_not_finite_counts_as_the_highest(self) -> None:
        nan, inf = math.nan, math.inf
        found = [probed("a", seed, v) for seed, v in enumerate([(nan, nan, 1.0), (1.0, nan, 2.0), (2.0, inf, nan)])]
        (table,) = view.tables(view.profiles(found), spread=True)
        assert [row[1] for row in table.rows] == ["2 (1–nan)", "nan (inf–nan)", "2 (1–nan)"]
        two = [probed("a", seed, v) for seed, v in enumerate([(1.0, 1.0), (2.0, inf)])]
        assert [row[1] for row in view.tables(view.profiles(two), spread=False)[0].rows] == ["1.5", "inf"]

    def test_many_layers_are_thinned_and_each_network_keeps_its_last(self) -> None:
        found = [probed("deep", 0, [1.0] * 66), probed("shallow", 0, [1.0] * 6)]
        (table,) = view.tables(view.profiles(found), spread=True)
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
        figure = draw("title", view.profiles(found))
        assert [ax.get_yscale() for ax in figure.axes] == ["linear", "linear", "log"]
        crosses = [line for line in figure.axes[2].lines if line.get_marker() == "X"]
        assert [list(line.get_xdata()) for line in crosses] == [[2]]
        zeros = draw("title", view.profiles([probed("a", 0, [0.0, 1.0, 100.0])]))
        assert zeros.axes[0].get_yscale() == "symlog"
        assert render(zeros)["png"][:4] == b"\x89PNG"

    def test_what_is_of_one_layer_is_no_panel_beside_others(self) -> None:
        run = RunConfig(norm="bn", depth=1, **KEYS_OF_TINY)  # type: ignore[arg-type]
        shown = view.profiles([Probed(network="one", config=run, rows=inspect(run))])
        titles = [ax.get_title() for ax in draw("title", shown).axes if ax.axison]
        assert titles[0] == "RMS of the stream"
        assert "leak" in {profile.quantity for profile in shown}
        assert "Change of earlier logits by later tokens" not in titles
        leak = [profile for profile in shown if profile.quantity == "leak"]
        assert [ax.get_title() for ax in draw("title", leak).axes] == ["Change of earlier logits by later tokens"]

    def test_bands_go_from_lowest_to_highest(self) -> None:
        figure = draw("title", view.profiles([probed("a", seed, [1.0, 2.0 + seed]) for seed in range(3)]))
        (band,) = figure.axes[0].collections
        assert band.get_paths()[0].get_extents().y1 == 4.0
        assert list(figure.axes[0].lines[0].get_ydata()) == [1.0, 3.0]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["positon=pre"], "did you mean position?"),
        (["position=pre,pots"], "did you mean post?"),
        (["--quantity", "rsm"], "did you mean rms?"),
        (["--position", "post"], "write position=post, without dashes"),
        (["name=x"], "a probe has no name: leave it out"),
        (["seed=1", "--seeds", "2"], "seed is given beside --seeds: keep one"),
        (["width=30"], "4 does not divide width 30"),
        (["lr={range: [1, 200, 1]}"], f"600 networks, seeds included, are more than {MOST}"),
        (["depth=1", "--quantity", "leak", *TINY], "none of these networks has it; they have rms, mean_square"),
        (["depth=1", "--plugin", "no.py"], "no.py"),
        (["--after", "nothing"], "no run of that id"),
        (["--after", "nothing", "depth=2"], "leave out depth=2"),
        (["--after", "nothing", "--seeds", "2"], "leave out --seeds"),
        (["--after", "nothing", "--quantity", "rsm"], "did you mean rms?"),
    ],
)
def test_what_is_wrong_is_told_and_nothing_written(arguments: list[str], complaint: str, tmp_path: Path) -> None:
    out = tmp_path / "results"
    assert complaint in " ".join(refused(*arguments, "--out", str(out)))
    assert not out.exists()


@pytest.mark.parametrize("fault", [RuntimeError("can't allocate\nmore"), MemoryError()])
def test_what_torch_cannot_do_is_told_by_network(
    fault: Exception, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails(config: RunConfig) -> None:
        raise fault

    monkeypatch.setattr("normexp.training.inspection.inspect", fails)
    (told,) = refused("depth=1", "--out", str(tmp_path / "results"))
    assert told in ("ln, pre cannot be measured: can't allocate", "ln, pre cannot be measured: out of memory")
    assert not list(tmp_path.iterdir())


def test_all_that_is_wrong_is_told_at_once() -> None:
    assert len(refused("positon=pre", "depth=x", "name=y", "--quantity", "rsm")) == 4


class TestAfter:
    RUN = ("depth=1", "steps=4", "eval_every=2", "lr=0.01", "norm=bn", "sharpness=8", *TINY)

    @pytest.fixture
    def out(self, tmp_path: Path) -> Path:
        (tmp_path / "s.yaml").write_text("base: {}\n")
        results = tmp_path / "results"
        sweep = ["sweep", str(tmp_path / "s.yaml"), *self.RUN, "--executor", "inline", "--out", str(results)]
        assert CliRunner().invoke(app, sweep).exit_code == 0
        return results

    def run_of(self, out: Path) -> tuple[Store, RunConfig]:
        store = Store(next(out.iterdir()))
        (record,) = store.records().values()
        return store, record.config

    def values(self, out: Path, network: str) -> list[tuple[int, str, str, float]]:
        (folder,) = out.glob("probe+after=*")
        return [
            (int(line["layer"]), line["part"], line["quantity"], float(line["value"]))
            for line in lines(folder)
            if line["network"] == network
        ]

    def test_a_run_is_trained_again_and_said_so(self, out: Path) -> None:
        store, run = self.run_of(out)
        told = probe("--after", run.run_id, *ONE_PANEL, "--out", str(out))
        assert "no weights are stored: training it again, 4 steps" in told
        assert "warning" not in told
        last = {
            (row.layer, row.part, row.quantity): row.value for row in store.traces(run.run_id).layers if row.step == 4
        }
        found = {value[:3]: value[3] for value in self.values(out, command.AFTER)}
        assert last.items() <= found.items()
        before = [(row.layer, row.part, row.quantity, row.value) for row in inspect(run)]
        assert self.values(out, command.BEFORE) == before

    def test_stored_weights_are_used(self, out: Path) -> None:
        store, run = self.run_of(out)
        trainer = retrain(run)
        with torch.no_grad():
            trainer.flat.values.mul_(1.5)
        (store.folder / "runs" / run.run_id / WEIGHTS).write_bytes(weights_bytes(trainer.network, run))
        assert "training it again" not in probe("--after", run.run_id, *ONE_PANEL, "--out", str(out))
        expected = [(row.layer, row.part, row.quantity, row.value) for row in inspect_trainer(trainer, 4)]
        assert self.values(out, command.AFTER) == expected

    def test_weights_of_something_else_are_refused(self, out: Path) -> None:
        store, run = self.run_of(out)
        (store.folder / "runs" / run.run_id / WEIGHTS).write_bytes(b"no weights")
        assert WEIGHTS in refused("--after", run.run_id, "--out", str(out))[0]
        assert not list(out.glob("probe*"))

    def test_a_run_that_can_no_longer_be_made_again_is_told(self, out: Path) -> None:
        store, run = self.run_of(out)
        record = store.read(run.run_id)
        assert record is not None
        assert record.result is not None
        result = dataclasses.replace(record.result, final_val_loss=1.0)
        store.write(dataclasses.replace(record, result=result))
        told = probe("--after", run.run_id, *ONE_PANEL, "--out", str(out))
        assert "warning: it ends at loss" in told

    def test_a_run_without_a_result_has_no_network(self, out: Path) -> None:
        store, run = self.run_of(out)
        record = store.read(run.run_id)
        assert record is not None
        store.write(dataclasses.replace(record, status="failed", result=None, verdict=None, error="x"))
        assert "no trained network" in refused("--after", run.run_id, "--out", str(out))[0]
