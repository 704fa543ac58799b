"""A run as RO-Crate 1.1 (w3id.org/ro/crate): a zip archive that a repository with a DOI takes, described by itself.

It conforms to Process Run Crate 0.5: one action, the measuring, from the study and the host to the results. Nothing
in it refers to the store. Every text of the run stays a text in JSON; file names are the same in every archive.
"""

from __future__ import annotations

import csv
import json
import zipfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

from vtax.described import moment
from vtax.report.analysis import Analysis
from vtax.report.analysis.source import source_of
from vtax.report.answers.reproduce.compute import study_toml
from vtax.report.exports import check_is_measured
from vtax.report.files import write_whole
from vtax.report.measurements import column, meaning
from vtax.report.renderers.language import ENGLISH, Language
from vtax.store.exporting import export_run
from vtax.store.store import Store
from vtax.store.transfer import Watch, unwatched

METADATA = "ro-crate-metadata.json"
_CRATE, _PROCESS = "https://w3id.org/ro/crate/1.1", "https://w3id.org/ro/wfrun/process/0.5"
_FILES: Mapping[str, tuple[str, str, str]] = {
    "study.toml": (
        "study",
        "application/toml",
        "The study file: what was to be measured, with its defaults.",
    ),
    "host.json": (
        "host",
        "application/json",
        "The host of each session: CPU, kernel, mitigations, memory; and the platforms.",
    ),
    "run.vtax.gz": (
        "run with raw outputs",
        "application/gzip",
        "All rows of the run with the raw output of every trial; vtax import reads it, and zcat shows its JSON.",
    ),
    "measurements.csv": (
        "measurements",
        "text/csv",
        "One row per measurement, and one per failed trial.",
    ),
    "columns.csv": (
        "data dictionary",
        "text/csv",
        "Of each column of measurements.csv its kind, its unit and its meaning.",
    ),
    "result.json": (
        "result",
        "application/json",
        "Means, ratios to the baseline, intervals, verdicts, warnings.",
    ),
    "report.html": (
        "report",
        "text/html",
        "The result with figures, for a browser; it needs no network.",
    ),
}
"""File -> name, media type, description. The first two are what was measured with, the others came of it."""
NO_LICENSE = "No license is stated: ask the authors before you use this."
"""Text in place of a license; RO-Crate wants one, or a text."""
_INPUTS = ("study.toml", "host.json")


def write(
    store: Store,
    run_name: str,
    path: Path,
    *,
    language: Language = ENGLISH,
    license_url: str = "",
    watch: Watch = unwatched,
) -> None:
    """Write the archive of a run. language: of its report. license_url: under which it may be used; empty for none.

    Raises BadInput for a run without a value, StoreError.
    """
    source = source_of(store, run_name)
    analysis = source.analysis
    check_is_measured(analysis)
    with TemporaryDirectory(prefix="vtax-crate-") as name:
        place = Path(name)
        (place / "study.toml").write_text(study_toml(analysis.declared), encoding="utf-8")
        _write_json(place / "host.json", _environment(analysis))
        export_run(store.engine, source.data.run, place / "run.vtax.gz", watch=watch)
        for file, file_format in (
            ("measurements.csv", "csv"),
            ("result.json", "json"),
            ("report.html", "html"),
        ):
            write_whole(source, file_format, place / file, language)
        with (place / "measurements.csv").open(encoding="utf-8", newline="") as table:
            columns = next(csv.reader(table))
        _write_dictionary(columns, place / "columns.csv")
        sizes = {file: (place / file).stat().st_size for file in _FILES}
        _write_json(place / METADATA, metadata(analysis, columns, sizes, license_url))
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in (METADATA, *_FILES):
                packed = zipfile.ZIP_STORED if file.endswith(".gz") else None
                archive.write(place / file, file, compress_type=packed)


def metadata(
    analysis: Analysis, columns: Sequence[str], sizes: Mapping[str, int], license_url: str = ""
) -> dict[str, Any]:
    """Return what `ro-crate-metadata.json` says. columns: of the measurements. sizes: of the files, in bytes."""
    variables = [_variable(name) for name in columns]
    entities = [
        {
            "@id": METADATA,
            "@type": "CreativeWork",
            "about": _ref("./"),
            "conformsTo": _ref(_CRATE),
        },
        {
            **_root(analysis, license_url),
            "variableMeasured": [_ref(variable["@id"]) for variable in variables],
        },
        {"@id": _PROCESS, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"},
        *(_file(name, size) for name, size in sizes.items()),
        {
            "@id": "#measuring",
            "@type": "CreateAction",
            "name": f"Measuring {analysis.name}",
            "description": analysis.stopped_because or analysis.status,
            "instrument": _ref("#vtax"),
            "object": [_ref(name) for name in _INPUTS],
            "result": [_ref(name) for name in sizes if name not in _INPUTS],
            **_times(analysis),
            "actionStatus": "http://schema.org/"
            + ("FailedActionStatus" if analysis.status == "failed" else "CompletedActionStatus"),
            **({"error": analysis.stopped_because} if analysis.status == "failed" else {}),
        },
        {
            "@id": "#vtax",
            "@type": "SoftwareApplication",
            "name": "vtax",
            "softwareVersion": analysis.vtax_version,
            "description": "Measures what a virtualization layer costs.",
            "softwareRequirements": [_ref(platform["@id"]) for platform in _platforms(analysis)],
        },
        *_platforms(analysis),
        *variables,
    ]
    if license_url:
        entities.append({"@id": license_url, "@type": "CreativeWork", "name": license_url})
    return {"@context": f"{_CRATE}/context", "@graph": entities}


def _root(analysis: Analysis, license_url: str) -> dict[str, Any]:
    declared = analysis.declared
    title = declared.get("title") or analysis.study
    return {
        "@id": "./",
        "@type": "Dataset",
        "name": f"{title} ({analysis.name})",
        "description": str(declared.get("question") or title),
        "identifier": f"urn:vtax:run:{analysis.identity or analysis.name}",
        "datePublished": datetime.now(UTC).strftime("%Y-%m-%d"),
        "keywords": [
            "virtualization",
            "benchmark",
            *(platform.name for platform in analysis.platforms),
        ],
        "conformsTo": _ref(_PROCESS),
        "hasPart": [_ref(name) for name in _FILES],
        "mentions": _ref("#measuring"),
        "license": _ref(license_url) if license_url else NO_LICENSE,
    }


def _times(analysis: Analysis) -> dict[str, str]:
    """Start and end in ISO 8601, in the form that Process Run Crate has; what is no time is left out."""
    found = {"startTime": moment(analysis.started_at), "endTime": moment(analysis.ended_at)}
    return {name: f"{text.removesuffix('Z')}+00:00" for name, text in found.items() if text}


def _file(name: str, size: int) -> dict[str, Any]:
    title, kind, description = _FILES[name]
    return {
        "@id": name,
        "@type": "File",
        "name": title,
        "encodingFormat": kind,
        "description": description,
        "contentSize": str(size),
    }


def _variable(name: str) -> dict[str, Any]:
    """Return a column of the measurements."""
    known = column(name)
    unit = {"unitText": known.unit} if known.unit else {}
    return {
        "@id": f"#column-{quote(name)}",
        "@type": "PropertyValue",
        "name": name,
        "description": known.meaning,
        **unit,
    }


def _platforms(analysis: Analysis) -> list[dict[str, Any]]:
    return [
        {
            "@id": f"#platform-{number}",
            "@type": "SoftwareApplication",
            "name": platform.name,
            "softwareVersion": platform.version or "not known",
        }
        for number, platform in enumerate(analysis.platforms, start=1)
        if platform.available
    ]


def _environment(analysis: Analysis) -> dict[str, Any]:
    """Return the host of every session, the image and the platforms."""
    return {
        "host": analysis.host,
        "sessions": [
            {
                "number": session.number,
                "started": moment(session.started_at),
                "boot_id": session.boot_id,
                "host": session.host,
            }
            for session in analysis.sessions
        ],
        "vtax_version": analysis.vtax_version,
        "image_key": analysis.image_key,
        "plugins": [vars(plugin) for plugin in analysis.plugins],
        "platforms": [vars(platform) for platform in analysis.platforms],
    }


def _ref(name: str) -> dict[str, str]:
    return {"@id": name}


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, default=str) + "\n", encoding="utf-8")


def _write_dictionary(names: Sequence[str], path: Path) -> None:
    """Write what columns of CSV are as a CSV file of their names, kinds, units and meanings."""
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("column", "kind", "unit", "meaning"))
        rows.writerows((name, *meaning(name).values()) for name in names)
