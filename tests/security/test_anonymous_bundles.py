"""Identities planted in every text of a real run, in many spellings: an anonymized bundle has none of them."""

from __future__ import annotations

import gzip
import hashlib
import ipaddress
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from vtax.cli.main import group
from vtax.store import schema
from vtax.store.bundle import Bundle
from vtax.store.exporting import export_run
from vtax.store.importing import import_bundle
from vtax.store.store import Store

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "tour.vtax.gz"
FORMS = 30  # of each identity
FIXED = {
    "run": ("name", "status", "vtax_version", "image_key", "identity"),
    "session": ("boot_id",),
    "cell": ("key", "point", "benchmark", "topology"),
    "metric": ("benchmark", "name", "unit", "better", "average", "fixed_work"),
    "trial": ("status",),
    "output": ("role",),
    "counter": ("place",),
    "warning": ("code",),
}  # columns of keywords and digests
WRAPPERS = (
    "{}", "({})", "'{}'", '"{}"', "[{}]", "<{}>", "key={}", "addr:{}", "{},", "{};", "/srv/{}/x", "x_{}_y", "x-{}-y",
    "_{}_", "{}.", "\t{}\n", '\\"k\\":\\t\\"{}\\"', "first\\n{}\\n", "k%3D{}%20", "@{} ", "{}/24", "|{}|", "={}=",
    "{}\r\n", "{}!", "#{}", "*{}*", "«{}»", "~{}", "{}\N{NO-BREAK SPACE}x",
)  # fmt: skip


def hexadecimal(random: Random, count: int) -> str:
    """Digits of which at least one is a letter and one is none."""
    return "a" + "".join(random.choice("0123456789abcdef") for _ in range(count - 2)) + "7"


def grouped(digits: str, size: int, joint: str) -> str:
    return joint.join(digits[at : at + size] for at in range(0, len(digits), size))


def word(random: Random, count: int) -> str:
    return "q" + "".join(random.choice("bcdfgjkwxz") for _ in range(count - 1))


def names(name: str) -> tuple[str, ...]:
    return (name, name.upper(), name.title(), name.replace("-", "_"), name.replace("-", "."))


def of_mac(digits: str) -> tuple[str, ...]:
    colons = grouped(digits, 2, ":")
    return (
        colons,
        colons.upper(),
        grouped(digits, 2, "-"),
        grouped(digits, 2, "-").upper(),
        grouped(digits, 4, "."),
        grouped(digits, 6, "-"),
        grouped(digits, 2, "_"),
        digits,
        f"BOOTIF=01-{grouped(digits, 2, '-')}",
        f"ifname=eth0:{colons}",
        f"enx{digits}",
        f"12:30:05:{colons}",
        f"hwaddr {digits}",
        grouped(digits, 2, "%3A"),
    )


def of_ipv4(text: str) -> tuple[str, ...]:
    number = ipaddress.IPv4Address(text)
    return (
        text,
        f"::ffff:{text}",
        f"[::ffff:{text}]:80",
        f"{text}:5201",
        text.replace(".", "-"),
        f"ip={text}::10.0.0.1",
        f"{text}.5201",
        f"IP {text}.5201 > {text}.40000:",
        f"::ffff:{number.packed.hex()[:4]}:{number.packed.hex()[4:]}",
        number.packed.hex().upper(),
        number.packed[::-1].hex().upper(),
        str(int(number)),
        f"64:ff9b::{text}",
    )


def of_ipv6(text: str) -> tuple[str, ...]:
    long = ipaddress.IPv6Address(text).exploded
    return (
        text,
        text.upper(),
        long,
        long.upper(),
        f"[{text}]:5201",
        f"{text}%eth0",
        f"src={text}",
        long.replace(":", ""),
    )


def of_serial(text: str) -> tuple[str, ...]:
    return (
        f"S/N: {text}",
        f"S/N:{text}",
        text,
        text.lower(),
        f'"serial": "{text}"',
        f"ID_SERIAL_SHORT={text}",
        f"SN={text}",
    )


def of_disk(text: str) -> tuple[str, ...]:
    return (
        f"ata-Maker_SSD_870_{text}",
        f"/dev/disk/by-id/nvme-Maker_{text}-part1",
        text,
        text.lower(),
        f"ATA-MAKER_{text}",
        f"scsi-SATA_Maker_{text}",
    )


def of_uuid(digits: str) -> tuple[str, ...]:
    text = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return (
        text,
        text.upper(),
        f"root=UUID={text}",
        digits,
        text.replace("-", "_"),
        f"by-uuid/{text}",
        f"{{{text}}}",
    )


def of_wwn(digits: str) -> tuple[str, ...]:
    spaced = f"{digits[0]} {digits[1:7]} {digits[7:]}"
    return (
        f"wwn-0x{digits}",
        f"WWN-0x{digits.upper()}",
        f"naa.{digits}",
        f"LU WWN Device Id: {spaced}",
        f"wwn-0x{digits}-part1",
    )


class Identities:
    """Twelve identities of a host and its people, and how each may be spelled."""

    def __init__(self, random: Random) -> None:
        hexa = lambda count: hexadecimal(random, count)  # noqa: E731

        def serial() -> str:
            first, letters = random.randrange(10), word(random, 3).upper()
            return f"S{first}{letters}{random.randrange(10**6):06}K"

        self.host = f"{word(random, 5)}-{random.randrange(2, 10)}{random.choice('346')}"
        self.user = word(random, 6)
        self.mac, self.ipv4 = (
            hexa(12),
            f"10.{random.randrange(20, 250)}.{random.randrange(20, 250)}.{random.randrange(20, 250)}",
        )
        self.ipv6 = f"2a01:{hexa(4)}::{hexa(4)}:{random.randrange(10, 99)}"
        self.spelled: dict[str, tuple[str, ...]] = {
            self.host: (
                *names(self.host),
                f"{self.host}.lab.example",
                f"{self.host.upper()}.LAB.EXAMPLE",
            ),
            self.user: (
                *names(self.user),
                f"/home/{self.user}/x",
                f"{self.user}@{self.host}",
                f"{self.user}@{self.ipv4}",
                f"{self.user}@198.18.0.1",
                f"{self.user.upper()}%40mail.example",
                f"postgresql://{self.user}:s3cret@{self.host}/x",
                f"https://{self.user}:p%40ss@198.18.0.1/",
            ),
            self.mac: of_mac(self.mac),
            self.ipv4: of_ipv4(self.ipv4),
            self.ipv6: of_ipv6(self.ipv6),
            (board := serial()): of_serial(board),
            (disk := serial()): of_disk(disk),
            (uuid := hexa(32)): of_uuid(uuid),
            (machine := hexa(32)): (
                machine,
                machine.upper(),
                f"machine-id: {machine}",
                f"/run/log/{machine}/x",
            ),
            (fat := f"{hexa(4)}{hexa(4)}"): tuple(
                f.format(grouped(fat.upper(), 4, "-"))
                for f in ("UUID={}", "{}", 'UUID="{}"', "by-uuid/{}", "Volume ID: {}")
            ),
            (partition := hexa(10)[:8]): (
                f"PARTUUID={partition}-01",
                f"root=PARTUUID={partition}-02",
                f"partuuid: {partition}-01",
            ),
            (wwn := f"5{hexa(15)}"): of_wwn(wwn),
        }

    def forms(self, random: Random) -> list[str]:
        """Each identity in FORMS forms, each spelling once at least."""
        found = []
        for spelled in self.spelled.values():
            some = [*spelled, *(random.choice(spelled) for _ in range(FORMS - len(spelled)))]
            found += [random.choice(WRAPPERS).format(each) for each in some]
        random.shuffle(found)
        return found

    def in_text(self, text: str) -> list[str]:
        """Those that a text has in any spelling."""
        lowered = text.lower()
        bare = re.sub(r"[^0-9a-z]", "", lowered)
        found = [
            secret
            for secret in self.spelled
            if re.sub(r"[^0-9a-z]", "", secret.lower()) in bare and secret != self.ipv4
        ]
        octets = re.compile(
            r"(?<![0-9])" + r"[^0-9a-z]{1,3}".join(self.ipv4.split(".")) + r"(?![0-9])"
        )
        long = ipaddress.IPv6Address(self.ipv6).exploded.replace(":", "")
        found += [self.ipv4] if octets.search(lowered) else []
        return found + ([self.ipv6] if long in bare else [])


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """The rows of an example that was measured, with few of its counters."""
    lines = gzip.decompress(EXAMPLE.read_bytes()).splitlines()[:-1]
    counters = 0
    found = []
    for line in lines:
        row = json.loads(line)
        counters += "counter" in row
        if counters <= 100 or "counter" not in row:
            found.append(row)
    return found


def planted(random: Random, value: Any, form: Callable[[], str]) -> Any:
    """A JSON value with forms in its texts, between its items and under new names."""
    if isinstance(value, str):
        return f"{value} {form()}" if random.random() < 0.5 else f"{form()} {value}"
    if isinstance(value, list):
        return [planted(random, each, form) if isinstance(each, str) else each for each in value]
    if isinstance(value, Mapping):
        new = {
            name: planted(random, each, form) if random.random() < 0.3 else each
            for name, each in value.items()
        }
        return {**new, f"{random.randrange(100)} {form()}": form()}
    return value


SETTINGS = ("effective", "facts", "host", "identity", "levels", "link", "parameters", "provenance")


def plant(
    random: Random, rows: list[dict[str, Any]], forms: Iterator[str]
) -> Iterator[dict[str, Any]]:
    """The rows with forms in all columns of text and JSON."""
    for number, line in enumerate(rows):
        ((table, row),) = line.items() if number else [("", {})]
        new = dict(row)
        for column, value in row.items():
            kind = schema.metadata.tables[table].columns[column]
            longest = getattr(kind.type, "length", None)
            if (
                column in FIXED.get(table, ())
                or kind.foreign_keys
                or column in ("name", "label", "untested", "plugins")
            ):
                continue
            if table == "run" and column == "declared":
                new[column] = {
                    **value,
                    "title": planted(random, value["title"], lambda: next(forms)),
                    "question": next(forms),
                    "paper": {
                        "citation": next(forms),
                        "platforms": {},
                        "differences": [
                            {"what": next(forms), "paper": next(forms), "here": next(forms)}
                        ],
                    },
                }
            elif column in ("marks", "notes", "tags", "argv"):
                new[column] = [*value, next(forms)]
            elif (
                isinstance(value, dict)
                and column in SETTINGS
                and (table, column) != ("platform", "identity")
            ):
                new[column] = {
                    **value,
                    f"hostname{random.randrange(9)}": next(forms),
                    next(forms)[:90]: next(forms),
                }
                if column in ("facts", "host"):
                    new[column] |= {
                        "kernel_options": [next(forms), f"root={next(forms)}", f"psi={next(forms)}"]
                    }
                    new[column] |= {"kernel_version": next(forms), "cpu_model": next(forms)}
            elif (table, column) == ("platform", "identity"):
                new[column] = {
                    **value,
                    "options": {**value["options"], "uri": next(forms), "name": next(forms)},
                }
            elif isinstance(value, str) and not (longest and len(value) > longest - 70):
                new[column] = planted(random, value, lambda: next(forms))
        yield {table: new} if number else line


def packed(rows: list[Any]) -> bytes:
    text = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    return gzip.compress(
        text + json.dumps({"sha256": hashlib.sha256(text).hexdigest()}).encode() + b"\n", 1
    )


def endless(forms: list[str]) -> Iterator[str]:
    while True:
        yield from forms


def exported(
    place: Path, data: bytes, host_names: tuple[str, ...], users: tuple[str, ...]
) -> bytes:
    """The anonymized bundle of a bundle, imported once more."""
    (place / "x.gz").write_bytes(data)
    with Store.open("sqlite://") as store:
        made = import_bundle(store.engine, Bundle(place / "x.gz"), "")
        run = store.open_run(made.name)
        export_run(
            store.engine, run, place / "y.gz", anonymize=True, host_names=host_names, users=users
        )
    with Store.open("sqlite://") as store:
        import_bundle(store.engine, Bundle(place / "y.gz"), "")
    return gzip.decompress((place / "y.gz").read_bytes())


@pytest.mark.whole(300)
def test_no_identity_is_in_an_anonymized_bundle(campaign, rows, tmp_path):
    def attack(random: Random) -> None:
        identities = Identities(random)
        forms = identities.forms(random)
        data = packed([*plant(random, rows, endless(forms))])
        before = gzip.decompress(data).decode()
        assert len(identities.spelled) == 12
        assert {*identities.in_text(before)} == {*identities.spelled}
        after = exported(tmp_path, data, (identities.host,), (identities.user,)).decode()
        left = {
            name: [line for line in re.split(r"[,{}]", after) if name in identities.in_text(line)]
            for name in identities.in_text(after)
        }
        assert left == {}

    made = campaign(4, attack)
    assert made.outcomes["survived"] == made.count  # none was refused before it was examined


def test_an_anonymized_example_shows_the_table_of_the_original(tmp_path, monkeypatch, use_store):
    shown = []
    monkeypatch.chdir(tmp_path)
    (tmp_path / "original.gz").write_bytes(EXAMPLE.read_bytes())
    for name in ("original", "anonymized"):
        use_store(tmp_path / f"{name}.sqlite")
        for arguments in (
            ["import", f"{name}.gz"],
            ["export", "tour-1", "--anonymize", "-o", "anonymized.gz"],
        ):
            assert CliRunner().invoke(group, arguments, catch_exceptions=False).exit_code == 0
        found = json.loads(
            CliRunner().invoke(group, ["show", "--json"], catch_exceptions=False).stdout
        )
        shown.append(
            {key: value for key, value in found.items() if key not in ("provenance", "host")}
        )
    assert shown[0] == shown[1]
