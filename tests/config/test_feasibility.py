"""Configurations that cannot work are rejected, or draw a warning, before a run; all others end as done."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from commandline import main
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import normexp
from normexp.config import feasibility, grid, sweep_file
from normexp.config.run import KEYS, RunConfig
from normexp.data.tasks import TaskName
from normexp.errors import UserError
from normexp.execution import machine
from normexp.execution.worker import Job
from normexp.records.record import Losses, RunRecord, Status
from normexp.runner.sweep import check_memory, check_tasks

TINY: dict[str, Any] = {"depth": 1, "width": 8, "hidden": 8, "heads": 2, "vocab": 8, "seq_len": 4, "order": 1}
TINY |= {"batch": 4, "steps": 2, "eval_every": 1, "sharpness": 8.0}
ENDS: dict[str, list[Any]] = {
    "depth": [0, 3],
    "post_share": [0.0, 5e-324, 1.0],
    "residual": [False],
    "heads": [1, 4, 8],
    "width": [1, 2],
    "hidden": [1, 2],
    "vocab": [2],
    "seq_len": [2, 70],
    "init_gain": [0.0, 5e-324, 3.4e38, 9e299],
    "eps": [0.0, 5e-324, 1.0, 1e30, 9e299],
    "dyt_alpha": [0.0, 5e-324, 3.4e38, 9e299],
    "order": [1, 2],
    "sharpness": [1e3],
    "task_seed": [2**63 - 1],
    "label_noise": [5e-324, 0.5],
    "lr": [5e-324, 1e-12, 1e30],
    "warmup": [1, 2, 10**9],
    "beta1": [0.0, 5e-324, 1 - 2**-53],
    "beta2": [0.0, 5e-324, 1 - 2**-53],
    "weight_decay": [5e-324, 3.4e38, 9e299],
    "clip": [5e-324, 3.4e38, 9e299],
    "batch": [1],
    "steps": [1, 3],
    "eval_every": [2, 10**9],
    "seed": [2**63 - 1],
}
"""Values near the limits of each key without choices. A new key needs some here."""


def ends(name: str) -> list[Any]:
    choices = KEYS[name].choices
    return ENDS[name] if choices is None else list(choices())


configs = st.lists(st.sampled_from([*KEYS]), min_size=1, max_size=4, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: st.sampled_from(ends(name)) for name in names})
)
_losses: dict[TaskName, Losses] = {}


def valid(values: dict[str, Any]) -> RunConfig | None:
    """Return the single run of a config if it passes every check before a run."""
    lines = "".join(f"  {name}: {value}\n" for name, value in (TINY | values).items())
    try:
        (config,) = grid.plan(sweep_file.parse(f"base:\n{lines}", origin="c.yaml")).configs.values()
        _losses.update(check_tasks([config]))
    except UserError:
        return None
    return config


def run(config: RunConfig, *, autograd: bool = False) -> RunRecord:
    return Job(losses=_losses, autograd=autograd)(config, lambda progress: None)


def check_that_it_ends_as_done(values: dict[str, Any], autograd: bool) -> None:
    config = valid(values)
    if config is not None:
        record = run(config, autograd=autograd)
        assert record.status is Status.DONE, record.error


@pytest.mark.parametrize("autograd", [False, True])
@pytest.mark.parametrize(
    "values",
    [
        {"norm": "bn", "eps": 0.0},
        {"final_norm": "bn", "eps": 0.0},
        {"optimizer": "sgd", "weight_decay": 9e299},
        {"optimizer": "sgd", "weight_decay": 3.4e38},
        {"width": 1, "heads": 1, "position": "subln", "hidden": 1},
    ],
)
def test_known_failures_do_not_pass_the_checks(values: dict[str, Any], autograd: bool) -> None:
    check_that_it_ends_as_done(values, autograd)


@pytest.mark.slow
@given(values=configs, autograd=st.booleans())
@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_passes_the_checks_does_not_fail(values: dict[str, Any], autograd: bool) -> None:
    check_that_it_ends_as_done(values, autograd)


REFUSED = [
    ({"norm": "bn", "eps": 0.0}, "norm bn, final_norm bn, eps 0.0: "),
    ({"norm": "ln", "final_norm": "bn", "eps": 0.0}, "norm ln, final_norm bn, eps 0.0: "),
    ({"eps": 1e39}, "eps 1e+39: "),
    ({"init_gain": 9e299}, "init_gain 9e+299: "),
    ({"norm": "dyt", "dyt_alpha": 1e39}, "dyt_alpha 1e+39: "),
    ({"optimizer": "sgd", "weight_decay": 1e39}, "weight_decay 1e+39: "),
]
ALLOWED = [
    {"norm": "ln", "eps": 0.0},
    {"norm": "bn", "position": "rezero", "eps": 0.0},
    {"norm": "bn", "eps": 0.0, "dtype": "bfloat16", "norm_dtype": "same"},
    {"norm": "none", "eps": 1e39},
    {"norm": "ln", "dyt_alpha": 1e39},
    {"depth": 0, "init_gain": 1e39},
]


@pytest.mark.parametrize(("values", "start"), REFUSED)
def test_configurations_that_cannot_run_are_rejected(values: dict[str, Any], start: str) -> None:
    with pytest.raises(UserError) as caught:
        grid.plan_of(name="c.yaml", title="t", groups=[("", {**values, "seed": [0, 1]})])
    (complaint,) = caught.value.complaints
    assert complaint.startswith(f"c.yaml: {start}")
    with pytest.raises(UserError, match=re.escape(start)):
        normexp.run(values, executor="inline")
    assert RunConfig(**values).run_id, "a stored run stays readable"


@pytest.mark.parametrize("values", ALLOWED)
def test_configurations_within_the_limits_are_allowed(values: dict[str, Any]) -> None:
    assert feasibility.refusals([RunConfig(**values)]) == []


WARNED = [
    ({"width": 1, "heads": 1, "norm": "none", "final_norm": "ln"}, "final_norm ln, width 1: LayerNorm"),
    ({"width": 1, "heads": 1, "position": "post"}, "position post, norm ln, width 1: LayerNorm"),
    ({"hidden": 1, "position": "subln"}, "position subln, norm ln, hidden 1: LayerNorm"),
    ({"qk_norm": "ln", "heads": 8}, "qk_norm ln, width 8, heads 8: LayerNorm"),
    ({"qk_norm": "l2", "heads": 8}, "qk_norm l2, width 8, heads 8: L2"),
    ({"width": 2, "norm": "none", "final_norm": "ln"}, "final_norm ln, width 2: LayerNorm"),
    ({"width": 1, "heads": 1, "norm": "rms", "position": "post"}, "position post, norm rms, width 1: RMSNorm"),
    ({"eps": 1e30}, "eps 1e+30: "),
    ({"position": "rezero", "residual": False}, "position rezero, residual false, init xavier: "),
    ({"init_gain": 0.0, "residual": False}, "residual false, init_gain 0.0: "),
    ({"init_gain": 0.0}, "init xavier, init_gain 0.0: "),
    ({"lr": 1e-12}, "optimizer adam, lr 1e-12: "),
    ({"clip": 1e-20}, "clip 1e-20: "),
]


@pytest.mark.parametrize(("values", "start"), WARNED)
def test_configurations_that_cannot_learn_draw_a_warning(values: dict[str, Any], start: str) -> None:
    (warning,) = feasibility.warnings([RunConfig(**TINY | values)])
    assert warning.startswith(start)


def outputs(config: RunConfig) -> Any:
    """Return the logits of a trained network at each token, in evaluation: (n, v)."""
    import torch

    from normexp.training.loop import train

    network = train(config).network.eval()
    tokens_nt = torch.arange(config.vocab * config.seq_len).view(-1, config.seq_len) % config.vocab
    with torch.no_grad():
        return network(tokens_nt).reshape(-1, config.vocab)


@pytest.mark.parametrize(
    "values",
    [
        {"width": 1, "heads": 1, "norm": "none", "final_norm": "ln"},
        {"width": 1, "heads": 1, "position": "post"},
        {"position": "rezero", "residual": False},
        {"init_gain": 0.0, "residual": False},
    ],
)
@pytest.mark.usefixtures("alone")
def test_networks_reported_as_constant_are_constant(values: dict[str, Any]) -> None:
    logits_nv = outputs(RunConfig(**TINY | values | {"pos_embed": "none", "steps": 20, "lr": 1e-2}))
    assert (logits_nv - logits_nv[0]).abs().max() < 1e-6


@pytest.mark.parametrize("values", [{}, {"init": "torch", "position": "rezero", "residual": False}, {"width": 2}])
@pytest.mark.usefixtures("alone")
def test_other_networks_are_not_constant(values: dict[str, Any]) -> None:
    config = RunConfig(**TINY | values | {"steps": 20, "lr": 1e-2})
    assert not any("constant" in warning for warning in feasibility.warnings([config]))
    logits_nv = outputs(config)
    assert (logits_nv - logits_nv[0]).abs().max() > 1e-3


def test_usual_networks_draw_no_warning() -> None:
    runs = [RunConfig(norm=norm, position=position) for norm in ends("norm") for position in ends("position")]
    assert feasibility.warnings(runs) == []


def test_a_run_that_does_not_fit_into_memory_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    for values in ({"width": 10**6}, {"hidden": 10**9}, {"batch": 10**9}, {"seq_len": 10**8, "batch": 10**3}):
        with pytest.raises(UserError, match="GiB"):
            check_memory([RunConfig(), RunConfig(**{"width": 64, **values})])
        check_memory([RunConfig(**values)], "tcp://elsewhere:8786")
    for memory in (None, 10**9):
        monkeypatch.setattr(machine, "memory_bytes", lambda memory=memory: memory)
        check_memory([RunConfig()])


def test_the_estimated_memory_is_a_lower_bound() -> None:
    from normexp.model.network import build

    for values in (TINY, {**TINY, "mixer": "linear", "depth": 3, "optimizer": "sgd"}):
        run = RunConfig(**values)
        parameters = sum(parameter.numel() for parameter in build(run).parameters())
        assert 0.3 * parameters * 4 < feasibility.least_bytes(run) - _batches(run) <= 16 * parameters


def _batches(run: RunConfig) -> int:
    one, two = (feasibility.least_bytes(dataclasses.replace(run, batch=batch)) for batch in (1, 2))
    return (two - one) * run.batch


def test_commands_reject_and_warn_before_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c.yaml").write_text("base: {depth: 1, width: 1, heads: 1, hidden: 4, steps: 2}\ngrid: {norm: [ln]}")
    for arguments in (
        ["sweep", "c.yaml", "norm=bn", "eps=0"],
        ["collapse", "--norm", "bn", "--eps", "0"],
        ["probe", "norm=bn", "eps=0"],
        ["bench", "norm=bn", "eps=0"],
        ["edge", "c.yaml", "norm=bn", "eps=0"],
    ):
        assert main(arguments, tmp_path, monkeypatch) == 2
        assert "norm bn, final_norm bn, eps 0.0: " in capfd.readouterr().err
    assert main(["sweep", "c.yaml", "--dry-run"], tmp_path, monkeypatch) == 0
    assert "warning: final_norm ln, width 1: " in capfd.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["c.yaml"]


def test_python_warns_like_the_commands(tmp_path: Path) -> None:
    with pytest.warns(normexp.ConfigWarning, match="LayerNorm"):
        normexp.run({**TINY, "width": 1, "heads": 1}, executor="inline")
