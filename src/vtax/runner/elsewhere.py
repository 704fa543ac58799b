"""The half of a topology on another machine, as a run here sees it: vtax there makes it and starts its guests.

One connection carries requests to `runner.there`, and ends the half when it ends. Each guest's stream comes over a
connection of its own, so that it is used as that of any other guest.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.resources import files
from typing import Any

from vtax import __version__
from vtax.errors import BadInput, Busy, GuestError, PlatformError, VtaxError, placed
from vtax.foreign_data import parse_json
from vtax.foreign_text import clean, one_line
from vtax.guest.bootstrap import PYTHON
from vtax.host.emulated_cpu import timeout_factor
from vtax.host.process import run
from vtax.host.resources import Remote
from vtax.limits import MACHINE
from vtax.messages import Note, restored
from vtax.network import registry as topology_registry
from vtax.network.end import NetworkEnd
from vtax.network.links import Links
from vtax.network.plugboard import Uplink
from vtax.network.settings import LinkSettings
from vtax.platforms.base import GuestSpec, MachineDriver, Platform, Resources, RunningGuest
from vtax.runner.points import Point
from vtax.study.model import GuestTable

PREFIX = b"<vtax there> "
"""Begins an answer, behind whatever a login shell prints."""
# arguments of its Python: nothing is imported from the directory where one logs in
_VTAX = ("-P", "-m")
_MODULE = "vtax.runner.there"
_RELAY = files("vtax.runner").joinpath("_relay.py")
_NOISE = 1 << 16  # bytes of a login shell before an answer
_MAX_ANSWER = MACHINE.size_bytes
_ANSWER_S = 180.0  # it starts a guest, and may have to end it
_STATE_S = 5.0


class OtherMachine:
    """The half on another machine (see network.links.OtherHalf). uplinks: what both halves share."""

    def __init__(self, machine: Platform, spec: GuestSpec, uplinks: Sequence[Uplink]) -> None:
        """Connect. spec: of the connection. Raises PlatformError or BadInput."""
        self.name, self.uplinks = machine.name, tuple(uplinks)
        self.link_mbit_s: float | None = None
        self._driver, self._options = _driver(machine), machine.options
        remove = self._driver.command(self._options, [*_VTAX, "vtax", "clean"])
        self._remains = spec.journal.register(
            Remote(machine.name, "the guests of this run", tuple(remove))
        )
        self._connection = self._driver.launch(self._options, spec, [PYTHON, *_VTAX, _MODULE])
        self._first: dict[str, Sequence[Sequence[str]]] = {}
        self._changed: LinkSettings | None = None
        self._left: dict[str, Sequence[Sequence[str]]] = {}

    def build(
        self,
        image: str,
        platform: Platform,
        resources: Resources,
        level: str,
        link: tuple[str, LinkSettings],
    ) -> None:
        """Have the half made. link: the topology's name and its settings. Raises PlatformError or GuestError."""
        self._ask(
            "build",
            image=image,
            platform=_identity(platform),
            vcpus=resources.vcpus,
            memory_bytes=resources.memory_bytes,
            level=level,
            link=[link[0], link[1].model_dump(mode="json", exclude_none=True)],
            nics=[uplink.there for uplink in self.uplinks],
        )

    def start(self, end: NetworkEnd, spec: GuestSpec) -> RunningGuest:
        """Have the guest of an end started there; its stream is here. Raises PlatformError or GuestError."""
        privileges = sorted(spec.privileges)
        answer = self._ask("start", role=end.role, privileges=privileges, scratch=spec.scratch)
        relay = [PYTHON, "-I", "-S", "-c", _RELAY.read_text(), answer["stream"]]
        running = self._driver.launch(self._options, replace(spec, plugboard=None), relay)
        try:
            self._ask("hand_over", role=end.role)
        except VtaxError:
            running.stop()
            raise
        channel = running.channel
        diagnose_stream = channel.diagnose
        channel.agent = base64.b64decode(answer["agent"])
        channel.silence_hint = restored(answer["silence_hint"])
        channel.diagnose = lambda: "; ".join(
            filter(None, (diagnose_stream(), self._state(end.role)))
        )
        running.scratch = answer["scratch"]
        running.notes = tuple(map(restored, answer["notes"]))
        self._first[end.role] = answer["commands"]
        end.plug_there(partial(self._commands, end.role))
        return running

    def counters(self) -> Mapping[str, float]:
        """Return what the interfaces there count, as Links.counters does. Raises PlatformError or GuestError."""
        return {one_line(name): float(value) for name, value in self._ask("counters").items()}

    def close(self) -> None:
        """Have everything there taken down, from a second connection where the first one broke."""
        try:
            self._ask("close")
        except VtaxError:
            self._connection.stop()
            self._remains.release()
        else:
            self._connection.stop()
            self._remains.forget()

    def _commands(self, role: str, settings: LinkSettings | None) -> Sequence[Sequence[str]]:
        """Return the commands for a guest there. Its half is changed when the first of its guests is asked for."""
        if settings is None:
            return self._first[role]
        if settings is not self._changed or role not in self._left:
            values = settings.model_dump(mode="json", exclude_none=True)
            answer = self._ask("apply", settings=values)
            self.link_mbit_s = answer["link_mbit_s"]
            self._left = {name: answer["commands"].get(name, ()) for name in self._first}
            self._changed = settings
        return self._left.pop(role)

    def _state(self, role: str) -> str:
        """Ask the platform what it knows of a guest there; empty when the machine does not say so soon."""
        with suppress(VtaxError):
            return clean(str(self._ask("state", within_s=_STATE_S, role=role)))
        return ""

    def _ask(self, request: str, within_s: float = _ANSWER_S, **arguments: Any) -> Any:
        channel, deadline = self._connection.channel, time.monotonic() + within_s * timeout_factor()
        try:
            channel.write(json.dumps([request, arguments]).encode() + b"\n", deadline)
            channel.skip_to(PREFIX, _NOISE, deadline)
            answer = channel.skip_to(b"\n", _MAX_ANSWER, deadline)
        except GuestError as error:
            raise GuestError(
                Note("machine-gone", name=self.name), where=error.where or error.what
            ) from error
        return _parse_answer(answer, self.name, PlatformError)


def connect_other_machine(
    machine: Platform,
    links: Links,
    spec: GuestSpec,
    closing: Callable[[Callable[[], None]], object],
) -> OtherMachine:
    """Connect to the machine of the other half, and lead this half to it.

    spec: of the connection. closing: called with what closes it. Raises BadInput, PlatformError or CommandFailed.
    """
    uplinks = _driver(machine).uplinks(machine.options)[: links.trunks]
    other = OtherMachine(machine, spec, uplinks)
    closing(other.close)
    links.there = other
    links.join(uplink.here for uplink in uplinks)
    return other


def check_other_machines(
    points: Sequence[Point],
    platforms: Sequence[Platform],
    resolve: Callable[[str, str], Platform],
    image: str,
    guest: GuestTable,
    source: str,
) -> None:
    """Raise BadInput unless vtax on each machine of another half can start the guests of the platforms.

    resolve: from a platform's name and where it is asked for to the platform.
    image: its key.
    guest: of the study.
    source: of the study, for errors.
    """
    points_by_machine: dict[str, list[Point]] = {}
    links: dict[str, list[Any]] = {}
    for point in points:
        if point.link is None:
            continue
        name = topology_registry.get(point.topology).other_machine(point.link)
        if name:
            points_by_machine.setdefault(name, []).append(point)
            link = [point.topology, point.link.model_dump(mode="json", exclude_none=True)]
            links.setdefault(name, []).append(link)
    for name, asking in points_by_machine.items():
        where = f"{source}: link setting peer of {asking[0].label}"
        machine = resolve(name, where)
        for platform in platforms:
            arguments = {
                "version": __version__,
                "image": image,
                "platform": _identity(platform),
                "vcpus": guest.vcpus,
                "memory_bytes": guest.memory,
                "links": links[name],
            }
            with placed(where):
                _ask_check(machine, arguments)


def _ask_check(machine: Platform, arguments: Mapping[str, Any]) -> None:
    argv = _driver(machine).command(machine.options, [*_VTAX, _MODULE])
    line = json.dumps(["check", arguments]) + "\n"
    process = run(argv, check=False, input_text=line, timeout_s=_ANSWER_S * timeout_factor())
    _, prefix, answer = process.stdout.rpartition(PREFIX.decode())
    if not prefix:
        message = (process.stderr.strip() or f"status {process.status}")[-300:]
        raise BadInput(
            f"vtax does not answer on the machine {machine.name}: {message}",
            hint="install this vtax there, and name its Python by the option python of the [[platform]]",
        )
    _parse_answer(answer.encode(), machine.name, BadInput)


def _parse_answer(line: bytes, name: str, error: type[VtaxError]) -> Any:
    """Return what a request gave. Raises `error`, or Busy, where the machine of this name refused it."""
    try:
        answer = parse_json(line)
        if "done" in answer:
            return answer["done"]
        kind = Busy if error is BadInput and answer.get("is_busy") is True else error
        what, where, hint = (restored(str(text)) for text in answer["error"])
    except (ValueError, LookupError, TypeError) as cause:
        raise error(Note("machine-unreadable", name=name)) from cause
    raise kind(Note("on-machine", name=name, what=what), where=where, hint=hint)


def _identity(platform: Platform) -> list[Any]:
    identity = platform.identity()
    return [platform.name, identity["driver"], identity["options"]]


def _driver(machine: Platform) -> MachineDriver:
    assert isinstance(machine.driver, MachineDriver)
    return machine.driver
