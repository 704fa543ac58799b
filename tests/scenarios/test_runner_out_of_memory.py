"""A trial that failed since its guest had no memory left says so."""

from __future__ import annotations

import itertools

from scripted import ProcessGuest, executed, plan_of, study

from vtax.runner import out_of_memory
from vtax.store.query import load


def one_trial(code, store, home, monkeypatch, kills):
    """The run of a program, in each guest of which so many processes were killed: before a trial, and after it."""
    counts, on_host = itertools.cycle(kills), itertools.count()
    monkeypatch.setattr(out_of_memory, "host_kills", lambda: next(on_host))
    monkeypatch.setattr(ProcessGuest, "oom_kills", lambda self, has_ended=False: next(counts))
    monkeypatch.setattr(ProcessGuest, "limits_in_force", lambda self: {"limit.memory": 256 << 20})
    table = {"name": "script", "parameters": {"code": code}}
    declared = study(design={"blocks": 1, "seed": 7}, benchmark=[table])
    return load(store.engine, executed(plan_of(declared), store, home))


def test_a_program_that_the_kernel_killed_for_memory(driver, store, home, monkeypatch):
    data = one_trial("kill -9 $$", store, home, monkeypatch, (0, 1))
    assert {failure.error.code for failure in data.failures} == {"out-of-memory"}
    assert all("256 MiB" in failure.error for failure in data.failures)


def test_a_program_that_failed_otherwise(driver, store, home, monkeypatch):
    data = one_trial("kill -9 $$", store, home, monkeypatch, (1, 1))
    assert data.failures
    assert not any("out of memory" in failure.error for failure in data.failures)


def test_a_trial_that_went_on_without_what_was_killed_is_kept_with_a_warning(
    driver, store, home, monkeypatch
):
    data = one_trial("echo 1.5", store, home, monkeypatch, (0, 1))
    assert data.failures == ()
    assert "killed-in-trial" in {warning.note.code for warning in data.warnings}
