"""How deep, how many and how large: what guests, tools, files and other hosts send is bounded by this one table.

docs/security.md shows it, which a test compares. What has further limits names them where they are checked: a study
in study.limits, the rows of a bundle in store.bundle_lines. Programs that run where vtax is not installed have the
same numbers as constants of their own, which the same test compares: guest.agent, campaign.prepare.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limit:
    """Limits of one kind of input; 0: it has none of that kind. counted: what count counts, in the plural."""

    what: str
    depth: int = 0
    count: int = 0
    counted: str = ""
    size_bytes: int = 0


HEADER = Limit("a guest: header of a frame", depth=4, size_bytes=1 << 20)
PAYLOAD = Limit("a guest: data of one answer", size_bytes=64 << 20)
OUTPUT = Limit("a guest: one output that is stored", size_bytes=8 << 20)
OUTPUTS = Limit("a guest: outputs of a trial that are stored", size_bytes=32 << 20)
AUDIT = Limit("a guest: what it says of itself", count=500, counted="facts", size_bytes=256 << 10)
MACHINE = Limit("a machine with a half of a topology: one answer", size_bytes=16 << 20)
ANSWER = Limit("a host of a campaign: each stream of an answer", size_bytes=1 << 20)
LOGGED = Limit("a host of a campaign: its answer in the log of Ansible", size_bytes=16 << 20)
FETCHED = Limit("a host of a campaign: a bundle that is fetched", size_bytes=1 << 30)
CAMPAIGN = Limit("a campaign: its settings, and the record of a host", size_bytes=16 << 20)
VALUE = Limit("a value of a fact, a warning or a store", depth=16, count=10_000, counted="items")
DOCUMENT = Limit("any other JSON or TOML, of tools, files and stores", depth=40)
STUDY = Limit(
    "a study file", depth=8, count=20_000, counted="values and tables", size_bytes=256 << 10
)
PROGRAM_FILES = Limit("a study: files of a program", count=32, counted="files", size_bytes=32 << 20)
BUNDLE = Limit("a bundle, uncompressed", size_bytes=4 << 30)
BUNDLE_LINE = Limit("a bundle: one line", size_bytes=256 << 10)
STORED_OUTPUT = Limit("a bundle or a store: one output, unpacked", size_bytes=32 << 20)
OWN_IMAGE = Limit(
    "files of an image of one's own", depth=128, count=100_000, counted="files and directories"
)
CARRIED_IMAGE = Limit(
    "an image that is imported", depth=128, count=200_000, counted="members", size_bytes=32 << 30
)
PACK = Limit("a pack: parts of a name; its manifest", depth=16, size_bytes=1 << 20)
JOURNAL = Limit("a journal", size_bytes=256 << 20)
JOURNAL_LINE = Limit("a journal: one line", size_bytes=1 << 20)
CONSENTS = Limit("recorded consents", size_bytes=1 << 20)

TABLE = tuple(value for value in list(globals().values()) if isinstance(value, Limit))
