"""The key findings of the project, checked by training the networks: outcomes only, without steps and losses."""

import pytest

from normexp.config.presets import SETTINGS
from normexp.config.run import RunConfig
from normexp.records.outcome import judge
from normexp.records.record import Outcome
from normexp.training.loop import train

TRANSFORMER = SETTINGS["as-a-transformer"].keys
WRITTEN = SETTINGS["as-written"].keys_at("pre")


def outcome(setting, **keys: object) -> Outcome:
    config = RunConfig(**{"steps": 800, **setting, **keys})
    training = train(config)
    verdict = judge(training.result, training.traces.evaluations, vocab=config.vocab, steps=config.steps)
    return verdict.outcome


@pytest.mark.parametrize("seeds", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_20_layers_without_a_norm_die_at_a_high_rate(seeds: int) -> None:
    outcomes = [outcome(TRANSFORMER, norm="none", lr=1e-2, seed=seed, steps=100) for seed in range(seeds)]
    assert outcomes.count(Outcome.NONFINITE) > seeds / 2


@pytest.mark.slow
class TestTheFindings:
    def test_20_layers_of_pre_ln_learn_at_a_high_rate(self) -> None:
        assert outcome(TRANSFORMER, position="pre", lr=3e-3) is Outcome.LEARNED

    def test_20_layers_of_post_ln_without_warmup_end_on_a_plateau(self) -> None:
        assert outcome(TRANSFORMER, position="post", lr=1e-3) is Outcome.PLATEAU

    @pytest.mark.parametrize(("warmup", "expected"), [(0, Outcome.PLATEAU), (200, Outcome.LEARNED)])
    def test_warmup_rescues_12_layers_of_post_ln(self, warmup: int, expected: Outcome) -> None:
        assert outcome(TRANSFORMER, position="post", depth=12, lr=3e-3, warmup=warmup) is expected

    def test_as_written_20_layers_without_a_norm_learn(self) -> None:
        assert outcome(WRITTEN, norm="none", lr=1e-3) is Outcome.LEARNED
