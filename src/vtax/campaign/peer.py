"""The other host of a pair as the one that measures sees it: how it is reached, and what is missing there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from vtax import __version__
from vtax.counters.host import host_facts
from vtax.doctor.readiness import Obstacle
from vtax.errors import VtaxError
from vtax.foreign_text import one_line
from vtax.host.home import Home
from vtax.host.process import run
from vtax.platforms import registry
from vtax.platforms.ssh import DRIVER
from vtax.platforms.ssh_options import SshOptions
from vtax.store.hosts import host_id

_TIMEOUT_S = 30.0
_DETAIL = 300


def peer_options(named: str, home: Path | None, own: Home) -> SshOptions:
    """Return how this host reaches its peer. named: ADDRESS/NIC:NIC_THERE. home: VTAX_HOME there; None: as here.

    Its Python is at the path of this one, in the other home; the keys are root's, whoever called sudo, as a run that
    outlives the login has no others. Raises BadInput.
    """
    there = home or own.root
    here = Path(sys.executable)
    python = there / here.relative_to(own.root) if here.is_relative_to(own.root) else here
    values = {"host": named, "home": str(there), "python": str(python), "local_user": "root"}
    options = registry.make("the peer", DRIVER.name, values).options
    assert isinstance(options, SshOptions)
    return options


def obstacles_of(options: SshOptions) -> Iterator[Obstacle]:
    """Yield why the peer cannot be measured with now: ssh, a tool, an interface, its lock, its vtax."""
    try:
        DRIVER.check_machine(options, None, ())
        with DRIVER.hold(options, "vtax host check", lambda note: None) as identity:
            if identity and identity == host_id(host_facts()):
                yield Obstacle("peer", "it is this host itself")
        done = run(
            [*DRIVER.command(options, ["-P", "-m", "vtax", "--version"])],
            check=False,
            timeout_s=_TIMEOUT_S,
        )
        if not done.stdout.strip().endswith(__version__):
            found = one_line(done.stdout or done.stderr, _DETAIL)
            yield Obstacle("peer", f"its vtax is not {__version__}: {found}")
    except VtaxError as error:
        yield Obstacle("peer", one_line(str(error.what), _DETAIL))
