"""The table of schemes: where norms stand in a block, and how its branches are scaled.

A block is two branches (mixer, then FFN). Each branch computes, for layer l of L (counted from 1),

    y = after( skip * x + branch_out * output( f( branch_in * before(x) ) ) )

with a further door `within` f, before its last matrix. A door holds a norm or nothing; a scale is a
constant of (l, L), or learned from a start value. A scheme is one row: nothing else in the program asks
for a scheme by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

DOORS = ("before", "within", "output", "after")
ROLES = ("q", "k", "v", "out", "fc1", "fc2")
"""The matrices of a block that a scheme's init gain may multiply. A mixer with one matrix calls it `out`."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A factor of a branch: `value(layer, depth)`, constant, or the start of one learned scalar a branch."""

    value: Callable[[int, int], float]
    learned: bool = False


def constant(value: float) -> Scale:
    """The same factor in every layer of every depth."""
    return Scale(lambda layer, depth: value)


ONE = constant(1.0)


def everywhere(*doors: str) -> Callable[[int, int], frozenset[str]]:
    """The same doors in every layer."""
    fixed = frozenset(doors)
    return lambda layer, depth: fixed


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """A row: the doors of each layer, three scales, an init gain per role, and whether the head needs a norm."""

    doors: Callable[[int, int], frozenset[str]]
    final_norm: bool
    help: str
    source: str
    skip: Scale = ONE
    branch_in: Scale = ONE
    branch_out: Scale = ONE
    gains: Mapping[str, Callable[[int], float]] = field(default_factory=lambda: MappingProxyType({}))

    def gain(self, role: str, depth: int) -> float:
        """The factor on the initial weights of a role's matrix."""
        return self.gains[role](depth) if role in self.gains else 1.0

    def constants(self, layer: int, depth: int) -> dict[str, float]:
        """Scales and gains of one layer, as numbers."""
        scales = {"skip": self.skip, "branch_in": self.branch_in, "branch_out": self.branch_out}
        numbers = {name: scale.value(layer, depth) for name, scale in scales.items()}
        return numbers | {f"gain_{role}": self.gain(role, depth) for role in ROLES}

    def skeleton(self, depth: int) -> tuple[object, ...]:
        """What is left of the scheme when no door holds a norm; schemes with equal skeletons are then one."""
        learned = (self.skip.learned, self.branch_in.learned, self.branch_out.learned)
        numbers = [tuple(self.constants(layer, depth).values()) for layer in range(1, depth + 1)]
        return (*learned, *numbers)

    def same_skeleton(self, other: Scheme, depth: int) -> bool:
        """Whether the two are one network when no door holds a norm."""
        scales = (self.skip, self.branch_in, self.branch_out, dict(self.gains))
        if scales == (other.skip, other.branch_in, other.branch_out, dict(other.gains)):
            return True  # the same functions: no need to ask each layer
        return self.skeleton(depth) == other.skeleton(depth)


SCHEMES: Mapping[str, Scheme] = MappingProxyType(
    {
        "pre": Scheme(
            doors=everywhere("before"),
            final_norm=True,
            help="x + f(N(x))",
            source="Xiong et al. 2020, arXiv 2002.04745, Table 1",
        ),
        "post": Scheme(
            doors=everywhere("after"),
            final_norm=False,
            help="N(x + f(x))",
            source="Vaswani et al. 2017, arXiv 1706.03762, section 3.1",
        ),
    }
)


def without_norm(position: str, depth: int) -> str:
    """The first scheme of the table that is the same network as `position` when there is no norm."""
    scheme = SCHEMES[position]
    return next(name for name, other in SCHEMES.items() if other.same_skeleton(scheme, depth))
