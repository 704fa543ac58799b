"""Differences of counters and facts that may explain a difference of a metric."""
