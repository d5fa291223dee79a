"""Configs in the style of other programs: each error gives the same content in the form that normexp reads."""

import pytest

from normexp.config import sweep_file
from normexp.config.keys import OTHER_NAMES
from normexp.config.run import KEYS
from normexp.errors import UserError

WANDB = """\
method: grid
parameters:
  learning_rate: {values: [1e-3, 1e-2]}
  n_layers: {value: 3}
  clip: {min: 0.5, max: 2}
  seeds: {value: 2}
"""


def complaints(text: str, *overrides: str) -> list[str]:
    with pytest.raises(UserError) as caught:
        sweep_file.parse(text, origin="c.yaml", overrides=overrides)
    return list(caught.value.complaints)


def test_every_other_name_stands_for_a_key_or_a_choice() -> None:
    choices = {word for key in KEYS.values() if key.choices is not None for word in key.choices()}
    assert set(OTHER_NAMES.values()) <= {*KEYS, *choices}


@pytest.mark.parametrize(
    ("other", "name"),
    [
        ("hidden_size", "width"),
        ("d_model", "width"),
        ("model.d_model", "width"),
        ("d_ff", "hidden"),
        ("ffn_dim", "hidden"),
        ("norm_type", "norm"),
        ("n_layers", "depth"),
        ("num_heads", "heads"),
        ("learning_rate", "lr"),
        ("max_grad_norm", "clip"),
    ],
)
def test_a_key_of_another_program_is_translated_in_every_place(other: str, name: str) -> None:
    for section in ("base", "grid", "zip"):
        assert complaints(f"{section}: {{{other}: 4}}")[0].endswith(f"did you mean {name}?")
    assert complaints(f"{other}: 4")[0].endswith(f"did you mean {name}, under base or grid?")
    assert complaints("base: {lr: 1}", f"{other}=4")[0].endswith(f"did you mean {name}?")


@pytest.mark.parametrize(
    ("key", "other", "word"),
    [
        ("norm", "LayerNorm", "ln"),
        ("norm", "nn.LayerNorm", "ln"),
        ("norm", "RMSNorm", "rms"),
        ("position", "pre_ln", "pre"),
        ("position", "Pre-LN", "pre"),
        ("position", "Post-LN", "post"),
        ("dtype", "bf16", "bfloat16"),
    ],
)
def test_a_value_of_another_program_is_translated(key: str, other: str, word: str) -> None:
    (complaint,) = complaints(f"base: {{{key}: {other}}}")
    assert complaint.endswith(f"did you mean {word}?")


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("seeds: 3\nbase: {lr: 1}", ["c.yaml:1: seeds: | write grid: {seed: [0, 1, 2]}"]),
        ("base: {seeds: 3}", ["c.yaml:1: base.seeds: | write grid: {seed: [0, 1, 2]}"]),
        ("grid: {n_seeds: 2}", ["c.yaml:1: grid.n_seeds: | write seed: [0, 1]"]),
        ("grid: {seeds: [4, 5]}", ["write seed: [4, 5]"]),
        ("grid: {seeds: 100}", ["write seed: {range: [0, 99, 1]}"]),
        (
            "grid: {lr: 1e-3, 1e-2, depth: [3]}",
            ["c.yaml:1: grid.lr: several values need brackets: write lr: [1e-3, 1e-2]"],
        ),
        ("grid: {norm: ln, RMSNorm}", ["grid.norm: | write norm: [ln, RMSNorm]"]),
        ("base: {lr: 1e-3, 1e-2}", ["base.lr: | write lr: [1e-3, 1e-2], under grid"]),
        ("grid: {lr: 1e-3, deph}", ["grid.deph: | did you mean depth?"]),
        ("grid: {lr: {values: [1e-3, 1e-2]}}", ["c.yaml:1: grid.lr: | write lr: [1e-3, 1e-2]"]),
        ("grid: {lr: {distribution: log_uniform_values, min: 1e-4, max: 1}}", ["write lr: {logspace: [1e-4, 1, 5]}"]),
        ("grid: {lr: {low: 1e-4, high: 1, log: true}}", ["write lr: {logspace: [1e-4, 1, 5]}"]),
        ("grid: {clip: {low: 0, high: 1}}", ["write clip: {linspace: [0, 1, 5]}"]),
        ("grid: {norm: {grid_search: [ln, rms]}}", ["write norm: [ln, rms]"]),
        ("grid:\n  lr: choice(1e-3, 1e-2)", ["c.yaml:2: grid.lr: | write [1e-3, 1e-2]"]),
        ("grid: {seed: range(3)}", ["write [0, 1, 2]"]),
        ("grid:\n  depth: range(4,20,8)", ["write [4, 12]"]),
        ("grid:\n  depth: range(0,20,0)", ["code is not evaluated: write a list"]),
        ("base: {model: {hidden_size: 3}}", ["base.model: | directly under base"]),
        (
            WANDB,
            [
                "c.yaml:1: method: | remove it",
                "c.yaml:2: parameters: | write base: {depth: 3} and grid: {lr: [1e-3, 1e-2], "
                "clip: {linspace: [0.5, 2, 5]}, seed: [0, 1]}",
            ],
        ),
        ("parameters: {lr: {values: [" + "1, " * 1000 + "1]}}", ["write grid: {lr: [...]}"]),
        ("parameters: 3", ["name, title, base, grid"]),
    ],
)
def test_the_form_of_another_program_is_rewritten(text: str, facts: list[str]) -> None:
    found = complaints(text)
    assert len(found) == len(facts), found
    for complaint, expected in zip(found, facts, strict=True):
        assert all(fact in complaint for fact in expected.split(" | ")), complaint


def test_what_wandb_parameters_are_rewritten_to_is_valid() -> None:
    rewritten = complaints(WANDB)[1].partition("write ")[2].replace(" and grid", "\ngrid")
    (group,) = sweep_file.parse(rewritten, origin="c.yaml").groups
    assert list(group.grid["lr"]) == [1e-3, 1e-2]
    assert list(group.grid["seed"]) == [0, 1]
    assert group.base == {"depth": 3}


@pytest.mark.parametrize(
    ("override", "fact"),
    [
        ("seeds=3", "write seed=0,1,2"),
        ("seeds=30", "write seed='{range: [0, 29, 1]}'"),
        ("seeds=4,5", "write seed=4,5"),
        ("lr=choice(1e-3,1e-2)", "write lr=1e-3,1e-2"),
        ("seed=range(2)", "write seed=0,1"),
    ],
)
def test_an_override_in_the_form_of_another_program_is_rewritten(override: str, fact: str) -> None:
    (complaint,) = complaints("base: {lr: 1}", override)
    assert complaint.startswith(f"override {override}: ")
    assert fact in complaint


def test_one_number_of_seeds_in_a_grid_draws_a_warning() -> None:
    def warnings(text: str) -> tuple[str, ...]:
        return sweep_file.parse(text, origin="c.yaml").warnings

    (warning,) = warnings("base: {lr: 1}\ngrid: {seed: 3}")
    assert warning.startswith("c.yaml:2: grid.seed: 3 is one seed")
    assert warning.endswith("write seed: [0, 1, 2]")
    for text in ("base: {seed: 3}", "grid: {seed: 0}", "grid: {seed: [3]}", "grid: {seed: {range: [0, 2, 1]}}"):
        assert warnings(text) == ()
