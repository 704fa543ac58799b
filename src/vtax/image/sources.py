"""Where the image's packages come from: the Debian mirror that the host's own apt uses.

A host without one (Ubuntu) leaves the choice to mmdebstrap. No mirror is named in vtax.
"""

from __future__ import annotations

import re
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
        return (
            any(_SUITES.fullmatch(suite) for suite in self.suites)
            and "main" in self.components
            and ("debian-archive" in self.signed_by or not self.signed_by)
        )


def parse_one_line(text: str) -> Iterator[PackageSource]:
    """Return sources of a `.list` file (sources.list(5), one-line style)."""
    for line in text.splitlines():
        if found := _ONE_LINE.fullmatch(line.partition("#")[0].strip()):
            signed_by = re.search(r"signed-by=(\S+)", found["options"] or "", re.IGNORECASE)
            yield PackageSource(
                (found["uri"],),
                (found["suite"],),
                tuple(found["components"].split()),
                signed_by[1] if signed_by else "",
            )


def parse_deb822(text: str) -> Iterator[PackageSource]:
    """Return sources of a `.sources` file (sources.list(5), deb822 style)."""
    for paragraph in re.split(r"\n[ \t]*\n", text):
        lines = [line for line in paragraph.splitlines() if not line.startswith("#")]
        unfolded = re.sub(r"\n[ \t]+", " ", "\n".join(lines))
        fields = {
            name.strip().lower(): value.strip()
            for name, colon, value in (line.partition(":") for line in unfolded.splitlines())
            if colon
        }
        if (
            "deb" in fields.get("types", "").split()
            and fields.get("enabled", "yes").lower() != "no"
        ):
            words = {
                name: tuple(fields.get(name, "").split())
                for name in ("uris", "suites", "components")
            }
            yield PackageSource(
                words["uris"], words["suites"], words["components"], fields.get("signed-by", "")
            )


def host_mirror(apt: Path = Path("/etc/apt")) -> str | None:
    """URI of the host's Debian mirror, None when it has none. apt: the configuration directory."""
    for path in [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]:
        with suppress(OSError, UnicodeDecodeError):
            text = path.read_text()
            deb822 = path.suffix == ".sources" or re.search(r"^Types\s*:", text, re.MULTILINE)
            for source in parse_deb822(text) if deb822 else parse_one_line(text):
                if source.is_debian and source.uris:
                    return _resolved(source.uris[0])
    return None


def keyring() -> str:
    """Path of Debian's own keys. Raises ImageError when they are not installed."""
    for path in KEYRINGS:
        if Path(path).exists():
            return path
    raise ImageError(
        "Debian's archive keys are not installed", hint=packages_hint("debian-archive-keyring")
    )


def host_proxies() -> tuple[str, ...]:
    """Return the host's apt proxy settings as apt option lines; needed to fetch, and never kept in an image."""
    dump = run(["apt-config", "dump"]).stdout.splitlines()
    return tuple(
        line
        for line in dump
        if re.match(r'Acquire::(http|https|ftp)::Proxy[^ ]* "[^"]', line, re.IGNORECASE)
    )


def _resolved(uri: str) -> str:
    """Return a `mirror+file:` URI stands for a list of mirrors (apt-transport-mirror(1)): the first one.

    A `file:` URI becomes a `copy:` one: dpkg works within the tree, from where the host's files cannot be read.
    """
    if uri.startswith("mirror+file:"):
        lines = Path(re.sub(r"^mirror\+file:/*", "/", uri)).read_text().split()
        uri = lines[0]
    return re.sub(r"^file:", "copy:", uri)
