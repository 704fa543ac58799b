"""What an anonymized run leaves out and what it keeps, form by form."""

import json
import time

import pytest

from vtax.counters import host
from vtax.guest import facts
from vtax.store import public_facts
from vtax.store.anonymous import Anonymizer
from vtax.study.load import load


def _without_names(text: str, users: tuple[str, ...] = ()) -> str:
    rows = [("run", {"declared": text})]
    anonymizer = Anonymizer("0123456789abcdef", users=users)
    anonymizer.see(rows)
    return str(next(iter(anonymizer.rows(rows)))[1]["declared"])


@pytest.mark.parametrize(
    "study", ["urschei2007", "ufla2010", "santos2008", "mauricio2013", "trindade2018", "folklore"]
)
def test_the_claims_of_a_shipped_study_stay_as_they_are(study):
    text = json.dumps(load(study).study.declared(), default=str)
    assert "@" in text or study not in ("urschei2007", "ufla2010")
    assert _without_names(text) == text


def test_the_marks_of_a_platform_stay_on_a_host_of_the_same_name():
    rows = [("platform", {"marks": ["nested", "emulated"]})]
    anonymizer = Anonymizer("0123456789abcdef", host_names=("nested", "emulated"))
    anonymizer.see(rows)
    assert list(anonymizer.rows(rows)) == rows


def test_a_login_in_a_text_is_still_replaced():
    assert (
        _without_names("ana@bench-7 and xen-pv@link.mtu=1500")
        == "user-1@host-1 and xen-pv@link.mtu=1500"
    )


def test_a_mapped_address_is_an_address_still():
    assert _without_names("::ffff:0a09:0807 ::ffff:10.9.8.7") == "::ffff:192.0.2.1 ::ffff:192.0.2.1"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("BOOTIF=01-aa-bb-cc-dd-ee-f1 quiet", "bb-cc-dd-ee-f1"),
        ("ifname=eth0:de:ad:be:ef:00:01", "ad:be:ef"),
        ("AA-BB-CC-DD-EE-F1", "BB-CC"),
        ("aabb.ccdd.eef1", "ccdd"),
        ("enxdeadbeef0001", "beef"),
        ("ata-Maker_SSD_S5Y1NX0R123456", "S5Y1NX0R"),
        ("wwn-0x5002538f31234567", "2538f312"),
        ("root=PARTUUID=1a2b3c4d-01", "1a2b3c4d"),
        ("UUID=ABCD-1234", "ABCD"),
        ("addr:2a01:4f8::17", "4f8"),
        ("::ffff:10.9.8.7", "10.9.8.7"),
        ("_10.9.8.7_", "10.9.8.7"),
        ("::ffff:0a09:0807", "0a09"),
        ("IP 10.9.8.7.5201 > 10.9.8.6.40000:", "10.9.8"),
        ("postgresql://maria:s3cret@db.example/x", "maria"),
        ("https://maria:s3%40cret@10.9.8.7/", "cret"),
        ("S/N:X1Y2Z3", "X1Y2Z3"),
        ("maria@10.9.8.7", "maria"),
        ("maria@[2a01:4f8::17]", "maria"),
        ("/home/maria/x MARIA_1", "MARIA"),
        ("first\\naabb.ccdd.eef1", "ccdd"),
        ("naa.5002538f31234567 \\naa-bb-cc-dd-ee-f1", "cc-dd"),
        ("Linux bench-7 6.1.0 x_BENCH7_y", "BENCH7"),
    ],
)
def test_an_identifier_alone_is_replaced(text, secret):
    assert secret in text
    assert secret.lower() not in _without_names(text).lower()


@pytest.mark.parametrize(
    "text",
    [
        "v1.2.3.4 version 1.2.3.4 version: 6.1.176.1",
        "10:20:30 2026-11-23 06:56:39.123456 0000:00:1f.2",
        "198.18.0.1 2001:2::1 127.0.0.1 ::1 ::ffff:127.0.0.1 255.255.255.0",
        "std::dec a::b 1024-2048 2006-2008 9f91554587573c16",
        "xen-pv@link.mtu=1500 getty@tty1.service pkg@1.2.3",
        "serial=ttyS0 virtio-net kvm-virtio-user #1 SMP PREEMPT_DYNAMIC @0",
        "32794.0 0.008311660 268435456 bytes",
    ],
)
def test_what_identifies_nobody_stays(text):
    assert _without_names(text) == text


def test_every_fact_of_an_audit_is_listed_or_left_out_on_purpose():
    values = {name: "volume" if name == "scratch" else [] for name in facts.NAMES}
    listed = public_facts.facts_of_guest(values).keys()
    assert facts.NAMES - listed == set()
    assert set() == host.KERNEL_OPTIONS - public_facts.KERNEL_OPTIONS
    collected = host.host_facts()
    assert set(collected) - set(public_facts.facts_of_host(collected)) == set()


def test_facts_that_are_not_listed_are_left_out():
    found = {
        "kernel_command_line": ["quiet", "isolcpus=1-3", "root=x", "key", "psi=1"],
        "asset": "x",
        "disk.sda.id": 1,
        "scratch": "/home/alice/tmp",
    }
    assert public_facts.facts_of_guest(found) == {
        "kernel_command_line": ["quiet", "isolcpus=1-3", "psi=1"]
    }
    assert public_facts.facts_of_host({"owner": 1, "boots": {"a": {"cpus": 2, "x": 1}}}) == {
        "boots": {"a": {"cpus": 2}}
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "filling",
    [
        "a",
        "a.",
        "a-",
        "a@",
        "1.",
        "1.2.3.4 ",
        "::",
        "de:",
        "de-",
        "0a1",
        "/home/",
        "serial: ",
        "a1b2_",
        " ",
    ],
)
def test_the_time_grows_with_the_length_of_a_text(filling):
    def elapsed_s(size: int) -> float:
        started_at = time.process_time()
        _without_names((filling * size)[:size], users=("a1b2c3", "alice"))
        return time.process_time() - started_at

    small = min(elapsed_s(10_000) for _ in range(2))
    assert elapsed_s(80_000) < 0.25 + 8 * 3 * small
