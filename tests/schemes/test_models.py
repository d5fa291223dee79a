"""The table of models: its form, its filters, its output, and the consistency of its config keys."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from printed import printed

from normexp.config.run import RunConfig
from normexp.errors import UserError
from normexp.schemes.models import CELLS, FILE, Checked, Model, load, select
from normexp.schemes.schemes import SCHEMES
from normexp.terminal import models as view
from normexp.terminal.console import ResponsiveTable

MODELS = load()
BY_NAME = {model.model: model for model in MODELS}
ROW = """
- model: Toy
  year: 2020
  norm: LN
  position: pre
  qk_norm: none
  final_norm: no
  eps: 1e-5
  checked: code
  transformers: toy
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "normexp", "models", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def names(chosen: list[Model]) -> list[str]:
    return [model.model for model in chosen]


class TestData:
    @pytest.mark.parametrize("model", [model for model in MODELS if model.keys], ids=lambda model: model.model)
    def test_keys_describe_a_run_without_changes(self, model: Model) -> None:
        config = RunConfig(**dict(model.keys))
        resolved = {key: str(value) for key, value in config.to_dict().items()}
        assert {key: resolved[key] for key in model.keys} == dict(model.keys)

    @pytest.mark.parametrize("model", [model for model in MODELS if model.keys], ids=lambda model: model.model)
    def test_keys_agree_with_the_cells(self, model: Model) -> None:
        """Checks the norm, its placement, the QK-norm, and whether there is a final norm."""
        config = RunConfig(**dict(model.keys))
        assert model.cells["norm"].text.casefold().startswith(config.norm)
        assert model.cells["position"].text == {"glm": "post, DeepNorm"}.get(config.position, config.position)
        assert config.position in SCHEMES
        qk_norm = {"none": "none", "rms": "RMS per head", "full": "RMS, full width"}[config.qk_norm]
        assert model.cells["qk_norm"].text == qk_norm
        assert (config.final_norm != "none") == (model.cells["final_norm"].text == "yes")

    def test_names_are_unique_and_years_ascend(self) -> None:
        assert len(BY_NAME) == len(MODELS) >= 25
        years = [int(model.cells["year"].text) for model in MODELS]
        assert years == sorted(years)

    def test_unknown_cells_are_unverified(self) -> None:
        empty = [cell for model in MODELS for cell in model.cells.values() if not cell.text]
        assert empty
        assert {cell.checked for cell in empty} == {Checked.UNVERIFIED}

    def test_the_docs_give_the_number_of_models(self) -> None:
        text = (Path(__file__).parents[2] / "docs" / "weights.md").read_text("utf-8")
        assert f"how {len(MODELS)} mainstream models normalize" in text

    def test_the_text_is_ascii(self) -> None:
        """The CSV output must be the same in every encoding."""
        assert FILE.read_text("utf-8").isascii()

    def test_data_files_are_part_of_the_package(self) -> None:
        project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
        assert project["tool"]["setuptools"]["package-data"]["normexp"] == [
            "py.typed",
            "schemes/models.yaml",
            "starter/*",
            "execution/dask/dask.yaml",
            "training/paths/compiled/kernels/*.cpp",
            "training/paths/compiled/kernels/*.h",
            "texts/*/claims.yaml",
            "texts/*/sweeps/*.yaml",
            "report/page.css",
            "report/page.js",
        ]

    @pytest.mark.parametrize(
        ("change", "fact"),
        [
            (("", ""), "either keys or no_keys"),
            (("  checked: code\n", ""), "checked"),
            (("  transformers: toy\n", "  no_keys: why\n"), "no source"),
            (("  transformers: toy\n", "  no_keys: why\n  sauces: [x]\n"), "sauces"),
            (("checked: code", "no_keys: why\n  checked: surely"), "surely"),
            (("checked: code", "no_keys: why\n  checked: code\n  but: {norms: paper}"), "norms"),
        ],
    )
    def test_an_invalid_row_is_rejected(self, change: tuple[str, str], fact: str) -> None:
        with pytest.raises(ValueError, match=fact):
            load(ROW.replace(*change))


class TestSelect:
    def test_names_match_by_case_insensitive_substring(self) -> None:
        assert names(select(MODELS, ["GEMMA", "qwen3"])) == ["Gemma 1", "Gemma 2", "Gemma 3", "Qwen3"]

    def test_norm_and_position(self) -> None:
        assert names(select(MODELS, norm="rms", position="Sandwich")) == ["Grok-1", "Gemma 2", "Gemma 3", "GLM-4-0414"]
        assert names(select(MODELS, position="parallel"))[0] == "PaLM"

    def test_positions_match_by_config_value_or_cell(self) -> None:
        assert names(select(MODELS, position="glm")) == names(select(MODELS, position="deepnorm")) == ["GLM-130B"]

    def test_every_filter_without_a_match_is_reported(self) -> None:
        with pytest.raises(UserError) as caught:
            select(MODELS, ["bert", "elmo"], norm="foo", position="bar")
        for complaint, facts in zip(
            caught.value.complaints,
            (("'elmo'", "GPT-2; XLNet"), ("norm", "'foo'", "LN; RMS; LN, no bias"), ("position", "'bar'", "sandwich")),
            strict=True,
        ):
            assert all(fact in complaint for fact in facts)

    def test_filters_without_a_common_match_are_reported(self) -> None:
        with pytest.raises(UserError) as caught:
            select(MODELS, ["bert", "gpt-1"], position="sandwich")
        assert list(caught.value.complaints)[1:] == [
            "name bert or gpt-1: GPT-1; BERT; RoBERTa; ALBERT; DeBERTa",
            "position sandwich: Grok-1; Gemma 2; Gemma 3; GLM-4-0414",
        ]


class TestTable:
    def test_cells_are_marked_by_verification(self) -> None:
        rows = {row[0]: row for row in view.model_table(MODELS).rows}
        assert rows["GLM-130B"][1:7] == ("2022", "LN", "post, DeepNorm", "none", "yes", "1e-5?")
        assert rows["LLaMA 1"][1:7] == ("2023~", "RMS", "pre", "none", "yes", "1e-6~")
        assert rows["PaLM"][5:8] == ("?", "?", "(none: parallel attention and FFN)")
        assert rows["OLMo 2"][7:] == ("norm=rms position=output qk_norm=full", "HF olmo2")

    def test_only_remarks_of_shown_rows_are_printed(self) -> None:
        note = view.model_table([BY_NAME["BERT"], BY_NAME["T5"]]).note
        assert "BERT: " in note
        assert "Gemma" not in note

    @pytest.mark.parametrize(("width", "in_columns"), [(160, True), (80, False)])
    def test_each_row_is_one_line_at_160_columns(self, width: int, in_columns: bool) -> None:
        lines = printed(ResponsiveTable(view.model_table(MODELS)), width=width).splitlines()
        assert max(map(len, lines)) <= width
        rows = [line for line in lines if "T5" in line and "norm=rms" in line]
        assert bool(rows) == in_columns

    def test_csv_is_valid_and_has_a_verification_for_each_cell(self) -> None:
        text = view.to_csv(MODELS)
        rows = list(csv.DictReader(io.StringIO(text), strict=True))
        assert len(rows) == len(MODELS)
        for row, model in zip(rows, MODELS, strict=True):
            assert None not in row
            assert None not in row.values()
            for cell in CELLS:
                assert row[cell] == model.cells[cell].text
                assert row[f"{cell}_checked"] in [*Checked]
            assert row["sources"]
            assert bool(row["keys"]) != bool(row["no_keys"])


class TestCommand:
    def test_table_and_csv(self) -> None:
        done = run("--norm", "rms", "qwen3")
        assert (done.returncode, done.stderr) == (0, "")
        assert "norm=rms position=pre qk_norm=rms" in done.stdout
        assert "unverified" in done.stdout
        assert run("--csv").stdout == view.to_csv(MODELS)

    def test_a_filter_without_a_match_fails(self) -> None:
        done = run("--position", "middle")
        assert (done.returncode, done.stdout) == (2, "")
        assert "'middle'" in done.stderr
