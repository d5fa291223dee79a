"""RunConfig: defaults, equivalent runs, and run ids that never change."""

import contextlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from normexp.config.keys import Key
from normexp.config.run import INTERACTING, KEYS, RunConfig
from normexp.schemes.schemes import SCHEMES, Scale, constant

VALUES: dict[str, list[Any]] = {
    "depth": [0, 1, 12],
    "residual": [True, False],
    "heads": [4, 8],
    "width": [64, 32],
    "hidden": [128, 16],
    "vocab": [64, 8],
    "seq_len": [16, 8],
    "init_gain": [1.0, 0.5],
    "eps": [1e-5, 0.0],
    "post_share": [0.25, 0.5],
    "dyt_alpha": [0.5, 0.2],
    "order": [2, 1],
    "sharpness": [4.0, 1.0],
    "task_seed": [0, 1],
    "label_noise": [0.0, 0.1],
    "lr": [1e-3, 1e-2],
    "warmup": [0, 1, 200],
    "beta1": [0.9, 0.5],
    "beta2": [0.999, 0.9],
    "weight_decay": [0.0, 0.1],
    "clip": [0.0, 1.0],
    "batch": [32, 8],
    "steps": [3000, 10],
    "eval_every": [500, 5],
    "seed": [0, 7],
}
"""Some values of keys without choices. Any other key has its default and another valid value."""


def some(name: str) -> st.SearchStrategy[Any]:
    key = KEYS[name]
    if key.choices is not None:
        return st.sampled_from(list(key.choices()))
    return st.sampled_from(VALUES[name] if name in VALUES else [key.default, another(key)])


def another(key: Key) -> Any:
    """Return a valid value that is not the default."""
    for value in (not key.default,) if key.kind is bool else (2 * key.default, key.default / 2, 1, 0):
        with contextlib.suppress(ValueError):
            if (valid := key.check(value)) != key.default:
                return valid
    raise AssertionError("write values of the key into VALUES")


runs = st.builds(RunConfig, **{name: some(name) for name in KEYS})

GOLDEN = {
    "d20-ln-pre-attention-lr0.001-w0-s0-44136fa3": {},
    "d12-ln-post-attention-lr0.003-w200-s3-26be4899": {
        "depth": 12,
        "position": "post",
        "lr": 3e-3,
        "warmup": 200,
        "steps": 800,
        "seed": 3,
    },
    "d20-none-pre-attention-lr0.01-w0-s0-5dc88d5e": {"norm": "none", "position": "post", "lr": 1e-2},
    "d0-ln-pre-attention-lr0.001-w0-s0-b714f424": {"depth": 0, "norm": "rms", "heads": 7},
    "d20-rms-pre-linear-lr0.001-w0-s0-1140f145": {"norm": "rms", "mixer": "linear", "init": "torch", "order": 1},
    "d20-ln-pre-mean-lr0.1-w0-s0-4b4b6097": {"mixer": "mean", "optimizer": "sgd", "lr": 0.1, "residual": False},
}


@pytest.mark.parametrize(("run_id", "values"), GOLDEN.items(), ids=[name[:20] for name in GOLDEN])
def test_golden_run_ids(run_id: str, values: dict[str, Any]) -> None:
    assert RunConfig(**values).run_id == run_id, (
        "the id of a stored run has changed, so stored results no longer match their configs. Give a new key a neutral "
        "value that reproduces the former behavior. Change these ids only if the identity of runs is meant to change"
    )


@pytest.mark.parametrize(("run_id", "values"), GOLDEN.items(), ids=[name[:20] for name in GOLDEN])
def test_numpy_scalars_give_the_same_run(run_id: str, values: dict[str, Any]) -> None:
    run = RunConfig(**{name: np.array(value)[()] for name, value in values.items()})
    assert run == RunConfig(**values)
    assert run.run_id == run_id
    assert [type(value) for value in run.to_dict().values()] == [key.kind for key in KEYS.values()]


def test_a_single_precision_value_is_exact_and_gives_another_run() -> None:
    single, double = RunConfig(lr=np.float32(1e-3)), RunConfig(lr=1e-3)
    assert single.lr == 0.0010000000474974513
    assert single != double
    assert single.run_id != double.run_id
    assert replace(double, lr=np.float32(1e-3)).run_id == single.run_id == RunConfig(lr=0.0010000000474974513).run_id
    assert RunConfig(lr=np.float32(0.5)).run_id == RunConfig(lr=0.5).run_id


def test_auto_is_resolved() -> None:
    assert RunConfig().final_norm == "ln"
    assert RunConfig(position="post").final_norm == "none"
    assert RunConfig(position="post", final_norm="ln").final_norm == "ln"
    assert RunConfig(norm="none").final_norm == "none"
    assert RunConfig(norm="rms", depth=0, position="post").final_norm == "rms"
    assert RunConfig().pos_embed == "learned"
    assert RunConfig(mixer="linear").pos_embed == "none"


def test_conflicts_of_valid_keys_are_reported_with_other_errors() -> None:
    with pytest.raises(ValueError, match="lr") as caught:
        RunConfig(heads=3, width=16, lr=-1.0, order=5, seq_len=4, vocab=2)
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == ["lr", "heads", "order"]


@pytest.mark.parametrize("wrong", [{"heads": "many"}, {"width": None}, {"mixer": 3}, {"depth": "x"}])
def test_an_invalid_key_conflicts_with_nothing(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))) as caught:
        RunConfig(**{"heads": 3, "width": 16, **wrong})
    assert len(str(caught.value).splitlines()) == 1


def test_all_errors_are_reported_at_once() -> None:
    with pytest.raises(ValueError, match=r"(?s)depth: .*lr: ") as caught:
        RunConfig(depth=-1, lr=0.0)
    assert len(str(caught.value).splitlines()) == 2
    with pytest.raises(ValueError, match=r"(?s)heads: 5 .*width 64.*order: 20 .*seq_len 16"):
        RunConfig(heads=5, order=20)


def test_a_huge_source_is_rejected_without_computing_its_size() -> None:
    with pytest.raises(ValueError, match="probabilities"):
        RunConfig(order=10**9 - 1, seq_len=10**9)
    with pytest.raises(ValueError, match="probabilities"):
        RunConfig(order=4)
    assert RunConfig(order=3).order == 3


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"warmup": 1}, {"warmup": 0}),
        ({"norm": "none", "position": "post"}, {"norm": "none", "position": "pre"}),
        ({"norm": "none", "eps": 1e-3}, {"norm": "none", "eps": 1e-5}),
        ({"mixer": "mean", "heads": 7}, {"mixer": "mean", "heads": 4}),
        ({"mixer": "mean", "qk_norm": "rms"}, {"mixer": "mean"}),
        ({"optimizer": "sgd", "beta1": 0.5}, {"optimizer": "sgd"}),
        ({"depth": 0, "position": "post", "init": "unit"}, {"depth": 0}),
        ({"final_norm": "auto"}, {"final_norm": "ln"}),
        ({"position": "rezero", "norm": "rms"}, {"position": "rezero", "norm": "none"}),
        ({"position": "mix", "norm": "none"}, {"norm": "none"}),
        ({"position": "mix", "post_share": 0.0}, {}),
        ({"position": "mix", "post_share": 1.0, "final_norm": "none"}, {"position": "post"}),
        ({"position": "b2t", "residual": False}, {"position": "post", "residual": False}),
        ({"position": "b2t", "residual": False, "norm": "none"}, {"norm": "none", "residual": False}),
        ({"position": "lns", "depth": 1}, {"depth": 1}),
        ({"post_share": 0.5}, {}),
        ({"norm": "dyt", "eps": 1e-3}, {"norm": "dyt"}),
        ({"dyt_alpha": 0.2}, {}),
        ({"norm_dtype": "same"}, {}),
        ({"norm": "none", "dtype": "float16", "norm_dtype": "same"}, {"norm": "none", "dtype": "float16"}),
    ],
)
def test_equivalent_configs(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert RunConfig(**one).canonical() == RunConfig(**other).canonical()
    assert RunConfig(**one).run_id == RunConfig(**other).run_id


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"warmup": 2}, {"warmup": 0}),
        ({"position": "post"}, {"position": "post", "final_norm": "ln"}),
        ({"norm": "none", "final_norm": "ln"}, {"norm": "none"}),
        ({"norm": "none", "final_norm": "ln", "eps": 1e-3}, {"norm": "none", "final_norm": "ln"}),
        ({"norm": "none", "final_norm": "none", "qk_norm": "ln", "eps": 1e-3}, {"norm": "none", "qk_norm": "ln"}),
        ({"eps": 1e-3}, {"eps": 1e-5}),
        ({"position": "rezero"}, {"norm": "none"}),
        ({"position": "b2t", "norm": "none"}, {"norm": "none"}),
        ({"position": "hybrid"}, {"position": "hybrid", "mixer": "mean"}),
        (
            {"norm": "none", "final_norm": "none", "qk_norm": "l2", "dtype": "bfloat16", "norm_dtype": "same"},
            {"norm": "none", "final_norm": "none", "qk_norm": "l2", "dtype": "bfloat16"},
        ),
        ({"position": "lns", "norm": "none"}, {"norm": "none"}),
        ({"position": "mix", "post_share": 0.5}, {"position": "mix"}),
        ({"norm": "dyt", "final_norm": "ln", "eps": 1e-3}, {"norm": "dyt", "final_norm": "ln"}),
        ({"norm": "rms", "final_norm": "dyt", "dyt_alpha": 0.2}, {"norm": "rms", "final_norm": "dyt"}),
        ({"dtype": "float16", "norm_dtype": "same"}, {"dtype": "float16"}),
        ({"seed": 1}, {"seed": 0}),
    ],
)
def test_different_configs(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert RunConfig(**one).run_id != RunConfig(**other).run_id


@given(run=runs)
def test_canonical_is_idempotent(run: RunConfig) -> None:
    same = run.canonical()
    assert same.canonical() == same
    assert same.run_id == run.run_id
    assert RunConfig(**same.to_dict()) == same  # type: ignore[arg-type]


@given(run=runs, data=st.data())
@settings(max_examples=300)
def test_a_key_that_is_not_interacting_affects_only_itself(run: RunConfig, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([name for name in KEYS if name not in INTERACTING]))
    other = replace(run, **{name: data.draw(some(name))})
    before, after = run.canonical().to_dict(), other.canonical().to_dict()
    assert {key for key in KEYS if before[key] != after[key]} <= {name}, "mark the key as interacting in the table"
    assert KEYS[name].matters(run) == KEYS[name].matters(other)


@given(run=runs)
def test_runs_are_equal_exactly_if_their_networks_are(run: RunConfig) -> None:
    run = replace(run, depth=3, final_norm="none", heads=4, width=32)
    for name, scheme in SCHEMES.items():
        equal = scheme.same_network(SCHEMES[run.position], run)
        assert (replace(run, position=name).run_id == run.run_id) == equal


@pytest.mark.parametrize(
    ("scales", "same"),
    [
        ({"skip": constant(1.0)}, True),
        ({"skip": constant(2.0)}, False),
        ({"branch_out": Scale(lambda site: 1.0, learned=True)}, False),
        ({"branch_in": Scale(lambda site: 1 / site.layer**0.5)}, False),
        ({"gains": {"v": lambda depth: 1.0}}, True),
        ({"gains": {"v": lambda depth: 0.5}}, False),
    ],
)
def test_schemes_are_compared_by_value(scales: dict[str, Any], same: bool) -> None:
    other = replace(SCHEMES["post"], **scales)
    run = RunConfig(norm="none", depth=3)
    assert SCHEMES["pre"].same_network(other, run) is same
    assert SCHEMES["pre"].same_network(SCHEMES["post"], run)
    assert not SCHEMES["pre"].same_network(SCHEMES["post"], replace(run, norm="ln"))
