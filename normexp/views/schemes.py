"""The tables of schemes and of norms as text."""

from __future__ import annotations

from normexp.norms import NORMS
from normexp.run import RunConfig
from normexp.schemes import DOORS, ROLES, SCHEMES, Scheme, Site
from normexp.views.pivot import TextTable


def schemes(depth: int) -> TextTable:
    """Each scheme: formula, doors, final norm, constants at `depth`, source."""
    header = ("position", "branch", "doors", "final norm", f"constants at depth {depth}", "source")
    rows = tuple(
        (
            name,
            scheme.help,
            _doors(scheme, depth),
            "yes" if scheme.final_norm else "no",
            ", ".join(_constants(scheme, depth)) or "plain",
            scheme.source,
        )
        for name, scheme in SCHEMES.items()
    )
    return TextTable(title="Schemes (key position)", header=header, rows=rows)


def norms() -> TextTable:
    """Each norm: formula, whether a token's output depends on that token alone, source."""
    rows = tuple((name, norm.help, "yes" if norm.causal else "no", norm.source) for name, norm in NORMS.items())
    return TextTable(title="Norms (key norm)", header=("norm", "output", "causal", "source"), rows=rows)


def _sites(scheme: Scheme, depth: int) -> list[Site]:
    """The branches of a network with every other key at its default."""
    return list(scheme.sites(RunConfig(depth=depth)))


def _doors(scheme: Scheme, depth: int) -> str:
    opened = {door for site in _sites(scheme, depth) for door in scheme.doors(site)}
    return ", ".join(door for door in DOORS if door in opened) or "none"


def _constants(scheme: Scheme, depth: int) -> list[str]:
    """Scales that are not 1 (bottom: not 0), first layer to last where they differ; then gains, equal ones together."""
    told = []
    for name, scale in scheme.scales("ffn").items():
        values = [scale.value(site) for site in _sites(scheme, depth) if site.branch == "ffn"]
        if set(values) != {0.0 if name == "bottom" else 1.0}:
            ends = f"{values[0]:.4g}" if len(set(values)) == 1 else f"{values[0]:.4g} to {values[-1]:.4g}"
            told.append(f"{name} {ends}{' (learned)' * scale.learned}")
    gains = {role: scheme.gain(role, depth) for role in ROLES}
    for gain in sorted(set(gains.values()) - {1.0}):
        told.append(f"gain {gain:.4g} on {' '.join(role for role in ROLES if gains[role] == gain)}")
    return told
