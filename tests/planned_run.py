"""A run of a real plan on `native`, as `vtax run` begins it, without a trial."""

from __future__ import annotations

from typing import Any

from vtax import __version__
from vtax.host.home import Home
from vtax.image.image import Image
from vtax.platforms.base import Probe
from vtax.runner.begin import begin
from vtax.runner.plan import make_plan
from vtax.store.store import RunHandle, Store
from vtax.study.load import LoadedStudy, validate

KEY = "0123456789ab"
STUDY: dict[str, Any] = {
    "name": "tour",
    "baseline": "native",
    "platforms": ["native"],
    "design": {"stop": "fixed", "blocks": 2},
    "benchmark": [{"name": "sysbench-cpu"}],
}


def begin_planned(store: Store, home: Home, **changes: Any) -> RunHandle:
    """A new run of an image that is a directory without files."""
    directory = home.images / KEY
    directory.mkdir(parents=True, exist_ok=True)
    study = LoadedStudy(validate({**STUDY, **changes}, "test"), "test")
    plan = make_plan(study, image=Image(KEY, directory), seed=1, probes={"native": Probe(True)})
    return begin(store, plan, vtax_version=__version__)
