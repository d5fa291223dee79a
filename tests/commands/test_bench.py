"""normexp bench: complete rows, ratios within a round, CSV, figure and refused options. No absolute times."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import torch
from commandline import invoke

from normexp.analysis import measured_tables as view
from normexp.commands.bench import read_model, read_shapes, read_threads
from normexp.config.run import RunConfig
from normexp.errors import UserError
from normexp.execution import machine
from normexp.plots.measured import draw_bench
from normexp.records.measurements import BOTH, FORWARD, STEP, Rounds, Timing, timings
from normexp.storage import outputs
from normexp.training import bench
from normexp.training.paths.choice import fastest

TINY = ("depth=1", "width=8", "hidden=8", "heads=2", "vocab=8", "batch=4")
NORMS = ["LayerNorm", "nn.RMSNorm", "handwritten", "normexp"]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return the folder that the command wrote, and its output."""
    folder = tmp_path_factory.mktemp("bench") / "new" / "results"
    options = ["--shapes", "3x5x8,4x6", "--threads", "1", "--rounds", "3", "--steps", "3", "--out", folder]
    done = invoke("bench", *TINY, *options)
    assert done.code == 0, done
    return folder / "bench", done.out


def from_csv(text: str) -> list[Timing]:

    kinds = get_type_hints(Timing)

    def cell(kind: type, text: str) -> Any:
        return math.nan if kind is float and text == "" else kind(text)

    lines = csv.DictReader(io.StringIO(text))
    return [Timing(**{name: cell(kinds[name], text) for name, text in line.items()}) for line in lines]


@pytest.fixture(scope="module")
def rows(out: tuple[Path, str]) -> list[Timing]:
    return from_csv((out[0] / "bench.csv").read_text("utf-8"))


def rounds_of(**seconds: list[float]) -> Rounds:
    return Rounds(part=STEP, where="x", threads=1, seconds=seconds, parameters=dict.fromkeys(seconds, 1))


class TestRows:
    def test_there_is_one_for_each_part_place_and_norm(self, rows: list[Timing]) -> None:
        operators = [(part, shape, norm) for shape in ("3x5x8", "4x6") for part in (FORWARD, BOTH) for norm in NORMS]
        keys = "depth 1, width 8, position pre, hidden 8, heads 2, vocab 8, batch 4"
        steps = [(STEP, keys, norm) for norm in ("ln", "rms", "none")]
        assert [(row.part, row.where, row.norm) for row in rows] == steps + operators
        assert {row.rounds for row in rows} == {3}
        assert {row.threads for row in rows} == {1}
        assert all(torch.__version__ in row.machine for row in rows)

    def test_times_and_ratios_are_ordered_and_those_of_layer_norm_are_one(self, rows: list[Timing]) -> None:
        for row in rows:
            assert 0 < row.p10_us <= row.median_us <= row.p90_us
            assert 0 < row.ratio_p10 <= row.ratio <= row.ratio_p90
            if row.norm in ("LayerNorm", "ln"):
                assert (row.ratio_p10, row.ratio, row.ratio_p90) == (1, 1, 1)

    def test_parameters_are_counted(self, rows: list[Timing]) -> None:
        counts = {(row.where, row.norm): row.parameters for row in rows}
        assert [counts["3x5x8", norm] for norm in NORMS] == [16, 8, 8, 8]
        assert [counts["4x6", norm] for norm in NORMS] == [12, 6, 6, 6]
        ln, rms, none = (row.parameters for row in rows if row.part == STEP)
        assert (ln - none, rms - none) == (3 * 16, 3 * 8)

    def test_only_steps_have_a_share(self, rows: list[Timing]) -> None:
        shares = {row.norm: row.share for row in rows if row.part == STEP}
        assert shares["none"] == 0
        assert all(share < 1 for share in shares.values())
        assert all(math.isnan(row.share) for row in rows if row.part != STEP)

    def test_ratios_and_shares_are_taken_within_a_round(self) -> None:
        """A machine ten times slower in one round: the ratio is the same in all, unlike the times."""
        ln, rms, none = timings(
            rounds_of(ln=[1.0, 10.0, 1.0], rms=[2.0, 20.0, 2.0], none=[0.5, 5.0, 0.5]), "ln", "none"
        )
        assert (rms.ratio_p10, rms.ratio, rms.ratio_p90) == (2, 2, 2)
        assert (rms.median_us, rms.p90_us) == (pytest.approx(2e6), pytest.approx(16.4e6))
        assert (ln.share, rms.share_p10, none.ratio) == (0.5, 0.75, 0.5)

    def test_csv_round_trip(self, rows: list[Timing], out: tuple[Path, str]) -> None:
        text = view.bench_csv(rows)
        assert text == (out[0] / "bench.csv").read_text("utf-8")
        assert repr(from_csv(text)) == repr(rows)


class TestMeasuring:
    def test_all_candidates_take_turns_in_changing_order(self) -> None:
        called: list[str] = []
        calls = {name: lambda name=name: called.append(name) for name in "abc"}
        seconds_by_name = bench._in_turns({name: lambda call=call: call() or 1.0 for name, call in calls.items()}, 20)
        rounds = [tuple(called[start : start + 3]) for start in range(0, 60, 3)]
        assert all(sorted(turn) == ["a", "b", "c"] for turn in rounds)
        assert len(set(rounds)) > 3
        assert {name: len(times) for name, times in seconds_by_name.items()} == {"a": 20, "b": 20, "c": 20}

    def test_rounds_by_time_are_within_their_bounds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bench, "MEASURED_SECONDS", 0.0)
        monkeypatch.setattr(bench, "ROUNDS_SECONDS", 1e-9)
        assert len(bench.interleaved({"a": lambda: None}, None)["a"]) == bench.FEWEST_ROUNDS
        monkeypatch.setattr(bench, "ROUNDS_SECONDS", 1e9)
        assert len(bench.interleaved({"a": lambda: None}, None)["a"]) == bench.MOST_ROUNDS

    def test_threads_are_as_asked_and_then_as_before(self) -> None:
        before = torch.get_num_threads()
        with bench.thread_count(before + 1):
            assert torch.get_num_threads() == before + 1
        assert torch.get_num_threads() == before

    def test_the_candidates_are_the_same_norm(self) -> None:
        x = torch.linspace(-1, 2, 24).view(3, 8)
        expected = bench.CANDIDATES["nn.RMSNorm"](8)(x)
        for name in ("handwritten", "normexp"):
            assert torch.allclose(bench.CANDIDATES[name](8)(x), expected, rtol=1e-6)

    def test_steps_leave_the_network_as_it_was(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The learning rate of the config is not used: no step is cut short by a non-finite loss."""
        configs, keys = read_model([*TINY, "lr=1e30", "optimizer=sgd"])
        trained: list[bench.Trainer] = []

        class Watched(bench.Trainer):
            def __init__(self, config: RunConfig) -> None:
                super().__init__(config)
                self.before = self.flat.values.clone()
                trained.append(self)

        monkeypatch.setattr(bench, "Trainer", Watched)
        bench.steps(configs, 3, keys)
        assert len(trained) == 3
        assert all(torch.allclose(one.flat.values, one.before, atol=1e-9) for one in trained)  # type: ignore[attr-defined]

    def test_a_network_with_a_nonfinite_initial_loss_is_refused(self) -> None:
        configs, keys = read_model([*TINY, "init_gain=1e30"])
        with pytest.raises(UserError, match="norm=none"):
            bench.steps({"none": configs["none"]}, 3, keys)


class TestShown:
    def test_tables_have_a_row_for_each_norm(self, rows: list[Timing], out: tuple[Path, str]) -> None:
        tables = view.bench_tables(rows)
        assert [len(table.rows) for table in tables] == [3, 8, 8]
        assert [table.title.split(",")[0] for table in tables[1:]] == ["Forward", "Forward with backward"]
        assert all(len(row) == len(table.header) for table in tables for row in table.rows)
        assert "1.00 (1.00–1.00)" in out[1]
        assert all(norm in out[1] for norm in NORMS)
        assert "load:" in out[1]

    def test_numbers_in_cells(self) -> None:
        ln, none = timings(rounds_of(ln=[20e-3] * 3, none=[1.5e-3] * 3), "ln", "none")
        (table,) = view.bench_tables([ln, none])
        assert table.rows == (
            ("ln", "20.0 ms (20.0–20.0)", "1.00 (1.00–1.00)", "92.5% (92.5% to 92.5%)", "1"),
            ("none", "1500 µs (1500–1500)", "0.07 (0.07–0.07)", "", "1"),
        )

    @pytest.mark.parametrize("threads", [[1], [1, 2]])
    def test_the_figure_has_every_ratio_but_layer_norms(self, rows: list[Timing], threads: list[int]) -> None:
        operators = [dataclasses.replace(row, threads=count) for count in threads for row in rows if row.part != STEP]
        figure = draw_bench(operators)
        assert [ax.get_title() for ax in figure.axes] == [FORWARD, BOTH]
        for ax in figure.axes:
            assert [label.get_text() for label in ax.get_xticklabels()] == ["3x5x8", "4x6"]
            drawn = sorted(y for container in ax.containers for y in container[0].get_ydata())  # type: ignore[index]
            wanted = [row for row in operators if row.part == ax.get_title() and row.norm != "LayerNorm"]
            assert drawn == sorted(row.ratio for row in wanted)
            low, high = ax.get_ylim()
            assert low < min(row.ratio_p10 for row in wanted)
            assert high > max(row.ratio_p90 for row in wanted)
        labels = [text.get_text() for text in figure.legends[0].get_texts()]
        assert len(labels) == 3 * len(threads) + 1, "LayerNorm is a line"
        assert ("normexp, 2 threads" in labels) == (len(threads) == 2)

    def test_files(self, out: tuple[Path, str]) -> None:
        assert {path.name for path in out[0].iterdir()} - {".lock"} == {"bench.csv", "bench.svg", "bench.png"}
        assert (out[0] / "bench.png").read_bytes().startswith(b"\x89PNG")


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "fact"),
        [
            (["--shapes", "512×64"], "--shapes: '512×64'"),
            (["--shapes", "4x0"], "--shapes: '4x0'"),
            (["--shapes", ""], "--shapes: ''"),
            (["--shapes", "4x8,4x8"], "--shapes: 4x8 is given twice"),
            (["--shapes", "9999999x9999999"], "99999980000001 elements"),
            (["--threads", "0"], "--threads 0"),
            (["--threads", "1,many"], "--threads 1,many"),
            (["--threads", "100000"], "--threads 100000"),
            (["--rounds", "-1"], "--rounds"),
            (["--steps", "-1"], "--steps"),
            (["depht=3"], "did you mean depth?"),
            (["depth"], "'='"),
            (["depth=1,2"], "depth"),
            (["name=x"], "name"),
            (["depth=0"], "depth=1"),
            (["width=10", "heads=4"], "heads: 4 does not divide width 10"),
        ],
    )
    def test_invalid_values(self, arguments: list[str], fact: str, tmp_path: Path) -> None:
        done = invoke("bench", *arguments, "--out", tmp_path / "results")
        assert (done.code, fact in done.err) == (2, True), done.err
        assert not (tmp_path / "results").exists()

    def test_all_complaints_come_at_once(self) -> None:
        done = invoke("bench", "depht=3", "--shapes", "4x0", "--threads", "0")
        assert (done.code, len(done.err.splitlines())) == (2, 3)

    def test_folders_of_sweeps_locked_folders_and_files_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        (tmp_path / "swept" / "bench").mkdir(parents=True)
        (tmp_path / "swept" / "bench" / "manifest.json").write_text("{}")
        quick = ["--steps", "0", "--shapes", "4x2", "--rounds", "3", "--threads", "1"]
        with outputs.held(tmp_path / "bench"):
            for folder, fact in (
                (tmp_path / "swept", "sweep"),
                (tmp_path / "file", "file"),
                (tmp_path, "in use by pid"),
            ):
                done = invoke("bench", *TINY, *quick, "--out", folder)
                assert (done.code, str(folder) in done.err, fact in done.err) == (2, True, True), done.err
        assert not (tmp_path / "bench" / "bench.csv").exists()


def test_none_is_always_the_last_norm() -> None:
    assert list(read_model(["norm=none,dyt"])[0]) == ["ln", "dyt", "none"]
    assert list(read_model(["norm=none"])[0]) == ["ln", "none"]
    assert list(read_model([])[0]) == ["ln", "rms", "none"]


def test_options() -> None:
    assert read_shapes("512x64, 7") == [(512, 64), (7,)]
    assert read_threads(None, 1) == [1]
    assert read_threads(None, 64) == [1, 2]
    assert read_threads("4, 1,4", 8) == [4, 1]
    configs, keys = read_model(["norm=rms", "depth=3"])
    assert [(name, config.norm, config.final_norm) for name, config in configs.items()] == [
        (name, name, name) for name in ("ln", "rms", "none")
    ]
    assert keys == "depth 3, width 64, position pre"
    assert {config.final_norm for config in read_model(["final_norm=ln"])[0].values()} == {"ln"}


def test_a_busy_machine_draws_warnings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["bench", *TINY, "--steps", "0", "--shapes", "4x2", "--rounds", "3", "--out", tmp_path]
    monkeypatch.setattr("normexp.plots.style.render", lambda figure: {})
    monkeypatch.setattr(machine, "default_jobs", lambda: 2)
    for load, warnings in ((0.3, 0), (0.31, 1), (1.5, 2), (None, 0)):
        monkeypatch.setattr(machine, "load", lambda load=load: load)
        done = invoke(*arguments, "--threads", "1")
        assert (done.code, done.err.count("warning: ")) == (0, warnings)
    assert not [row for row in from_csv((tmp_path / "bench" / "bench.csv").read_text()) if row.part == STEP]


def test_the_processor_has_a_name(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Abacus: 9\n")
    assert machine.processor(tmp_path / "cpuinfo") == "Abacus: 9"
    assert machine.processor(tmp_path / "none")


class TestPaths:
    @pytest.mark.parametrize("path", ["autograd", "tape"])
    def test_the_path_in_use_and_the_reason_are_shown(self, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NORMEXP_PATH", path)
        done = invoke("bench", "--paths", *TINY, "--rounds", "3")
        assert (done.code, f"{path} (NORMEXP_PATH={path})" in done.out) == (0, True), done
        rows = [line.split() for line in done.out.splitlines() if line.split()[:1] in (["autograd"], ["tape"])]
        assert {row[0]: row[-1] == "yes" for row in rows} == {"autograd": path == "autograd", "tape": path == "tape"}

    def test_the_fastest_is_in_use_by_default(self) -> None:
        path = fastest()
        done = invoke("bench", "--paths", *TINY, "--rounds", "3")
        assert f"{path.path} ({path.why})" in done.out
        assert all(value in done.out for value in path.made_by.values())

    def test_a_nonfinite_step_is_refused(self) -> None:
        assert invoke("bench", "--paths", "depth=30", "norm=none", "init_gain=100", "--rounds", "3").code == 2
