"""Execution: how a run is started, watched and ended; one module an executor."""
