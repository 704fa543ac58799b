"""The order in which what a guest holds on the host is released."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vtax.errors import PlatformError
from vtax.platforms.stdio import Claim, StdioGuest, describe


class Entry:
    """An entry of a journal that writes down its release."""

    def __init__(self, name: str, book: list[str], error: Exception | None = None) -> None:
        self.resource = name
        self._book = book
        self._error = error

    def release(self) -> None:
        self._book.append(self.resource)
        if self._error is not None:
            raise self._error

    def forget(self) -> None:
        self._book.append(f"forget {self.resource}")


def guest(book: list[str], **errors: Exception) -> StdioGuest:
    def entry(name: str) -> Any:
        return Entry(name, book, errors.get(name))

    group: Any = SimpleNamespace(cpu_s=lambda: 1.5)
    before, after = [entry("network"), entry("container")], [entry("image"), entry("daemon")]
    claim = Claim("tag", group, entry("cgroup"), entry("processes"), before, after)
    process: Any = SimpleNamespace(wait=lambda timeout: book.append("wait"))
    channel: Any = SimpleNamespace(close=lambda: book.append("close"))
    return StdioGuest(process, channel, claim, None)  # type: ignore[arg-type]


def test_a_guest_is_released_in_the_order_of_its_claim():
    book: list[str] = []
    running = guest(book)
    running.stop()
    assert book == [
        "close",
        "container",
        "network",
        "cgroup",
        "wait",
        "forget processes",
        "daemon",
        "image",
    ]
    running.stop()
    assert len(book) == 8
    assert running.host_cpu_s() == 1.5


def test_what_cannot_be_released_is_named_and_the_rest_is_released_all_the_same():
    book: list[str] = []
    running = guest(book, container=OSError("busy"), daemon=subprocess.TimeoutExpired("x", 1))
    with pytest.raises(PlatformError) as caught:
        running.stop()
    assert "container: busy" in caught.value.where
    assert "daemon: " in caught.value.where
    assert book[-1] == "image"


@pytest.mark.parametrize("status", [-31, 159])
def test_an_agent_that_a_filter_of_system_calls_killed_is_described_so(
    status: int, tmp_path: Path
) -> None:
    process: Any = SimpleNamespace(args=["podman", "run"], poll=lambda: status)
    said = describe(process, tmp_path / "stderr")
    assert (
        said
        == f"podman ended with status {status} (SIGSYS): a filter of system calls ended the agent"
    )
