"""Options of `vtax run` that change a study, each as values that are put over those of its file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from vtax.benchmarks.registry import find_benchmark
from vtax.cli.run_options import RunOptions
from vtax.errors import BadInput
from vtax.foreign_data import parse_toml
from vtax.network.registry import topologies
from vtax.platforms.registry import names as driver_names
from vtax.study.changes import ChangedPart, changed_by
from vtax.study.load import design_overrides, find
from vtax.study.model import Study

_OF_GUEST = ("image", "vcpus", "memory", "disk")
_ENDS = {"peer", "generator", "receiver"}
_LEADS_NOWHERE = {"veth", "macvtap"}  # attachments without a port for another machine
_LINK_FORM = "--link delay_us=50, of vtax topologies NAME"
_BOOT_FORM = "--boot xen='Xen 4.17':xen-pv,xen-dom0, once for each boot"
_OWN_BOOTS = "; the boots of {study} know their platforms: --boot {names}"


def changes_of(options: RunOptions, study: Study) -> dict[str, Any]:
    """Return what options change of a study. Raises BadInput."""
    options_given = options.of_study
    guest = {name: options_given[name] for name in _OF_GUEST if name in options_given}
    links = link_changes(study, options.link)
    return merge_changes(
        {"platforms": list(options.platforms)} if options.platforms else {},
        {"scratch": list(options.scratch)} if options.scratch else {},
        {"guest": guest} if guest else {},
        links,
        boot_changes(study, options.boot, options.blocks, options.platforms),
        design_overrides(study, options.blocks, options.sessions, options.budget),
        _name_changes(study, options_given, _attachment_changes(study, links)),
    )


def link_changes(study: Study, texts: Sequence[str]) -> dict[str, Any]:
    """Return what --link changes: the settings of every link of the study, whose own ones stay beside them.

    A setting that only some topologies of the study have is set on the links of those. A link with an end on another
    machine is a bridge where the study has an attachment that leads to none, unless --link names one.

    Raises BadInput for what is no KEY=VALUE, for a factor, and for a study without network benchmarks.
    """
    if not texts:
        return {}
    settings = dict(map(_setting, texts))
    changed_tables, is_linked = [], False
    tables = study.declared()["benchmark"]
    names = {table["topology"] for table in tables if table["topology"]}
    fields = {name: set(topology.Settings.model_fields) for name, topology in topologies().items()}
    known_settings = set[str]().union(*(fields.get(name, set()) for name in names))
    for table in tables:
        values = {key: value for key, value in table.items() if value is not None}
        if _has_link(table):
            is_linked = True
            others = known_settings - fields.get(table["topology"], known_settings)
            own_settings = {name: value for name, value in settings.items() if name not in others}
            _refuse_own_settings(study, table, own_settings)
            if own_settings.keys() & _ENDS and table["link"].get("attachment") in _LEADS_NOWHERE:
                own_settings = {"attachment": "bridge", **own_settings}
            values["link"] = {**table["link"], **own_settings}
        changed_tables.append(values)
    if not is_linked:
        raise BadInput(
            f"{study.name} has no network benchmark, so it has no links",
            where="--link",
            hint="omit --link",
        )
    return {"benchmark": changed_tables}


def _attachment_changes(study: Study, links: Mapping[str, Any]) -> list[ChangedPart]:
    """Return what `link_changes` changed of attachments."""
    parts = []
    for before, table in zip(
        study.declared()["benchmark"], links.get("benchmark", ()), strict=False
    ):
        attachment = table.get("link", {}).get("attachment")
        if attachment != before["link"].get("attachment"):
            parts.append(
                ChangedPart(
                    what=f"attachment={attachment}", label=before["label"] or before["name"]
                )
            )
    return parts


def _refuse_own_settings(
    study: Study, table: Mapping[str, Any], settings: Mapping[str, Any]
) -> None:
    """Raise BadInput for a setting that a benchmark is about, or that is a factor of it."""
    label = table["label"] or table["name"]
    problem = ""
    factors = sorted(settings.keys() & table["link_factors"].keys())
    if factors:
        problem = f"{factors[0]} is a factor of {label}, with levels of its own"
    sizes = sorted(settings.keys() & {"mtu", "packet_bytes"})
    if sizes and table["link"].get("packet_bytes"):
        problem = f"{sizes[0]} makes the packets that {label} is about"
    if problem:
        hint = f"change it in a copy: vtax studies {study.name} --toml > mine.toml"
        raise BadInput(problem, where="--link", hint=hint)


def boot_changes(
    study: Study, texts: Sequence[str], blocks: int | None, platforms: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what --boot changes: the boots of the host, and, where the study has none, a session for each block, but
    for a sequential order; as many blocks as its rule allows at most, where that looks at figures.

    texts: the values of --boot.
    blocks: that of --blocks.
    platforms: those of --platforms.

    Raises BadInput for what is no NAME=ENTRY:PLATFORM,..., nor NAME=ENTRY with a name among the study's own boots.
    """
    if not texts:
        return {}
    tables = {boot.name: boot.model_dump() for boot in study.boot}
    platforms_of_boots = study.paper.boots if study.paper else {}
    if tables:
        platforms_of_boots = {name: table["platforms"] for name, table in tables.items()}
    if platforms:
        platforms_of_boots = {
            name: [p for p in names if p in platforms] for name, names in platforms_of_boots.items()
        }
    boots = [_boot(text, platforms_of_boots, study) for text in texts]
    if tables:
        tables |= {boot["name"]: boot for boot in boots}
        return {"boot": list(tables.values())}
    design: dict[str, Any] = {"stop": "fixed"}
    if not study.design.rule_class.has_known_end and blocks is None:
        design["blocks"] = study.design.max_blocks
    if study.design.order == "randomized":
        design["sessions"] = blocks or design.get("blocks") or study.design.blocks
    return {"boot": boots, "design": design}


def _name_changes(
    study: Study, options_given: Mapping[str, Any], attachments: Sequence[ChangedPart]
) -> dict[str, Any]:
    """Return the study's own list of what options changed, with the given ones; it stands beside every result.

    attachments: what --link changed of them.
    """
    if not options_given:
        return {}
    changes = []
    for option, value in options_given.items():
        text = ", ".join(value) if isinstance(value, tuple) else str(value)
        parts = [ChangedPart(what=text), *(attachments if option == "link" else ())]
        changes.append(changed_by(f"--{option}", parts))
    return {"changed_by": [*(change.model_dump() for change in study.changed_by), *changes]}


@contextmanager
def blaming_options(options: RunOptions, study: str) -> Iterator[None]:
    """Let a BadInput that changes of a sound study cause name the options that are given, not the study's file."""
    try:
        yield
    except BadInput as error:
        names = [f"--{option}" for option in options.of_study]
        if names:
            error.where = error.where.replace(str(find(study)), ", ".join(names))
        raise


def merge_changes(*changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return all changes as one: tables key by key, the later ones first."""
    values: dict[str, Any] = {}
    for change in changes:
        for key, value in change.items():
            values[key] = {**values.get(key, {}), **value} if isinstance(value, Mapping) else value
    return values


def _setting(text: str) -> tuple[str, Any]:
    """Return (name, value) of `NAME=VALUE`, the value as TOML has it, else a text."""
    name, equals, value = map(str.strip, text.partition("="))
    if not (name and equals and value):
        raise BadInput(f"{text!r} is not of the form KEY=VALUE", where="--link", hint=_LINK_FORM)
    try:
        return name, parse_toml(f"value = {value}")["value"]
    except ValueError:
        return name, value


def _has_link(table: Mapping[str, Any]) -> bool:
    benchmark = find_benchmark(table["name"])
    return bool(table["topology"] or (benchmark and benchmark.needs_network))


def _boot(
    text: str, platforms_of_boots: Mapping[str, Sequence[str]], study: Study
) -> dict[str, Any]:
    """Return a table of [[boot]] from `NAME=ENTRY:PLATFORM,...`, or of a boot that the study has from `NAME=ENTRY`.

    platforms_of_boots: of the study's own. An entry may have colons.
    """
    name, _, value = map(str.strip, text.partition("="))
    entry, _, names = value.rpartition(":")
    platforms = list(filter(None, map(str.strip, names.split(","))))
    known_platforms = {*study.platforms, *(table.name for table in study.platform), *driver_names()}
    unknown_platforms = [platform for platform in platforms if platform not in known_platforms]
    if name in platforms_of_boots and value and (unknown_platforms or not entry or not platforms):
        if entry and len(unknown_platforms) < len(platforms):
            raise BadInput(
                f"there is no platform {unknown_platforms[0]!r}", where="--boot", hint=_BOOT_FORM
            )
        entry, platforms = value, list(platforms_of_boots[name])
        if not platforms:
            raise BadInput(
                f"no platform of the boot {name} is measured", where="--boot", hint="omit this boot"
            )
    if not (name and entry.strip() and platforms):
        hint = _BOOT_FORM
        if platforms_of_boots:
            forms = " --boot ".join(f"{boot}=ENTRY" for boot in platforms_of_boots)
            hint += _OWN_BOOTS.format(study=study.name, names=forms)
        raise BadInput(
            f"{text!r} is not of the form NAME=ENTRY:PLATFORM,...", where="--boot", hint=hint
        )
    return {"name": name, "entry": entry.strip(), "platforms": platforms}
