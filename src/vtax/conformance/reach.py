"""Tries from within what the root of a guest reaches of its host, directly and in nested namespaces.

`reach_probe` runs in the guest and looks for a key, a socket, a segment of shared memory, a message queue and a
process that it made on this host before. docs/security.md has what is found for every platform, made by
`bench/guest_reach.py`; the check `confinement` fails a driver whose confined guests reach anything.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import as_file, files

from vtax.errors import GuestError
from vtax.foreign_data import parse_json
from vtax.guest.guest import Guest
from vtax.platforms import confinement
from vtax.platforms.confinement import Confinement, Isolation
from vtax.study.fields import Privilege

NESTED = ("-Urmpf", "-Urmn", "-Urmipfun")
"""Options of unshare(1): namespaces in which the probe runs again, where the guest can make them."""
OF_HOST = frozenset(
    {
        "keys of the host's root",
        "abstract sockets of the host",
        "shared memory of the host",
        "message queues of the host",
        "processes of the host",
        "memory of the host's processes",
    }
)
"""Beyond the reach of every guest that has a kernel of its own, whatever its root may do there."""
_OF_PRIVILEGE: Mapping[Privilege, frozenset[str]] = {
    "raw-sockets": frozenset({"raw packets", "raw IP"}),
    "real-time": frozenset({"real-time priority", "nice -20", "real-time I/O"}),
    "asynchronous-io": frozenset({"io_uring_setup"}),
}
_PROBE = files("vtax.conformance").joinpath("reach_probe.py")
_PLACE = "/tmp/vtax-reach.py"
_TIMEOUT_S = 120.0


def reached(guest: Guest) -> dict[str, list[str]]:
    """Return what a guest's root reaches, by the options of unshare below which the probe ran, "" for none.

    The guest needs a Python of its own at /usr/bin/python3. Raises GuestError when the probe fails.
    """
    guest.put(_PLACE, _PROBE.read_bytes())
    with made_on_host() as names_of_host:
        name, number = names_of_host
        probe = ("/usr/bin/python3", "-I", _PLACE, name[::-1], number)
        reached_by_options = {"": _run(guest, probe)}
        for options in NESTED:
            if guest.run(["unshare", options, "true"], timeout_s=_TIMEOUT_S).status == 0:
                reached_by_options[options] = _run(guest, ["unshare", options, *probe])
    return reached_by_options


def beyond_policy(
    reached_by_options: Mapping[str, Sequence[str]],
    isolation: Isolation,
    privileges: Collection[Privilege] = (),
    level: Confinement = "default",
) -> list[str]:
    """Return what a guest's root reaches and may not, of what `reached` returned. level: of its confinement."""
    kept_capabilities = confinement.capabilities(privileges, level)
    allowed_names = {f"capability {number}" for number in confinement.numbers(kept_capabilities)}
    for privilege in privileges:
        allowed_names |= _OF_PRIVILEGE[privilege]
    beyond = []
    for options, names in reached_by_options.items():
        for name in names:
            is_own = name in allowed_names
            if isolation == "kernel":  # of which its root may do everything
                is_own = name not in OF_HOST
            if not is_own:
                beyond.append(f"{name} (below unshare {options})" if options else name)
    return beyond


def _run(guest: Guest, command: Sequence[str]) -> list[str]:
    result = guest.run(command, timeout_s=_TIMEOUT_S)
    if result.status != 0:
        raise GuestError(
            f"what the guest reaches could not be tried: {result.stderr.strip()[-500:]}"
        )
    names: list[str] = parse_json(result.stdout)
    return names


@contextmanager
def made_on_host() -> Iterator[tuple[str, str]]:
    """Have the probe make on this host what a guest may look for; yield what names it, until when it is there."""
    names = (f"vtax-{secrets.token_hex(8)}", str(secrets.randbelow(1 << 30) + 1))
    with (
        as_file(_PROBE) as probe,
        subprocess.Popen(
            [sys.executable, "-I", probe, *names, "make"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as maker,
    ):
        assert maker.stdin is not None
        assert maker.stdout is not None
        try:
            if not maker.stdout.readline():
                raise GuestError("what a guest may look for could not be made on this host")
            yield names
        finally:
            maker.stdin.close()
