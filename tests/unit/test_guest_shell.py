"""A terminal through the agent: typed in, answered, ended; over the real agent as a plain process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from vtax.errors import GuestError
from vtax.guest import bootstrap
from vtax.guest.channel import Channel
from vtax.guest.guest import Guest


@pytest.fixture
def guest() -> Iterator[Guest]:
    process = subprocess.Popen(
        [sys.executable, *bootstrap.argv()[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    guest = Guest(Channel(os.dup(process.stdout.fileno()), os.dup(process.stdin.fileno())))
    guest.hello(30.0)
    yield guest
    guest.close()
    process.kill()
    process.communicate()


def everything_until(guest: Guest, text: str, typed: bytes = b"") -> str:
    printed, deadline = "", time.monotonic() + 20
    while text not in printed and time.monotonic() < deadline:
        written, status = guest.talk(typed, wait_s=0.5)
        printed, typed = printed + written.decode(), b""
        if status is not None:
            break
    return printed


def test_a_shell_has_a_terminal_of_the_requested_size_and_answers_what_is_typed(guest):
    guest.open_shell(["/bin/sh"], environment={"PS1": "ready> "}, rows=33, columns=101)
    printed = everything_until(guest, "42", b"stty size; echo $((40 + 2))\n")
    assert "33 101" in printed
    assert "42" in printed


@pytest.mark.parametrize(
    ("typed", "status"), [(b"exit\n", 0), (b"exit 3\n", 3), (b"kill -9 $$\n", -9)]
)
def test_a_shell_that_ends_says_how_and_the_agent_goes_on(guest, typed, status):
    guest.open_shell(["/bin/sh"], environment={}, rows=24, columns=80)
    deadline = time.monotonic() + 20
    while (ended := guest.talk(typed, wait_s=0.2)[1]) is None:
        typed = b""
        assert time.monotonic() < deadline
    assert ended == status
    assert guest.run(["true"]).status == 0


def test_talking_without_a_shell_is_an_error_and_no_end(guest):
    guest.open_shell(["/bin/sh"], environment={}, rows=24, columns=80)
    with pytest.raises(GuestError, match="no such program"):
        guest.open_shell(["no-such-shell"], environment={}, rows=24, columns=80)
    assert guest.run(["true"]).status == 0
