"""Run inside dom0: start a domain of PLATFORM in a lab, print what that made as a JSON list, and die by SIGKILL."""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys

from start_guests import traces

from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.resources import Tree
from vtax.image import build as images
from vtax.network import registry as topologies
from vtax.platforms import registry
from vtax.platforms.base import GuestSpec, Resources


def main() -> None:
    """See the module."""
    home = Home.from_environment().ensure()
    before = traces()
    journal = Journal(home.journal)
    name = f"vtax-{secrets.token_hex(3)}"
    journal.register(Tree(str(home.guests / name)))
    (home.guests / name).mkdir()
    links = topologies.get("point-to-point").build(
        journal, topologies.settings("point-to-point", {})
    )
    end = next(end for end in links.ends if end.under_test)
    image = images.find(home)
    registry.get(sys.argv[1]).start(
        GuestSpec(name, image, Resources(1, 256 << 20, (0,)), home.guests / name, journal, end)
    )
    print(json.dumps(sorted(traces() - before)), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
