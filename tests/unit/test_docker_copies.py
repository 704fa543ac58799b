"""Removing an image removes the copies that private Docker daemons keep of it, and no other."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.platforms.oci import docker_daemon
from vtax.platforms.oci.docker_daemon import pid_file_of

KEY = "3c314c361777"


@pytest.fixture
def home(tmp_path: Path, host_docker) -> Home:
    host_docker(None)
    return Home(tmp_path).ensure()


def data_of(home: Home, storage: str, *keys: str) -> Path:
    data = home.root / "docker" / storage
    listed = data / "image" / storage / "repositories.json"
    listed.parent.mkdir(parents=True)
    names = {f"vtax-guest:{key}": "sha256:0" for key in keys}
    listed.write_text(json.dumps({"Repositories": {"vtax-guest": names}}))
    return data


def test_the_data_of_every_daemon_that_holds_it_goes(home):
    with_it = [data_of(home, "overlay2", "aaaaaaaaaaaa", KEY), data_of(home, "vfs", KEY)]
    without = data_of(home, "btrfs", "aaaaaaaaaaaa")
    with Journal(home.journal) as journal:
        printed = docker_daemon.remove_copies(home, KEY, journal)
        assert len(printed) == len(journal.registered) == 2
    assert not any(path.exists() for path in with_it)
    assert sorted(path.name for path in without.parent.iterdir()) == ["btrfs"]


def test_a_daemon_that_maps_ids_keeps_its_list_a_directory_deeper(home):
    for name, key in (("overlay2-userns", KEY), ("vfs-userns", "aaaaaaaaaaaa")):
        plain = data_of(home, name, key)
        deeper = plain / "2013265920.2013265920"
        deeper.mkdir()
        (plain / "image").rename(deeper / "image")
    with Journal(home.journal) as journal:
        docker_daemon.remove_copies(home, KEY, journal)
    assert sorted(path.name for path in (home.root / "docker").iterdir()) == ["vfs-userns"]


def test_a_daemon_whose_list_cannot_be_read_may_hold_it(home):
    data = home.root / "docker" / "overlay2"
    data.mkdir(parents=True)
    with Journal(home.journal) as journal:
        docker_daemon.remove_copies(home, KEY, journal)
    assert not data.exists()


def test_it_is_refused_while_a_daemon_uses_it_and_nothing_goes(home, monkeypatch, golden):
    data = data_of(home, "overlay2", KEY)
    monkeypatch.setattr(docker_daemon, "owner_of", lambda pid_file: os.getpid())
    with (
        Journal(home.journal) as journal,
        pytest.raises(BadInput) as caught,
    ):
        docker_daemon.remove_copies(home, KEY, journal)
    golden(str(caught.value))
    assert data.exists()


def test_the_pid_file_of_a_daemon_that_is_gone_goes_too(home):
    data_of(home, "overlay2", KEY)
    pid_file = pid_file_of(home, "overlay2")
    pid_file.write_text(str(2**22))
    with Journal(home.journal) as journal:
        docker_daemon.remove_copies(home, KEY, journal)
    assert not pid_file.exists()


def test_a_home_without_docker_has_none(home):
    with Journal(home.journal) as journal:
        assert docker_daemon.remove_copies(home, KEY, journal) == []
