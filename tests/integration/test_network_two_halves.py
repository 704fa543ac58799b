"""Guests of a platform on two machines: the other half of a topology is made by vtax there."""

import subprocess
import sys

import pytest
from support import needs_program, thorough
from three_machines import (
    NEEDS,
    assert_as_before,
    carried,
    command,
    end_everything,
    eventually,
    state,
    study,
    through,
    trials,
    vtax,
)

from vtax.platforms import registry

pytestmark = NEEDS


@pytest.fixture
def guests_there(machines, tmp_path, private_home):
    """The home of vtax on the other machine, with the same images; what else a study must say."""
    home = tmp_path / "home-there"
    for path in (home, home / "journal", home / "guests"):
        path.mkdir(mode=0o700)
    (home / "images").symlink_to(private_home.images)
    yield {"host": "guests", "python": sys.executable}
    assert not list((home / "journal").iterdir())
    assert not list((home / "guests").iterdir())


@pytest.mark.parametrize("platform", ["native", "qemu-tcg", *thorough("lxc", "podman")])
def test_guests_of_a_platform_talk_from_machine_to_machine(
    platform, machines, image, guests_there, tmp_path
):
    if not (probe := registry.get(platform).probe(image)).available:
        pytest.skip(f"{platform} does not run here: {probe.reason}")
    before = state(machines)
    further = 'topology = "guest-to-guest"\nlink = { peer = "other" }\nlink_factors = { mtu = [600, 1500] }'
    platforms = f'"{platform}"]\nbaseline = "{platform}"\n#'
    path = study(machines, tmp_path, platforms=platforms, further=further, **guests_there)
    done = vtax(machines, "run", path, "--trust", "--json")
    assert done.returncode == 0, done.stderr
    assert "the peer is other: lab0 of this host leads to its lab1" in done.stdout
    found = trials(machines)
    assert len(found) == 2
    for trial in found:
        own = trial["lab.guest-eth0.rx_bytes"] + trial["lab.guest-eth0.tx_bytes"]
        assert through(trial, "nic.lab0") > 0.95 * own > 1e5
        assert through(trial, "there.nic.lab1") > 0.95 * own
        assert trial["under_test.bytes"] == pytest.approx(2 * own, rel=0.1)  # of both guests
    assert_as_before(machines, before)


@needs_program("ovs-vswitchd")
def test_pairs_of_guests_on_two_machines_share_two_trunks(machines, image, guests_there, tmp_path):
    before = state(machines)
    further = 'topology = "vlan-pairs"\nlink = { peer = "other", pairs = 3, trunks = 2 }'
    done = vtax(
        machines,
        "run",
        study(machines, tmp_path, further=further, **guests_there),
        "--trust",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    (trial,) = trials(machines)
    sent = [trial[f"lab.guest{suffix}-eth0.rx_bytes"] for suffix in ("", "1", "2")]
    assert min(sent) > 1e5
    assert trial["nic.lab0.tx_bytes"] == pytest.approx(sent[0] + sent[2], rel=0.05)
    assert trial["nic.lan0.tx_bytes"] == pytest.approx(sent[1], rel=0.05)
    assert_as_before(machines, before)


def test_a_guest_of_another_machine_that_disappears_fails_its_trial_and_the_run_goes_on(
    machines, image, guests_there, tmp_path
):
    before = state(machines)
    further = 'topology = "guest-to-guest"\nlink = { peer = "other" }'
    path = study(machines, tmp_path, duration_s=5, blocks=2, further=further, **guests_there)
    with (tmp_path / "printed").open("w") as printed:
        running = subprocess.Popen(
            command(machines, "run", path, "--trust"), stdout=printed, stderr=printed
        )
    eventually(lambda: carried(machines.other, "lab1") > 10_000_000, 60)
    end_everything(machines)
    running.wait(120)
    text = (tmp_path / "printed").read_text()
    assert "the peer of the trial disappeared" in text
    (trial,) = trials(machines)  # the other block's
    assert through(trial, "nic.lab0") > 10_000_000
    assert_as_before(machines, before)


def test_what_another_machine_lacks_for_guests_is_said_before_the_run(
    machines, image, guests_there, tmp_path
):
    def refusal(**changed):
        further = 'topology = "guest-to-guest"\nlink = { peer = "other" }'
        path = study(machines, tmp_path, **{"further": further, **guests_there, **changed})
        done = vtax(machines, "run", path, "--trust")
        assert done.returncode == 2
        return " ".join(done.stderr.split())

    assert "vtax does not answer on the machine other" in refusal(python="/usr/bin/python3")
    trunks = 'topology = "vlan-pairs"\nlink = { peer = "other", pairs = 3, trunks = 3 }'
    assert "at most 2" in refusal(further=trunks)
    attached = 'topology = "guest-to-guest"\nlink = { peer = "other", attachment = "veth" }'
    assert "by veth" in refusal(further=attached)
    (tmp_path / "home-there" / "images").unlink()
    assert "on the machine other: it has no image" in refusal()


def test_a_killed_run_leaves_what_clean_removes_on_both_machines(
    machines, image, private_home, guests_there, tmp_path
):
    before = state(machines)
    further = 'topology = "guest-to-guest"\nlink = { peer = "other" }'
    argv = command(
        machines,
        "run",
        study(machines, tmp_path, duration_s=120, further=further, **guests_there),
        "--trust",
    )
    running = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    eventually(lambda: carried(machines.other, "lab1") > 10_000_000, 60)
    running.kill()
    running.wait()
    cleaned = vtax(machines, "clean")
    assert cleaned.returncode == 0, cleaned.stderr
    assert_as_before(machines, before)
    assert not list(private_home.journal.iterdir())
