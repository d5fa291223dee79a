"""normexp factors: one key is changed at a time, all others and the seed stay."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from normexp.analysis.comparison import Side
from normexp.analysis.factors import Happened, effects, table
from normexp.config.grid import plan_of
from normexp.config.run import RunConfig
from normexp.errors import UserError

GRID = {"mixer": ["mean", "attention"], "init": ["torch", "xavier"], "lr": [1e-4, 1e-3], "seed": [0, 1, 2]}


def sweep(outcome: Callable[[RunConfig], str], grid: dict[str, list[object]] | None = None) -> Side:
    """A sweep whose runs end as `outcome` says; an empty outcome is a run that is still pending."""
    plan = plan_of(name="crossed", title="Crossed", groups=[("", grid or GRID)])  # type: ignore[dict-item]
    rows = {
        run_id: {"status": "done" if outcome(config) else "pending", "outcome": outcome(config)}
        for run_id, config in plan.configs.items()
    }
    return Side(name="crossed", folder="", axes=plan.axes, points=plan.points, rows=rows, records={})


def test_the_key_that_decides_is_found() -> None:
    """Xavier weights alone make runs die: init changes all combinations, and mixer and lr none."""
    found = {
        each.key: each
        for each in effects(
            sweep(lambda config: "nonfinite" if config.init == "xavier" else "learned"), Happened.LEARNED
        )
    }
    assert {key: (len(each.changed), len(each.combinations)) for key, each in found.items()} == {
        "mixer": (0, 4),
        "init": (4, 4),
        "lr": (0, 4),
    }
    init = found["init"]
    assert [init.total(name) for name in ("seeds", "a", "b", "only_a", "only_b")] == [12, 12, 0, 12, 0]
    assert init.needed == {}


def test_an_interaction_names_the_values_that_it_needs() -> None:
    """Runs fail only with Xavier weights and lr 1e-3: each of the two matters only with the other."""
    side = sweep(lambda config: "plateau" if (config.init, config.lr) == ("xavier", 1e-3) else "learned")
    found = {each.key: each for each in effects(side, Happened.LEARNED)}
    assert found["init"].needed == {"lr": [1e-3]}
    assert found["lr"].needed == {"init": ["xavier"]}
    assert not found["mixer"].changed


def test_a_minority_of_seeds_changes_no_combination() -> None:
    """One of three seeds fails: it counts as a discordant pair, but the result of most seeds stays."""
    side = sweep(lambda config: "nonfinite" if config.init == "xavier" and config.seed == 1 else "learned")
    init = next(each for each in effects(side, Happened.LEARNED) if each.key == "init")
    assert (init.total("only_a"), len(init.changed)) == (4, 0)


def test_finite_counts_plateaus_and_learned_runs_alike() -> None:
    side = sweep(lambda config: "plateau" if config.init == "xavier" else "learned")
    assert not any(each.changed for each in effects(side, Happened.FINITE))


def test_pending_runs_are_left_out() -> None:
    side = sweep(lambda config: "" if config.lr == 1e-4 else "learned")
    found = effects(side, Happened.LEARNED)
    assert {each.key: each.total("seeds") for each in found} == {"mixer": 6, "init": 6}


def test_every_pair_of_three_values_is_compared() -> None:
    side = sweep(lambda config: "learned", {"depth": [1, 2, 3], "seed": [0, 1]})
    assert [(each.a, each.b) for each in effects(side, Happened.LEARNED)] == [(1, 2), (1, 3), (2, 3)]


def test_a_sweep_of_seeds_alone_is_refused() -> None:
    with pytest.raises(UserError, match="crossed"):
        effects(sweep(lambda config: "learned", {"seed": [0, 1]}), Happened.LEARNED)


def test_table_has_a_row_for_each_effect() -> None:
    side = sweep(lambda config: "plateau" if (config.init, config.lr) == ("xavier", 1e-3) else "learned")
    rows = {row[0]: row[1:] for row in table(side, Happened.LEARNED).rows}
    assert rows["init"] == ("torch → xavier", "12/12", "6/12", "6", "0", "2 of 4", "lr 0.001")
    assert json.dumps(rows)
