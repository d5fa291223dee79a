"""Cases for calculations on norms: calls that must hold, and calls that must not."""

from __future__ import annotations

from calculations import GROWING, Made, printed_digits, unchanged, with_signs

from normexp.texts.article import attention, batches, conversion, drift, norms, precision
from normexp.training import conversion as fold

CASES: dict[str, tuple[list[Made], list[Made]]] = {
    "drift.printed": (
        [lambda: drift.printed(0, [f"{value:.2f}" for value in drift.stack(0, 0.3)])],
        [lambda: drift.printed(0, [*GROWING[:-1], "110"])],
    ),
    "drift.shrinks": (
        [lambda: drift.shrinks(1)],
        [lambda: drift.shrinks(1, drift.STD)],
    ),
    "drift.gone_in": (
        [lambda: drift.gone_in(0, ["2", "0.1", "8", "0.5", "0.1"])],
        [lambda: drift.gone_in(0, ["1", "0.1", "8", "0.5", "0.1"])],
    ),
    "drift.underflows": ([lambda: drift.underflows(0, ["12"], 1e-6)], [lambda: drift.underflows(0, ["7"])]),
    "drift.explodes": (
        [lambda: drift.explodes(0, ["4", "4", "1e4"])],
        [lambda: drift.explodes(0, ["0.01", "4", "1e4"])],
    ),
    "drift.untrainable": ([lambda: drift.untrainable(0)], [lambda: drift.untrainable(0, [0.125])]),
    "drift.pinned": (
        [lambda: drift.pinned(0), lambda: drift.pinned(0, "rms")],
        [lambda: drift.pinned(0, "none"), lambda: drift.pinned(0, "dyt")],
    ),
    "batches.printed_batch": (
        [lambda: batches.printed_batch(0, printed_digits(batches.printed_batch, 6))],
        [lambda: batches.printed_batch(0, ["1.0"] * 6)],
    ),
    "batches.printed_sequences": (
        [lambda: batches.printed_sequences(0, printed_digits(batches.printed_sequences, 4))],
        [lambda: batches.printed_sequences(0, ["1.0"] * 4)],
    ),
    "batches.one_alone": (
        [lambda: batches.one_alone(0, ["1.08", "4.35", "1.080", "4.350"])],
        [lambda: batches.one_alone(0, ["1.08", "4.35", "1.08", "4.36"])],
    ),
    "batches.per_token": ([lambda: batches.per_token(0, "bn")], [lambda: batches.per_token(0)]),
    "batches.alone": (
        [lambda: batches.alone(0), lambda: batches.alone(0, "rms")],
        [lambda: batches.alone(0, "bn")],
    ),
    "batches.padding": ([lambda: batches.padding(0)], [lambda: batches.padding(0, "ln")]),
    "batches.noise": ([lambda: batches.noise(0)], [lambda: batches.noise(0, "ln")]),
    "norms.by_hand": ([lambda: norms.by_hand(0)], [lambda: norms.by_hand(0, "rms")]),
    "norms.error_printed": (
        [lambda: norms.error_printed(0, ["1e-6", "1e-6"])],
        [lambda: norms.error_printed(0, ["0.0", "1e-6"])],
    ),
    "norms.standardized": ([lambda: norms.standardized(0)], [lambda: norms.standardized(0, "rms")]),
    "norms.keeps_information": (
        [lambda: norms.keeps_information(0, "rms"), lambda: norms.keeps_information(0)],
        [lambda: with_signs(norms.keeps_information)],
    ),
    "norms.gain_printed": (
        [
            lambda: norms.gain_printed(0, ["100", "86", "14", "15"]),
            lambda: norms.gain_printed(0, ["115", "100", "14", "15"]),
        ],
        [lambda: norms.gain_printed(0, ["96", "78", "14", "15"])],
    ),
    "norms.parameters": (
        [lambda: norms.parameters(0, ["64", "128", "64"])],
        [lambda: norms.parameters(0, ["64", "128", "128"])],
    ),
    "norms.model_parameters": (
        [lambda: norms.model_parameters(0, ["8", "2", "3", "96", "48"])],
        [lambda: norms.model_parameters(0, ["8", "2", "3", "96", "96"])],
    ),
    "norms.small_share": (
        [lambda: norms.small_share(0, ["7e9", "262144"])],
        [lambda: norms.small_share(0, ["7e6", "262144"])],
    ),
    "norms.exits": (
        [lambda: norms.exits(0, ["8.0000", "8.3924"])],
        [lambda: norms.exits(1, ["8.0000", "8.3924"])],
    ),
    "norms.output_statistics": (
        [lambda: norms.output_statistics(0, ["0.0000", "0.0000", "0.4475", "0.0324", "1.0010", "0.8944"])],
        [lambda: norms.output_statistics(0, ["0.0000", "0.0000", "0.4475", "0.0324", "1.0000", "0.8944"])],
    ),
    "norms.mean_kept": (
        [lambda: norms.mean_kept(0)],
        [lambda: norms.mean_kept(0, "ln"), lambda: norms.mean_kept(0, "rms", "rms")],
    ),
    "norms.mean_takes_share": ([lambda: norms.mean_takes_share(0)], [lambda: norms.mean_takes_share(0, "ln")]),
    "norms.mean_square": ([lambda: norms.mean_square(0, ["1.0"])], [lambda: norms.mean_square(0, ["1.1"])]),
    "precision.rms_range_is_wider": (
        [lambda: precision.rms_range_is_wider(0, "ln", "rms")],
        [lambda: precision.rms_range_is_wider(0)],
    ),
    "precision.variance_underflows": (
        [lambda: precision.variance_underflows(0)],
        [lambda: precision.variance_underflows(0, 1.0)],
    ),
    "precision.eps_must_fit": (
        [lambda: precision.eps_must_fit(0)],
        [lambda: precision.eps_must_fit(0, [1.0]), lambda: precision.eps_must_fit(0, eps=[1e-8, 1e-8])],
    ),
    "attention.differs_by_norms_alone": (
        [
            lambda: attention.differs_by_norms_alone(0, causal=True, projected=True),
            lambda: attention.differs_by_norms_alone(0, causal=True),
        ],
        [lambda: attention.differs_by_norms_alone(0)],
    ),
    "attention.parameters": (
        [
            lambda: attention.parameters(0, ["64", "1", "128"]),
            lambda: attention.parameters(0, ["64", "4", "128"], "full"),
        ],
        [lambda: attention.parameters(0, ["64", "4", "128"])],
    ),
    "attention.unit_variance": ([lambda: attention.unit_variance(0)], [lambda: attention.unit_variance(0, 1.1)]),
    "attention.bounded": (
        [lambda: attention.bounded(0), lambda: attention.bounded(0, "ln")],
        [lambda: attention.bounded(0, "none")],
    ),
    "attention.saturates": ([lambda: attention.saturates(0)], [lambda: attention.saturates(0, 2.0)]),
    "conversion.load_fails": ([lambda: conversion.load_fails(0)], [lambda: conversion.load_fails(0, "rms", "rms")]),
    "conversion.keys_kept": ([lambda: conversion.keys_kept(0)], [lambda: conversion.keys_kept(0, [])]),
    "conversion.gains_alone_are_wrong": (
        [lambda: conversion.gains_alone_are_wrong(0)],
        [lambda: conversion.gains_alone_are_wrong(0, fold.folded)],
    ),
    "conversion.no_exact_map": (
        [lambda: conversion.no_exact_map(0)],
        [lambda: conversion.no_exact_map(0, {"in Pre-LN": "pre"})],
    ),
    "conversion.rms_to_layer_norm_is_wrong": (
        [lambda: conversion.rms_to_layer_norm_is_wrong(0)],
        [lambda: conversion.rms_to_layer_norm_is_wrong(0, unchanged)],
    ),
    "conversion.loss_rises": ([lambda: conversion.loss_rises(0)], [lambda: conversion.loss_rises(0, 1)]),
}
"""Name to calls that must bear it out (or `holds when`), and calls that must not."""
