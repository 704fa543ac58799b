"""Packages with plug-ins, installed for the time of a test."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from vtax.benchmarks.registry import benchmarks, has_foreign
from vtax.host.plugins import KINDS
from vtax.network.registry import topologies
from vtax.platforms.registry import drivers


def write_package(
    directory: Path, name: str, source: str, kind: str = "platform", direct_url: object = None
) -> None:
    """A package of one module with one entry point, version 1.5."""
    (directory / f"{name}.py").write_text(source)
    info = directory / f"{name}-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
    (info / "entry_points.txt").write_text(f"[{KINDS[kind]}]\n{name} = {name}\n")
    if direct_url is not None:
        (info / "direct_url.json").write_text(json.dumps(direct_url))


@contextmanager
def fresh_registries() -> Iterator[None]:
    """What is installed is looked for again, before and after."""
    for registry in (benchmarks, has_foreign, topologies, drivers):
        registry.cache_clear()
    try:
        yield
    finally:
        for registry in (benchmarks, has_foreign, topologies, drivers):
            registry.cache_clear()


@dataclass(frozen=True)
class Install:
    """Installs packages below a directory."""

    directory: Path
    monkeypatch: pytest.MonkeyPatch

    def __call__(
        self, name: str, source: str, kind: str = "platform", direct_url: object = None
    ) -> None:
        write_package(self.directory, name, source, kind, direct_url)
        self.monkeypatch.delitem(sys.modules, name, raising=False)
