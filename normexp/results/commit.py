"""Which state of the user's code results were made with."""

from __future__ import annotations

import subprocess


def git_commit() -> str | None:
    """The commit of the working directory, if it is in a Git repository."""
    try:
        told = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return told.stdout.strip()
