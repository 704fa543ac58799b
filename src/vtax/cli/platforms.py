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
    platforms = [(name, get(name).driver) for name in names()]
    platforms += forms().items()
    if as_json:
        entries = []
        for name, driver in platforms:
            entry = {"name": name, "driver": driver.name, "summary": driver.summary}
            entries.append({**entry, **_probe_json(probes.get(name))})
        print_json(entries)
        return
    first_of: dict[tuple[str, str], str] = {}
    rows = []
    for name, driver in platforms:
        probe, synonyms = probes.get(name), _same_as(name)
        note, options = _note(probe, driver.summary), _options(name)
        if synonyms:
            note, options = translate("same as {name}", name=synonyms), ""
        elif first_of.setdefault((driver.name, note), name) != name:
            is_summary = note.startswith(translate(driver.summary))
            first = first_of[driver.name, note]
            note = "" if is_summary else translate("as {name}", name=first)
        text = ": ".join(filter(None, (note, options)))
        rows.append((name, driver.name, _availability(probe), text))
    print_table(("platform", "driver", "available", "note"), rows)


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
    options = platform.options.model_dump(exclude_unset=True)
    if as_json:
        print_json(
            {
                "platform": name,
                **_driver_json(platform.driver),
                "own_options": options,
                **_probe_json(probe),
                "not_probed": why_not,
            }
        )
        return
    driver = ", ".join(filter(None, (platform.driver.name, _format_options(options))))
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
    """Return (probe of the platform, why it was not probed)."""
    home = Home.from_environment()
    programs = [program.identity for program in platform.host_programs]
    if programs and not has_consent(home, programs, ""):
        why_not = "root would run programs that it names, without consent: see vtax shell --trust"
        return None, why_not
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
    rows = []
    for name, options in driver.variants.items():
        rows.append((name, _described_options(name, options)))
    print_table(("platform", "options"), rows)


def _described_options(name: str, options: Mapping[str, Any]) -> str:
    """Return the options of a platform, or the name of another one with the same."""
    synonyms = _same_as(name)
    if synonyms:
        return translate("same as {name}", name=synonyms)
    return _format_options(options) or translate("default options")


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
    if len(variants) < 2:
        return ""
    return _format_options(variants[name]) or translate("default options")


def _same_as(name: str) -> str:
    """Return the first of the names of a platform that has several; empty where it is this one."""
    variants = get(name).driver.variants if name in names() else {}
    synonyms = [other for other, options in variants.items() if options == variants[name]]
    first = min(synonyms, default=name)
    return "" if first == name else first


def _format_options(options: Mapping[str, Any]) -> str:
    """Return `accel=kvm, userns=true`: options, with booleans as in a study."""
    parts = []
    for key, value in options.items():
        text = str(value).lower() if isinstance(value, bool) else value
        parts.append(f"{key}={text}")
    return ", ".join(parts)


def _availability(probe: Probe | None) -> str:
    if probe is None:
        return "?"
    if not probe.available or not probe.marks:
        return _yes_or_no(probe)
    return f"{_yes_or_no(probe)} ({', '.join(map(translate, probe.marks))})"


def _yes_or_no(probe: Probe) -> str:
    return translate("yes") if probe.available else translate("no")


def _note(probe: Probe | None, summary: str) -> str:
    if probe is None or (probe.available and not probe.reason):
        version = f" [{probe.version}]" if probe and probe.version else ""
        return f"{translate(summary)}{version}"
    reason = translate(probe.reason)
    return reason if probe.available else with_hint(reason, probe.hint)
