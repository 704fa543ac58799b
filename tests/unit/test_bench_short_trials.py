"""bench/short_trials.py compares every benchmark that can be short: none of those that vtax ships is forgotten."""

from __future__ import annotations

import short_trials

from vtax.benchmarks import registry
from vtax.benchmarks.length import given_time
from vtax.errors import BadInput
from vtax.study.load import validate

OTHERWISE = {"stream"}
"""They take no time, but parameters by which a trial is short."""


def can_be_short(benchmark):
    try:
        given_time(benchmark, benchmark.Parameters(), 0.1)
    except BadInput:
        return False
    return True


def test_every_benchmark_that_can_be_short_is_compared():
    short = {name for name, made in registry.benchmarks().items() if can_be_short(made)}
    tables = short_trials.tables([], "4s")
    assert {table["name"] for table in tables} == short | OTHERWISE


def test_each_is_measured_by_both_lengths_in_a_valid_study():
    tables = short_trials.tables([], "4s")
    labels = [table["label"].rpartition(": ") for table in tables]
    names = {name for name, _, _ in labels}
    assert {(name, kind) for name, _, kind in labels} == {
        (name, kind) for name in names for kind in (short_trials.SHORT, short_trials.LONG)
    }
    study = validate({"name": "short", "platforms": ["native"], "benchmark": tables}, "short.toml")
    assert len(study.benchmark) == len(tables)
