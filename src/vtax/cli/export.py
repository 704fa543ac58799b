"""`vtax export`: writes a run as a bundle, or in a format of other programs."""

from __future__ import annotations

import hashlib
import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vtax.cli.completion import run_names
from vtax.cli.output import json_option, language_option, notify, print_json, print_table
from vtax.errors import BadInput
from vtax.host.home import Home

if TYPE_CHECKING:
    from vtax.store.exporting import Exported
    from vtax.store.run import RunHandle
    from vtax.store.store import Store

SUFFIXES = {"bundle": ".vtax.gz", "benchfmt": ".bench.txt", "bmf": ".bmf.json", "ro-crate": ".crate.zip"}


@click.command("export")
@click.argument("run_name", metavar="[RUN]", default="last", shell_complete=run_names)
@click.option(
    "--as", "kind", type=click.Choice(list(SUFFIXES)), default="bundle", show_default=True,
    help="bundle: for vtax import. benchfmt: Go's benchmark format, for benchstat. bmf: JSON for Bencher. "
    "ro-crate: an archive for a repository, with the bundle, the report and the host.",
)  # fmt: skip
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    help=f"Write to this file; default: RUN with {', '.join(SUFFIXES.values())}.",
)
@click.option(
    "--anonymize",
    is_flag=True,
    help="Replace host names, addresses, serial numbers, machine ids, user names and paths of home (bundle only).",
)
@click.option("--license", "license_url", metavar="URL", default="", help="Name the license of the data (ro-crate).")
@language_option
@json_option
def command(
    run_name: str, kind: str, output: Path | None, anonymize: bool, license_url: str, language: str, as_json: bool
) -> None:
    """Write RUN (default: the last run) to one file, for vtax import or for other programs.

    A bundle is compressed lines of JSON: zcat RUN.vtax.gz shows it. Its last line is the SHA-256 of the others.
    """
    from vtax.report.replacing import replacing
    from vtax.store.store import Store

    _check_options(kind, anonymize=anonymize, license_url=license_url)
    store = Store.existing(Home.from_environment().store_url)
    run = store.open_run(run_name)
    path = output or Path(f"{run.name}{SUFFIXES[kind]}")
    made: Exported | None = None
    is_there = path.is_file()
    with replacing(path) as new:
        if kind == "bundle":
            made = _write_bundle(store, run, new, anonymize=anonymize)
        else:
            _write_other(kind, store, run, new, language, license_url)
        size = new.stat().st_size
        with new.open("rb") as file:
            digest = made.sha256 if made else hashlib.file_digest(file, "sha256").hexdigest()
    if is_there:
        notify(f"{path} was there and is replaced")
    if as_json:
        replaced: Any = [asdict(each) for each in made.replaced] if made and anonymize else None
        print_json(
            {
                "schema": "vtax.export/1", "run": run.name, "format": kind, "file": str(path.resolve()),
                "bytes": size, "sha256": digest, "anonymized": anonymize, "replaced": replaced,
            }
        )  # fmt: skip
        return
    click.echo(path.resolve())
    if made and anonymize:
        _print_replaced(made)


def _check_options(kind: str, *, anonymize: bool, license_url: str) -> None:
    """Raise BadInput for an option that the format does not have."""
    if anonymize and kind != "bundle":
        raise BadInput(
            f"--anonymize is for bundles, not for {kind}",
            hint="import the anonymized bundle into another store (VTAX_STORE), and export its run from there",
        )
    if license_url and kind != "ro-crate":
        raise BadInput(f"--license is for ro-crate, not for {kind}", hint="omit it, or use --as ro-crate")
    if license_url and not license_url.startswith(("https://", "http://")):
        raise BadInput(
            f"--license {license_url!r} is no URL", hint="for example https://creativecommons.org/licenses/by/4.0/"
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


def _write_other(kind: str, store: Store, run: RunHandle, path: Path, language: str, license_url: str) -> None:
    from vtax.report.analysis.source import source_of
    from vtax.report.exports import benchfmt, bmf

    if kind == "ro-crate":
        from vtax.cli.row_progress import row_progress
        from vtax.report.exports import ro_crate
        from vtax.report.renderers.language import language as chosen_language

        watch = row_progress(f"exporting {run.name}")
        chosen = chosen_language(language)
        ro_crate.write(store, run.name, path, language=chosen, license_url=license_url, watch=watch)
        if not license_url:
            notify("the archive names no license; repositories ask for one: --license URL")
        return
    source = source_of(store, run.name)
    text = benchfmt.text(source) if kind == "benchfmt" else bmf.text(source.analysis)
    path.write_text(text, encoding="utf-8")


def _print_replaced(made: Exported) -> None:
    if made.replaced:
        rows = [(each.kind, str(each.values), str(each.times)) for each in made.replaced]
        print_table(("replaced", "values", "times"), rows)
    else:
        notify("nothing was replaced")
    notify("names without a place or form of their own stay, such as in titles; read the file before publishing it")
