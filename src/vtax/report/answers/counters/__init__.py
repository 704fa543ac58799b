"""Counters around the trials of network benchmarks."""
