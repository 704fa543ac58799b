"""A process that starts one guest and holds it until it is killed: `python hold_guest.py PLATFORM NAME IMAGE`.

It prints `starting` just before the start and `ready` once the agent answers.
"""

import sys
import time
from pathlib import Path

from vtax.guest.guest import Guest
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.resources import Tree
from vtax.image.image import Image
from vtax.platforms import registry
from vtax.platforms.base import GuestSpec, Resources


def main() -> None:
    """Start, say so, and wait."""
    platform, name, image = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    home = Home.from_environment().ensure()
    journal = Journal(home.journal)
    directory = home.guests / name
    journal.hold(Tree(str(directory)))
    directory.mkdir()
    spec = GuestSpec(name, Image(image.name, image), Resources(1, 256 << 20, (0,)), directory, journal)
    print("starting", flush=True)
    running = registry.get(platform).start(spec)
    Guest(running.channel).hello(60.0)
    print("ready", flush=True)
    time.sleep(600)


main()
