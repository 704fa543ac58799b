"""The line of a report that tells what every guest has."""

from __future__ import annotations

from types import SimpleNamespace

from vtax.report.answers import guests
from vtax.report.renderers.format import Formatter


def test_a_bundle_that_leaves_out_the_size_of_guests_has_the_default():
    """A study may leave it out, and so may a bundle, which has what a study declared."""
    line = guests._shared(
        SimpleNamespace(declared={"guest": {"vcpus": 3}}, image_key="k", platforms=())
    )
    assert Formatter().text(line) == "Image k; every guest: 3 vCPU, 512 MiB of memory."
