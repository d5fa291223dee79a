"""Torch-free tables: where norms stand in a block, which norms there are, and how known models are built.

A plugin imports what its rows are made of from here.
"""

from normexp.schemes.norms import NORMS, Norm, Reading
from normexp.schemes.schemes import (
    BRANCHES,
    DOORS,
    ONE,
    ROLES,
    SCHEMES,
    ZERO,
    Scale,
    Scheme,
    Site,
    by_branch,
    constant,
    everywhere,
)

__all__ = [
    "BRANCHES",
    "DOORS",
    "NORMS",
    "ONE",
    "ROLES",
    "SCHEMES",
    "ZERO",
    "Norm",
    "Reading",
    "Scale",
    "Scheme",
    "Site",
    "by_branch",
    "constant",
    "everywhere",
]
