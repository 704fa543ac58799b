"""A run goes on where it began: on the same machine, and what changed there meanwhile is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from synthetic_run import begin

from vtax.counters.host import host_facts
from vtax.errors import BadInput
from vtax.runner.resume import check_host
from vtax.store.query import load
from vtax.store.store import Store

HOST: dict[str, Any] = {
    "machine_id": "a1",
    "kernel": "6.1",
    "cpu_microcode": "0x1",
    "mitigations": {"mds": "Vulnerable", "l1tf": "Not affected"},
    "measured_at": "then",
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as opened:
        yield opened


def test_another_machine_cannot_go_on_with_a_run(store: Store) -> None:
    run = begin(store, host=HOST)
    with pytest.raises(BadInput, match="tour-1 was begun on another machine"):
        check_host(run, {**HOST, "machine_id": "b2"})
    assert check_host(run, {**HOST, "measured_at": "now"}) == ""


def test_what_changed_on_the_host_is_told_and_kept_with_the_run(store: Store) -> None:
    run = begin(store, host=HOST)
    told = check_host(run, {**HOST, "kernel": "6.12", "mitigations": {"mds": "Mitigation", "new": "Vulnerable"}})
    assert told.endswith(": kernel (6.1, now 6.12), mitigation mds (Vulnerable, now Mitigation)")
    assert [(warning.code, warning.text) for warning in load(store.engine, run).warnings] == [("host-changed", told)]


def test_a_run_of_this_host_is_a_run_of_this_host(store: Store) -> None:
    facts = host_facts()
    assert len(facts["machine_id"]) == 12
    assert check_host(begin(store, host=facts), host_facts()) == ""
    assert check_host(begin(store, "before-there-was-an-id", host={"kernel": facts["kernel"]}), facts) == ""
