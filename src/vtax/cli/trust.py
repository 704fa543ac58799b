"""Consent to programs that a study has root of this host run: once per file, by a prompt or by --trust."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from vtax.cli.output import notify
from vtax.errors import BadInput
from vtax.host.consents import Consent, has_consent, record_consent
from vtax.host.home import Home
from vtax.platforms.base import HostProgram
from vtax.runner.consent import require_consent


def consented(
    home: Home,
    programs: Sequence[HostProgram],
    source: str,
    *,
    digest: str = "",
    trust: bool = False,
) -> Sequence[HostProgram]:
    """Return the programs, after the user has consented to them for this file.

    source: the file that names them.
    digest: SHA-256 of the file; empty without a file: then consent for any file counts.

    Raises BadInput without consent, which a prompt on a terminal or `trust` gives.
    """
    identities = [program.identity for program in programs]
    if not programs or has_consent(home, identities, digest):
        return programs
    if not trust:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            require_consent(programs, (), source)
        _prompt(programs, source)
    record_consent(home, Consent(digest, source, tuple(identities)))
    return programs


def _prompt(programs: Sequence[HostProgram], source: str) -> None:
    notify(f"{source} would run these programs as root:")
    for program in programs:
        notify(f"  {program}")
    try:
        answer = click.confirm("Run them, now and as long as this file is unchanged?", err=True)
    except click.Abort:
        answer = False
    if not answer:
        raise BadInput("nothing was run", where=source)
