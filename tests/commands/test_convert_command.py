"""normexp convert: the file that it writes, what it prints, and refusals that write nothing."""

import itertools
from pathlib import Path

import pytest
import torch
from foldable import shuffled, small
from typer.testing import CliRunner

from normexp.commands.app import app
from normexp.errors import UserError
from normexp.training.weights import header_of, network_from, weights_bytes


def run(*arguments: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["convert", *map(str, arguments)])
    told = "\n".join(done.exception.complaints) if isinstance(done.exception, UserError) else ""
    assert told or done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return 2 if told else done.exit_code, done.stdout, told or done.stderr


@pytest.fixture
def file(tmp_path: Path) -> Path:
    config = small(depth=2)
    path = tmp_path / "net.safetensors"
    path.write_bytes(weights_bytes(shuffled(config, torch.float32), config))
    return path


class TestCommand:
    def test_writes_a_file_that_loads_and_prints_what_it_measured(self, file: Path, tmp_path: Path) -> None:
        target = tmp_path / "rms.safetensors"
        code, told, _ = run(file, target, "--to", "rms", "--calibrate", "3")
        assert code == 0
        rows = [line.split("  ")[0] for line in told.splitlines()]
        assert rows[:2] == ["Norm rms, final norm ln: fold", "weights"]
        assert rows[3:7] == ["before", "fold", "biases dropped", "calibrated, 3 steps"]
        assert "Exact: the logits are those of before, up to rounding. The final norm stays LayerNorm" in told
        config, _ = network_from(target.read_bytes(), origin="")
        assert (config.norm, config.final_norm) == ("rms", "ln")
        history = header_of(target.read_bytes(), "").metadata["normexp_history"]
        assert history == f"exact conversion (fold) of {file}, then 3 steps of training"

    def test_there_and_back(self, file: Path, tmp_path: Path) -> None:
        there, back = tmp_path / "there.safetensors", tmp_path / "back.safetensors"
        assert run(file, there, "--to", "rms", "--final-norm", "rms")[0] == 0
        code, told, _ = run(there, back, "--to", "ln")
        assert code == 0
        assert "Approximate: LayerNorm subtracts the mean" in told
        assert network_from(back.read_bytes(), origin="")[0] == small(depth=2)

    def test_overwrites_with_force_alone(self, file: Path, tmp_path: Path) -> None:
        target = tmp_path / "rms.safetensors"
        target.write_text("mine")
        code, _, said = run(file, target, "--to", "rms")
        assert (code, target.read_text()) == (2, "mine")
        assert said == f"{target} is there already: choose another name, or overwrite it with --force"
        assert run(file, target, "--to", "rms", "--force")[0] == 0
        assert network_from(target.read_bytes(), origin="")[0].norm == "rms"

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("{net}", "{new}", "--to", "ln"), "--to ln replaces RMSNorm, and this network has ln"),
            (("{net}", "{new}", "--to", "ln", "--final-norm", "rms"), "--final-norm is for --to rms"),
            (("{net}", "{folder}", "--to", "rms", "--force"), "name ends in .safetensors"),
            (("{net}", "{folder}/no/x.safetensors", "--to", "rms"), "/no is no folder: make it first"),
            (("{folder}/no.safetensors", "{new}", "--to", "rms"), "no.safetensors: no such file"),
            (("{folder}/net.pt", "{new}", "--to", "rms"), "net.pt: files of torch.save can run code"),
            (("d9-nothing", "{new}", "--to", "rms", "--out", "{folder}"), "d9-nothing: no run of that id"),
            (("{net}", "{new}", "--to", "rms", "--config", "dpeth=3"), "unknown key 'dpeth'; did you mean depth"),
            (("{net}", "{new}", "--to", "rms", "--config", "depth=3,4"), "one network has one value"),
            (("{net}", "{new}", "--to", "rms", "--config", "depth=3"), "is of a network with depth=2, not 3"),
            (("{net}", "{new}", "--to", "rms", "--config", "{folder}/no.yaml"), "no.yaml"),
            (("{net}", "{new}", "--to", "rms", "--config", "{folder}/two.yaml"), "has 2 runs: choose one"),
            (("{net}", "{new}", "--to", "rms", "--config", "heads=3"), "heads: 3 does not divide width 64"),
        ],
    )
    def test_what_cannot_be_done_is_told_and_nothing_written(
        self, file: Path, tmp_path: Path, arguments: tuple[str, ...], said: str
    ) -> None:
        (tmp_path / "two.yaml").write_text("grid: {lr: [1e-3, 1e-2]}\n")
        before = sorted(tmp_path.iterdir())
        places = {"net": file, "new": tmp_path / "new.safetensors", "folder": tmp_path}
        code, printed, told = run(*(argument.format(**places) for argument in arguments))
        assert code == 2
        assert said in told
        assert printed == ""
        assert sorted(tmp_path.iterdir()) == before

    @pytest.mark.parametrize("by_file", [True, False])
    def test_a_file_from_elsewhere_with_its_network_told(self, file: Path, tmp_path: Path, by_file: bool) -> None:
        from safetensors.torch import load, save

        file.write_bytes(save(load(file.read_bytes())))
        target = tmp_path / "rms.safetensors"
        assert "--config key=value" in run(file, target, "--to", "rms")[2]
        keys = {"depth": 2, "width": 16, "hidden": 24, "vocab": 11, "order": 1}
        (tmp_path / "net.yaml").write_text(f"base: {keys}\n".replace("'", "") + "grid: {seed: [0, 1]}\n")
        pairs = [f"{key}={value}" for key, value in keys.items()]
        given = [str(tmp_path / "net.yaml"), "seed=1"] if by_file else pairs
        options = itertools.chain.from_iterable(("--config", text) for text in given)
        assert run(file, target, "--to", "rms", *options)[0] == 0
        assert network_from(target.read_bytes(), origin="")[0].depth == 2
