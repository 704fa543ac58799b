"""Differences between the guests of a run."""
