"""Options of `vtax run` that change a study, each as values that are put over those of its file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from vtax.benchmarks.registry import benchmarks
from vtax.errors import BadInput
from vtax.foreign_data import parse_toml
from vtax.platforms.registry import names as driver_names
from vtax.study.changes import ChangedPart, changed_by
from vtax.study.load import find
from vtax.study.model import Study

_LINK_FORM = "--link delay_us=50, of vtax topologies NAME"
_BOOT_FORM = "--boot xen='Xen 4.17':xen-pv,xen-dom0, once for each boot"
_OWN_BOOTS = "; the boots of {study} know their platforms: --boot {names}"


def of_guest(
    image: str | None, vcpus: int | None, memory: str | None, disk: str | None
) -> dict[str, Any]:
    """Return what --image, --vcpus, --memory and --disk change."""
    given = {"image": image, "vcpus": vcpus, "memory": memory, "disk": disk}
    changed = {key: value for key, value in given.items() if value is not None}
    return {"guest": changed} if changed else {}


def of_links(study: Study, given: Sequence[str]) -> dict[str, Any]:
    """Return what --link changes: the settings of every link of the study, whose own ones stay beside them.

    Raises BadInput for what is no KEY=VALUE, for a factor, and for a study without network benchmarks.
    """
    if not given:
        return {}
    settings = dict(_setting(text) for text in given)
    tables = study.declared()["benchmark"]
    linked = [table for table in tables if _has_link(table)]
    if not linked:
        raise BadInput(
            f"{study.name} has no network benchmark, so it has no links",
            where="--link",
            hint="omit --link",
        )
    for table in linked:
        if table["link"].get("packet_bytes") and (
            sizes := sorted(settings.keys() & {"mtu", "packet_bytes"})
        ):
            raise BadInput(
                f"{sizes[0]} makes the packets that {table['label'] or table['name']} is about",
                where="--link",
                hint=f"change it in a copy: vtax studies {study.name} --toml > mine.toml",
            )
        if both := sorted(settings.keys() & table["link_factors"].keys()):
            raise BadInput(
                f"{both[0]} is a factor of {table['label'] or table['name']}, with levels of its own",
                where="--link",
                hint=f"change it in a copy: vtax studies {study.name} --toml > mine.toml",
            )
    changed = [
        {**table, "link": {**table["link"], **settings}} if _has_link(table) else table
        for table in tables
    ]
    return {
        "benchmark": [
            {key: value for key, value in table.items() if value is not None} for table in changed
        ]
    }


def of_boots(
    study: Study, given: Sequence[str], blocks: int | None, platforms: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what --boot changes: the boots of the host, and, where the study has none, a session for each block; as
    many blocks as its rule allows at most, where that looks at figures. platforms: those of --platforms.

    Raises BadInput for what is no NAME=ENTRY:PLATFORM,..., nor NAME=ENTRY with a name among the study's own boots.
    """
    if not given:
        return {}
    tables = {boot.name: boot.model_dump() for boot in study.boot}
    own = {name: table["platforms"] for name, table in tables.items()} or (
        study.paper.boots if study.paper else {}
    )
    of_study = {
        name: [p for p in listed if not platforms or p in platforms] for name, listed in own.items()
    }
    boots = [_boot(text, of_study, study) for text in given]
    if tables:
        return {"boot": list((tables | {boot["name"]: boot for boot in boots}).values())}
    rule = (
        {}
        if study.design.stop == "fixed" or blocks is not None
        else {"blocks": study.design.max_blocks}
    )
    sessions = blocks or rule.get("blocks") or study.design.blocks
    return {"boot": boots, "design": {"stop": "fixed", **rule, "sessions": sessions}}


def named(study: Study, **given: Any) -> dict[str, Any]:
    """Return the study's own list of what options changed, with those that are given: it stands beside every
    result."""
    found = []
    for option, value in given.items():
        if value not in (None, ()):
            text = ", ".join(value) if isinstance(value, tuple) else str(value)
            found.append(changed_by(f"--{option}", [ChangedPart(what=text)]))
    return (
        {"changed_by": [*(each.model_dump() for each in study.changed_by), *found]} if found else {}
    )


@contextmanager
def blamed(study: str, **given: Any) -> Iterator[None]:
    """Let a BadInput that changes of a sound study cause name the options that are given, not the study's file."""
    try:
        yield
    except BadInput as error:
        if options := [f"--{option}" for option, value in given.items() if value not in (None, ())]:
            error.where = error.where.replace(str(find(study)), ", ".join(options))
        raise


def merged(*changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return all changes as one: tables key by key, the later ones first."""
    found: dict[str, Any] = {}
    for change in changes:
        for key, value in change.items():
            found[key] = {**found.get(key, {}), **value} if isinstance(value, Mapping) else value
    return found


def _setting(text: str) -> tuple[str, Any]:
    """(name, value) of `NAME=VALUE`, the value as TOML has it, else a text."""
    name, equals, written = (part.strip() for part in text.partition("="))
    if not (name and equals and written):
        raise BadInput(f"{text!r} is not of the form KEY=VALUE", where="--link", hint=_LINK_FORM)
    try:
        return name, parse_toml(f"value = {written}")["value"]
    except ValueError:
        return name, written


def _has_link(table: Mapping[str, Any]) -> bool:
    benchmark = benchmarks().get(table["name"])
    return bool(table["topology"] or (benchmark and benchmark.needs_network))


def _boot(text: str, own: Mapping[str, Sequence[str]], study: Study) -> dict[str, Any]:
    """Return a table of [[boot]] from `NAME=ENTRY:PLATFORM,...`, or of a boot that the study has from `NAME=ENTRY`.

    own: platforms of the study's boots. An entry may have colons.
    """
    name, _, rest = (part.strip() for part in text.partition("="))
    entry, _, platforms = rest.rpartition(":")
    listed = [each.strip() for each in platforms.split(",") if each.strip()]
    known = {*study.platforms, *driver_names()}
    unknown = [each for each in listed if each not in known]
    if name in own and rest and not (entry and listed and not unknown):
        if entry and len(unknown) < len(listed):
            raise BadInput(f"there is no platform {unknown[0]!r}", where="--boot", hint=_BOOT_FORM)
        entry, listed = rest, list(own[name])
        if not listed:
            raise BadInput(
                f"no platform of the boot {name} is measured", where="--boot", hint="omit this boot"
            )
    if not (name and entry.strip() and listed):
        hint = _BOOT_FORM
        if own:
            names = " --boot ".join(f"{each}=ENTRY" for each in own)
            hint += _OWN_BOOTS.format(study=study.name, names=names)
        raise BadInput(
            f"{text!r} is not of the form NAME=ENTRY:PLATFORM,...", where="--boot", hint=hint
        )
    return {"name": name, "entry": entry.strip(), "platforms": listed}
