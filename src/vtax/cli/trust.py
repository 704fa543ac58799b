"""Consent to what a study names as run by root of this host: asked for once per file, on a terminal or by --trust."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from vtax.cli.output import notify
from vtax.errors import BadInput
from vtax.host.consents import Consent, agree, is_agreed
from vtax.host.home import Home
from vtax.platforms.base import HostProgram
from vtax.runner.consent import refuse_unagreed

trust_option = click.option(
    "--trust", is_flag=True, help="Let root run the programs and configurations that are named, from now on."
)


def agreed(
    home: Home, programs: Sequence[HostProgram], source: str, *, digest: str = "", trust: bool = False
) -> Sequence[HostProgram]:
    """What root may run: all of the programs, after consent to them for this file.

    source: what names them. digest: SHA-256 of the file; empty for what is no file: then a consent to the programs
    counts whatever file it was given for. Raises BadInput without consent, which only a terminal or trust gives.
    """
    identities = [program.identity for program in programs]
    if not programs or is_agreed(home, identities, digest):
        return programs
    if not trust:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            refuse_unagreed(programs, (), source)
        _ask(programs, source)
    agree(home, Consent(digest, source, tuple(identities)))
    return programs


def _ask(programs: Sequence[HostProgram], source: str) -> None:
    notify(f"{source} names what root of this host would run:")
    for program in programs:
        notify(f"  {program}")
    try:
        answer = click.confirm("Let it run, now and whenever this file is unchanged?", err=True)
    except click.Abort:
        answer = False
    if not answer:
        raise BadInput("nothing was run", where=source)
