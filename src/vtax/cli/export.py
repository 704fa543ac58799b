"""`vtax export`: writes a run as a bundle, or in a format of other programs."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vtax.cli.arguments import map_option
from vtax.cli.completion import run_names
from vtax.cli.output import existing_store, json_option, notify, print_json, print_path, print_table
from vtax.cli.outputs import OutputFile
from vtax.errors import BadInput
from vtax.host.digest import sha256_of_file
from vtax.report.replacing import STANDARD_OUTPUT, replacing

if TYPE_CHECKING:
    from vtax.report.views.base import Options
    from vtax.store.exporting import Exported
    from vtax.store.run import RunHandle
    from vtax.store.store import Store

SUFFIXES = {
    "bundle": ".vtax.gz",
    "csv": ".csv",
    "parquet": ".parquet",
    "json": ".json",
    "markdown": ".md",
    "latex": ".tex",
    "latex-document": "-document.tex",
    "benchfmt": ".bench.txt",
    "bmf": ".bmf.json",
    "github": ".github.json",
    "openmetrics": ".om.txt",
    "ro-crate": ".crate.zip",
}
"""Format -> how its file ends."""
_REPORT_FORMATS = ("csv", "parquet", "json", "markdown", "latex", "latex-document")


@click.command("export")
@click.argument("names", metavar="[RUN]...", nargs=-1, shell_complete=run_names)
@click.option(
    "--format",
    "kind",
    type=click.Choice(list(SUFFIXES)),
    default="bundle",
    show_default=True,
    help="bundle: for vtax import. csv, parquet: one row per measurement. json: the analysis. markdown, "
    "latex-document: tables and texts of the report. latex: its table of comparisons alone, to \\input in a paper "
    "with amssymb, array, booktabs, graphicx and textcomp. benchfmt: Go's benchmark format, for benchstat. "
    "bmf: JSON for Bencher. github: JSON for github-action-benchmark. openmetrics: for Prometheus. "
    "ro-crate: an archive for a repository.",
)
@click.option(
    "--output",
    "-o",
    type=OutputFile(),
    help="Write to this file; default: RUN with the suffix of the format; - is standard output.",
)
@click.option(
    "--anonymize",
    is_flag=True,
    help="Replace host names, addresses, serial numbers, machine ids, user names and paths of home (bundle only).",
)
@click.option(
    "--license",
    "license_url",
    metavar="URL",
    default="",
    help="Name the license of the data (ro-crate).",
)
@map_option(
    "Let platform HERE stand for platform THERE of the publication (markdown, latex-document; repeatable)."
)
@json_option
def command(
    names: tuple[str, ...],
    kind: str,
    output: Path | None,
    anonymize: bool,
    license_url: str,
    mapped: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write RUN (default: the last run) to one file, for vtax import or for other programs.

    A bundle consists of compressed lines of JSON, which zcat RUN.vtax.gz shows; the last line is
    the SHA-256 of the others. Several runs become chapters of one markdown or latex-document file. In CSV, a
    text that a spreadsheet would read as a formula starts with an apostrophe.

    \b
      vtax export --format csv -o - | head
      vtax export tour-1 --format github -o bench.json
    """
    from vtax.cli.claims import mapping_of
    from vtax.report.views.base import Options

    _check_options(kind, anonymize=anonymize, license_url=license_url, is_mapped=bool(mapped))
    if as_json and output == STANDARD_OUTPUT:
        raise BadInput("--json and -o - both write to standard output", hint="use one of them")
    bundle: Exported | None = None
    if kind in _REPORT_FORMATS:
        path = write_documents(names, kind, output, Options("report", mapping_of(mapped)))
    else:
        path, bundle = _write_whole(names, kind, output, license_url, anonymize=anonymize)
    if as_json:
        print_json(_facts(names, kind, path, bundle, anonymize=anonymize))
        return
    print_path(path)
    if bundle and anonymize:
        _print_replaced(bundle)


def _write_whole(
    names: Sequence[str], kind: str, output: Path | None, license_url: str, *, anonymize: bool
) -> tuple[Path, Exported | None]:
    """Write a whole run; its path, and of a bundle what it holds. Raises BadInput for several runs."""
    from vtax.store.store import LAST

    if len(names) > 1:
        raise BadInput(f"{kind} holds one run", hint="write a file for each run")
    store = existing_store()
    run = store.open_run(names[0] if names else LAST)
    path = output or Path(f"{run.name}{SUFFIXES[kind]}")
    is_there, bundle = path.is_file(), None
    with replacing(path) as new:
        if kind == "bundle":
            bundle = _write_bundle(store, run, new, anonymize=anonymize)
        else:
            _write_other(kind, store, run, new, license_url)
    if is_there:
        notify(f"{path} was there and is replaced")
    return path, bundle


def _facts(
    names: Sequence[str], kind: str, path: Path, bundle: Exported | None, *, anonymize: bool
) -> dict[str, Any]:
    """Return what was written, for programs."""
    from vtax.store.store import LAST

    store = existing_store()
    replacements = bundle.replaced if bundle and anonymize else None
    digest = bundle.sha256 if bundle else sha256_of_file(path)
    return {
        "schema": "vtax.export/1",
        "run": store.open_run(names[0] if names else LAST).name,
        "format": kind,
        "file": str(path.resolve()),
        "bytes": path.stat().st_size,
        "sha256": digest,
        "anonymized": anonymize,
        "replaced": replacements,
    }


def write_documents(names: Sequence[str], kind: str, output: Path | None, options: Options) -> Path:
    """Write one run or several in a format of reports; return the path. Raises BadInput for a run named twice."""
    from vtax.report.files import write, write_several
    from vtax.report.renderers.language import of_reader
    from vtax.store.store import LAST

    store = existing_store()
    runs = [store.run_name(name) for name in names or (LAST,)]
    for name in runs:
        if runs.count(name) > 1:
            raise BadInput(f"{name} is named twice", hint="name each run once")
    stem = runs[0] if len(runs) == 1 else "report"
    path = output or Path(f"{stem}{SUFFIXES.get(kind, f'.{kind}')}")
    if len(runs) == 1:
        write(store, runs[0], kind, path, of_reader(), options)
    else:
        write_several(store, runs, kind, path, of_reader(), options)
    return path


def _check_options(kind: str, *, anonymize: bool, license_url: str, is_mapped: bool) -> None:
    """Raise BadInput for an option that the format does not have."""
    if is_mapped and kind not in ("markdown", "latex-document"):
        raise BadInput(
            f"--map changes chapters, and {kind} has no chapters",
            hint="vtax claims --map --json prints it",
        )
    if anonymize and kind != "bundle":
        raise BadInput(
            f"--anonymize is for bundles, not for {kind}",
            hint="import the anonymized bundle into another store (VTAX_STORE), and export its run from there",
        )
    if license_url and kind != "ro-crate":
        raise BadInput(
            f"--license is for ro-crate, not for {kind}", hint="omit it, or use --format ro-crate"
        )
    if license_url and not license_url.startswith(("https://", "http://")):
        raise BadInput(
            f"--license {license_url!r} is no URL",
            hint="for example https://creativecommons.org/licenses/by/4.0/",
        )


def _write_bundle(store: Store, run: RunHandle, path: Path, *, anonymize: bool) -> Exported:
    from vtax.cli.row_progress import row_progress
    from vtax.store.exporting import export_run

    users = filter(None, (os.environ.get(name) for name in ("SUDO_USER", "USER", "LOGNAME")))
    return export_run(
        store.engine,
        run,
        path,
        anonymize=anonymize,
        host_names=[platform.node()] if anonymize else (),
        users=users,
        watch=row_progress(f"exporting {run.name}"),
    )


def _write_other(kind: str, store: Store, run: RunHandle, path: Path, license_url: str) -> None:
    from vtax.report.analysis.source import source_of
    from vtax.report.exports import benchfmt, bmf, github, openmetrics

    if kind == "ro-crate":
        from vtax.cli.row_progress import row_progress
        from vtax.report.exports import ro_crate
        from vtax.report.renderers.language import of_reader

        watch = row_progress(f"exporting {run.name}")
        ro_crate.write(
            store, run.name, path, language=of_reader(), license_url=license_url, watch=watch
        )
        if not license_url:
            notify("the archive names no license; repositories ask for one: --license URL")
        return
    source = source_of(store, run.name)
    formats = {"bmf": bmf.text, "github": github.text, "openmetrics": openmetrics.text}
    text = benchfmt.text(source) if kind == "benchfmt" else formats[kind](source.analysis)
    path.write_text(text, encoding="utf-8")


def _print_replaced(bundle: Exported) -> None:
    if bundle.replaced:
        rows = []
        for replacement in bundle.replaced:
            rows.append((replacement.kind, str(replacement.values), str(replacement.times)))
        print_table(("replaced", "values", "times"), rows)
    else:
        notify("nothing was replaced")
    notify(
        "names without a place or form of their own stay, such as in titles; read the file before publishing it"
    )
