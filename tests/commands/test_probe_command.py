"""normexp probe: networks side by side, its files, a trained run, refusals that write nothing."""

from __future__ import annotations

import csv
import dataclasses
import re
from pathlib import Path

import pytest
import torch
from tinyprobe import KEYS_OF_TINY, TINY
from typer.testing import CliRunner

from normexp.commands import probe as command
from normexp.commands.app import app
from normexp.commands.probe import MOST_NETWORKS, read
from normexp.config.run import KEYS, RunConfig
from normexp.errors import UserError
from normexp.storage.store import WEIGHTS, Store
from normexp.training.inspection import inspect, inspect_trainer, retrain
from normexp.training.weights import weights_bytes

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
        (["lr={range: [1, 200, 1]}"], f"600 networks, seeds included, are more than {MOST_NETWORKS}"),
        (["depth=1", "--quantity", "leak", *TINY], "none of these networks has it; they have rms, mean_square"),
        (["depth=1", "--plugin", "no.py"], "no.py"),
        (["--after", "nothing"], "no such folder"),
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
        assert last.keys() <= found.keys()  # up to rounding: gradients of the run are those of its execution path
        assert [found[place] for place in last] == pytest.approx(list(last.values()), rel=1e-5)
        before = [(row.layer, row.part, row.quantity, row.value) for row in inspect(run)]
        assert self.values(out, command.BEFORE) == before

    def test_a_plain_run_is_trained_again_as_it_was(self, out: Path) -> None:
        plain = [
            "sweep",
            str(out.parent / "s.yaml"),
            *(word.replace("steps=4", "steps=40") for word in self.RUN),
            "--autograd",
        ]
        results = out.parent / "plain"
        assert CliRunner().invoke(app, [*plain, "--executor", "inline", "--out", str(results)]).exit_code == 0
        _, run = self.run_of(results)
        assert "warning" not in probe("--after", run.run_id, *ONE_PANEL, "--out", str(results))

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
