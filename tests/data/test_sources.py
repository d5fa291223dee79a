"""Sources draw tokens from the probabilities that they report. Each is compared with its formula, token by token."""

import dataclasses
import math
import time
from itertools import islice

import numpy as np
import pytest

from normexp.config.run import KEYS, RunConfig
from normexp.data.sources import SOURCES, Lookups, Markov, TableSource
from normexp.data.streams import stream
from normexp.data.tasks import Task

DEEP = RunConfig(task="lookups", vocab=5, order=8, sharpness=8.0, seq_len=24)
"""The setting of the README in which more depth gives a lower loss."""

STORED = [
    (
        RunConfig(),
        (1.3687443151561098, 4.041200897132942, 2.493259489889952),
        [54, 60, 61, 2, 55, 41, 2, 34, 53, 54, 41, 3, 9, 33, 38, 44],
    ),
    (
        RunConfig(order=1),
        (1.398255315583594, 3.8462760115411583, 1.398255315583594),
        [53, 54, 38, 46, 9, 33, 39, 36, 46, 1, 45, 30, 35, 39, 45, 29],
    ),
    (
        RunConfig(order=3, vocab=16, sharpness=2.0, label_noise=0.2, task_seed=7),
        (2.070414355317626, 2.719017095161874, 2.4571896849808588),
        [2, 10, 1, 11, 1, 11, 14, 5, 2, 11, 15, 3, 3, 10, 12, 15],
    ),
]
"""Stored Markov runs: floor, guess and bigram, and the second sequence of batch 1 with seed 3."""


def source_of(task: str, vocab: int, order: int, sharpness: float, seed: int = 0) -> TableSource:
    source = SOURCES[task](RunConfig(task=task, vocab=vocab, order=order, sharpness=sharpness, task_seed=seed))
    assert isinstance(source, TableSource)
    return source


def softmax(logits: list[float]) -> list[float]:
    weights = [math.exp(logit) for logit in logits]
    return [weight / sum(weights) for weight in weights]


def markov_by_hand(source: TableSource, context: list[int]) -> list[float]:
    tables = [stream("markov", source.seed, source.vocab, lag) for lag in range(1, source.order + 1)]
    rows = [
        table.standard_normal((source.vocab, source.vocab))[token]
        for table, token in zip(tables, reversed(context), strict=True)
    ]
    return softmax([sum(row[v] for row in rows) * source.sharpness / source.order**0.5 for v in range(source.vocab)])


def lookups_by_hand(source: TableSource, context: list[int]) -> list[float]:
    z, rows = -1, []
    for lag, token in enumerate(reversed(context), 1):
        random = stream("lookups", source.seed, source.vocab, lag)
        readout = random.standard_normal((source.vocab, source.vocab))
        table = random.permuted(np.tile(np.arange(source.vocab), (source.vocab, 1)), axis=1)
        z = token if lag == 1 else table[z, token]
        rows.append(readout[z])
    return softmax([sum(row[v] for row in rows) * source.sharpness / source.order**0.5 for v in range(source.vocab)])


BY_HAND = {"markov": markov_by_hand, "lookups": lookups_by_hand}


def test_the_config_key_has_the_names_of_the_table() -> None:
    assert KEYS["task"].choices is not None
    assert KEYS["task"].choices() == tuple(SOURCES) == tuple(BY_HAND)


@pytest.mark.parametrize("task", SOURCES)
class TestEverySource:
    @pytest.mark.parametrize(("vocab", "order"), [(4, 1), (3, 2), (5, 3), (3, 5)])
    def test_it_follows_its_formula(self, task: str, vocab: int, order: int) -> None:
        source = source_of(task, vocab, order, sharpness=3.0, seed=5)
        for context in np.ndindex((vocab,) * order):
            actual = source.predictions(np.array([context]))[0, 0]
            assert actual == pytest.approx(BY_HAND[task](source, list(context)), rel=1e-9)

    def test_sampled_frequencies_agree_with_the_table(self, task: str) -> None:
        source = source_of(task, vocab=3, order=2, sharpness=2.0, seed=1)
        tokens = source.sample(np.random.default_rng(0), 20_000, 8)
        contexts = source.contexts(tokens[:, :-1])
        for context in range(9):
            following = tokens[:, 2:][contexts == context]
            share = np.bincount(following, minlength=3) / len(following)
            assert share == pytest.approx(source.next_cv[context], abs=5 / math.sqrt(len(following)))
        assert np.bincount(tokens[:, :2].ravel()) / 40_000 == pytest.approx(1 / 3, abs=0.02)

    def test_shapes_and_range(self, task: str) -> None:
        source = source_of(task, vocab=5, order=3, sharpness=4.0)
        tokens = source.sample(np.random.default_rng(0), 50, 12)
        assert tokens.shape == (50, 12)
        assert set(np.unique(tokens)) == set(range(5))
        predictions = source.predictions(tokens)
        assert predictions.shape == (50, 12 - source.first, 5)
        assert predictions.sum(axis=2) == pytest.approx(1)
        likelihood = source.likelihood(tokens[:, :-1], tokens[:, source.first + 1 :])
        of_next = np.take_along_axis(predictions[:, :-1], tokens[:, source.first + 1 :, None], axis=2)[..., 0]
        assert (likelihood == of_next).all()

    def test_pairs_are_sums_of_predictions(self, task: str) -> None:
        source = source_of(task, vocab=4, order=3, sharpness=4.0)
        tokens = source.sample(np.random.default_rng(0), 40, 9)
        expected = np.zeros((4, 4))
        for latest, prediction in zip(
            tokens[:, source.first :].ravel(), source.predictions(tokens).reshape(-1, 4), strict=True
        ):
            expected[latest] += prediction
        assert source.pairs(tokens) == pytest.approx(expected)

    def test_the_floor_agrees_with_the_formula(self, task: str) -> None:
        config = RunConfig(task=task, vocab=4, order=3, seq_len=6, sharpness=5.0, task_seed=3)
        source, validation = source_of(task, 4, 3, 5.0, 3), Task(config).validation
        losses = [
            -math.log(BY_HAND[task](source, inputs[position - 2 : position + 1].tolist())[targets[position]])
            for inputs, targets in zip(validation.inputs_nt, validation.targets_nt, strict=True)
            for position in range(2, 6)
        ]
        assert Task(config).losses.floor == pytest.approx(sum(losses) / len(losses), rel=1e-9)

    def test_seed_and_sharpness_change_the_source(self, task: str) -> None:
        def next_cv(sharpness: float, seed: int) -> np.ndarray:
            return source_of(task, vocab=4, order=2, sharpness=sharpness, seed=seed).next_cv

        assert (next_cv(2.0, 0) == next_cv(2.0, 0)).all()
        assert np.abs(next_cv(2.0, 0) - next_cv(2.0, 1)).max() > 0.1
        assert next_cv(8.0, 0).max(axis=1).mean() > next_cv(2.0, 0).max(axis=1).mean() + 0.1

    def test_data_of_a_run_are_made_fast(self, task: str) -> None:
        start = time.process_time()
        task_of_source = Task(dataclasses.replace(DEEP, task=task))
        assert sum(len(batch.inputs_nt) for batch in islice(task_of_source.batches(0, 32), 1000)) == 32_000
        assert task_of_source.losses.floor < task_of_source.losses.bigram < task_of_source.losses.guess
        assert time.process_time() - start < 2  # usually 0.5 s


@pytest.mark.parametrize(("config", "losses", "tokens"), STORED, ids=["default", "order1", "order3"])
def test_stored_markov_numbers_never_change(
    config: RunConfig, losses: tuple[float, float, float], tokens: list[int]
) -> None:
    task = Task(config)
    assert (task.losses.floor, task.losses.guess, task.losses.bigram) == pytest.approx(losses, rel=1e-12)
    assert next(task.batches(3, 32)).inputs_nt[1].tolist() == tokens


def test_lookups_depend_on_every_token_of_the_context() -> None:
    for order in range(1, 5):
        next_cv = Lookups(vocab=4, order=order, sharpness=3.0, seed=0).next_cv.reshape((4,) * order + (4,))
        for lag in range(order):
            assert np.ptp(next_cv, axis=lag).max() > 0.05


def test_a_lookup_depends_on_the_one_before() -> None:
    """In a Markov source, the effect of an older token on the logits does not depend on later tokens."""

    def spread(source: TableSource) -> float:
        logits_oyv = np.log(source.next_cv).reshape(5, 5, 5)
        differences = logits_oyv - logits_oyv[:1]
        differences -= differences.mean(axis=2, keepdims=True)
        return float(np.ptp(differences, axis=1).max())

    assert spread(Markov(vocab=5, order=2, sharpness=3.0, seed=0)) < 1e-9
    assert spread(Lookups(vocab=5, order=2, sharpness=3.0, seed=0)) > 1


def test_a_source_that_is_too_large_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"order: .*64\^9"):
        dataclasses.replace(DEEP, vocab=64)
    with pytest.raises(ValueError, match=r"order: 8 .*seq_len 8"):
        dataclasses.replace(DEEP, seq_len=8)
