"""Work on another machine for a run elsewhere: one half of a topology, with its guests.

`python -m vtax.runner.there`, over ssh. Requests are lines of JSON on stdin, `[name, arguments]`, one at a time; the
answers on stdout are lines of JSON as well, behind `PREFIX`. Everything is taken down when stdin ends. Guests are
started as any others; the stream of each is handed over by a socket to whoever connects (`_relay`). The other side
of this is `runner.elsewhere`.
"""

from __future__ import annotations

import base64
import json
import secrets
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from vtax import __version__
from vtax.errors import BadInput, Busy, PlatformError, VtaxError
from vtax.foreign_data import parse_json
from vtax.guest.channel import Channel
from vtax.host.emulated_cpu import timeout_factor
from vtax.host.home import Home
from vtax.host.interrupts import stop_requests
from vtax.host.journal import Journal, clean
from vtax.host.lock import measuring_lock
from vtax.host.resources import Tree
from vtax.image import build as images
from vtax.image.image import Image
from vtax.messages import Note, packed
from vtax.network import registry as topology_registry
from vtax.network.links import Links
from vtax.platforms import registry as platform_registry
from vtax.platforms.base import GuestSpec, Platform, Resources
from vtax.runner import memory, tuning
from vtax.runner.check import check_host
from vtax.runner.elsewhere import PREFIX
from vtax.runner.plan import split_cpus
from vtax.study.fields import Privilege, Scratch
from vtax.units import about_size

_REQUESTS = ("check", "build", "start", "hand_over", "state", "apply", "counters", "close")
_NAME = "a run on another machine"
_HANDED_S = 60.0


class Half:
    """The half of a topology, once it is built. Its methods are the requests; what they return is the answer."""

    def __init__(self, home: Home, journal: Journal, stack: ExitStack) -> None:
        self._home, self._journal, self._stack = home, journal, stack
        self._links: Links | None = None
        self._left: Mapping[str, Sequence[Sequence[str]]] = {}
        self._streams: dict[str, tuple[Channel, socket.socket]] = {}

    def check(
        self,
        version: str,
        image: str,
        platform: Sequence[Any],
        vcpus: int,
        memory_bytes: int,
        links: Sequence[Any],
    ) -> str:
        """Raise BadInput unless this machine can do what a run asks. links: names of topologies, and settings."""
        if version != __version__:
            raise BadInput(
                f"it has vtax {__version__}, and this is {version}",
                hint="install the same vtax there",
            )
        tested = platform_registry.make(*platform)
        check_host(vcpus, memory_bytes, "[guest]", [tested])
        image_there = self._image(image)
        for name, values in links:
            topology = topology_registry.get(name)
            settings = topology_registry.settings(name, values)
            topology.check(settings)
            _refuse_too_many(topology.guests_there(settings), memory_bytes, tested)
        with measuring_lock(_NAME):
            probe = tested.probe(image_there)
        if not probe.available:
            raise BadInput(f"{tested.name} does not run there: {probe.reason}", hint=probe.hint)
        return probe.version

    def build(
        self,
        image: str,
        platform: Sequence[Any],
        vcpus: int,
        memory_bytes: int,
        level: str,
        link: Sequence[Any],
        nics: Sequence[str],
    ) -> None:
        """Make the half on uplinks at these interfaces, while the run holds this machine's measuring lock.

        link: the topology's name and its settings.
        """
        problems = clean(self._home.journal, lambda line: None).problems
        if problems:
            raise VtaxError("resources of a killed vtax are left there", where="; ".join(problems))
        self._platform: Platform = platform_registry.make(*platform)
        self._image_there = self._image(image)
        pinned = Resources(vcpus, memory_bytes, split_cpus(vcpus)[0])
        self._resources = tuning.resources_at(level, pinned)
        for registered in tuning.apply(level, self._journal):
            self._stack.callback(registered.release)
        topology = topology_registry.get(link[0])
        self._links = topology.build_there(self._journal, topology_registry.settings(*link))
        self._stack.callback(self._links.close)
        self._links.join(nics)

    def start(
        self, role: str, privileges: Sequence[Privilege] = (), scratch: Scratch = "volume"
    ) -> dict[str, Any]:
        """Start a guest at an end; where its stream waits, and what must be known of it to use it."""
        end = self._half.end(role)
        name = f"vtax-{secrets.token_hex(3)}"
        directory, meeting = Path(self._home.guests, name), Path("/run", f"{name}-stream")
        for path in (directory, meeting):
            self._stack.callback(self._journal.register(Tree(str(path))).release)
            path.mkdir(parents=True)
        meeting.chmod(0o700)
        spec = GuestSpec(
            name,
            self._image_there,
            self._resources,
            directory,
            self._journal,
            end,
            frozenset(privileges),
            scratch,
        )
        running = self._platform.start(spec)
        self._stack.callback(running.stop)
        listener = self._stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(meeting / "stream"))
        listener.listen(1)
        listener.settimeout(_HANDED_S * timeout_factor())
        self._streams[role] = running.channel, listener
        return {
            "stream": str(meeting / "stream"),
            "agent": base64.b64encode(running.channel.agent).decode(),
            "silence_hint": packed(running.channel.silence_hint),
            "scratch": running.scratch,
            "notes": [packed(note) for note in running.notes],
            "commands": end.configure_commands(),
        }

    def hand_over(self, role: str) -> None:
        """Give the guest's stream to whoever connects to its socket, and keep none of it."""
        channel, listener = self._streams[role]
        try:
            with listener, listener.accept()[0] as connection:
                socket.send_fds(connection, [b"+"], channel.descriptors)
        except TimeoutError as error:
            raise PlatformError(Note("stream-unasked", role=role)) from error
        channel.close()

    def state(self, role: str) -> str:
        """Return what its platform knows of a guest (see Channel)."""
        return self._streams[role][0].diagnose()

    def apply(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Change its links; what is left to run in its guests, by role, and the rate of its interfaces."""
        links = self._half
        left = links.apply(type(links.settings).of(settings))
        links.read_back()
        return {"commands": left, "link_mbit_s": links.link_mbit_s}

    def counters(self) -> Mapping[str, float]:
        """Return what its interfaces count, as Links.counters does."""
        return self._half.counters()

    def close(self) -> None:
        """Take everything down."""
        self._stack.close()
        self._links = None

    @property
    def _half(self) -> Links:
        if self._links is None:
            raise PlatformError(Note("nothing-built-there"))
        return self._links

    def _image(self, key: str) -> Image:
        image = images.checked_key(self._home, key)
        if image:
            return image
        raise BadInput(
            f"it has no image {key}", hint="run vtax image build there, with the same packages"
        )


def _refuse_too_many(guests: int, memory_bytes: int, platform: Platform) -> None:
    available = memory.platform_memory(platform)
    if not available.fits(guests, memory_bytes):
        sizes = {"size": about_size(memory_bytes), "total": about_size(guests * memory_bytes)}
        raise BadInput(
            Note("guests-memory", guests=guests, available=str(available), **sizes),
            hint="use fewer guests, or less memory in [guest]",
        )


def answer(half: Half, line: bytes) -> bytes:
    """Return what is written in answer to a request."""
    try:
        name, arguments = parse_json(line)
        assert name in _REQUESTS
        reply = {"done": getattr(half, name)(**arguments)}
    except VtaxError as error:
        reply = {
            "error": [packed(error.what), error.where, packed(error.hint)],
            "is_busy": isinstance(error, Busy),
        }
    except OSError as error:
        reply = {"error": [packed(str(error)), "", ""]}
    return PREFIX + json.dumps(reply).encode() + b"\n"


def main() -> None:
    """Answer requests until stdin ends, then take everything down."""
    home = Home.from_environment().ensure()
    with stop_requests(lambda text: None), Journal(home.journal) as journal, ExitStack() as stack:
        half = Half(home, journal, stack)
        try:
            for line in sys.stdin.buffer:
                sys.stdout.buffer.write(answer(half, line))
                sys.stdout.buffer.flush()
        except BrokenPipeError:
            pass  # the connection is gone


if __name__ == "__main__":
    main()
