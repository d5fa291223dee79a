"""normexp convert: the written file, the printed table, and refused options."""

import itertools
from pathlib import Path

import pytest
import torch
from commandline import Done, invoke
from foldable import shuffled, small

from normexp.training.weights import header_of, network_from, weights_bytes


def convert(*arguments: str | Path) -> Done:
    return invoke("convert", *arguments)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    config = small(depth=2)
    path = tmp_path / "net.safetensors"
    path.write_bytes(weights_bytes(shuffled(config, torch.float32), config))
    return path


class TestCommand:
    def test_writes_a_file_that_loads_and_prints_the_measurements(self, file: Path, tmp_path: Path) -> None:
        target = tmp_path / "rms.safetensors"
        done = convert(file, target, "--to", "rms", "--calibrate", "3")
        assert (done.code, "Exact: " in done.out) == (0, True)
        rows = [line.split("  ")[0] for line in done.out.splitlines()]
        assert rows[:2] == ["Norm rms, final norm ln: fold", "weights"]
        assert len([row for row in rows[3:7] if row]) == 4
        assert rows[6].startswith("calibrated, 3 steps")
        config, _ = network_from(target.read_bytes(), origin="")
        assert (config.norm, config.final_norm) == ("rms", "ln")
        history = header_of(target.read_bytes(), "").metadata["normexp_history"]
        assert history == f"exact conversion (fold) of {file}, then 3 steps of training"

    def test_there_and_back(self, file: Path, tmp_path: Path) -> None:
        there, back = tmp_path / "there.safetensors", tmp_path / "back.safetensors"
        assert convert(file, there, "--to", "rms", "--final-norm", "rms").code == 0
        done = convert(there, back, "--to", "ln")
        assert (done.code, "Approximate: " in done.out) == (0, True)
        assert network_from(back.read_bytes(), origin="")[0] == small(depth=2)

    def test_overwrites_only_with_force(self, file: Path, tmp_path: Path) -> None:
        target = tmp_path / "rms.safetensors"
        target.write_text("mine")
        done = convert(file, target, "--to", "rms")
        assert (done.code, target.read_text()) == (2, "mine")
        assert [fact for fact in (str(target), "--force") if fact not in done.err] == []
        assert convert(file, target, "--to", "rms", "--force").code == 0
        assert network_from(target.read_bytes(), origin="")[0].norm == "rms"

    @pytest.mark.parametrize(
        ("arguments", "fact"),
        [
            (("{net}", "{new}", "--to", "ln"), "--to ln"),
            (("{net}", "{new}", "--to", "ln", "--final-norm", "rms"), "--final-norm"),
            (("{net}", "{folder}", "--to", "rms", "--force"), ".safetensors"),
            (("{net}", "{folder}/no/x.safetensors", "--to", "rms"), "/no is not a folder"),
            (("{folder}/no.safetensors", "{new}", "--to", "rms"), "no.safetensors: no such file"),
            (("{folder}/net.pt", "{new}", "--to", "rms"), "net.pt: "),
            (("d9-nothing", "{new}", "--to", "rms", "--out", "{folder}"), "d9-nothing: no run"),
            (("{net}", "{new}", "--to", "rms", "--config", "dpeth=3"), "did you mean depth"),
            (("{net}", "{new}", "--to", "rms", "--config", "depth=3,4"), "depth=3,4"),
            (("{net}", "{new}", "--to", "rms", "--config", "depth=3"), "depth=2"),
            (("{net}", "{new}", "--to", "rms", "--config", "{folder}/no.yaml"), "no.yaml"),
            (("{net}", "{new}", "--to", "rms", "--config", "{folder}/two.yaml"), "2 runs"),
            (("{net}", "{new}", "--to", "rms", "--config", "heads=3"), "heads: 3 does not divide width 64"),
        ],
    )
    def test_invalid_arguments_are_refused_and_nothing_is_written(
        self, file: Path, tmp_path: Path, arguments: tuple[str, ...], fact: str
    ) -> None:
        (tmp_path / "two.yaml").write_text("grid: {lr: [1e-3, 1e-2]}\n")
        before = sorted(tmp_path.iterdir())
        paths = {"net": file, "new": tmp_path / "new.safetensors", "folder": tmp_path}
        done = convert(*(argument.format(**paths) for argument in arguments))
        assert (done.code, done.out, fact in done.err) == (2, "", True), done.err
        assert sorted(tmp_path.iterdir()) == before

    @pytest.mark.parametrize("by_file", [True, False])
    def test_weights_from_other_programs_need_their_config(self, file: Path, tmp_path: Path, by_file: bool) -> None:
        from safetensors.torch import load, save

        file.write_bytes(save(load(file.read_bytes())))
        target = tmp_path / "rms.safetensors"
        assert "--config" in convert(file, target, "--to", "rms").err
        keys = {"depth": 2, "width": 16, "hidden": 24, "vocab": 11, "order": 1}
        (tmp_path / "net.yaml").write_text(f"base: {keys}\n".replace("'", "") + "grid: {seed: [0, 1]}\n")
        pairs = [f"{key}={value}" for key, value in keys.items()]
        given = [str(tmp_path / "net.yaml"), "seed=1"] if by_file else pairs
        options = itertools.chain.from_iterable(("--config", text) for text in given)
        assert convert(file, target, "--to", "rms", *options).code == 0
        assert network_from(target.read_bytes(), origin="")[0].depth == 2
