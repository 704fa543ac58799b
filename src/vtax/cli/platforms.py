"""`vtax platforms`: the drivers, their options, and what this host can run."""

from __future__ import annotations

from typing import Any

import click

from vtax.cli.completion import platforms_and_drivers
from vtax.cli.output import as_typed, json_option, missing_image, notify, print_json, print_keys, print_table
from vtax.cli.probing import free_to_probe
from vtax.errors import with_hint
from vtax.foreign_text import printable
from vtax.host.consents import is_agreed
from vtax.host.home import Home
from vtax.image.build import checked
from vtax.platforms.base import Driver, Platform, Probe
from vtax.platforms.registry import drivers, forms, get, names
from vtax.study.keys import keys


@click.command("platforms")
@click.argument("name", metavar="[NAME]", required=False, shell_complete=platforms_and_drivers)
@click.option("--no-probe", is_flag=True, help="Only list; do not try what runs here.")
@json_option
def command(name: str | None, no_probe: bool, as_json: bool) -> None:
    """List platforms and, found out by starting each, whether this host can run them.

    With NAME of one platform: its description, what its probe found, and its options. With NAME of a driver: the
    driver's options. While something measures on this host nothing is started, and platforms are only listed.
    """
    if name:
        _explain_named(name, as_json, no_probe=no_probe)
        return
    probes = {} if no_probe else _probes()
    rows = [(name, get(name).driver.name, get(name).driver.summary, probes.get(name)) for name in names()]
    rows += [(form, driver.name, driver.summary, None) for form, driver in forms().items()]
    if as_json:
        print_json([{"name": n, "driver": d, "summary": s, **_probe_json(p)} for n, d, s, p in rows])
        return
    first_of: dict[tuple[str, str], str] = {}
    shown = []
    for name, driver, summary, probe in rows:
        note = _note(probe, summary)
        first = first_of.setdefault((driver, note), name)
        shown.append((name, driver, _answer(probe), note if first == name else f"as {first}{_options(name)}"))
    print_table(("platform", "driver", "runs here", "remark"), shown)


def _probes() -> dict[str, Probe]:
    """What each platform's probe found; nothing while something measures."""
    image = checked(Home.from_environment())
    with free_to_probe("vtax platforms") as why_not:
        if why_not:
            notify(f"what runs here was not tried: {why_not}")
            return {}
        return {name: get(name).probe(image) for name in names()}


def _explain_named(name: str, as_json: bool, *, no_probe: bool) -> None:
    """A platform with its probe, or a driver that has no platform of its name. Raises BadInput with the nearest."""
    if name in drivers() and name not in names():
        if as_json:
            print_json(_driver_json(drivers()[name]))
            return
        click.echo(f"{name}: {drivers()[name].summary}\n")
        _print_driver(drivers()[name])
        return
    platform = get(name)
    probe, why_not = (None, "--no-probe") if no_probe else _probe_of(platform)
    own = platform.options.model_dump(exclude_unset=True)
    if as_json:
        print_json({"platform": name, **_driver_json(platform.driver), "own_options": own,
                    **_probe_json(probe), "not_probed": why_not})  # fmt: skip
        return
    options = [f"{key}={value}" for key, value in own.items()]
    click.echo(f"{name}: {platform.driver.summary}\n  driver: {', '.join([platform.driver.name, *options])}")
    for what, text in _facts(probe, why_not):
        if text:
            click.echo(as_typed(f"  {what}: {printable(text)}"))
    click.echo()
    _print_driver(platform.driver)


def _facts(probe: Probe | None, why_not: str) -> list[tuple[str, str]]:
    if probe is None:
        return [("runs here", f"not probed ({why_not})")]
    return [
        ("runs here", "yes" if probe.available else "no"),
        ("marks", ", ".join(probe.marks)),
        ("note" if probe.available else "reason", probe.reason),
        ("hint", probe.hint),
        ("hint", missing_image(Home.from_environment()) if probe.available else ""),
        ("version", probe.version),
        ("probe", f"{probe.seconds:.2f} s"),
    ]


def _probe_of(platform: Platform) -> tuple[Probe | None, str]:
    """(what the platform's probe found, why it was not probed)."""
    home = Home.from_environment()
    if platform.host_programs and not is_agreed(home, [each.identity for each in platform.host_programs], ""):
        return None, "root would run what it names, and nobody agreed to that: see vtax shell --trust"
    with free_to_probe(f"vtax platforms {platform.name}") as why_not:
        return (None, why_not) if why_not else (platform.probe(checked(home)), "")


def _driver_json(driver: Driver) -> dict[str, Any]:
    options = [key.as_json() for key in keys(driver.Options)]
    return {"driver": driver.name, "summary": driver.summary, "options": options, "variants": driver.variants}


def _print_driver(driver: Driver) -> None:
    print_keys("option", driver.Options)
    print_table(
        ("platform", "its options"),
        [(n, ", ".join(f"{k}={v}" for k, v in o.items()) or "defaults") for n, o in driver.variants.items()],
    )


def _probe_json(probe: Probe | None) -> dict[str, Any]:
    if probe is None:
        return {}
    return {
        "available": probe.available,
        "reason": probe.reason,
        "hint": probe.hint,
        "marks": list(probe.marks),
        "version": probe.version,
        "probe_s": round(probe.seconds, 3),
    }


def _options(name: str) -> str:
    """What makes a variant, in brackets."""
    own = ", ".join(f"{key}={value}" for key, value in get(name).driver.variants[name].items())
    return f" ({own})" if own else ""


def _answer(probe: Probe | None) -> str:
    if probe is None:
        return "?"
    return "yes" + (f" ({', '.join(probe.marks)})" if probe.marks else "") if probe.available else "no"


def _note(probe: Probe | None, summary: str) -> str:
    if probe is None or (probe.available and not probe.reason):
        return f"{summary} [{probe.version}]" if probe and probe.version else summary
    return probe.reason if probe.available else with_hint(probe.reason, probe.hint)
