"""The example of docs/add-a-platform.md is a working platform."""

import pytest
from doc_examples import module_of
from support import needs_program, needs_root

from vtax.guest.guest import Guest
from vtax.host.resources import Tree
from vtax.platforms.base import GuestSpec, Resources

pytestmark = [needs_root, needs_program("unshare")]
UNSHARE = module_of("add-a-platform.md", "doc_unshare").Unshare()


@pytest.mark.parametrize("options", UNSHARE.variants.values(), ids=UNSHARE.variants)
def test_its_probe_starts_it(options):
    probe = UNSHARE.probe(UNSHARE.Options(**options), None)
    assert probe.available, probe.reason
    assert probe.version


def test_a_guest_answers_runs_a_command_and_goes(private_home, journal, image):
    directory = private_home.guests / "vtax-doc"
    journal.register(Tree(str(directory)))
    directory.mkdir()
    spec = GuestSpec("vtax-doc", image, Resources(1, 128 << 20, (0,)), directory, journal)
    running = UNSHARE.start(UNSHARE.Options(), spec)
    try:
        guest = Guest(running.channel)
        guest.hello(30.0)
        result = guest.run(["ps", "-e", "-o", "pid="])
        assert result.status == 0, result
        assert "1" in result.stdout.split()
        assert len(result.stdout.split()) <= 3
    finally:
        running.stop()
    assert [type(resource) for resource in journal.registered] == [Tree]
