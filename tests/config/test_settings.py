from pathlib import Path

import pytest

from normexp.claims.files import choose
from normexp.config import grid, sweep_file
from normexp.config.presets import SETTINGS
from normexp.config.run import RunConfig

ARTICLE = list(choose(["article"])[0].sweeps.values())
LABELS = {setting.label: setting for setting in SETTINGS.values()}
TABLES = [path for path in ARTICLE if path.stem in ("6.2", "6.3")]


@pytest.mark.parametrize("path", ARTICLE, ids=lambda path: path.stem)
def test_labels_of_the_articles_configs_are_settings(path: Path) -> None:
    for point in grid.plan(sweep_file.load(path)).points:
        setting = LABELS[point.label].keys
        assert {key: getattr(point.config, key) for key in ("mixer", "init")} == {
            key: setting[key] for key in ("mixer", "init")
        }


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_the_articles_tables_cover_every_setting(path: Path) -> None:
    plan = grid.plan(sweep_file.load(path))
    points: dict[str, list[tuple[object, ...]]] = {label: [] for label in LABELS}
    for point in plan.points:
        setting, position = LABELS[point.label], point.config.position
        for key, value in setting.keys_at(position).items():
            assert point.values.get(key, getattr(point.config, key)) == value
        if setting.pre_final_norm and position != "pre":
            assert point.values.get("final_norm", point.config.final_norm) == "none"
        points[point.label].append(
            tuple(point.values[key] for key in ("depth", "norm", "position", "lr", "warmup") if key in point.values)
        )
    assert len(set(map(tuple, points.values()))) == 1
    assert plan.published
    assert {point.config.steps for point in plan.points} == {3000}


def test_only_as_written_keeps_its_final_norm_without_a_norm() -> None:
    assert RunConfig(norm="none", **SETTINGS["as-written"].keys_at("pre")).final_norm == "ln"
    assert RunConfig(norm="none", **SETTINGS["as-described"].keys_at("pre")).final_norm == "none"
    assert RunConfig(norm="ln", position="post", **SETTINGS["as-written"].keys_at("post")).final_norm == "none"


def test_the_names_of_the_settings() -> None:
    assert list(SETTINGS) == ["as-a-transformer", "as-described", "as-written"]
