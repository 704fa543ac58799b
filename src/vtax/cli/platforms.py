"""`vtax platforms`: the drivers, their options, and what this host can run."""

from __future__ import annotations

from typing import Any

import click

from vtax.cli.output import json_option, print_json, print_keys, print_table, tell
from vtax.cli.quiet import free_to_probe
from vtax.errors import with_cure
from vtax.host.home import Home
from vtax.image.build import checked
from vtax.platforms.base import Driver, Probe
from vtax.platforms.registry import drivers, forms, get, names
from vtax.study.keys import keys


@click.command("platforms")
@click.argument("driver_name", metavar="[DRIVER]", required=False)
@click.option("--no-probe", is_flag=True, help="Only list; do not try what runs here.")
@json_option
def command(driver_name: str | None, no_probe: bool, as_json: bool) -> None:
    """List platforms and, found out by starting each, whether this host can run them. With DRIVER, its options.

    While something measures on this host nothing is started, and platforms are only listed.
    """
    if driver_name:
        _explain(_driver(driver_name), as_json)
        return
    probes = {} if no_probe else _probes()
    rows = [(name, get(name).driver.name, get(name).driver.summary, probes.get(name)) for name in names()]
    rows += [(form, driver.name, driver.summary, None) for form, driver in forms().items()]
    if as_json:
        print_json([{"name": n, "driver": d, "summary": s, **_probe_json(p)} for n, d, s, p in rows])
        return
    said: dict[tuple[str, str], str] = {}
    shown = []
    for name, driver, summary, probe in rows:
        remark = _remark(probe, summary)
        first = said.setdefault((driver, remark), name)
        shown.append((name, driver, _answer(probe), remark if first == name else f"as {first}{_options(name)}"))
    print_table(("platform", "driver", "runs here", "remark"), shown)


def _probes() -> dict[str, Probe]:
    """What each platform's probe found; nothing while something measures."""
    image = checked(Home.from_environment())
    with free_to_probe("vtax platforms") as why_not:
        if why_not:
            tell(f"what runs here was not tried: {why_not}")
            return {}
        return {name: get(name).probe(image) for name in names()}


def _driver(name: str) -> Driver:
    if name in drivers():
        return drivers()[name]
    return get(name).driver


def _explain(driver: Driver, as_json: bool) -> None:
    if as_json:
        options = [key.as_json() for key in keys(driver.Options)]
        print_json(
            {"driver": driver.name, "summary": driver.summary, "options": options, "variants": driver.variants}
        )
        return
    click.echo(f"{driver.name}: {driver.summary}\n")
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
        "cure": probe.cure,
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


def _remark(probe: Probe | None, summary: str) -> str:
    if probe is None or (probe.available and not probe.reason):
        return f"{summary} [{probe.version}]" if probe and probe.version else summary
    return probe.reason if probe.available else with_cure(probe.reason, probe.cure)
