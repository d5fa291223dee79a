"""The article's calculations, each with cases that hold and cases that do not; those of speed with made-up times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import cases_of_networks
import cases_of_norms
import pytest
import torch
from calculations import OWN, SPEED

from normexp.claims.calculations import COMPUTED, calculate, function_of
from normexp.claims.claim import Word
from normexp.config.run import RunConfig
from normexp.texts.article import gradients, speed
from normexp.training import bench

pytestmark = pytest.mark.usefixtures("alone")

CASES = {**cases_of_norms.CASES, **cases_of_networks.CASES}


def test_every_calculation_has_its_cases() -> None:
    assert {*CASES, *SPEED} == {*OWN}
    for name, (holding, failing) in CASES.items():
        assert holding, name
        assert failing, name
    for name in OWN:
        made = function_of(name)
        assert (made.__code__.co_varnames[1] == "figures") == COMPUTED[name].takes_figures


@pytest.mark.parametrize("name", CASES)
def test_cases_hold_or_do_not(name: str) -> None:
    holding, failing = CASES[name]
    for number, calculation in enumerate(holding):
        finding = calculation()
        assert finding.holds is True, f"{number}: {finding.sentence}"
        assert finding.word in (None, Word.HOLDS_WHEN)
        assert bool(finding.setting) == (finding.word is Word.HOLDS_WHEN)
        assert finding.measured
        assert finding.measured in finding.sentence or finding.word is None
    for number, calculation in enumerate(failing):
        finding = calculation()
        assert finding.holds is False, f"{number}: {finding.sentence}"
        assert finding.word in (None, Word.CONTRADICTING, Word.SOURCE_DIFFERS)


def test_exponentials_and_power_laws_are_distinguished() -> None:
    assert gradients.exponential_in_depth([1.0, 2.0, 4.0])
    assert not gradients.exponential_in_depth([1.0, 2.0, 3.0])
    assert not gradients.exponential_in_depth([4.0, 2.0, -2.0]), "it falls"


class TestSpeed:
    """Times are made up: those of this machine must not decide a test."""

    def at(self, monkeypatch: pytest.MonkeyPatch, layer_norm: float, by_hand: float) -> Callable[[str], bool | None]:
        times = {bench.REFERENCE: layer_norm, "handwritten": by_hand, "normexp": layer_norm}
        monkeypatch.setattr(speed, "medians", lambda shape: times)
        return lambda name: calculate(f"speed.{name}", 0, {"times_printed": ["96", "78"]}.get(name, ["14", "15"])).holds

    @pytest.mark.parametrize(("by_hand", "faster"), [(85.5, True), (170.0, False)])
    def test_times(self, monkeypatch: pytest.MonkeyPatch, by_hand: float, faster: bool) -> None:
        holds = self.at(monkeypatch, 100.0, by_hand)
        assert holds("by_hand_is_slower") is not faster
        for name in ("times_printed", "by_hand_is_faster", "same_gain_everywhere"):
            assert holds(name) is faster, name

    def test_memory(self) -> None:
        assert speed.benchmark_fits(0, calls=1).holds
        assert not speed.benchmark_fits(0, calls=10**9).holds

    @pytest.mark.parametrize(("microseconds", "holds"), [(50.0, False), (75.0, True), (100.0, False)])
    def test_share(self, monkeypatch: pytest.MonkeyPatch, microseconds: float, holds: bool) -> None:
        """There are 25 norms, forward and backward take three times the forward pass, and a step takes 10 ms."""
        monkeypatch.setattr(speed, "medians", lambda shape: {bench.REFERENCE: microseconds})
        rounds = bench.steps(dict.fromkeys(("ln", "rms"), RunConfig(depth=1, width=8, heads=1)), 1, "")
        monkeypatch.setattr(speed, "steps", lambda *_: replace(rounds, seconds={"ln": [0.01], "rms": [0.0095]}))
        finding = speed.share_in_model(0, ["15", "7", "9"])
        assert finding.holds is holds, finding.sentence
        assert "5%" in finding.sentence

    def test_medians(self) -> None:
        times = speed.medians((32, 8))
        assert set(times) == {bench.REFERENCE, "handwritten", "normexp"}
        assert all(0 < value < 1e6 for value in times.values())


def test_random_state_and_threads_are_given_back() -> None:
    torch.manual_seed(5)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    calculate("norms.by_hand", 0)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads
