"""`vtax claims`: judges the published findings of a study by a run."""

from __future__ import annotations

import click

from vtax.cli.arguments import map_option, run_argument
from vtax.cli.output import existing_store, json_option
from vtax.errors import BadInput


@click.command("claims")
@run_argument
@map_option(
    "Judge claims about platform THERE of the publication by platform HERE of the run (repeatable)."
)
@click.option("--all", "is_full", is_flag=True, help="List every comparison of every claim.")
@json_option
def command(run_name: str, mapped: tuple[str, ...], is_full: bool, as_json: bool) -> None:
    """Judge the published findings of the study of RUN (default: the last run).

    Each claim is reproduced, contradicted, inconclusive (with what would decide it) or not tested
    here (with the reason). Intervals are over blocks, and judgements are corrected for the number
    of claims. A claim about a platform that this host does not have is judged by another platform
    only with --map:

    \b
      vtax claims urschei2007-1
      vtax claims urschei2007-1 --map xen-pv=kvm-virtio
    """
    from vtax.cli.show import print_document
    from vtax.report.analysis.source import source_of
    from vtax.report.answers.claims.compute import claims
    from vtax.report.answers.claims.view import document_of
    from vtax.report.renderers.format import english

    mapping = mapping_of(mapped)
    analysis = source_of(existing_store(), run_name).analysis
    document = document_of(claims(analysis, mapping), is_full=is_full)
    if document.nothing != "" and not as_json:
        hint = "vtax studies lists studies that have claims; docs/study-files.md shows how a study states them"
        raise BadInput(english(document.nothing), where=analysis.name, hint=hint)
    print_document(document, as_json=as_json, schema="vtax.claims/1", analysis=analysis)


def mapping_of(texts: tuple[str, ...]) -> dict[str, str]:
    """Return the platform of a run that stands for each platform of a publication.

    Raises BadInput for another form, and for a platform that is mapped twice.
    """
    mapping: dict[str, str] = {}
    for text in texts:
        published_platform, equals, run_platform = map(str.strip, text.partition("="))
        if not (published_platform and equals and run_platform):
            raise BadInput(
                f"--map {text} is not of the form THERE=HERE",
                hint="for example --map xen-pv=kvm-virtio",
            )
        if published_platform in mapping:
            raise BadInput(
                f"{published_platform} is mapped twice",
                where=f"--map {text}",
                hint="map each platform once",
            )
        mapping[published_platform] = run_platform
    return mapping
