"""Cases for calculations on networks: calls that must hold, and calls that must not."""

from __future__ import annotations

from typing import Any

import torch
from calculations import Made, layered, printed_digits, reading, streaming, table

from normexp.schemes.models import load as load_models
from normexp.texts.article import deepnorm, gradients, models, residual, skeleton, stream


def few(**changed: dict[str, str]) -> list[Any]:
    """Three models of the table, whose positions are those of the claim."""
    return [model for model in table(**changed) if model.model in ("BERT", "GPT-2", "T5")]


CASES: dict[str, tuple[list[Made], list[Made]]] = {
    "gradients.top_heavy": (
        [lambda: layered(gradients.top_heavy, post=0.1, pre=0.0)],
        [
            lambda: layered(gradients.top_heavy, post=0.0, pre=0.0),
            lambda: layered(gradients.top_heavy, post=0.1, pre=0.1),
        ],
    ),
    "gradients.larger_at_the_top": (
        [lambda: layered(gradients.larger_at_the_top, post=0.1, pre=0.0)],
        [lambda: layered(gradients.larger_at_the_top, post=0.0, pre=0.0)],
    ),
    "gradients.exponential": (
        [lambda: layered(gradients.exponential, post=0.1, pre=0.01)],
        [
            lambda: layered(gradients.exponential, post=0.01, pre=0.1),
            lambda: layered(gradients.exponential, post=0.1, pre=0.1),
        ],
    ),
    "gradients.exponential_by_skip": (
        [lambda: layered(gradients.exponential_by_skip, post=0.1)],
        [
            lambda: layered(gradients.exponential_by_skip, post=0.0),
            lambda: layered(gradients.exponential_by_skip, post=-0.1),
        ],
    ),
    "gradients.norm_amplifies": (
        [lambda: gradients.norm_amplifies(0, residual=False)],
        [lambda: gradients.norm_amplifies(0)],
    ),
    "gradients.does_not_vanish": (
        [lambda: layered(gradients.does_not_vanish, pre=0.0), lambda: layered(gradients.does_not_vanish, pre=-0.1)],
        [lambda: layered(gradients.does_not_vanish, pre=0.1)],
    ),
    "gradients.post_has_no_floor": (
        [lambda: layered(gradients.post_has_no_floor, post=0.1)],
        [lambda: layered(gradients.post_has_no_floor, post=0.01)],
    ),
    "models.timeline": (
        [lambda: models.timeline(0, {"T5": ("RMS", "pre", "none")})],
        [lambda: models.timeline(0)],
    ),
    "models.post_to_pre": (
        [lambda: models.post_to_pre(0, few()), lambda: models.post_to_pre(0)],
        [
            lambda: models.post_to_pre(0, few(BERT={"position": "pre"})),
            lambda: models.post_to_pre(0, []),
        ],
    ),
    "models.rms_replaces": (
        [lambda: models.rms_replaces(0)],
        [lambda: models.rms_replaces(0, [model for model in load_models() if model.model in ("T5", "Qwen3")])],
    ),
    "models.mainstream": (
        [lambda: models.mainstream(0)],
        [lambda: models.mainstream(0, [m for m in load_models() if m.cells["position"].text != "pre"])],
    ),
    "models.pre_has_final_norm": (
        [lambda: models.pre_has_final_norm(0)],
        [lambda: models.pre_has_final_norm(0, table(T5={"final_norm": "no"}))],
    ),
    "residual.printed": (
        [lambda: residual.printed(0, printed_digits(residual.printed, 4))],
        [lambda: residual.printed(0, ["13.79", "12.15", "0.881", "6.19"])],
    ),
    "residual.share": (
        [lambda: residual.share(0, printed_digits(residual.share, 1))],
        [lambda: residual.share(0, ["0.5"])],
    ),
    "residual.identity_is_independent": (
        [lambda: residual.identity_is_independent(0, other=0)],
        [lambda: residual.identity_is_independent(0)],
    ),
    "residual.is_a_share": ([lambda: residual.is_a_share(0, 0.0)], [lambda: residual.is_a_share(0)]),
    "residual.adds_up": ([lambda: residual.adds_up(0)], [lambda: residual.adds_up(0, skip=2.0)]),
    "residual.mostly_identity": ([lambda: residual.mostly_identity(0)], [lambda: residual.mostly_identity(0, 10.0)]),
    "residual.halves": ([lambda: residual.halves(0)], [lambda: residual.halves(0, 10.0)]),
    "residual.shrinks_without": (
        [lambda: residual.shrinks_without(0)],
        [lambda: residual.shrinks_without(0, residual=True)],
    ),
    "residual.floor_with": ([lambda: residual.floor_with(0)], [lambda: residual.floor_with(0, residual=False)]),
    "residual.less_sensitive": (
        [lambda: residual.less_sensitive(0)],
        [lambda: residual.less_sensitive(0, one=False, other=True)],
    ),
    "stream.printed": (
        [lambda: stream.printed(0, printed_digits(stream.printed, 14))],
        [lambda: stream.printed(1, printed_digits(stream.printed, 14))],
    ),
    "stream.growth": (
        [lambda: stream.growth(0, ["11.25", "13.66", "1.21", "1.6"])],
        [lambda: stream.growth(0, ["11.25", "13.66", "1.21", "1.5"])],
    ),
    "stream.writes_shrink": (
        [lambda: stream.writes_shrink(0)],
        [lambda: streaming(0.5, stream.writes_shrink), lambda: streaming(0.1, stream.writes_shrink)],
    ),
    "stream.starts_near_zero": (
        [lambda: streaming(0.01, stream.starts_near_zero)],
        [lambda: stream.starts_near_zero(0)],
    ),
    "stream.post_pins": ([lambda: stream.post_pins(0)], [lambda: stream.post_pins(0, "pre")]),
    "stream.pre_grows": ([lambda: stream.pre_grows(0)], [lambda: stream.pre_grows(0, "post")]),
    "stream.sandwich_bounds_writes": (
        [lambda: stream.sandwich_bounds_writes(0)],
        [lambda: stream.sandwich_bounds_writes(0, "pre"), lambda: stream.sandwich_bounds_writes(0, free="sandwich")],
    ),
    "stream.growth_at_start": (
        [lambda: stream.growth_at_start(0, ["1.2"])],
        [lambda: stream.growth_at_start(0, ["7"])],
    ),
    "stream.early_is_readable": (
        [lambda: stream.early_is_readable(0)],
        [lambda: reading(stream.early_is_readable, 1.0, 0.5, 1.0)],
    ),
    "stream.plain_overwrites": (
        [lambda: stream.plain_overwrites(0)],
        [lambda: reading(stream.plain_overwrites, 1.0, 0.1, 0.6)],
    ),
    "deepnorm.tames": ([lambda: deepnorm.tames(0)], [lambda: deepnorm.tames(0, "post")]),
    "skeleton.sees_context": (
        [lambda: skeleton.sees_context(0)],
        [lambda: skeleton.sees_context(0, ["as written"])],
    ),
    "skeleton.norm_free": (
        [lambda: skeleton.norm_free(0, "none", "post")],
        [lambda: skeleton.norm_free(0), lambda: skeleton.norm_free(0, "rms")],
    ),
    "skeleton.rms_alone": (
        [lambda: skeleton.rms_alone(0, pos="post")],
        [lambda: skeleton.rms_alone(0), lambda: skeleton.rms_alone(0, "ln", "post")],
    ),
    "skeleton.position_means_nothing": (
        [lambda: skeleton.position_means_nothing(0, other="pre")],
        [lambda: skeleton.position_means_nothing(0)],
    ),
    "skeleton.same_start": ([lambda: skeleton.same_start(0)], [lambda: skeleton.same_start(0, other_seed=1)]),
    "skeleton.gelu_saturates": (
        [lambda: skeleton.gelu_saturates(0, ["1000"], torch.tanh), lambda: skeleton.gelu_saturates(0, ["1000"])],
        [lambda: skeleton.gelu_saturates(0, ["0.1"]), lambda: skeleton.gelu_saturates(0, ["1000"], torch.abs)],
    ),
    "skeleton.check_finds_the_fault": (
        [
            lambda: skeleton.check_finds_the_fault(0),
            lambda: skeleton.check_finds_the_fault(0, missing=False, empty=False),
            lambda: skeleton.check_finds_the_fault(0, missing=False, forgetful=False),
        ],
        [lambda: skeleton.check_finds_the_fault(0, missing=False)],
    ),
}
"""Name to calls that must bear it out (or `holds when`), and calls that must not."""
