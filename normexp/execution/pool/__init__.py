"""Runs in worker processes on this machine."""
