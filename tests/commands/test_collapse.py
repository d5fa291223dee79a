"""The verdict and tables of collapse, from made-up records of every outcome."""

import inspect
from dataclasses import replace
from pathlib import Path

import pytest
from stored import saved

from normexp.analysis import collapse
from normexp.analysis.collapse import asked, plan_of
from normexp.commands.collapse import command
from normexp.config.presets import SETTINGS
from normexp.config.run import RunConfig
from normexp.records.record import Death, Losses, Outcome, Result, RunRecord, SignalRow, Status, Traces, Verdict
from normexp.report import report

PLAN = plan_of("as-a-transformer", {"depth": 20, "norm": "none"})


def record(config: RunConfig, outcome: Outcome, *, step: int = 0, loss: float | None = None) -> RunRecord:
    death = Death(step=step, kind="inf", where="grad", tensor="blocks.3.ffn.f.fc1.weight", layer=3) if step else None
    result = Result(
        steps_done=400,
        losses=Losses(floor=1.4, guess=4.0, bigram=2.5),
        init_val_loss=4.3,
        best_val_loss=loss,
        final_val_loss=loss,
        peak_lr=0.01,
        parameters=1,
        death=death,
    )
    verdict = Verdict(outcome=outcome, rule="", trend=None, thresholds={})
    return RunRecord(config=config, status=Status.DONE, result=result, verdict=verdict)


def records(fates: dict[str, list[tuple[Outcome, int, float | None]]]) -> dict[str, RunRecord]:
    return {
        run_id: record(config, outcome, step=step, loss=loss)
        for run_id, config in PLAN.configs.items()
        for outcome, step, loss in [fates[config.norm][config.seed]]
    }


HEALTHY = [(Outcome.LEARNED, 0, 2.0), (Outcome.LEARNED, 0, 2.1), (Outcome.LEARNED, 0, 2.05)]


def test_the_plan_is_the_network_and_its_baselines() -> None:
    configs = list(PLAN.configs.values())
    assert [(c.norm, c.seed) for c in configs] == [(n, s) for s in (0, 1, 2) for n in ("none", "ln", "rms")]
    assert {(c.depth, c.lr, c.mixer) for c in configs} == {(20, 1e-2, "attention")}


def test_a_normalized_network_is_its_own_baseline() -> None:
    plan = plan_of("as-written", {"norm": "ln", "position": "post", "final_norm": "none", "seed": 4})
    assert [(c.norm, c.seed, c.position) for c in plan.configs.values()] == [("ln", 4, "post"), ("rms", 4, "post")]


@pytest.mark.parametrize(
    ("given", "final_norm"),
    [
        ({"position": "pre"}, "ln"),
        ({"position": "post"}, "none"),
        ({"position": "post", "final_norm": "ln"}, "ln"),
        ({"final_norm": "none"}, "none"),
    ],
)
def test_as_written_has_a_final_norm_only_with_pre_unless_given(given: dict[str, str], final_norm: str) -> None:
    plan = plan_of("as-written", {"norm": "rms", **given})
    assert {config.final_norm for config in plan.configs.values()} == {final_norm}


def verdict(
    none: list[tuple[Outcome, int, float | None]], ln: list[tuple[Outcome, int, float | None]] = HEALTHY
) -> str:
    return collapse.verdict(PLAN, records({"none": none, "ln": ln, "rms": HEALTHY}))


def test_the_verdict_counts_outcomes_with_steps_layers_and_losses() -> None:
    nonfinite = verdict([(Outcome.NONFINITE, step, None) for step in (12, 33, 20)])
    facts = ["20 layers, lr 0.01, 400 steps", "steps 12–33", "layer 3", "2.000 to 2.100", "73–77 %", "RMSNorm"]
    assert [fact for fact in facts if fact not in nonfinite] == []
    mixed = verdict([(Outcome.NONFINITE, 7, None), (Outcome.UNSETTLED, 0, 370.0), (Outcome.PLATEAU, 0, 4.0)])
    facts = ["step 7", "layer 3", "unsettled (loss 370)", "plateau (loss 4.000)"]
    assert [fact for fact in facts if fact not in mixed] == []
    healthy = verdict(HEALTHY)
    assert [text.startswith("Nothing collapsed") for text in (nonfinite, mixed, healthy)] == [False, False, True]


@pytest.mark.parametrize(("loss", "nothing"), [(2.99, False), (2.9, False), (2.65, True)])
def test_a_network_that_learned_far_less_than_its_baselines_is_not_healthy(loss: float, nothing: bool) -> None:
    text = verdict([*HEALTHY[:2], (Outcome.LEARNED, 0, loss)], ln=[(Outcome.LEARNED, 0, 1.4)] * 3)
    assert text.startswith("Nothing collapsed.") == nothing
    assert f"(loss 2.000 to {loss:.3f}, {round(100 * (4 - loss) / 2.6)}–77 %" in text


def test_title_and_verdict_name_the_network() -> None:
    plan = plan_of("as-written", {"depth": 1, "norm": "none", "seed": 0})
    runs = {run_id: record(config, Outcome.PLATEAU, loss=4.0) for run_id, config in plan.configs.items()}
    assert "1 layer, lr 0.001, 400 steps" in plan.title
    assert "1 layer, lr 0.001, 400 steps" in collapse.verdict(plan, runs)


def test_help_names_the_learning_rate_of_each_setting() -> None:
    text = inspect.signature(command).parameters["lr"].annotation.__metadata__[0].help
    assert "default: 0.01, 0.001 with as-described and as-written" in text
    rates = {name: plan_of(name, {}).points[0].config.lr for name in SETTINGS}
    assert rates == {"as-a-transformer": 0.01, "as-described": 0.001, "as-written": 0.001}


def test_pending_runs_leave_the_verdict_open() -> None:
    runs = records({"none": HEALTHY, "ln": HEALTHY, "rms": HEALTHY})
    first = next(iter(runs))
    text = collapse.verdict(PLAN, {first: runs[first]})
    facts = ["loss 2.000, 77 %", "2/3 pending", "3/3 pending"]
    assert [fact for fact in facts if fact not in text] == []
    assert not [text for text in (text, collapse.verdict(PLAN, {})) if "Nothing collapsed" in text]


def test_networks_without_blocks_are_named_by_norm() -> None:
    plan = plan_of("as-a-transformer", {"depth": 0})
    runs = {run_id: record(config, Outcome.LEARNED, loss=2.0) for run_id, config in plan.configs.items()}
    text = collapse.verdict(plan, runs)
    assert text.startswith("Nothing collapsed. 0 layers")
    assert "LN: 3/3" in text
    assert [row[0] for row in collapse.deaths(plan, runs).rows] == ["none"] * 3 + ["ln"] * 3 + ["rms"] * 3


def test_folders_of_many_options_are_short_and_distinct() -> None:
    given = {"width": 8, "heads": 2, "hidden": 8, "vocab": 8, "steps": 20, "batch": 4, "seq_len": 8, "lr": 0.01}
    plan = plan_of("as-a-transformer", given)
    assert len(plan.folder) <= 100
    assert plan.folder != plan_of("as-a-transformer", {**given, "lr": 0.0100001}).folder


def test_the_table_of_runs_has_a_row_per_run() -> None:
    nonfinite_ends = [(Outcome.NONFINITE, step, None) for step in (12, 33, 20)]
    runs = records({"none": nonfinite_ends, "ln": HEALTHY, "rms": HEALTHY})
    table = collapse.deaths(PLAN, dict(list(runs.items())[:-1]))
    assert table.rows[1] == ("none", "1", "nonfinite", "", "33", "inf", "grad", "blocks.3.ffn.f.fc1.weight", "3")
    assert table.rows[3][:4] == ("ln", "0", "learned", "2.000")
    assert table.rows[-1][2] == "pending"


def rows(steps: range, depth: int) -> list[SignalRow]:
    return [
        SignalRow(step=step, layer=layer, part=part, quantity="rms", value=10.0**step + layer)
        for step in steps
        for layer in range(depth + 2)
        for part in ("stream", "mixer")
    ]


@pytest.mark.parametrize("depth", [0, 1, 7, 20, 200])
def test_signal_shows_few_layers_with_both_ends(depth: int) -> None:
    traces = Traces(curve=(), layers=rows(range(1), depth), death_layers=rows(range(3, 9), depth))
    table = collapse.signal("x", traces)
    assert table.header == ("layer", "before training", "step 5", "step 6", "step 7", "step 8")
    assert table.rows[0][0] == "0 (embedding)"
    assert table.rows[-1][0] == f"{depth + 1} (LM head input)"
    assert len(table.rows) <= 11
    assert table.rows[0][1:3] == ("1", "1e+05")


def test_signal_of_a_finite_run_ends_with_its_last_evaluation() -> None:
    table = collapse.signal("x", Traces(curve=(), layers=rows(range(3), 2)))
    assert table.header == ("layer", "before training", "step 2")


def test_a_collapse_is_recognized_by_its_name() -> None:
    assert asked(PLAN)
    assert not asked(replace(PLAN, name="mine"))
    assert asked(replace(PLAN, title="another"))


def test_exemplars_prefer_nonfinite_runs() -> None:
    mixed = [(Outcome.LEARNED, 0, 2.0), (Outcome.NONFINITE, 9, None), (Outcome.NONFINITE, 5, None)]
    chosen = collapse.exemplars(PLAN, records({"none": mixed, "ln": HEALTHY, "rms": HEALTHY}))
    assert {name: PLAN.configs[run_id].seed for name, run_id in chosen.items()} == {"no norm": 1, "LN": 0, "RMSNorm": 0}


def test_page_and_documents_contain_the_verdict(tmp_path: Path) -> None:
    store = saved(tmp_path, PLAN, ["nan@12" if config.norm == "none" else "2.0" for config in PLAN.configs.values()])
    conclusion = report.rebuild(store, figures=True).conclusion
    assert [fact for fact in ("step 12", "layer 4") if fact not in conclusion] == []
    for name in ("summary.md", "collapse.md", "report.html"):
        assert conclusion in (store.folder / name).read_text(encoding="utf-8")
    assert "by layer: no norm, seed 0" in (store.folder / "collapse.md").read_text(encoding="utf-8")
    assert (store.folder / "figures" / "layer_signal.png").is_file()
    (store.folder / "runs" / next(iter(PLAN.configs)) / "layers.csv").write_text("garbage")
    assert any("layers.csv" in warning for warning in report.rebuild(store).warnings)
    assert "RMS by layer" in (store.folder / "report.html").read_text(encoding="utf-8")
