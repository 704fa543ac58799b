"""A neighbour: one more guest of the same platform and limits, idle or loading one resource during a trial."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

from vtax.errors import BenchmarkError, VtaxError
from vtax.host.journal import Journal
from vtax.host.waiting import wait_until
from vtax.messages import at
from vtax.network import registry as topology_registry
from vtax.network.end import NetworkEnd
from vtax.network.links import Links
from vtax.platforms.base import Resources
from vtax.runner.counting import Endpoint
from vtax.study.expand import DEFAULT_TOPOLOGY

NEIGHBOUR, PEER = "neighbour", "neighbour_peer"
"""Roles of its guest, and of the native server that it sends to."""
NONE = "none"
_SOURCE = files("vtax.runner").joinpath("neighbour_load.py")
_PORT = 5299
_READY_TIMEOUT_S = 60.0
_SETTLED_S = 1.0  # of loading before the benchmark starts
_FILE_BYTES = 64 << 20
_MAX_ARRAY_BYTES = 128 << 20
_UNITS = {"cpu": "loops/s"}


def make_lab(journal: Journal) -> Links:
    """Make a lab of the neighbour's own: it shares no link with the guests that are measured."""
    topology = topology_registry.get(DEFAULT_TOPOLOGY)
    return topology.build(journal, topology_registry.settings(DEFAULT_TOPOLOGY, {}))


@contextmanager
def _naming_neighbour() -> Iterator[None]:
    """Name the neighbour in errors of the block."""
    try:
        yield
    except VtaxError as error:
        error.what = at("the neighbour", error.what)
        raise


class Neighbour:
    """A started neighbour. lab: its links, None without a network. peer: the native end of them."""

    def __init__(
        self, endpoint: Endpoint, resources: Resources, lab: Links | None, peer: Endpoint | None
    ) -> None:
        self._endpoint = endpoint
        self._resources = resources
        self._lab = lab
        self._peer = peer
        self._handles: list[tuple[Endpoint, int]] = []

    @property
    def ends(self) -> dict[str, Endpoint]:
        """Its guest, and its peer where it has one, by role: what they count is read around trials."""
        ends = {NEIGHBOUR: self._endpoint}
        if self._peer:
            ends[PEER] = self._peer
        return ends

    @contextmanager
    def loading(self, load: str) -> Iterator[dict[str, Any]]:
        """Load a resource inside the block, from some time before it on.

        Afterwards the given settings have `neighbour`: load, rate, unit. Raises BenchmarkError where it did nothing
        or ended too early, and what its guest raises.
        """
        settings: dict[str, Any] = {"neighbour": {"load": load}}
        if load == NONE:
            yield settings
            return
        try:
            with _naming_neighbour():
                started_at = self._start(load)
            time.sleep(_SETTLED_S)
            yield settings
            with _naming_neighbour():
                settings["neighbour"] |= self._finished(load, started_at)
        finally:
            self._stop()

    def _start(self, load: str) -> float:
        scratch = self._endpoint.running.scratch
        if load == "network":
            assert self._lab is not None
            assert self._peer is not None
            sink = self._launch(self._peer, "sink", str(_PORT))
            self._peer.guest.wait_port(_PORT, timeout_s=20.0, handle=sink)
            argv = [self._lab.flows[0].server_address, str(_PORT)]
        elif load == "disk":
            argv = [scratch, str(_FILE_BYTES)]
        else:
            workers = self._resources.vcpus
            array_bytes = min(self._resources.memory_bytes // 4 // workers, _MAX_ARRAY_BYTES)
            argv = [str(workers), str(array_bytes)]
        self._launch(self._endpoint, load, *argv)
        return time.monotonic()

    def _launch(self, endpoint: Endpoint, *arguments: str) -> int:
        path = f"{endpoint.running.scratch}/vtax-neighbour.py"
        endpoint.guest.put(path, _SOURCE.read_bytes())
        ready = f"{path}.{secrets.token_hex(4)}"
        handle = endpoint.guest.start(("python3", "-IS", path, ready, *arguments))
        self._handles.append((endpoint, handle))
        if arguments[0] != "sink":
            self._await(endpoint, handle, ready)
        return handle

    def _await(self, endpoint: Endpoint, handle: int, ready: str) -> None:
        """Wait until the file that says that a program loads is there."""

        def is_there() -> bool:
            exists = endpoint.guest.sample([ready]).files[ready] is not None
            if not exists and not endpoint.guest.running(handle):
                self._handles.remove((endpoint, handle))
                words = endpoint.guest.stop(handle).stderr.strip()[-300:]
                raise BenchmarkError(f"it did not start loading: {words}")
            return exists

        late = BenchmarkError(f"it does not load {_READY_TIMEOUT_S:g} s after its start")
        wait_until(is_there, _READY_TIMEOUT_S, 0.02, max_interval_s=0.2, otherwise=lambda: late)

    def _finished(self, load: str, started_at: float) -> Mapping[str, Any]:
        """End its program; return what it did by the second."""
        endpoint, handle = self._handles.pop()
        if not endpoint.guest.running(handle):
            result = endpoint.guest.stop(handle)
            raise BenchmarkError(f"it stopped loading {load}: {result.stderr.strip()[-300:]}")
        elapsed_s = time.monotonic() - started_at
        result = endpoint.guest.stop(handle, grace_s=10.0)
        words = result.stdout.split()
        work = int(words[-1]) if words and words[-1].isdigit() else 0
        if not work:
            reason = result.stderr.strip()[-300:] or "it did nothing"
            raise BenchmarkError(f"it loaded no {load}: {reason}")
        return {"rate": work / elapsed_s, "unit": _UNITS.get(load, "B/s")}

    def _stop(self) -> None:
        while self._handles:
            endpoint, handle = self._handles.pop()
            if not endpoint.guest.lost:
                endpoint.guest.stop(handle)


def start_neighbour(
    start_guest: Callable[[NetworkEnd | None], Endpoint],
    start_peer: Callable[[NetworkEnd], Endpoint],
    lab: Links | None,
    resources: Resources,
) -> Neighbour:
    """Start a neighbour, and the peer of its lab where it has one."""
    if lab is None:
        return Neighbour(start_guest(None), resources, None, None)
    endpoints = {}
    for end in lab.ends:
        start = start_guest if end.under_test else start_peer
        endpoints[end.under_test] = start(end)
    return Neighbour(endpoints[True], resources, lab, endpoints[False])
