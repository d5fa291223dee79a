"""Torch-free tables: norm placements, norms, and the normalization of known models.

Plugins import the building blocks of their rows from here.
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
