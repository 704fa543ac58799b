"""A finished run in memory, as the store gives it: the run, its trials and their values. Figures are invented."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from vtax.store.annotations import Annotations
from vtax.store.query import GuestRow, Measurements, RunData, Trials
from vtax.store.records import MetricRecord, SessionRecord

SPEED = (MetricRecord("tool", "speed", "speed", "1/s", "higher", True),)


def run_of(**given: Any) -> Any:
    """A finished run of one session; at least platforms, cells and declared are given."""
    usual = {
        "name": "study-1",
        "study": "study",
        "status": "finished",
        "stopped_because": "",
        "seed": 1,
        "vtax_version": "0.1.0",
        "image_key": "4f1d0c77aa31",
        "host": {},
        "plugins": (),
        "identity": "",
        "provenance": {},
        "untested": (),
        "annotations": Annotations(),
        "started_at": 0.0,
        "ended_at": 1.0,
        "duration_s": 1.0,
        "metrics": SPEED,
        "sessions": (SessionRecord(1, "", {}, 0.0),),
    }
    return SimpleNamespace(**{**usual, **given})


def trials_of(order: Sequence[tuple[int, ...]], ok: Any = True, session: Any = 1) -> Trials:
    """Trials of 2 s, one after another. order: block, cell and number of each, which is 0 where it is not given."""
    block, cell, *number = (np.array(column) for column in zip(*order, strict=True))
    each = np.arange(len(order))
    zeros, seconds = np.zeros_like(each), np.full(len(each), 2.0)
    return Trials(
        each,
        cell,
        block,
        number[0] if number else zeros,
        each,
        zeros.astype(bool),
        zeros.astype(bool) | ok,
        each * 2.0,
        seconds,
        seconds,
        zeros + session,
    )


def guests_of(platforms: Sequence[str], blocks: int) -> tuple[GuestRow, ...]:
    """A guest of each platform in each block, ready in a second."""
    return tuple(
        GuestRow(name, block, "", 1.0, 0.0, {}, (), "")
        for block in range(blocks)
        for name in platforms
    )


def data_of(
    run: Any,
    order: Sequence[tuple[int, ...]],
    values: Any,
    *,
    metric: Any = 0,
    session: Any = 1,
    guests: tuple[GuestRow, ...] = (),
    warnings: Any = (),
) -> RunData:
    """A run with one value a trial, NaN of one that failed. metric: index of that of each."""
    values = np.array(values)
    ok = ~np.isnan(values)
    measured = Measurements(
        np.flatnonzero(ok), (np.zeros(len(values), np.int64) + metric)[ok], values[ok]
    )
    return RunData(run, trials_of(order, ok, session), measured, guests, warnings, ())
