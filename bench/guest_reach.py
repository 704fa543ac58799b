"""What the root of a guest reaches of its host, tried from within on every platform that runs here.

`sudo .venv/bin/python bench/guest_reach.py [PLATFORM[:OPTION=VALUE]...]` prints the table of docs/security.md;
`--write` puts it there. Files are counted by directory. Platforms that do not run here are named with the reason.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from vtax.conformance import reach
from vtax.conformance.stage import CheckEnvironment, GuestStage
from vtax.errors import VtaxError
from vtax.host.home import Home
from vtax.image import recipe
from vtax.image.image import Image
from vtax.platforms import confinement, registry
from vtax.platforms.base import Platform

PAGE = Path(__file__).resolve().parents[1] / "docs/security.md"
BEGIN, END = "<!-- bench/guest_reach.py -->\n", "<!-- end -->\n"
LEVELS = dict.fromkeys(("podman", "docker", "lxc", "nspawn"), ("default", "strict", "none"))
_CAPABILITY = re.compile(r"capability (\d+)")
_SHOWN = 14


def platforms() -> list[str]:
    """Return the platforms of this host's kernel, with each level of confinement that they have."""
    found = []
    for name in registry.names():
        platform = registry.get(name)
        if platform.driver.isolation(platform.options) == "kernel":
            continue
        levels = LEVELS.get(name, ("",))
        found += [f"{name}:confinement={level}" if level else name for level in levels]
    return found


def platform_of(text: str) -> Platform:
    """Return a platform by its name, or by a driver's and options."""
    name, _, options = text.partition(":")
    if not options:
        return registry.get(name)
    given = dict(option.split("=", 1) for option in options.split(","))
    return registry.make("tried", name, given)


def tried(platform: Platform, environment: CheckEnvironment) -> dict[str, list[str]]:
    """Start a guest and return what its root reaches, see reach.reached."""
    with GuestStage(environment) as stage:
        stage.start(platform)
        return reach.reached(stage.guest())


def summary(found: Mapping[str, Sequence[str]]) -> str:
    """Return what is reached in one line: capabilities and files as numbers, the rest by name."""
    direct = found[""]
    kept = confinement.numbers(confinement.capabilities())
    numbers = {int(match[1]) for name in direct if (match := _CAPABILITY.fullmatch(name))}
    parts = [f"{len(numbers - kept)} more capabilities"] if numbers - kept else []
    if not numbers:
        parts.append("no capabilities")
    files = [name for name in direct if name.startswith("/")]
    read = Counter(_directory(name) for name in files if name.endswith(" (read)"))
    written = Counter(_directory(name) for name in files if not name.endswith(" (read)"))
    names = [name for name in direct if not name.startswith(("/", "capability "))]
    parts += sorted(name for name in names if not name.startswith("open_by_handle_at"))
    parts += ["open_by_handle_at"] * any(name.startswith("open_by_handle_at") for name in names)
    for what, of_kind in (("writes", written), ("reads what is root's alone in", read)):
        places = [f"{place} ({count})" for place, count in of_kind.most_common(_SHOWN)]
        parts += [f"{what} {', '.join(places)}"] if places else []
    parts += [f"nested: {', '.join(options for options in found if options)}"] * (len(found) > 1)
    return "; ".join(parts) or "nothing"


def _directory(path: str) -> str:
    return "/".join(path.split("/")[:3]).removesuffix(" (read)")


def table(names: Sequence[str], environment: CheckEnvironment) -> list[str]:
    """Return the lines of the table."""
    lines = ["| platform | beyond the policy |", "|---|---|"]
    for name in names:
        try:
            what = summary(tried(platform_of(name), environment))
        except VtaxError as error:
            what = f"not tried: {error.what}"
        lines.append(f"| {name.replace(':confinement=', ', ')} | {what} |")
        print(lines[-1], file=sys.stderr)
    return lines


def main() -> int:
    """Print the table, or write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("platforms", nargs="*")
    parser.add_argument("--write", action="store_true", help="into docs/security.md")
    given = parser.parse_args()
    home = Home.from_environment().ensure()
    image = Image(recipe.DEFAULT.key, home.images / recipe.DEFAULT.key)
    environment = CheckEnvironment(home, image)
    text = "\n".join(table(given.platforms or platforms(), environment)) + "\n"
    if not given.write:
        print(text, end="")
        return 0
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
