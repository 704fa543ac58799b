"""How to make a run again: the study as TOML, and the commands.

What knows studies and topologies takes long to import, and is imported where it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vtax.report.analysis.values import Analysis

if TYPE_CHECKING:
    from vtax.platforms.base import Driver


def study_toml(declared: Mapping[str, Any]) -> str:
    """A stored study as TOML that `vtax run FILE` accepts and reads as the same study."""
    from vtax.study.load import without_idle_keys
    from vtax.study.text import dump

    return dump(without_idle_keys(declared))


def drivers_of(analysis: Analysis) -> Mapping[str, Driver]:
    """Platform -> its driver, of those that were tested and whose driver is installed here."""
    from vtax.platforms.registry import drivers

    of_platforms = {p.name: str(p.identity.get("driver", "")) for p in analysis.platforms if p.available}
    return {platform: drivers()[name] for platform, name in of_platforms.items() if name in drivers()}


def commands(analysis: Analysis) -> tuple[str, ...]:
    """What to type on a like host, in a checkout of the version that measured, with the study saved as STUDY.toml."""
    from vtax.network.registry import packages_of

    named = [table.get("topology") for table in analysis.declared.get("benchmark", [])]
    more = "".join(f" --with {package}" for package in packages_of(filter(None, named)))
    tune = " --tune" if any(warning.code == "tuned" for warning in analysis.warnings) else ""
    prepared = dict.fromkeys(each for driver in drivers_of(analysis).values() for each in driver.preparation)
    return (
        f"# in a checkout of vtax {analysis.vtax_version}:",
        "sudo ./quickstart --install-only",
        "sudo .venv/bin/vtax image build" + more,
        *(f"sudo .venv/bin/vtax {command}" for command in prepared),
        f"sudo .venv/bin/vtax run {analysis.study}.toml --seed {analysis.seed}{tune}",
    )
