"""normexp: does this deep network train, and if it does not, when, where and why does it break?"""

__version__ = "0.1.0"
