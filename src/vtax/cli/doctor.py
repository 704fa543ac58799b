"""`vtax doctor`: what can run here, and what makes this host a bad place to measure."""

from __future__ import annotations

from collections.abc import Mapping

import click

from vtax.cli.output import as_typed, json_option, missing_image, print_json, print_table
from vtax.cli.probing import free_to_probe
from vtax.doctor.examine import Examination, examine
from vtax.host.home import Home
from vtax.image.build import checked

_STYLES = {"ok": "", "warn": "yellow", "bad": "bold red"}


@click.command("doctor")
@click.option(
    "--calibrate",
    "calibrate_for",
    metavar="[=TIME]",
    is_flag=False,
    flag_value="60s",
    help="Measure instead how large an effect this host can see: native against native, 60 s or as long as it says.",
)
@json_option
def command(calibrate_for: str | None, as_json: bool) -> None:
    """Say, in under 30 seconds, what can run here and what disturbs measuring, each with its hint."""
    if calibrate_for is not None:
        from vtax.cli.calibrate import calibrate

        calibrate(calibrate_for, as_json=as_json)
        return
    with free_to_probe("vtax doctor") as why_not:
        examination = examine(checked(Home.from_environment()), not_probed=why_not)
    hint = missing_image(Home.from_environment())
    if as_json:
        print_json({**examination.as_json(), "image": {"hint": hint}})
        return
    _print_platforms(examination)
    if hint:
        click.echo(as_typed(f"{hint}\n"))
    _print_findings(examination)


def _print_platforms(examination: Examination) -> None:
    """Platforms of which the same is to be said share a row."""
    if examination.not_probed:
        click.echo(f"what runs here was not tried: {examination.not_probed}\n")
        return
    rows: dict[tuple[str, str, str], list[str]] = {}
    hints: dict[str, list[str]] = {}
    for name, probe in examination.platforms.items():
        if probe is None:
            continue
        notes = [*probe.marks, probe.reason] if probe.available else [probe.reason]
        row = ("yes" if probe.available else "no", "; ".join(filter(None, notes)), probe.version)
        rows.setdefault(row, []).append(name)
        if not probe.available:
            hints.setdefault(probe.hint, []).append(name)
    print_table(
        ("platform", "runs here", "remark", "version"),
        [("\n".join(names), *row) for row, names in rows.items()],
    )
    _print_hints({", ".join(names): hint for hint, names in hints.items()})


def _print_findings(examination: Examination) -> None:
    from rich.text import Text

    rows = [
        (
            Text(finding.level, style=_STYLES[finding.level]),
            finding.name,
            finding.shows,
            "" if finding.level == "ok" else finding.why,
        )
        for finding in examination.findings
    ]
    print_table(("", "host", "shows", "why it matters"), rows)
    if examination.not_shown:
        click.echo(f"not shown by this host: {', '.join(examination.not_shown)}\n")
    _print_hints(
        {
            finding.name + (" (vtax run --tune does it)" if finding.tunable else ""): finding.hint
            for finding in examination.findings
        }
    )


def _print_hints(hints: Mapping[str, str]) -> None:
    """What to do about what, below its table: whole lines, since commands are copied from here."""
    for what, hint in hints.items():
        if hint:
            click.echo(as_typed(f"{what}:\n    {hint}"))
    click.echo()
