"""While something measures on this host no command starts a guest beside it, and each says who measures."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner
from command_line import refusal

from vtax.cli import image as cli_image
from vtax.cli import probing, shell
from vtax.cli.main import group
from vtax.doctor import examine
from vtax.errors import BadInput
from vtax.host.lock import measuring_lock
from vtax.platforms import registry
from vtax.platforms.base import Platform, Probe


@pytest.fixture(autouse=True)
def root_without_image(
    unmade_home: Path, monkeypatch: pytest.MonkeyPatch, taken_for_root: None
) -> None:
    monkeypatch.setattr(examine, "sample_load", partial(examine.sample_load, 0.01))


@pytest.fixture
def nothing_starts(measuring: None, probe_by) -> None:
    """A run measures, beside which nothing may be started."""
    probe_by(lambda *_: pytest.fail("started a guest"))


@pytest.mark.usefixtures("nothing_starts")
def test_doctor_looks_at_the_host_alone():
    printed = CliRunner().invoke(group, ["doctor"]).stdout
    assert "platforms were not probed: tour-7 (process " in printed
    assert "free memory" in printed
    plain = json.loads(CliRunner().invoke(group, ["doctor", "--json"]).stdout)
    assert plain["not_probed"].startswith("tour-7 (process ")
    assert plain["platforms"] == [{"name": name} for name in registry.names()]


@pytest.mark.usefixtures("nothing_starts")
def test_platforms_are_listed_and_not_tried():
    done = CliRunner().invoke(group, ["platforms", "--json"])
    assert "platforms were not probed: tour-7 (process " in done.stderr
    shown = {each["name"]: each for each in json.loads(done.stdout)}
    assert set(registry.names()) <= set(shown)
    assert not any("available" in each for each in shown.values())


@pytest.mark.usefixtures("nothing_starts")
@pytest.mark.parametrize("command", [("image", "build"), ("shell", "native")])
def test_what_cannot_wait_beside_it_is_refused(command, monkeypatch):
    monkeypatch.setattr(cli_image.images, "build", lambda *_: pytest.fail("built"))
    monkeypatch.setattr(shell, "prepare_host", lambda home: pytest.fail("cleaned up beside a run"))
    assert refusal(*command).what.startswith("tour-7 (process ")


def test_no_run_begins_while_platforms_are_tried(probe_by):
    tried = []

    def probe(platform: Platform, image: object) -> Probe:
        with pytest.raises(BadInput, match="vtax platforms"), measuring_lock("tour-8"):
            pass
        tried.append(platform.name)
        return Probe(True)

    probe_by(probe)
    assert CliRunner().invoke(group, ["platforms"]).exit_code == 0
    assert tried == registry.names()


def test_without_root_nothing_is_started_and_the_lock_is_not_requested_for(
    measuring, ordinary_user
):
    with probing.probing_lock("vtax doctor") as why_not:
        assert why_not == ""
