"""The agent as the first process of a PID namespace, as it is in every container and machine."""

import os
import signal
import time

import pytest
from local_agent import LocalAgent, children_of
from support import needs_root

from vtax.errors import CommandFailed
from vtax.guest import bootstrap

pytestmark = needs_root
UNSHARE = ("unshare", "--fork", "--pid", "--mount-proc", "--kill-child")


@pytest.fixture
def init():
    with LocalAgent(prefix=UNSHARE) as local:
        local.guest.hello(10)
        assert local.guest.run(["sh", "-c", "echo $PPID"]).stdout == "1\n"
        yield local


def processes(guest):
    """PID -> name of everything in the namespace but the agent and this very request."""
    script = (
        "for p in /proc/[0-9]*; do read -r c < $p/comm && echo ${p#/proc/} $c; done 2>/dev/null"
    )
    lines = guest.run(["sh", "-c", script]).stdout.splitlines()
    return {pid: name for pid, name in map(str.split, lines) if pid != "1" and name != "sh"}


def soon(condition):
    deadline = time.monotonic() + 30
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_orphans_are_reaped(init):
    for _ in range(20):
        init.guest.run(["sh", "-c", "setsid sleep 0.01 & exit 0"])
    assert soon(lambda: processes(init.guest) == {})


def test_what_a_program_leaves_behind_lives_until_the_agent_ends(init):
    init.guest.run(["sh", "-c", "sleep 100 & exit 0"])
    assert soon(lambda: list(processes(init.guest).values()) == ["sleep"])
    init.guest.close()
    init.process.wait(30)


@pytest.mark.parametrize("how", ["shutdown", "close"])
def test_its_end_is_the_end_of_the_namespace(init, how):
    init.guest.start(["sleep", "100"])
    getattr(init.guest, how)()
    init.process.wait(30)


def test_a_request_to_terminate_ends_it_at_once(init):
    [agent] = children_of(init.process.pid)
    os.kill(agent, signal.SIGTERM)
    init.process.wait(30)


def test_an_agent_compiled_for_an_image_is_the_same_agent(image):
    compiled = bootstrap.compiled(image.tree)
    assert b"marshal" in compiled
    with LocalAgent(prefix=("chroot", str(image.tree)), python=bootstrap.PYTHON) as local:
        local.channel.agent = compiled
        local.guest.hello(10)
        assert local.guest.run(["sh", "-c", "echo $0"]).stdout == "sh\n"
        assert local.guest.get("/etc/hostname") == b"vtax\n"


def test_what_cannot_be_compiled_is_said(tmp_path):
    with pytest.raises(CommandFailed):
        bootstrap.compiled(tmp_path)
