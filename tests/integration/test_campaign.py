"""Two hosts and a controller with a real Ansible: one host loses power as it measures, one cannot be reached at
first. Every trial arrives once."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from campaign_hosts import (
    BLOCKS,
    NamespaceHost,
    environment,
    has_ansible,
    has_ended,
    has_measured,
    holds,
    inventory_of,
    light_pack,
    namespace_hosts,
    written_study,
)
from support import needs_program, needs_root

from vtax.host.waiting import wait_until

pytestmark = [
    needs_root,
    pytest.mark.skipif(not has_ansible(), reason="not installed: ansible-playbook"),
    needs_program("ip", "nsenter", "unshare", "sshd", "ssh", "ssh-keygen"),
]
RUN_S = 240.0
Vtax = Callable[..., str]


@pytest.fixture
def hosts(tmp_path, image) -> Iterator[tuple[dict[str, NamespaceHost], str]]:
    """Two hosts by name, the second without power; the network namespace of the controller."""
    with namespace_hosts(tmp_path, image, ("h1", "h2")) as (made, control):
        made[0].start()
        yield {host.name: host for host in made}, control


@pytest.fixture
def vtax(hosts, tmp_path) -> Vtax:
    """A command of vtax where the controller is; 0 is expected, or the status that is given."""
    _, control = hosts
    (tmp_path / "controller").mkdir()

    def run(*arguments: str | Path, status: int = 0) -> str:
        done = subprocess.run(
            [
                "nsenter",
                f"--net=/run/netns/{control}",
                sys.executable,
                "-m",
                "vtax",
                *map(str, arguments),
            ],
            env=environment(tmp_path / "controller"),
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
            cwd=tmp_path,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def test_every_trial_arrives_once_though_a_host_loses_power(hosts, vtax, image, tmp_path):
    machines, control = hosts
    light_pack(written_study(tmp_path / "studies"), image, tmp_path / "fleet.vtax-pack")
    inventory = inventory_of([*machines.values()], tmp_path / "hosts.yml")
    vtax("campaign", "new", "fleet.vtax-pack", "--inventory", inventory, "-o", "c", "--trust")

    def states() -> dict[str, tuple[str, str]]:
        found = json.loads(vtax("campaign", "status", "c", "--json"))
        return {each["name"]: (each["state"], each["reason"]["code"]) for each in found["hosts"]}

    vtax("campaign", "go", "c")
    found = states()
    assert found["h1"] == ("running", "")
    assert found["h2"] in (("unreachable", "unreachable"), ("new", ""))
    assert wait_until(lambda: has_measured(machines["h1"]), RUN_S, 0.1)
    machines["h1"].lose_power()
    machines["h2"].start()
    with subprocess.Popen(
        [
            "nsenter",
            f"--net=/run/netns/{control}",
            sys.executable,
            "-m",
            "vtax",
            "campaign",
            "go",
            "c",
        ],
        env=environment(tmp_path / "controller"),
        cwd=tmp_path,
    ) as first:
        assert wait_until(lambda: holds(tmp_path / "c/lock"), RUN_S, 0.02)
        assert "controls this campaign" in vtax("campaign", "go", "c", status=75)
        assert first.wait(RUN_S) == 0
    assert wait_until(lambda: has_ended(machines["h2"]), RUN_S, 0.1)
    vtax("campaign", "go", "c")
    assert states() == {"h1": ("unreachable", "unreachable"), "h2": ("collected", "")}
    machines["h1"].start()
    vtax("campaign", "go", "c")
    assert wait_until(lambda: has_ended(machines["h1"]), RUN_S, 0.1)

    def all_collected() -> bool:
        vtax("campaign", "go", "c")
        return {state for state, _ in states().values()} == {"collected"}

    assert wait_until(all_collected, RUN_S, 1.0), vtax("campaign", "status", "c")
    runs = json.loads(vtax("list", "--json"))
    assert sorted(each["status"] for each in runs) == ["finished"] * 2
    assert trials(tmp_path / "controller/store.sqlite") == [(BLOCKS, BLOCKS)] * 2
    vtax("campaign", "collect", "c")
    assert len(json.loads(vtax("list", "--json"))) == 2
    assert len({*bundles(tmp_path / "c")}) == 2


def test_run_measures_to_the_end_and_what_it_left_measuring_is_taken_up(
    hosts, vtax, image, tmp_path
):
    machines, control = hosts
    machines["h2"].start()
    light_pack(written_study(tmp_path / "studies"), image, tmp_path / "fleet.vtax-pack")
    inventory = inventory_of([*machines.values()], tmp_path / "hosts.yml")
    vtax("campaign", "new", "fleet.vtax-pack", "--inventory", inventory, "-o", "c", "--trust")
    command = ["nsenter", f"--net=/run/netns/{control}", sys.executable, "-m", "vtax"]
    with subprocess.Popen(
        [*command, "campaign", "run", "c"],
        env=environment(tmp_path / "controller"),
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    ) as stopped:
        assert wait_until(lambda: any(map(has_measured, machines.values())), RUN_S, 0.05)
        stopped.send_signal(signal.SIGINT)
        _, said = stopped.communicate(timeout=RUN_S)
    assert stopped.returncode == 130, said
    assert "measure on; vtax campaign run" in said
    assert wait_until(lambda: any(map(has_ended, machines.values())), RUN_S, 0.1), "it measured on"
    said = vtax("campaign", "run", "c")
    assert "2 collected" in said
    assert "the run of all sessions is" in said
    assert trials(tmp_path / "controller/store.sqlite")[:2] == [(BLOCKS, BLOCKS)] * 2
    assert "pack " in vtax("campaign", "status", "c")
    said = vtax("campaign", "clean", "c")
    assert said.count(f"image {image.key}") == 2
    for host in machines.values():
        assert not (host.home / "images" / image.key).is_symlink()
        assert [path.name for path in (host.home / "packs").iterdir()] == ["lock"]
    assert image.directory.is_dir()
    assert "pack " not in vtax("campaign", "status", "c")


def trials(store: Path) -> list[tuple[int, int]]:
    """(trials, blocks that have some) of every run of a store."""
    with closing(sqlite3.connect(store)) as connection:
        return connection.execute(
            "select count(*), count(distinct block) from trial group by run_id"
        ).fetchall()


def bundles(campaign: Path) -> list[Path]:
    return sorted((campaign / "bundles").rglob("*.vtax.gz"))
