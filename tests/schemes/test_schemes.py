import pytest

from normexp.config import conditions, run
from normexp.config.run import RunConfig
from normexp.schemes import schemes
from normexp.schemes.schemes import DOORS, ROLES, SCHEMES, Scale, Scheme, Site, everywhere, first_like


@pytest.mark.parametrize("name", SCHEMES)
def test_a_row_names_its_source_and_uses_known_doors(name: str) -> None:
    scheme = SCHEMES[name]
    assert scheme.help
    assert any(character.isdigit() for character in scheme.source)
    assert all(scheme.doors(site) <= set(DOORS) for site in scheme.sites(RunConfig()))
    assert set(scheme.gains) <= set(ROLES)


def test_pre_and_post_are_the_same_network_without_a_norm() -> None:
    assert first_like(RunConfig(norm="none", position="post")) == "pre"
    assert first_like(RunConfig(position="post")) == "post"


def test_a_scheme_with_other_scales_differs_without_a_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    deep = Scheme(
        doors=everywhere("after"),
        final_norm=False,
        help="N(alpha x + f(x))",
        source="2203.00555",
        skip=Scale(lambda site: (2 * site.depth) ** 0.25),
        gains={"fc1": lambda depth: (8 * depth) ** -0.25},
    )
    for module in (schemes, run, conditions):
        monkeypatch.setattr(module, "SCHEMES", {**SCHEMES, "deep": deep})
    assert first_like(RunConfig(position="deep", norm="none")) == "deep"
    assert deep.constants(Site(3, 20))["skip"] == pytest.approx(2.515, abs=1e-3)
    assert deep.constants(Site(3, 20))["gain_fc1"] == pytest.approx(0.281, abs=1e-3)
    assert deep.constants(Site(3, 20))["gain_q"] == 1.0
