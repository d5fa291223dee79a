"""normexp probe: tables and files of networks at initialization, stored runs, and refused options."""

from __future__ import annotations

import csv
import dataclasses
import re
from pathlib import Path

import pytest
import torch
from commandline import invoke
from tinyprobe import KEYS_OF_TINY, TINY

from normexp.commands import probe as command
from normexp.commands.probe import MOST_NETWORKS, read
from normexp.config.run import KEYS, RunConfig
from normexp.storage.store import WEIGHTS, Store
from normexp.training.inspection import inspect, inspect_trainer, retrain
from normexp.training.weights import weights_bytes

ONE_PANEL = ("--quantity", "token_cosine")
MADE = ("position=pre,post", "norm=[ln, none]", "depth=2", *TINY, "--seeds", "2", *ONE_PANEL)


def probe(*arguments: str) -> str:
    done = invoke("probe", *arguments)
    assert done.code == 0, done
    return done.err + done.out


def refused(*arguments: str) -> list[str]:
    done = invoke("probe", *arguments)
    assert (done.code, done.out) == (2, "")
    return done.err.splitlines()


def lines(folder: Path) -> list[dict[str, str]]:
    with (folder / "probe.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return the folder that the command wrote, and its output."""
    out = tmp_path_factory.mktemp("probe") / "new" / "results"
    output = probe(*MADE, "--out", str(out))
    (folder,) = out.iterdir()
    return folder, output


class TestFiles:
    def test_the_folder_is_named_by_the_overrides(self, probed: tuple[Path, str]) -> None:
        folder, output = probed
        assert folder.name.startswith("probe+")
        assert "position=pre,post" in read(["position=pre,post"], None, None).folder
        assert str(folder) in output
        assert {path.name for path in folder.iterdir()} - {".lock"} == {"probe.csv", "probe.png", "probe.svg"}

    def test_every_network_seed_and_quantity_is_a_line(self, probed: tuple[Path, str]) -> None:
        measured = lines(probed[0])
        assert list(measured[0]) == ["network", "run_id", *KEYS, "layer", "part", "quantity", "value"]
        names = list(dict.fromkeys(line["network"] for line in measured))
        assert names == ["pre, ln", "pre, none", "post, ln", "post, none"]
        run = RunConfig(norm="ln", position="post", depth=2, seed=1, **KEYS_OF_TINY)
        mine = [line for line in measured if line["network"] == "post, ln" and line["seed"] == "1"]
        assert {line["run_id"] for line in mine} == {run.run_id}
        values = [(int(m["layer"]), m["part"], m["quantity"], float(m["value"])) for m in mine]
        assert values == [(row.layer, row.part, row.quantity, row.value) for row in inspect(run)]

    def test_equal_networks_keep_their_columns(self, probed: tuple[Path, str]) -> None:
        """Without a norm, pre and post are the same network."""
        measured = [line for line in lines(probed[0]) if line["network"].endswith("none")]
        assert {line["position"] for line in measured} == {"pre", "post"}
        values = {name: [x["value"] for x in measured if x["position"] == name] for name in ("pre", "post")}
        assert values["pre"] == values["post"]
        assert len({line["run_id"] for line in measured}) == 2

    def test_again_gives_the_same_bytes(self, probed: tuple[Path, str], tmp_path: Path) -> None:
        folder = probed[0]
        probe(*MADE, "--out", str(tmp_path))
        for name in ("probe.csv", "probe.svg", "probe.png"):
            assert (tmp_path / folder.name / name).read_bytes() == (folder / name).read_bytes()


class TestTables:
    def test_show_layers_by_networks(self, probed: tuple[Path, str]) -> None:
        output = probed[1]
        assert "depth 2, width 8, hidden 8, heads 2, vocab 8, seq_len 6, batch 4, order 1; seeds 0–1" in output
        assert "Medians over 2 seeds" in output
        table = output[output.index("cosine") :].splitlines()
        assert re.split(r"\s{2,}", table[1].strip()) == ["layer", "pre, ln", "pre, none", "post, ln", "post, none"]
        assert [line.split()[0] for line in table[3:7]] == ["0", "1", "2", "3"]

    def test_a_quantity_is_shown_with_all_its_parts(self, tmp_path: Path) -> None:
        output = probe("depth=1", *TINY, "--quantity", "grad_norm", "--out", str(tmp_path))
        titles = re.findall("^Gradient norm of (.*)$", output, re.MULTILINE)
        assert len(titles) == 11
        assert titles[2:8] == ["q", "k", "v", "out", "fc1", "fc2"]

    def test_seeds_may_be_given(self, tmp_path: Path) -> None:
        output = probe("seed=7", "depth=0", *TINY, *ONE_PANEL, "--out", str(tmp_path))
        assert "seed 7" in output
        assert "Median" not in output
        assert {line["seed"] for line in lines(*[tmp_path / f for f in tmp_path.iterdir()])} == {"7"}


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (["positon=pre"], "did you mean position?"),
        (["position=pre,pots"], "did you mean post?"),
        (["--quantity", "rsm"], "did you mean rms?"),
        (["--position", "post"], "position=post"),
        (["name=x"], "name"),
        (["seed=1", "--seeds", "2"], "--seeds"),
        (["width=30"], "4 does not divide width 30"),
        (["lr={range: [1, 200, 1]}"], f"at most {MOST_NETWORKS}"),
        (["depth=1", "--quantity", "leak", *TINY], "--quantity leak"),
        (["depth=1", "--plugin", "no.py"], "no.py"),
        (["--after", "nothing"], "no such folder"),
        (["--after", "nothing", "depth=2"], "leave out depth=2"),
        (["--after", "nothing", "--seeds", "2"], "leave out --seeds"),
        (["--after", "nothing", "--quantity", "rsm"], "did you mean rms?"),
    ],
)
def test_invalid_arguments_are_refused_and_nothing_is_written(arguments: list[str], fact: str, tmp_path: Path) -> None:
    out = tmp_path / "results"
    assert fact in " ".join(refused(*arguments, "--out", str(out)))
    assert not out.exists()


@pytest.mark.parametrize(
    ("fault", "reason"), [(RuntimeError("can't allocate\nmore"), "can't allocate"), (MemoryError(), "out of memory")]
)
def test_errors_of_torch_name_the_network(
    fault: Exception, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails(config: RunConfig) -> None:
        raise fault

    monkeypatch.setattr("normexp.training.inspection.inspect", fails)
    message = refused("depth=1", "--out", str(tmp_path / "results"))[-1]
    assert "ln, pre " in message
    assert message.endswith(reason)
    assert not list(tmp_path.iterdir())


def test_all_complaints_come_at_once() -> None:
    assert len(refused("positon=pre", "depth=x", "name=y", "--quantity", "rsm")) == 4


class TestAfter:
    RUN = ("depth=1", "steps=4", "eval_every=2", "lr=0.01", "norm=bn", "sharpness=8", *TINY)

    @pytest.fixture
    def out(self, tmp_path: Path) -> Path:
        (tmp_path / "s.yaml").write_text("base: {}\n")
        results = tmp_path / "results"
        assert invoke("sweep", tmp_path / "s.yaml", *self.RUN, "--executor", "inline", "--out", results).code == 0
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

    def test_a_run_without_weights_is_retrained(self, out: Path) -> None:
        store, run = self.run_of(out)
        output = probe("--after", run.run_id, *ONE_PANEL, "--out", str(out))
        assert "retraining, 4 steps" in output
        assert "warning" not in output
        last = {
            (row.layer, row.part, row.quantity): row.value for row in store.traces(run.run_id).layers if row.step == 4
        }
        measured = {value[:3]: value[3] for value in self.values(out, command.AFTER)}
        assert last.keys() <= measured.keys()  # up to rounding: gradients of the run are those of its execution path
        assert [measured[place] for place in last] == pytest.approx(list(last.values()), rel=1e-5)
        before = [(row.layer, row.part, row.quantity, row.value) for row in inspect(run)]
        assert self.values(out, command.BEFORE) == before

    def test_an_autograd_run_is_retrained_with_autograd(self, out: Path) -> None:
        keys = [word.replace("steps=4", "steps=40") for word in self.RUN]
        results = out.parent / "autograd"
        options = ["--autograd", "--executor", "inline", "--out", results]
        assert invoke("sweep", out.parent / "s.yaml", *keys, *options).code == 0
        _, run = self.run_of(results)
        assert "warning" not in probe("--after", run.run_id, *ONE_PANEL, "--out", str(results))

    def test_stored_weights_are_used(self, out: Path) -> None:
        store, run = self.run_of(out)
        trainer = retrain(run)
        with torch.no_grad():
            trainer.flat.values.mul_(1.5)
        (store.folder / "runs" / run.run_id / WEIGHTS).write_bytes(weights_bytes(trainer.network, run))
        assert "retraining" not in probe("--after", run.run_id, *ONE_PANEL, "--out", str(out))
        expected = [(row.layer, row.part, row.quantity, row.value) for row in inspect_trainer(trainer, 4)]
        assert self.values(out, command.AFTER) == expected

    def test_invalid_weights_other_losses_and_failed_runs_are_reported(self, out: Path) -> None:
        store, run = self.run_of(out)
        record = store.read(run.run_id)
        assert record is not None
        assert record.result is not None
        weights = store.folder / "runs" / run.run_id / WEIGHTS
        weights.write_bytes(b"no weights")
        assert WEIGHTS in refused("--after", run.run_id, "--out", str(out))[0]
        assert not list(out.glob("probe*"))
        weights.unlink()
        store.write(dataclasses.replace(record, result=dataclasses.replace(record.result, final_val_loss=1.0)))
        assert "warning: " in probe("--after", run.run_id, *ONE_PANEL, "--out", str(out))
        store.write(dataclasses.replace(record, status="failed", result=None, verdict=None, error="x"))
        assert f"{run.run_id}: failed" in refused("--after", run.run_id, "--out", str(out))[0]
