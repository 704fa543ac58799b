"""An agent as a plain child process, over pipes or a socket pair, for tests that need neither root nor an image."""

import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from vtax.guest import bootstrap
from vtax.guest.channel import Channel
from vtax.guest.guest import Guest


def pythons():
    """This interpreter, and those of the supported versions that start on this machine."""
    found = {sys.version_info[:2]: sys.executable}
    places = [Path("/usr/bin"), Path("/usr/local/bin"), *Path.home().glob(".pyenv/versions/*/bin")]
    for minor in (11, 12, 13):
        for place in places:
            program = place / f"python3.{minor}"
            if program.exists():
                found.setdefault((3, minor), str(program))
    return [found[version] for version in sorted(found)]


def children_of(pid):
    """PIDs of a process's children, dead ones that wait to be collected included."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(status.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(status.parent.name))
    return found


class LocalAgent:
    """The child process, its channel and its guest; `with` ends them."""

    def __init__(self, kind="pipes", python=sys.executable, environment=None, prefix=()):
        argv = [*prefix, python, *bootstrap.argv()[1:]]
        if kind == "pipes":
            self.process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
            )
            fds = os.dup(self.process.stdout.fileno()), os.dup(self.process.stdin.fileno())
            self.process.stdin.close()
            self.process.stdout.close()
        else:
            ours, stranger = socket.socketpair()
            self.process = subprocess.Popen(argv, stdin=stranger, stdout=stranger, env=environment)
            stranger.close()
            fd = ours.detach()
            fds = fd, fd
        self.channel = Channel(*fds)
        self.guest = Guest(self.channel)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.guest.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
