"""The guests of a run: driver, version, start time, options and missing limits."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from typing import Any

from vtax.report import document as doc
from vtax.report.analysis import Analysis
from vtax.report.analysis.facts import fact_value
from vtax.report.analysis.source import Source
from vtax.report.document import joined, msg, styled
from vtax.report.parts import shared
from vtax.report.views.base import Options, View, register_view
from vtax.store.records import PlatformRecord
from vtax.study.model import GuestTable

_SECONDS = doc.Scale("s")


def document(source: Source, _: Options) -> doc.Document:
    """Return a row per tested platform, and what all guests share."""
    analysis = source.analysis
    columns = (
        shared.PLATFORM,
        doc.Column("driver", msg("driver")),
        doc.Column("version", msg("version"), wraps=True),
        doc.Column("guests", msg("guests"), is_number=True),
        doc.Column("ready", msg("start to ready,\nmedian"), is_number=True),
        doc.Column("options", msg("options and limits"), wraps=True),
    )
    table = doc.table_of(columns, _rows(analysis), key="guests", label=msg("Guests"))
    return doc.Document(
        VIEW.title, (table, doc.Paragraph(_shared(analysis), "muted")), data=_plain(analysis)
    )


def _rows(analysis: Analysis) -> Iterator[doc.TableRow]:
    numbers, shared_options = analysis.colours, _alike(analysis)
    for platform in (p for p in analysis.platforms if p.available):
        ready = analysis.ready_s(platform.name)
        guests = [guest for guest in analysis.guests if guest.platform == platform.name]
        own_options = {
            key: value for key, value in _options(platform).items() if key not in shared_options
        }
        settings = _settings(own_options)
        notes = dict.fromkeys(note for guest in guests for note in guest.notes)
        median: doc.Inline = doc.Nothing()
        if ready:
            median = doc.Quantity(statistics.median(ready), _SECONDS, 3, has_unit=True)
        yield doc.TableRow(
            (
                shared.platform_of(platform, numbers),
                str(platform.identity.get("driver", "")),
                platform.version,
                doc.Count(len(guests)),
                median,
                joined([settings, *(styled(note, "caution") for note in notes)], "; "),
            )
        )


def _options(platform: PlatformRecord) -> dict[str, Any]:
    """Return the options of a platform that have a value."""
    options = platform.identity.get("options") or {}
    return {key: value for key, value in options.items() if value is not None}


def _alike(analysis: Analysis) -> dict[str, Any]:
    """Return the options that all of several tested platforms have alike."""
    first, *other_options = [
        _options(platform) for platform in analysis.platforms if platform.available
    ] or [{}]
    if not other_options:
        return {}
    return {
        key: value
        for key, value in first.items()
        if all(key in options and options[key] == value for options in other_options)
    }


def _settings(options: Mapping[str, Any]) -> doc.Inline:
    """Return `cpu_limit=cpuset, userns=no`."""
    return joined(
        [joined([f"{key}=", fact_value(key, value)], "") for key, value in options.items()]
    )


def _shared(analysis: Analysis) -> doc.Inline:
    guest_table = analysis.declared.get("guest")
    if not guest_table:
        return msg("Image {image}.", image=analysis.image_key)
    guest = GuestTable.model_validate(guest_table)  # a bundle may leave out what has a default
    size = msg(
        "{cpus} vCPU, {memory} of memory",
        cpus=doc.Count(guest.vcpus),
        memory=doc.Size(guest.memory),
    )
    return msg(
        "Image {image}; every guest: {settings}.",
        image=analysis.image_key,
        settings=joined([size, _settings(_alike(analysis))]),
    )


def _plain(analysis: Analysis) -> list[dict[str, object]]:
    return [
        {
            "platform": p.name,
            "driver": p.identity.get("driver", ""),
            "version": p.version,
            "ready_s": analysis.ready_s(p.name),
            "guests": sum(guest.platform == p.name for guest in analysis.guests),
        }
        for p in analysis.platforms
        if p.available
    ]


VIEW = register_view(
    View(
        "guests",
        msg("Guests"),
        msg("The guests: versions, options, missing limits, start times."),
        document,
        35,
    )
)
