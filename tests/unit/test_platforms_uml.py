"""User Mode Linux without starting it: missing parts are reported with a hint; the stream never fills the line."""

import os
import socket
import threading
import time
from contextlib import ExitStack

import pytest

from vtax.errors import BadInput, GuestError, ImageError
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.image import uml as program
from vtax.image.image import Image
from vtax.platforms import registry
from vtax.platforms._uml_stream import Stream


def test_without_the_program_the_hint_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("VTAX_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    probe = registry.get("uml").probe(None)
    assert not probe.available
    assert "vtax image uml" in probe.hint


def test_another_program_is_not_taken_for_it(tmp_path, monkeypatch):
    (tmp_path / "setarch").write_text("#!/bin/sh\necho 'false (GNU coreutils) 9.1'; echo 'Copyright'; exit 1\n")
    (tmp_path / "setarch").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    probe = registry.make("mine", "uml", {"program": "/bin/false"}).probe(Image("key", tmp_path))
    assert not probe.available
    assert probe.reason == "/bin/false is not User Mode Linux: it reports no kernel version"
    assert "vtax image uml" in probe.hint


@pytest.mark.parametrize(("driver", "option"), [("uml", "program"), ("gvisor", "runsc")])
def test_a_program_without_a_name_is_refused(driver, option):
    with pytest.raises(BadInput, match=f"option {option} is ''"):
        registry.make("mine", driver, {option: ""})


def test_expired_package_lists_are_refused_with_the_option_that_takes_them(tmp_path, monkeypatch):
    def expired(*args, **settings):
        raise ImageError("mmdebstrap failed", where="E: Release file is expired (invalid since 9d)")

    monkeypatch.setattr(program, "bootstrap", expired)
    monkeypatch.setattr(program, "find_program", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    home = Home(tmp_path).ensure()
    with Journal(home.journal) as journal, pytest.raises(ImageError) as caught:
        program.fetch(home, journal)
    assert "--accept-expired" in caught.value.hint
    assert list((tmp_path / "uml").iterdir()) == []


def taker(line, printed, seen, maximum):
    """A guest's side: takes what is there, says how much, and notes the most that ever waited."""
    while data := line.recv(4096):
        maximum.append(len(data))
        seen += data
        printed.send(len(data).to_bytes(2, "little"))


def test_no_more_than_the_line_holds_is_ever_on_its_way():
    with ExitStack() as fds:
        stream = Stream(fds)
        line, printed = (socket.socket(fileno=os.dup(fd)) for fd in stream.child_fds)
        channel = stream.channel(lambda: "")
    seen, maximum = bytearray(), []
    thread = threading.Thread(target=taker, args=(line, printed, seen, maximum))
    thread.start()
    data = os.urandom(100_000)
    channel.write(data, time.monotonic() + 10)
    assert bytes(seen) == data
    assert max(maximum) < 4096
    channel.close()
    channel.close()
    thread.join(5)
    assert not thread.is_alive()
    line.close()
    printed.close()


def test_a_guest_that_takes_nothing_is_a_silent_one():
    with ExitStack() as fds:
        stream = Stream(fds)
        kept = [os.dup(fd) for fd in stream.child_fds]
        channel = stream.channel(lambda: "why")
    with pytest.raises(GuestError, match="silent"):
        channel.write(b"x" * 10_000, time.monotonic() + 0.05)
    for fd in kept:
        os.close(fd)
    with pytest.raises(GuestError, match="closed"):
        channel.write(b"x", time.monotonic() + 5)
    channel.close()
