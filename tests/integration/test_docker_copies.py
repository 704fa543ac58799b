"""Removing an image leaves nothing of it, the private Docker daemon's imported copy included."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner
from support import needs_program, needs_root

from vtax.cli.main import group
from vtax.guest.guest import Guest
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.process import run
from vtax.host.resources import Tree
from vtax.image.image import Image
from vtax.platforms import registry
from vtax.platforms.base import GuestSpec, Resources

pytestmark = [needs_root, needs_program("dockerd", "docker")]
KEY = "0123456789ab"


def private(image: Image, tmp_path: Path, use_home) -> tuple[Home, Image]:
    """A home with an image of its own, by hard links."""
    use_home(tmp_path / "home")
    home = Home.from_environment().ensure()
    run(["cp", "--archive", "--link", image.directory, home.images / KEY], timeout_s=120.0)
    return home, Image(KEY, home.images / KEY)


def test_the_private_daemons_copy_goes_with_the_image_and_is_refused_while_it_runs(
    image, tmp_path, use_home
):
    home, own = private(image, tmp_path, use_home)
    docker = registry.make("own", "docker", {"daemon": "private"})
    with Journal(home.journal) as journal:
        journal.register(Tree(str(home.guests / "vtax-copy")))
        (home.guests / "vtax-copy").mkdir()
        spec = GuestSpec(
            "vtax-copy", own, Resources(1, 256 << 20, (0,)), home.guests / "vtax-copy", journal
        )
        running = docker.start(spec)
        Guest(running.channel).hello(timeout_s=60.0)
        running.stop()
        refused = CliRunner().invoke(group, ["image", "remove", KEY], standalone_mode=False)
        assert "in use" in str(refused.exception)
        assert own.directory.is_dir()
    assert [path.name for path in (home.root / "docker").iterdir() if path.is_dir()] == ["overlay2"]
    result = CliRunner().invoke(group, ["image", "remove", KEY], standalone_mode=False)
    assert result.exception is None, result.exception
    assert "the copy of private Docker daemons" in result.output
    assert list((home.root / "docker").iterdir()) == []
    assert [path.name for path in home.images.iterdir() if path.is_dir()] == []
    assert list(home.journal.iterdir()) == []
    assert image.archive.exists()
