"""`vtax topologies NAME` draws a topology: its ends by their roles, and what is built by each attachment."""

import pytest
from click.testing import CliRunner

from vtax.cli.main import group
from vtax.network.registry import topologies


@pytest.mark.parametrize("topology", topologies().values(), ids=lambda each: each.name)
def test_every_topology_is_drawn_with_its_ends_and_each_of_its_attachments(topology):
    printed = CliRunner().invoke(group, ["topologies", topology.name], catch_exceptions=False)
    drawing = printed.output.partition("\nlink setting")[0].partition("\n\n")[2]
    assert set(topology.natives) <= set(drawing.replace(":", " ").split())
    assert "guest" in drawing.split()
    named = {
        word.rstrip(",")
        for line in drawing.splitlines()
        for word in line.partition(" guest")[0].partition(" generator")[0].split()
    }
    if len(topology.attachments) > 1 and topology.name != "multi-nic":
        assert set(topology.attachments) <= named
