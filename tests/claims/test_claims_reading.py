"""Claims files: what they may contain, faults with file, line and key, and the shipped files."""

from __future__ import annotations

from pathlib import Path

import pytest

from normexp.claims import evaluate
from normexp.claims.claim import ClaimFile, Expected, Kind, Weight, Word
from normexp.claims.evidence import plans
from normexp.claims.files import choose, shipped
from normexp.claims.parser import load, parse
from normexp.claims.verdict_text import measured
from normexp.config import grid
from normexp.config.sweep_file import load as load_sweep
from normexp.errors import UserError

EXAMPLES = Path(__file__).parents[2] / "examples"
SWEEP = "name: pairs\nbase: {depth: 1, width: 8, heads: 1}\ngrid: {norm: [ln, none], seed: [0, 1, 2]}\n"
HEAD = "sweeps: [pairs.yaml]\nclaims:\n"
GOOD = """\
  - id: mine.equal
    section: "1"
    text: LayerNorm and none end alike
    stated: alike
    kind: sweep
    check: close
    with: {one: {norm: ln}, other: {norm: none}, within: 0.5}
    seeds: 2
    runs: {sweeps: pairs, where: {lr: [1e-3], depth: 1}}
    elsewhere: {at a high rate: {lr: 1e-2}}
    expected: holds when
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pairs.yaml").write_text(SWEEP)
    return tmp_path


def read(folder: Path, claims: str, head: str = HEAD) -> ClaimFile:
    return parse(head + claims, folder / "mine.yaml")


def faults(folder: Path, claims: str, head: str = HEAD) -> list[str]:
    with pytest.raises(UserError) as caught:
        read(folder, claims, head)
    return [complaint.replace(f"{folder}/", "") for complaint in caught.value.complaints]


def test_a_claim_as_it_is_written(folder: Path) -> None:
    file = read(folder, GOOD)
    (claim,) = file.claims
    assert (file.name, file.title, dict(file.sweeps)) == ("mine", "mine", {"pairs": folder / "pairs.yaml"})
    assert claim.parameters == {"one": {"norm": ("ln",)}, "other": {"norm": ("none",)}, "within": 0.5}
    assert (claim.kind, claim.seeds, claim.settings, claim.sweeps) == (Kind.SWEEP, 2, ("",), ("pairs",))
    assert claim.where == {"lr": (1e-3,), "depth": (1,)}
    assert claim.elsewhere == {"at a high rate": {"lr": (1e-2,)}}
    assert claim.expected == Expected((Word.HOLDS_WHEN,), "holds when")
    assert (claim.quote, claim.translation, claim.weight) == ("", "", Weight.DETAIL)
    assert claim.place == f"{folder}/mine.yaml:3"


UNCHECKED = """\
  - id: mine.said
    section: "1"
    quote: 有人做过
    translation: Some have done it
    weight: central
    text: It has been done
    stated: done
    kind: none
    why: nobody is named
"""


def test_a_claim_that_cannot_be_checked_says_why(folder: Path) -> None:
    file = read(folder, UNCHECKED)
    (claim,) = file.claims
    assert (claim.quote, claim.translation, claim.weight) == ("有人做过", "Some have done it", Weight.CENTRAL)
    (verdict,) = evaluate.judged(file, file.claims, folder)
    assert (verdict.word, measured(verdict)) == (Word.NOT_CHECKABLE, "nobody is named")


@pytest.mark.parametrize(
    ("old", "new", "place", "hint"),
    [
        ("check: close", "check: closer", "8: claims[1].check", "close?"),
        ("within: 0.5", "withn: 0.5", "9: claims[1].with.withn", "within?"),
        (", within: 0.5", "", "9: claims[1].with", "within"),
        ("within: 0.5", "within: near", "9: claims[1].with.within", "number"),
        ("norm: ln}", "nrom: ln}", "9: claims[1].with.one.nrom", "norm?"),
        ("norm: ln}", "norm: lm}", "9: claims[1].with.one.norm", "ln"),
        ("norm: ln}", "lr: {linspace: [1e-5, 1, 1e12]}}", "9: claims[1].with.one.lr", "1000000000000"),
        ("sweeps: pairs,", "sweeps: pair,", "11: claims[1].runs.sweeps", "pairs?"),
        ("kind: sweep", "kind: sweeps", "7: claims[1].kind", "sweep?"),
        ("kind: sweep", "kind: cited", "9: claims[1].with", "remove"),
        ("kind: sweep", "kind: none", "8: claims[1].check", "remove"),
        ("kind: sweep", "kind: none", "3: claims[1]", "why"),
        ("    stated: alike", "    quote: 一样\n    stated: alike", "3: claims[1]", "translation"),
        ("    stated: alike", "    translation: alike\n    stated: alike", "3: claims[1]", "quote"),
        ("    stated: alike", "    quote:\n    translation: a\n    stated: alike", "6: claims[1].quote", "empty"),
        (
            "    stated: alike",
            "    quote: [a]\n    translation: a\n    stated: alike",
            "6: claims[1].quote",
            "one value",
        ),
        ("    stated: alike", "    weight: heavy\n    stated: alike", "6: claims[1].weight", "central"),
        ("expected: holds when", "expected: maybe", "13: claims[1].expected", "holds when"),
        ("seeds: 2", "seeds: 0", "10: claims[1].seeds", "1"),
        ("text: LayerNorm and none end alike", "txt: a", "5: claims[1].txt", "text?"),
        ("stated: alike", "stated:", "6: claims[1].stated", "empty"),
        ("    check: close\n", "", "3: claims[1]", "check"),
        (
            "    with: {one: {norm: ln}, other: {norm: none}, within: 0.5}\n",
            "",
            "8: claims[1].with",
            "one, other, within",
        ),
    ],
)
def test_a_fault_has_its_place_and_a_hint(folder: Path, old: str, new: str, place: str, hint: str) -> None:
    assert old in GOOD
    complaints = faults(folder, GOOD.replace(old, new, 1))
    assert any(line.startswith(f"mine.yaml:{place}: ") and hint in line for line in complaints), complaints


@pytest.mark.parametrize(
    ("old", "kind", "words"),
    [
        ("reproduced", "sweep", (Word.HOLDS,)),
        ("only when", "sweep", (Word.HOLDS_WHEN,)),
        ("not reproduced", "sweep", (Word.REFUTED, Word.INCONCLUSIVE)),
        ("misquoted", "cited", (Word.SOURCE_DIFFERS,)),
        ("self-contradicting", "cited", (Word.CONTRADICTING,)),
        ("reproduced", "cited", (Word.SOURCE_AGREES,)),
    ],
)
def test_a_word_of_an_earlier_version_is_read_and_told_once(
    folder: Path, old: str, kind: str, words: tuple[Word, ...]
) -> None:
    cited = (
        '  - {id: ID, section: "1", text: t, stated: s, kind: cited, source: s, says: s, agrees: yes, expected: W}\n'
    )
    entry = (
        GOOD.replace("mine.equal", "ID").replace("expected: holds when", "expected: W") if kind == "sweep" else cited
    )
    entries = "".join(entry.replace("ID", name).replace("W", old) for name in ("a", "b"))
    file = read(folder, entries)
    assert [claim.expected for claim in file.claims] == [Expected(words, old)] * 2
    (warning,) = file.warnings
    assert warning.startswith(f"{folder}/mine.yaml:{13 if kind == 'sweep' else 3}: ")
    assert f"{old} is now {' or '.join(words)} (and 1 more place)" in warning
    assert "--accept" in warning
    assert read(folder, GOOD).warnings == ()


def test_all_faults_come_at_once(folder: Path) -> None:
    bad = GOOD.replace("close", "closer").replace("sweeps: pairs", "sweeps: pair").replace("lr: 1e-2", "rl: 1e-2")
    assert len(faults(folder, bad)) == 3


def places(complaints: list[str]) -> list[str]:
    """Return the key paths of complaints, without file and line."""
    return [complaint.partition(": ")[2].partition(": ")[0] for complaint in complaints]


def test_an_invalid_claim_is_still_read_to_its_end(folder: Path) -> None:
    bad = GOOD.replace("kind: sweep", "kind: sweeps").replace('    section: "1"\n', "").replace("seeds: 2", "seeds: 0")
    bad = bad.replace("rl: 1e-2", "lr: 1e-2").replace("sweeps: pairs", "sweeps: pair").replace("holds when", "perhaps")
    assert places(faults(folder, bad)) == [
        "claims[1]",
        "claims[1].kind",
        "claims[1].seeds",
        "claims[1].runs.sweeps",
        "claims[1].expected",
    ]
    bad = GOOD.replace("    check: close\n", "").replace("where: {lr: [1e-3]", "where: {lr: [x]").replace("1e-2", "y")
    assert places(faults(folder, bad)) == [
        "claims[1]",
        "claims[1].runs.where.lr, value 1 of 1",
        "claims[1].elsewhere.at a high rate.lr",
    ]
    cited = '  - {id: a, section: "1", text: t, stated: s, kind: cited, says: [], agrees: maybe}\n'
    assert places(faults(folder, cited)) == ["claims[1]", "claims[1].says", "claims[1].agrees"]


def test_a_duplicate_id_is_reported_whatever_else_is_wrong(folder: Path) -> None:
    for first, second in (
        (GOOD, GOOD.replace("seeds: 2", "seeds: 0")),
        (GOOD.replace("close", "closer"), GOOD),
        (GOOD.replace("kind: sweep", "kind: x"), GOOD.replace("    check: close\n", "")),
    ):
        line = 2 + len(first.splitlines()) + 1
        complaints = faults(folder, first + second)
        (duplicate,) = [
            complaint for complaint in complaints if complaint.startswith(f"mine.yaml:{line}: claims[2].id:")
        ]
        assert "mine.equal" in duplicate
        assert duplicate.endswith("mine.yaml:3")
        assert len(complaints) == 2 + ("kind: x" in first)


def test_two_sweeps_of_one_name_are_refused(folder: Path) -> None:
    (folder / "more").mkdir()
    (folder / "more" / "pairs.yaml").write_text(SWEEP)
    (complaint,) = faults(folder, GOOD, HEAD.replace("pairs.yaml", "pairs.yaml, more/pairs.yaml"))
    assert complaint.startswith("mine.yaml:1: sweeps: more/pairs.yaml: pairs.yaml")


def test_faults_of_all_sweep_files_come_at_once(folder: Path) -> None:
    for name in ("pairs", "other"):
        (folder / f"{name}.yaml").write_text(SWEEP.replace("depth", "dept"))
    file = read(folder, GOOD, HEAD.replace("pairs.yaml", "pairs.yaml, other.yaml"))
    with pytest.raises(UserError) as caught:
        plans(file, ("pairs", "other"))
    assert [complaint.partition("dept")[0].rpartition("/")[2] for complaint in caught.value.complaints] == [
        "pairs.yaml:2: base.",
        "other.yaml:2: base.",
    ]


def test_settings_of_the_file_are_those_of_sweep_claims_alone(folder: Path) -> None:
    compute = '  - {id: a, section: "1", text: t, stated: s, kind: cited, source: s, says: s, agrees: yes}\n'
    file = read(folder, GOOD + compute, "settings: [a, b]\n" + HEAD)
    assert [claim.settings for claim in file.claims] == [("a", "b"), ("",)]


def test_faults_of_the_file_itself(folder: Path) -> None:
    for claims, head, place in (
        ("", "", "mine.yaml: the file is empty"),
        ("", "name: x\n", "mine.yaml:1: needs claims"),
        ("", f"sweeps: [{'x' * 300}]\n", f"mine.yaml:1: sweeps: {'x' * 300}: no such file"),
        ("", "claim: []\n", "mine.yaml:1: claim: unknown key; did you mean claims?"),
        (GOOD, HEAD.replace("pairs", "other"), "mine.yaml:1: sweeps: other.yaml: no such file"),
    ):
        assert any(line.startswith(place) for line in faults(folder, claims, head)), place
    with pytest.raises(UserError, match="no such file"):
        load(folder / "none.yaml")


def test_a_selection_without_points_is_an_error_of_the_claim(folder: Path) -> None:
    for old, new in (("depth: 1}}", "depth: 7}}"), ("other: {norm: none}", "other: {norm: rms}")):
        file = read(folder, GOOD.replace(old, new).replace("    elsewhere: {at a high rate: {lr: 1e-2}}\n", ""))
        with pytest.raises(UserError, match=r"mine.yaml:3: mine.equal: .*no point"):
            evaluate.judged(file, file.claims, folder)


@pytest.mark.parametrize("name", shipped())
class TestShipped:
    def test_its_claims_are_whole(self, name: str) -> None:
        file, claims, one = choose([name])
        assert not one
        assert len(claims) == len({claim.id for claim in claims}) > 20
        assert all(claim.id.startswith(f"{name}.") for claim in claims)
        for claim in claims:
            assert len(claim.text) <= 160, claim.id
            assert not claim.text.endswith("."), claim.id
            assert claim.kind is not Kind.SWEEP or claim.seeds >= 1
        assert {stem for claim in claims for stem in claim.sweeps} == set(file.sweeps)

    @pytest.mark.parametrize(
        ("scale", "stride"), [(1.0, 8), *(pytest.param(scale, 1, marks=pytest.mark.slow) for scale in (1.0, 0.03))]
    )
    def test_every_selection_fits_points_of_its_sweeps(
        self, name: str, scale: float, stride: int, tmp_path: Path
    ) -> None:
        """A selection without points raises; the default run checks every eighth claim."""
        file, claims, _ = choose([name])
        claims = [claim for claim in claims if claim.kind is Kind.SWEEP][::stride]
        verdicts = evaluate.judged(file, claims, tmp_path, scale=scale)
        assert {verdict.word for verdict in verdicts} == {Word.NOT_ENOUGH}

    def test_every_sweep_of_three_settings_has_the_seeds_that_its_claims_need(self, name: str) -> None:
        file, claims, _ = choose([name])
        found = plans(file, file.sweeps)
        for claim in claims:
            labels = {point.label for stem in claim.sweeps for point in found[stem].points}
            assert not claim.sweeps or set(claim.settings) <= labels, claim.id
            for stem in claim.sweeps:
                seeds = {point.config.seed for point in found[stem].points}
                assert len(seeds) >= claim.seeds, claim.id


def test_names_of_files_and_claims(folder: Path) -> None:
    (folder / "mine.yaml").write_text(HEAD + GOOD)
    file, claims, one = choose([str(folder / "mine.yaml"), "mine.equal"])
    assert (file.name, [claim.id for claim in claims], one) == ("mine", ["mine.equal"], True)
    assert {claim.section for claim in choose(["article.6.2"])[1]} == {"6.2"}
    assert len(choose(["article.6.2", "article.6.3"])[1]) > len(choose(["article.6.2"])[1])
    for names, match in (
        (["article.6.2.nan30"], r"article.6.2.nan300\?"),
        (["artcle.6.2"], r"article\?"),
        ([str(folder / "mine.yaml"), "article"], r"mine.yaml and .*claims.yaml"),
    ):
        with pytest.raises(UserError, match=match):
            choose(names)


def test_the_example_can_be_asked(tmp_path: Path) -> None:
    file = load(EXAMPLES / "deepnorm_claims.yaml")
    quick = [claim for claim in file.claims if claim.kind is not Kind.COMPUTE]  # it stands in papers.yaml, too
    words = [verdict.word for verdict in evaluate.judged(file, quick, tmp_path)]
    assert words == [Word.NOT_ENOUGH] * 3 + [Word.SOURCE_AGREES]


def test_its_runs_are_those_of_a_table_that_is_shown() -> None:
    own, shown = (
        set(grid.plan(load_sweep(path)).configs)
        for path in (EXAMPLES / "deepnorm_runs.yaml", EXAMPLES.parent / "configs" / "schemes.yaml")
    )
    assert len(own) == 27
    assert own < shown
