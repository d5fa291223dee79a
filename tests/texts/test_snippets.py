"""Calculations: each with what must bear it out and with what must not, and those of speed with times made up."""

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
def test_what_must_bear_out_does(name: str) -> None:
    for number, made in enumerate(CASES[name][0]):
        finding = made()
        assert finding.holds is True, f"{number}: {finding.sentence}"
        assert finding.word in (None, Word.ONLY_WHEN)
        assert bool(finding.setting) == (finding.word is Word.ONLY_WHEN)
        assert finding.measured
        assert finding.measured in finding.sentence or finding.word is None


@pytest.mark.parametrize("name", CASES)
def test_what_must_not_does_not(name: str) -> None:
    for number, made in enumerate(CASES[name][1]):
        finding = made()
        assert finding.holds is False, f"{number}: {finding.sentence}"
        assert finding.word in (None, Word.CONTRADICTING, Word.MISQUOTED)


def test_an_exponential_is_told_from_a_power_law() -> None:
    assert gradients.exponential_in_depth([1.0, 2.0, 4.0])
    assert not gradients.exponential_in_depth([1.0, 2.0, 3.0])
    assert not gradients.exponential_in_depth([4.0, 2.0, -2.0]), "it falls"


class TestSpeed:
    """With times made up: those of this machine decide nothing here."""

    def at(self, monkeypatch: pytest.MonkeyPatch, layer_norm: float, by_hand: float) -> Callable[[str], bool | None]:
        times = {bench.REFERENCE: layer_norm, "handwritten": by_hand, "normexp": layer_norm}
        monkeypatch.setattr(speed, "medians", lambda shape: times)
        return lambda name: calculate(f"speed.{name}", 0, {"times_printed": ["96", "78"]}.get(name, ["14", "15"])).holds

    def test_times(self, monkeypatch: pytest.MonkeyPatch) -> None:
        holds = self.at(monkeypatch, 100.0, 85.5)
        assert holds("times_printed")
        assert holds("by_hand_is_faster")
        assert not holds("by_hand_is_slower")
        assert holds("same_gain_everywhere")
        holds = self.at(monkeypatch, 100.0, 170.0)
        assert not holds("times_printed")
        assert not holds("by_hand_is_faster")
        assert holds("by_hand_is_slower")
        assert not holds("same_gain_everywhere")

    def test_memory(self) -> None:
        assert speed.benchmark_fits(0, calls=1).holds
        assert not speed.benchmark_fits(0, calls=10**9).holds

    @pytest.mark.parametrize(("microseconds", "holds"), [(50.0, False), (75.0, True), (100.0, False)])
    def test_share(self, monkeypatch: pytest.MonkeyPatch, microseconds: float, holds: bool) -> None:
        """25 norms, forward and backward three times the forward pass, in steps of 10 ms."""
        monkeypatch.setattr(speed, "medians", lambda shape: {bench.REFERENCE: microseconds})
        rounds = bench.steps(dict.fromkeys(("ln", "rms"), RunConfig(depth=1, width=8, heads=1)), 1, "")
        monkeypatch.setattr(speed, "steps", lambda *_: replace(rounds, seconds={"ln": [0.01], "rms": [0.0095]}))
        finding = speed.share_in_model(0, ["15", "7", "9"])
        assert finding.holds is holds, finding.sentence
        assert "with RMSNorm 5% less" in finding.sentence

    def test_what_is_measured(self) -> None:
        times = speed.medians((32, 8))
        assert set(times) == {bench.REFERENCE, "handwritten", "normexp"}
        assert all(0 < value < 1e6 for value in times.values())


def test_random_state_and_threads_are_given_back() -> None:
    torch.manual_seed(5)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    calculate("norms.by_hand", 0)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads
