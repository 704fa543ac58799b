"""A program of bench/ that is ended early leaves nothing: by itself, by `clean`, or when it is started again."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from killed_start import what_stays
from support import needs_root, of_process, thorough

from vtax.host.journal import clean

BY_HAND = Path(__file__).resolve().parents[2] / "bench" / "by_hand.py"
pytestmark = [needs_root]


class ByHand:
    """by_hand.py at work: both its ways of measuring are set up, and a server runs in one of its namespaces."""

    def __init__(self, home):
        self.home = home
        argv = [sys.executable, str(BY_HAND), "--tool", "iperf3", "--pairs", "1000"]
        self.process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 120
        while not self.measures():
            assert self.process.poll() is None, self.process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def measures(self):
        servers = [entry for entry in processes(self.home) if b"iperf3\0-s" in of_process(entry)]
        return len(self.namespaces()) >= 4 and servers

    def devices_of_tools(self):
        """Device of the /tmp of every iperf3: one that is killed leaves a file there."""
        found = []
        for entry in processes(self.home):
            with suppress(OSError):
                if of_process(entry).startswith(b"iperf3\0"):
                    found.append((entry / "root/tmp").stat().st_dev)
        return found

    def namespaces(self):
        registered = []
        for path in self.home.journal.glob(f"{self.process.pid}-*.jsonl"):
            records = [
                json.loads(line) for line in path.read_text().split("\n") if line.endswith("}")
            ]
            registered += [
                record["name"]
                for record in records
                if record["kind"] == "network-namespace" and "register" in record
            ]
        return registered

    def end(self, number):
        self.process.send_signal(number)
        self.process.communicate(timeout=60)
        return self.process.returncode


def processes(home):
    needle = os.fsencode(f"VTAX_HOME={home.root}")
    return [
        entry
        for entry in Path("/proc").glob("[0-9]*")
        if entry.name != str(os.getpid()) and needle in of_process(entry, "environ")
    ]


def left(home, namespaces):
    found = [name for name in namespaces if Path("/run/netns", name).exists()]
    found += [str(path) for path in (*home.journal.glob("*.jsonl"), *home.guests.iterdir())]
    return found + [of_process(entry) for entry in processes(home)]


@pytest.mark.parametrize("number", [signal.SIGTERM, *thorough(signal.SIGHUP, signal.SIGINT)])
def test_a_program_that_is_requested_to_stop_leaves_nothing(number, image, private_home):
    by_hand = ByHand(private_home)
    namespaces = by_hand.namespaces()
    assert by_hand.end(number) == 128 + number
    assert what_stays(lambda: left(private_home, namespaces)) == []


def test_what_a_killed_program_left_is_removed_by_clean(image, private_home):
    by_hand = ByHand(private_home)
    namespaces = by_hand.namespaces()
    while not (devices := by_hand.devices_of_tools()):
        assert by_hand.process.poll() is None
    assert image.tree.stat().st_dev not in devices
    by_hand.end(signal.SIGKILL)
    assert set(namespaces) < set(left(private_home, namespaces))
    assert clean(private_home.journal).problems == ()
    assert what_stays(lambda: left(private_home, namespaces)) == []


def test_a_killed_program_starts_again_and_removes_what_it_left(image, private_home):
    first = ByHand(private_home)
    namespaces = first.namespaces()
    first.end(signal.SIGKILL)
    again = ByHand(private_home)
    assert [name for name in namespaces if Path("/run/netns", name).exists()] == []
    namespaces += again.namespaces()
    assert again.end(signal.SIGTERM) == 128 + signal.SIGTERM
    assert what_stays(lambda: left(private_home, namespaces)) == []
