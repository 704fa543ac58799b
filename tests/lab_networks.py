"""Plans of studies about networks. Import as `from lab_networks import planned`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from vtax.errors import BadInput
from vtax.image.image import Image
from vtax.platforms.base import Probe
from vtax.runner.plan import Plan, make_plan
from vtax.study.load import LoadedStudy, validate


def planned(benchmark: Mapping[str, Any], *platforms: str) -> Plan:
    """The plan of a study with one benchmark; the platforms are taken to run here."""
    names = ["native", *platforms]
    declared = {"name": "x", "platforms": names, "benchmark": [dict(benchmark)]}
    probes = {name: Probe(True) for name in names}
    loaded = LoadedStudy(validate(declared, "study.toml"), "study.toml")
    return make_plan(loaded, image=Image("key", Path("/nowhere")), probes=probes)


def refused(benchmark: Mapping[str, Any], *platforms: str) -> BadInput:
    with pytest.raises(BadInput) as caught:
        planned(benchmark, *platforms)
    return caught.value
