"""Values that several commands take as text."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from vtax.cli.arguments import listed, moment_of, share_of_option
from vtax.cli.commands import COMMANDS
from vtax.cli.main import group
from vtax.errors import BadInput


@pytest.mark.parametrize(
    ("text", "share"),
    [
        *((text, 0.05) for text in ("5%", "5 %", " 0.05 ", ".05", "5.0%", "5", "5.0")),
        ("0.5%", 0.005),
        ("0.5", 0.5),
        ("1", 0.01),
        ("1%", 0.01),
        ("0.99", 0.99),
        ("99", 0.99),
        ("2.3%", 0.023),
    ],
)
def test_a_share_is_a_percentage_or_a_bare_number_below_1(text, share):
    assert share_of_option(text, "--margin") == share


@pytest.mark.parametrize(
    "text",
    ["0", "0%", "0.0", "100", "100%", "100.0%", "1000", "-5%", "nan", "inf", "1e-2", "5%%", ""],
)
def test_what_is_no_share_is_refused(text):
    with pytest.raises(BadInput) as refused:
        share_of_option(text, "--margin")
    assert refused.value.where == "--margin"
    assert "5%" in f"{refused.value.what} {refused.value.hint}"


@pytest.fixture
def tokyo(in_zone) -> None:
    """A host nine hours ahead of UTC."""
    in_zone("Asia-9")


@pytest.mark.usefixtures("tokyo")
def test_a_day_begins_in_the_time_zone_of_the_host():
    assert moment_of("1970-01-02", "--since") == 15 * 3600
    assert moment_of("1970-01-02T01:30", "--since") == 16.5 * 3600
    assert moment_of("1970-01-02T00:00+00:00", "--since") == 24 * 3600


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", ""])
def test_what_is_no_day_is_refused(text):
    with pytest.raises(BadInput, match="not a day or a time"):
        moment_of(text, "--since")


_FILES = {("conformance", "outputs"), ("conformance", "failed"), ("new", "files")}
_OTHER_COMMAS = {
    ("conformance", "values"),
    ("run", "boot"),
    ("run", "check"),
    ("compare", "fail_if"),
    ("campaign", "asked"),
    ("show", "where"),
    ("explain", "where"),
}
"""Commas of margins are tested in test_report_host_cpu.py and test_campaign_change.py, those of conditions in test_question.py."""


def repeatable() -> Iterator[tuple[str, click.Parameter]]:
    """Options of commands."""
    for name in COMMANDS:
        command = group.get_command(click.Context(group), name)
        below = command.commands.values() if isinstance(command, click.Group) else [command]
        yield from (
            (name, option)
            for each in below
            for option in each.params
            if getattr(option, "multiple", False)
        )


def test_every_repeatable_option_takes_commas_too():
    found = [
        (name, option)
        for name, option in repeatable()
        if (name, option.name) not in _FILES | _OTHER_COMMAS
    ]
    assert len(found) > 20
    for name, option in found:
        assert option.callback is not None, (name, option.name)
        given = ("1,2", "3") if option.name == "removed" else ("a,b", "c")
        entries = option.callback(click.Context(group), option, given)
        assert list(map(str, entries)) == [*given[0].split(","), given[1]], (name, option.name)


def test_a_comma_within_a_value_stays():
    option = click.Option(["--where"], multiple=True)
    context = click.Context(group)
    assert listed(context, option, ("size=1, 2", "mtu=9, mode=x", "mtu=9")) == (
        "size=1, 2",
        "mtu=9",
        "mode=x",
    )
    with pytest.raises(BadInput, match="' ,' names nothing") as refused:
        listed(context, option, (" ,",))
    assert refused.value.where == "--where"
