"""How to make a run again: the study as TOML, and the commands.

What knows studies and topologies takes long to import, and is imported where it is needed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from vtax.report.analysis.values import Analysis
from vtax.store.records import PluginRecord

_DIRECTORIES = {
    "platform": "platforms",
    "benchmark": "benchmarks",
    "topology": "network/topologies",
    "view": "report/views",
}


def study_toml(declared: Mapping[str, Any]) -> str:
    """Return a stored study as TOML that `vtax run FILE` accepts and reads as the same study."""
    from vtax.study.declared import with_units
    from vtax.study.load import without_idle_keys
    from vtax.study.model import Study
    from vtax.study.text import dump

    return dump(with_units(Study, without_idle_keys(declared)))


def commands(analysis: Analysis) -> tuple[str, ...]:
    """Return what to type on a like host, in a checkout of the version that measured, with the study saved as
    STUDY.toml."""
    tune = " --tune-host" if any(warning.code == "tuned" for warning in analysis.warnings) else ""
    return (
        f"# in a checkout of vtax {analysis.vtax_version}:",
        "sudo ./quickstart --install-only",
        *_plugins(analysis),
        "sudo .venv/bin/vtax image build",
        f"sudo .venv/bin/vtax run {analysis.study}.toml --seed {analysis.seed}{tune}",
        *(_further_boots(tune) if analysis.has_boots else _further_sessions(analysis, tune)),
    )


def _further_boots(tune: str) -> Iterator[str]:
    """Yield the line that goes on with a run in each of its further boots."""
    yield "# after each reboot that it asks for:"
    yield f"sudo .venv/bin/vtax resume{tune}"


def _further_sessions(analysis: Analysis, tune: str) -> Iterator[str]:
    """Yield a line for each session after the first; those that the study does not plan come after the result."""
    for session in analysis.sessions[1:]:
        moment = "after a reboot or at another hour"
        if session.number > analysis.planned_sessions:
            moment += ", added after the result was known"
        yield f"# session {session.number}, {moment}:"
        yield f"sudo .venv/bin/vtax resume --session{tune}"


def _plugins(analysis: Analysis) -> Iterator[str]:
    """Yield what installs the plug-ins that are not part of vtax: a line for each package, and for each module
    without."""
    packages = dict.fromkeys(
        (p.package, p.version, p.source) for p in analysis.plugins if p.package
    )
    for package, version, source in packages:
        if source == "local":
            yield f"# {package} {version} was installed from a directory or file; install it from there:"
        requirement = (
            f"{package} @ {source}" if source not in ("", "local") else f"{package}=={version}"
        )
        yield f"sudo .venv/bin/pip install {shlex.quote(requirement)}"
    yield from (_file(plugin) for plugin in analysis.plugins if not plugin.package)


def _file(plugin: PluginRecord) -> str:
    """Return where the file of a module without a package belongs; a comment, since nothing has it but its author."""
    place = f"src/vtax/{_DIRECTORIES.get(plugin.kind, plugin.kind)}/"
    return f"# put {plugin.file} (SHA-256 {plugin.sha256}) into {place}"
