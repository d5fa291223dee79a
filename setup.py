"""Copies configs/ and examples/ into the package when a wheel is built. Everything else is in pyproject.toml."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SHIPPED = ("configs", "examples")


class BuildWithExamples(build_py):
    """Adds normexp/shipped/configs and normexp/shipped/examples, which `normexp init --examples` writes."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for name in SHIPPED:
                target = Path(self.build_lib) / "normexp" / "shipped" / name
                shutil.rmtree(target, ignore_errors=True)
                shutil.copytree(name, target, ignore=shutil.ignore_patterns("__pycache__", ".*"))


setup(cmdclass={"build_py": BuildWithExamples})
