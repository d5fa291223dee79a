"""The table of residual schemes: where the norms of a block are placed, and how its branches are scaled.

A block is two branches (mixer, then FFN). Each branch of layer l of L (counted from 1) computes

    y = after( skip * x + branch_out * output( f( branch_in * before(x) ) ) + bottom * x_block )

There are two more norm sites ("doors") inside f: `qkv` on queries, keys and values (attention only), and `within`,
before its last matrix. x_block, the input of the block, is only added in the FFN branch. A door holds a norm or
nothing. A scale is constant at a site, or learned from an initial value. A scheme is one row of the table; no other
code depends on the name of a scheme. A row declares the config keys that it reads, besides the depth, in `keys`, and
gets their values in `site.values`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from normexp.schemes.network_config import NetworkConfig, Value
from normexp.schemes.norms import Registry

DOORS = ("before", "qkv", "within", "output", "after")
ROLES = ("q", "k", "v", "out", "fc1", "fc2")
"""The matrices of a block whose initial weights a scheme can scale. A mixer with a single matrix calls it `out`."""
BRANCHES = ("mixer", "ffn")


@dataclass(frozen=True, slots=True)
class Site:
    """A branch in the network: layer 1 to depth, mixer or ffn. `values` has the keys that the scheme declares."""

    layer: int
    depth: int
    branch: str = "mixer"
    values: Mapping[str, Value] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Scale:
    """A factor: constant, or the initial value of a learned scalar, one per branch or, if `shared`, one per layer."""

    value: Callable[[Site], float]
    learned: bool = False
    shared: bool = False


def constant(value: float) -> Scale:
    """Return the same factor for every site."""
    return Scale(lambda site: value)


ONE, ZERO = constant(1.0), constant(0.0)

Doors = Callable[[Site], frozenset[str]]


def everywhere(*doors: str) -> Doors:
    """Return the same doors for every branch of every layer."""
    fixed = frozenset(doors)
    return lambda site: fixed


def by_branch(*, mixer: tuple[str, ...] = (), ffn: tuple[str, ...] = ()) -> Doors:
    """Return separate doors for the mixer branch and the FFN branch."""
    fixed = {"mixer": frozenset(mixer), "ffn": frozenset(ffn)}
    return lambda site: fixed[site.branch]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """A residual scheme: the doors of each site, four scales, an init gain per role, and whether it needs a final norm.

    `keys` are the config keys that the row's functions read, apart from depth; `run.INTERACTING` lists those allowed.
    """

    doors: Doors
    final_norm: bool
    help: str
    source: str
    skip: Scale = ONE
    branch_in: Scale = ONE
    branch_out: Scale = ONE
    bottom: Scale = ZERO
    gains: Mapping[str, Callable[[int], float]] = field(default_factory=lambda: MappingProxyType({}))
    keys: frozenset[str] = frozenset()

    def scales(self, branch: str) -> dict[str, Scale]:
        """Return the four scales of a branch by name."""
        bottom = self.bottom if branch == "ffn" else ZERO
        return {"skip": self.skip, "branch_in": self.branch_in, "branch_out": self.branch_out, "bottom": bottom}

    def gain(self, role: str, depth: int) -> float:
        """Return the factor on the initial weights of the matrix with this role."""
        return self.gains[role](depth) if role in self.gains else 1.0

    def site(self, run: NetworkConfig, layer: int, branch: str) -> Site:
        """Return a branch of the run's network, with the values that this scheme may read."""
        return Site(layer, run.depth, branch, MappingProxyType({key: getattr(run, key) for key in self.keys}))

    def sites(self, run: NetworkConfig) -> Iterator[Site]:
        """Yield every branch of the run's network, in order."""
        return (self.site(run, layer, branch) for layer in range(1, run.depth + 1) for branch in BRANCHES)

    def constants(self, site: Site) -> dict[str, float]:
        """Return the value of every scale at a site and of every gain, by name."""
        numbers = {name: scale.value(site) for name, scale in self.scales(site.branch).items()}
        return numbers | {f"gain_{role}": self.gain(role, site.depth) for role in ROLES}

    def open_doors(self, run: NetworkConfig, site: Site) -> frozenset[str]:
        """Return the doors of a branch. Only attention has `qkv`."""
        attends = site.branch == "mixer" and run.mixer == "attention"
        return self.doors(site) if attends else self.doors(site) - {"qkv"}

    def opens_a_door(self, run: NetworkConfig) -> bool:
        """Return whether any branch of the run's network has a norm site."""
        return any(self.open_doors(run, site) for site in self.sites(run))

    def same_network(self, other: Scheme, run: NetworkConfig) -> bool:
        """Return whether the run's network would have the same blocks under the other scheme."""
        pairs = zip(self._structure(run), other._structure(run), strict=True)
        return self is other or all(own == others for own, others in pairs)

    def _structure(self, run: NetworkConfig) -> Iterator[object]:
        """Yield what determines each branch: no doors without a norm, and no skip scales without residual."""
        for site in self.sites(run):
            doors = self.open_doors(run, site) if run.norm != "none" else frozenset()
            scales = [(s.value(site), s.learned, s.learned and s.shared) for s in self.scales(site.branch).values()]
            skip, branch_in, branch_out, bottom = scales
            skips = (skip, bottom) if run.residual else ()
            yield doors, skips, branch_in, branch_out, [self.gain(role, run.depth) for role in ROLES]


def _post_then_pre(site: Site) -> frozenset[str]:
    post_layers = math.floor(float(site.values["post_share"]) * site.depth + 1e-9)  # 0.29 * 100 is 28.999999999999996
    return frozenset({"after" if site.layer <= post_layers else "before"})


def _on(roles: tuple[str, ...], gain: Callable[[int], float]) -> Mapping[str, Callable[[int], float]]:
    return MappingProxyType(dict.fromkeys(roles, gain))


VALUE_PATH = ("v", "out", "fc1", "fc2")

SCHEMES: Registry[Scheme] = Registry(
    "scheme",
    {
        "pre": Scheme(
            doors=everywhere("before"),
            final_norm=True,
            help="x + f(N(x))",
            source="Xiong et al. 2020, arXiv 2002.04745, table 1",
        ),
        "post": Scheme(
            doors=everywhere("after"),
            final_norm=False,
            help="N(x + f(x))",
            source="Vaswani et al. 2017, arXiv 1706.03762, section 3.1",
        ),
        "sandwich": Scheme(
            doors=everywhere("before", "output"),
            final_norm=True,
            help="x + N(f(N(x))), also known as Peri-LN",
            source="Ding et al. 2021, arXiv 2105.13290 (CogView); Kim et al. 2025, arXiv 2502.02732, equations 1-3",
        ),
        "output": Scheme(
            doors=everywhere("output"),
            final_norm=True,
            help="x + N(f(x)), as in OLMo 2 and Swin V2",
            source="OLMo 2: transformers, modeling_olmo2.py; Swin V2: timm, swin_transformer_v2.py",
        ),
        "deepnorm": Scheme(
            doors=everywhere("after"),
            final_norm=False,
            help="N(alpha x + f(x)), alpha = (2L)^(1/4); v, out, fc1, fc2 times beta = (8L)^(-1/4)",
            source="Wang et al. 2022, arXiv 2203.00555, section 4.3, decoder-only constants",
            skip=Scale(lambda site: (2 * site.depth) ** 0.25),
            gains=_on(VALUE_PATH, lambda depth: (8 * depth) ** -0.25),
        ),
        "glm": Scheme(
            doors=everywhere("after"),
            final_norm=True,
            help="N(alpha x + f(x)), alpha = (2L)^(1/2); v, out, fc1, fc2 times (2L)^(-1/2)",
            source="Zeng et al. 2022, arXiv 2210.02414, section 2.1 (GLM-130B)",
            skip=Scale(lambda site: (2 * site.depth) ** 0.5),
            gains=_on(VALUE_PATH, lambda depth: (2 * depth) ** -0.5),
        ),
        "lns": Scheme(
            doors=everywhere("before"),
            final_norm=True,
            help="x + f(N(x) / sqrt(l)) in layer l",
            source="Sun et al. 2025, arXiv 2502.05795, equation 12",
            branch_in=Scale(lambda site: 1 / math.sqrt(site.layer)),
        ),
        "mix": Scheme(
            doors=_post_then_pre,
            final_norm=True,
            help="N(x + f(x)) in the first post_share of the layers, x + f(N(x)) in the rest",
            source="Li et al. 2024, arXiv 2412.13795, tables 1 and 5",
            keys=frozenset({"post_share"}),
        ),
        "rezero": Scheme(
            doors=everywhere(),
            final_norm=False,
            help="x + a f(x), one learned a per layer, initially 0; no norm",
            source="Bachlechner et al. 2020, arXiv 2003.04887; majumderb/rezero, rztx.py",
            branch_out=Scale(lambda site: 0.0, learned=True, shared=True),
        ),
        "subln": Scheme(
            doors=everywhere("before", "within"),
            final_norm=True,
            help="x + W N(g(N(x))), a second norm before the branch's last matrix; v, out, fc1, fc2 times sqrt(ln 2L)",
            source="Wang et al. 2022, arXiv 2210.06423; microsoft/torchscale, decoder.py, decoder-only constants",
            gains=_on(VALUE_PATH, lambda depth: math.sqrt(math.log(2 * depth))),
        ),
        "residual_scaled": Scheme(
            doors=everywhere("before"),
            final_norm=True,
            help="x + f(N(x)) / sqrt(2L)",
            source="Noci et al. 2022, arXiv 2206.03126",
            branch_out=Scale(lambda site: 1 / math.sqrt(2 * site.depth)),
        ),
        "hybrid": Scheme(
            doors=by_branch(mixer=("qkv", "after")),
            final_norm=True,
            help="y = N(x + attention(N(q), N(k), N(v))), then y + f(y)",
            source="Zhuo et al. 2025, arXiv 2503.04598, equations 5-7 (norms of q, k, v over the whole width)",
        ),
        "b2t": Scheme(
            doors=everywhere("after"),
            final_norm=False,
            help="y = N(x + attention(x)), then N(x + y + f(y)), where x is the input of the block",
            source="Takase et al. 2022, arXiv 2206.00330; takase/b2t_connection, transformer_layer.py",
            bottom=Scale(lambda site: 1.0 if site.branch == "ffn" else 0.0),
        ),
    },
)
"""The schemes by name."""


def first_like(run: NetworkConfig) -> str:
    """Return the first scheme of the table that gives the run the same network as its own scheme."""
    scheme = SCHEMES[run.position]
    return next(name for name, other in SCHEMES.items() if other.same_network(scheme, run))
