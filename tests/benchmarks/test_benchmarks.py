"""The network that other tools train in benchmarks/sweep.py is normexp's: the same size, logits, tokens and steps."""

from __future__ import annotations

import itertools
import json
import re
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.environments import OURS
from benchmarks.harness import spread
from benchmarks.overhead import measured
from benchmarks.peers import network as peer
from benchmarks.sweep import LOOP, MIXERS, NORMS, TOOLS, Grid, ToolFailed, calm, timed
from normexp.config.grid import plan
from normexp.config.run import KEYS, RunConfig
from normexp.config.sweep_file import parse
from normexp.data.tasks import VALIDATION_SEQUENCES, Task
from normexp.model.network import Network, build
from normexp.training.trainer import Trainer, parameter_count

STEPS = 4
NAMES = {
    r"blocks\.(\d+)": lambda found: f"blocks.{int(found[1]) - 1}",
    r"(mixer|ffn)\.(before|after)\.": r"\1_norm.",
    r"mixer\.f\.out\.": "mixer.",
    r"mixer\.f\.": "mixer.",
    r"ffn\.f\.fc1\.": "ffn.0.",
    r"ffn\.f\.fc2\.": "ffn.2.",
}
"""Names of normexp's tensors to those of the other network, whose per-token mixer is a bare matrix."""


def pair(norm: str, position: str, mixer: str) -> tuple[RunConfig, Network, peer.Network]:
    """A config, its network, and the other tools' network with the same weights."""
    config = RunConfig(depth=2, norm=norm, position=position, mixer=mixer, lr=1e-3)
    ours, theirs = build(config), peer.Network(2, norm, position, mixer)
    names = dict(NAMES)
    if mixer != "linear":
        del names[r"mixer\.f\.out\."]
    tensors = {}
    for name, tensor in ours.state_dict().items():
        for pattern, new in names.items():
            name = re.sub(pattern, new, name)
        tensors[name] = tensor
    theirs.load_state_dict(tensors, strict=True)
    return config, ours, theirs


EVERY = list(itertools.product(NORMS, ("pre", "post"), MIXERS))


@pytest.mark.parametrize(("norm", "position", "mixer"), EVERY)
def test_network_is_the_same(norm: str, position: str, mixer: str) -> None:
    config, ours, theirs = pair(norm, position, mixer)
    assert parameter_count(theirs) == parameter_count(ours)
    inputs_bt = torch.from_numpy(Task(config).validation.inputs_nt[:8])
    for train in (True, False):
        torch.testing.assert_close(theirs.train(train)(inputs_bt), ours.train(train)(inputs_bt), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("norm", "position", "mixer"), [("ln", "pre", "attention"), ("bn", "post", "mean")])
def test_training_is_the_same(norm: str, position: str, mixer: str) -> None:
    """The same batches, updates and evaluations give the same losses."""
    config, ours, theirs = pair(norm, position, mixer)
    curve = list(peer.curve(theirs, config.lr, STEPS))
    trainer = Trainer(config, ours)
    first = trainer.evaluate()
    batches = trainer.task.batches(config.seed, config.batch)
    losses = [trainer.step(number, next(batches)).loss for number in range(1, STEPS + 1)]
    assert [loss for _, loss, _ in curve[1:]] == pytest.approx(losses, rel=1e-4)
    assert [loss for _, _, loss in curve if loss is not None] == pytest.approx([first, trainer.evaluate()], rel=1e-4)
    assert losses[-1] != pytest.approx(losses[0], rel=1e-3)


def test_initial_weights_are_alike() -> None:
    """Drawn from other numbers, but of the same spread."""
    torch.manual_seed(0)
    _, ours, _ = pair("ln", "pre", "attention")
    fresh = peer.Network(2, "ln", "pre", "attention")
    for one, other in zip(ours.parameters(), fresh.parameters(), strict=True):
        assert one.shape == other.shape
        torch.testing.assert_close(one.std(correction=0), other.std(correction=0), rtol=0.06, atol=1e-6)


def test_constants_are_the_defaults() -> None:
    """What the other network has fixed is what a run has by default."""
    fixed = {"vocab": peer.VOCAB, "seq_len": peer.SEQ_LEN, "width": peer.WIDTH, "hidden": peer.HIDDEN}
    fixed |= {"heads": peer.HEADS, "eps": peer.EPS, "order": peer.ORDER, "sharpness": peer.SHARPNESS}
    fixed |= {"batch": peer.BATCH, "eval_every": peer.EVAL_EVERY}
    assert fixed == {key: KEYS[key].default for key in fixed}
    assert peer.VALIDATION_SEQUENCES == VALIDATION_SEQUENCES


@pytest.mark.parametrize("tool", TOOLS)
def test_grid_is_one_for_all_tools(tool: str) -> None:
    grid = Grid(steps=3, norm="rms", fused=True)
    read = json.loads(grid.file_text(tool))
    assert grid.points == len(list(itertools.product(*read["grid"].values()))) == 8
    assert read["base"].pop("fused", False) is (tool != OURS)
    assert read["base"] == {"depth": 12, "norm": "rms", "mixer": "attention", "steps": 3}


def test_norm_section_trains_each_point() -> None:
    """Without a norm, too, the grid has no two points that are one network: normexp would train that once."""
    for norm, mixer in itertools.product(NORMS, MIXERS):
        grid = calm(norm, mixer, 3, fused=False)
        planned = plan(parse(grid.file_text(OURS), origin="grid.yaml"))
        assert len(planned.configs) == grid.points == 4


@pytest.mark.slow
def test_commands_end_with_like_losses() -> None:
    """normexp's command and the plain loop's, in this environment."""
    grid = Grid(steps=2, depth=1, positions=("pre",), rates=(1e-3,))
    both = [timed(tool, Path(sys.executable).parent, grid) for tool in (OURS, LOOP)]
    assert all(took > 0.1 for took, _ in both)
    (_, ours), (_, loops) = both
    assert loops == pytest.approx(ours, abs=0.2)
    assert 3 < ours["pre", 1e-3] < 5


def test_failing_command_is_told() -> None:
    with pytest.raises(ToolFailed, match=r"exit 2: .*norm"):
        timed(OURS, Path(sys.executable).parent, Grid(steps=2, norm="nonsense"))


def test_spread_stays_within_the_values() -> None:
    assert spread([4.0, 2.0]) == (3.0, 2.5, 3.5)
    assert spread([1.0, 9.0, 2.0]) == (2.0, 1.5, 5.5)
    assert spread([2.0]) == (2.0, 2.0, 2.0)


@pytest.mark.slow
def test_overhead_is_measured_of_few_runs_as_of_many() -> None:
    rows = list(measured(runs=2, short=2, stored=10, repeats=1))
    assert [row["what"] for row in rows] == ["run", "short", "resume", "report", "list"]
    assert all(float(str(row["median"])) > 0 for row in rows)
