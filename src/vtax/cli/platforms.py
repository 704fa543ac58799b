"""`vtax platforms`: lists drivers, their options and the platforms that run here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from vtax.cli.completion import platforms_and_drivers
from vtax.cli.language import translate
from vtax.cli.output import (
    json_option,
    missing_image,
    notify,
    print_json,
    print_keys,
    print_table,
    say,
)
from vtax.cli.probing import probing_lock
from vtax.errors import with_hint
from vtax.foreign_text import printable
from vtax.host.consents import has_consent
from vtax.host.home import Home
from vtax.image.build import checked
from vtax.platforms.base import Driver, Platform, Probe
from vtax.platforms.registry import drivers, forms, get, names
from vtax.study.keys import keys


@click.command("platforms")
@click.argument("name", metavar="[NAME]", required=False, shell_complete=platforms_and_drivers)
@click.option("--no-probe", is_flag=True, help="Only list platforms; do not probe them.")
@json_option
def command(name: str | None, no_probe: bool, as_json: bool) -> None:
    """List platforms and probe whether they run here; a probe starts a guest.

    With NAME of a platform: print its description, its probe and its options. With NAME of a driver: print the
    driver's options. While a run measures on this host, platforms are listed without probing them.
    """
    if name:
        _explain_named(name, as_json, no_probe=no_probe)
        return
    probes = {} if no_probe else _probes()
    rows = [
        (name, get(name).driver.name, get(name).driver.summary, probes.get(name))
        for name in names()
    ]
    rows += [(form, driver.name, driver.summary, None) for form, driver in forms().items()]
    if as_json:
        print_json(
            [{"name": n, "driver": d, "summary": s, **_probe_json(p)} for n, d, s, p in rows]
        )
        return
    first_of: dict[tuple[str, str], str] = {}
    shown = []
    for name, driver, summary, probe in rows:
        if same := _same_as(name):
            shown.append(
                (name, driver, _availability(probe), translate("same as {name}", name=same))
            )
            continue
        note, options = _note(probe, summary), _options(name)
        first = first_of.setdefault((driver, note), name)
        if first != name:
            is_summary = note.startswith(translate(summary))
            note = "" if is_summary else translate("as {name}", name=first)
        shown.append((name, driver, _availability(probe), ": ".join(filter(None, (note, options)))))
    print_table(("platform", "driver", "available", "note"), shown)


def _probes() -> dict[str, Probe]:
    """Return the probe of each platform; none while a run measures."""
    image = checked(Home.from_environment())
    with probing_lock("vtax platforms") as why_not:
        if why_not:
            notify(f"platforms were not probed: {why_not}")
            return {}
        return {name: get(name).probe(image) for name in names()}


def _explain_named(name: str, as_json: bool, *, no_probe: bool) -> None:
    """Print a platform with its probe, or a driver. Raises BadInput with the nearest known names."""
    if name in drivers() and name not in names():
        if as_json:
            print_json(_driver_json(drivers()[name]))
            return
        say(f"{name}: {translate(drivers()[name].summary)}\n")
        _print_driver(drivers()[name])
        return
    platform = get(name)
    probe, why_not = (None, "--no-probe") if no_probe else _probe_of(platform)
    own = platform.options.model_dump(exclude_unset=True)
    if as_json:
        print_json(
            {
                "platform": name,
                **_driver_json(platform.driver),
                "own_options": own,
                **_probe_json(probe),
                "not_probed": why_not,
            }
        )
        return
    driver = ", ".join(filter(None, (platform.driver.name, _written(own))))
    say(f"{name}: {translate(platform.driver.summary)}\n  {translate('driver')}: {driver}")
    for what, text in _probe_facts(probe, why_not):
        if text:
            say(f"  {what}: {printable(text)}")
    say()
    _print_driver(platform.driver)


def _probe_facts(probe: Probe | None, why_not: str) -> list[tuple[str, str]]:
    if probe is None:
        return [(translate("available"), f"not probed ({why_not})")]
    return [
        (translate("available"), _yes_or_no(probe)),
        (translate("marks"), ", ".join(map(translate, probe.marks))),
        (translate("note") if probe.available else translate("reason"), translate(probe.reason)),
        ("hint", probe.hint),
        ("hint", missing_image(Home.from_environment()) if probe.available else ""),
        (translate("version"), probe.version),
        (translate("probe"), f"{probe.seconds:.2f} s"),
    ]


def _probe_of(platform: Platform) -> tuple[Probe | None, str]:
    """(probe of the platform, why it was not probed)."""
    home = Home.from_environment()
    if platform.host_programs and not has_consent(
        home, [each.identity for each in platform.host_programs], ""
    ):
        return (
            None,
            "root would run programs that it names, without consent: see vtax shell --trust",
        )
    with probing_lock(f"vtax platforms {platform.name}") as why_not:
        return (None, why_not) if why_not else (platform.probe(checked(home)), "")


def _driver_json(driver: Driver) -> dict[str, Any]:
    options = [key.as_json() for key in keys(driver.Options)]
    return {
        "driver": driver.name,
        "summary": driver.summary,
        "options": options,
        "variants": driver.variants,
    }


def _print_driver(driver: Driver) -> None:
    print_keys("option", driver.Options)
    print_table(
        ("platform", "options"),
        [(name, _described_options(name, options)) for name, options in driver.variants.items()],
    )


def _described_options(name: str, options: Mapping[str, Any]) -> str:
    """Return the options of a platform, or the name of another one with the same."""
    if same := _same_as(name):
        return translate("same as {name}", name=same)
    return _written(options) or translate("default options")


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
    """Return the options of a platform; nothing for what is the only one of its driver, or a form of names."""
    variants = get(name).driver.variants if name in names() else {}
    return (_written(variants[name]) or translate("default options")) if len(variants) > 1 else ""


def _same_as(name: str) -> str:
    """Return the first of the names of a platform that has several; empty where it is this one."""
    variants = get(name).driver.variants if name in names() else {}
    first = min(
        (each for each, options in variants.items() if options == variants[name]), default=name
    )
    return "" if first == name else first


def _written(options: Mapping[str, Any]) -> str:
    """`accel=kvm, userns=true`: options, with booleans as in a study."""
    return ", ".join(
        f"{key}={str(v).lower() if isinstance(v, bool) else v}" for key, v in options.items()
    )


def _availability(probe: Probe | None) -> str:
    if probe is None:
        return "?"
    marks = ", ".join(map(translate, probe.marks)) if probe.available else ""
    return _yes_or_no(probe) + (f" ({marks})" if marks else "")


def _yes_or_no(probe: Probe) -> str:
    return translate("yes") if probe.available else translate("no")


def _note(probe: Probe | None, summary: str) -> str:
    if probe is None or (probe.available and not probe.reason):
        version = f" [{probe.version}]" if probe and probe.version else ""
        return f"{translate(summary)}{version}"
    reason = translate(probe.reason)
    return reason if probe.available else with_hint(reason, probe.hint)
