"""Where the image's packages come from: the Debian mirror that the host's own apt uses.

A host without one (Ubuntu) leaves the choice to mmdebstrap. No mirror is named in vtax.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vtax.errors import ImageError
from vtax.host.packages import packages_hint
from vtax.host.process import run

KEYRINGS = (
    "/usr/share/keyrings/debian-archive-keyring.gpg",
    "/usr/share/keyrings/debian-archive-keyring.pgp",
)
_SUITES = re.compile(r"(stable|testing|unstable|sid|buster|bullseye|bookworm|trixie|forky|duke)")
_ONE_LINE = re.compile(
    r"deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<components>.+)"
)


@dataclass(frozen=True)
class PackageSource:
    """One binary package source of apt."""

    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str = ""

    @property
    def is_debian(self) -> bool:
        """Whether it is a mirror of Debian's main archive, by its suite, component and key."""
        if self.signed_by and "debian-archive" not in self.signed_by:
            return False
        return "main" in self.components and any(map(_SUITES.fullmatch, self.suites))


def parse_one_line(text: str) -> Iterator[PackageSource]:
    """Yield the sources of a `.list` file (sources.list(5), one-line style)."""
    for line in text.splitlines():
        if match := _ONE_LINE.fullmatch(line.partition("#")[0].strip()):
            signed_by = re.search(r"signed-by=(\S+)", match["options"] or "", re.IGNORECASE)
            yield PackageSource(
                (match["uri"],),
                (match["suite"],),
                tuple(match["components"].split()),
                signed_by[1] if signed_by else "",
            )


def parse_deb822(text: str) -> Iterator[PackageSource]:
    """Yield the sources of a `.sources` file (sources.list(5), deb822 style)."""
    for paragraph in re.split(r"\n[ \t]*\n", text):
        lines = [line for line in paragraph.splitlines() if not line.startswith("#")]
        unfolded = re.sub(r"\n[ \t]+", " ", "\n".join(lines))
        fields: dict[str, str] = defaultdict(str)
        for line in unfolded.splitlines():
            name, colon, value = line.partition(":")
            if colon:
                fields[name.strip().lower()] = value.strip()
        if "deb" in fields["types"].split() and fields["enabled"].lower() != "no":
            yield PackageSource(
                tuple(fields["uris"].split()),
                tuple(fields["suites"].split()),
                tuple(fields["components"].split()),
                fields["signed-by"],
            )


def host_mirror(apt: Path = Path("/etc/apt")) -> str | None:
    """Return the URI of the host's Debian mirror; None when it has none. apt: the configuration directory."""
    for path in [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]:
        with suppress(OSError, UnicodeDecodeError):
            text = path.read_text()
            deb822 = path.suffix == ".sources" or re.search(r"^Types\s*:", text, re.MULTILINE)
            for source in parse_deb822(text) if deb822 else parse_one_line(text):
                if source.is_debian and source.uris:
                    return _fetchable(source.uris[0])
    return None


def keyring() -> str:
    """Return the path of Debian's own keys. Raises ImageError when they are not installed."""
    for path in KEYRINGS:
        if Path(path).exists():
            return path
    raise ImageError(
        "Debian's archive keys are not installed", hint=packages_hint("debian-archive-keyring")
    )


def host_proxies() -> tuple[str, ...]:
    """Return the host's apt proxy settings as apt option lines; needed to fetch, and never kept in an image."""
    proxy = re.compile(r'Acquire::(http|https|ftp)::Proxy[^ ]* "[^"]', re.IGNORECASE)
    return tuple(filter(proxy.match, run(["apt-config", "dump"]).stdout.splitlines()))


def _fetchable(uri: str) -> str:
    """Return a URI of a mirror from which a build can fetch packages.

    `mirror+file:` names a file with a list of mirrors (apt-transport-mirror(1)), of which the first is taken. `file:`
    becomes `copy:`, since dpkg works within the tree, from where the host's files cannot be read.
    """
    if uri.startswith("mirror+file:"):
        lines = Path(re.sub(r"^mirror\+file:/*", "/", uri)).read_text().split()
        uri = lines[0]
    return re.sub(r"^file:", "copy:", uri)
