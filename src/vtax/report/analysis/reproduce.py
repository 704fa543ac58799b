"""How to make a run again: the study as TOML, and the commands.

What knows studies and topologies takes long to import, and is imported where it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vtax.report.analysis.values import Analysis


def study_toml(declared: Mapping[str, Any]) -> str:
    """A stored study as TOML that `vtax run FILE` accepts and reads as the same study."""
    from vtax.study.load import without_idle_keys
    from vtax.study.text import dump

    return dump(without_idle_keys(declared))


def commands(analysis: Analysis) -> tuple[str, ...]:
    """What to type on a like host, in a checkout of the version that measured, with the study saved as STUDY.toml."""
    from vtax.network.registry import packages_of

    named = [table.get("topology") for table in analysis.declared.get("benchmark", [])]
    more = "".join(f" --with {package}" for package in packages_of(filter(None, named)))
    tune = " --tune" if any(warning.code == "tuned" for warning in analysis.warnings) else ""
    of_drivers = {p.identity.get("driver") for p in analysis.platforms if p.available}
    return (
        f"# in a checkout of vtax {analysis.vtax_version}:",
        "sudo ./quickstart --install-only",
        "sudo .venv/bin/vtax image build" + more,
        *(["sudo .venv/bin/vtax image uml"] if "uml" in of_drivers else []),
        f"sudo .venv/bin/vtax run {analysis.study}.toml --seed {analysis.seed}{tune}",
    )
