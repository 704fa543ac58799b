"""A guest whose vtax process is killed while it starts: `kill_a_start`; and `what_stays` of it after clean-up.

Run as a program, `python killed_start.py PLATFORM NAME IMAGE`, it is that process: it prints `starting` just before
the start, `ready` once the agent answers, and holds the guest.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from vtax.guest.guest import Guest
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.resources import Tree
from vtax.image.image import Image
from vtax.platforms import registry
from vtax.platforms.base import GuestSpec, Resources


def kill_a_start(platform: str, name: str, image: Image, delay_s: float | None) -> float:
    """Start a guest in a process that is killed delay_s after it began or, when None, with the guest ready.

    Returns the seconds from the beginning of the start to the kill.
    """
    argv = [sys.executable, __file__, platform, name, str(image.directory)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "starting\n"
        started_at = time.monotonic()
        if delay_s is None:
            assert process.stdout.readline() == "ready\n"
        else:
            time.sleep(delay_s)
        process.kill()
        return time.monotonic() - started_at


def what_stays(find: Callable[[], list[str]]) -> list[str]:
    """What find still gives after a moment, in which ends what the killed process had forked but not yet executed."""
    deadline = time.monotonic() + 5
    while (found := find()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def main() -> None:
    """Start, say so, and wait."""
    platform, name, image = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    home = Home.from_environment().ensure()
    journal = Journal(home.journal)
    directory = home.guests / name
    journal.register(Tree(str(directory)))
    directory.mkdir()
    spec = GuestSpec(
        name, Image(image.name, image), Resources(1, 256 << 20, (0,)), directory, journal
    )
    print("starting", flush=True)
    running = registry.get(platform).start(spec)
    Guest(running.channel).hello(300.0)
    print("ready", flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main()
