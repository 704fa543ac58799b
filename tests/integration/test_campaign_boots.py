"""A host that a campaign reboots from one boot to another, by Ansible's own module and over ssh. Its power, what its
kernel says of a boot, and its boot loader are the test's; so is what it reboots by."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from campaign_hosts import (
    NamespaceHost,
    command_of,
    has_ansible,
    has_ended,
    inventory_of,
    light_pack,
    namespace_hosts,
)
from campaign_studies import COUNTING, TWO_BOOTS
from click.testing import CliRunner
from sqlalchemy import select
from support import needs_program, needs_root

from vtax.cli.main import group
from vtax.host.waiting import wait_until
from vtax.image.image import Image
from vtax.store import schema
from vtax.store.run import RunHandle
from vtax.store.store import Store
from vtax.study.load import find

pytestmark = [
    needs_root,
    pytest.mark.skipif(not has_ansible(), reason="not installed: ansible-playbook"),
    needs_program("ip", "nsenter", "unshare", "sshd", "ssh", "ssh-keygen", "shutdown"),
    pytest.mark.thorough,
    pytest.mark.timeout(1200),
]
ENTRIES = {"Plain": "quiet", "Other": "mitigations=off"}
STUDY = f"""
name = "two-boots"
platforms = ["native", "again"]
[design]
blocks = 1
seed = 8
{TWO_BOOTS}{COUNTING}"""
SECOND = """
[[platform]]
name = "second"
driver = "native"
"""
RUN_S, POLL_S = 300.0, 0.1


class Power(threading.Thread):
    """Reboots a host when it is asked to, into the entry that its boot loader was given, once. reboots: how often."""

    def __init__(self, host: NamespaceHost) -> None:
        super().__init__(daemon=True)
        self.host, self.reboots, self.ended = host, 0, threading.Event()
        self.files = host.directory / "boot-files"
        (self.files / "boot/grub").mkdir(parents=True)
        (self.files / "sbin").mkdir()
        (self.files / "boot/grub/grub.cfg").write_text(
            "".join(
                f"menuentry '{title}' {{\n  linux /boot/kernel root=/dev/vda1 {options}\n}}\n"
                for title, options in ENTRIES.items()
            )
        )
        self.script("sbin/grub-reboot", f'printf %s "$1" >{self.files}/next')
        self.script("systemctl", f"touch {self.files}/asked")  # /sbin/shutdown is a link to it
        host.mounts = {
            "/boot": self.files / "boot",
            "/usr/local/sbin": self.files / "sbin",
            "/proc/cmdline": self.files / "cmdline",
            "/proc/sys/kernel/random/boot_id": self.files / "boot_id",
            str(Path("/sbin/shutdown").resolve()): self.files / "systemctl",
        }
        self.boot("Other")

    def script(self, name: str, line: str) -> None:
        (self.files / name).write_text(f"#!/bin/sh\n{line}\n")
        (self.files / name).chmod(0o755)

    def boot(self, title: str) -> None:
        (self.files / "cmdline").write_text(
            f"BOOT_IMAGE=/boot/kernel root=/dev/vda1 {ENTRIES[title]}\n"
        )
        (self.files / "boot_id").write_text(f"{uuid.uuid4()}\n")
        self.host.start()

    def run(self) -> None:
        while not self.ended.wait(POLL_S):
            if (self.files / "asked").exists():
                self.host.lose_power()
                (self.files / "asked").unlink()
                chosen = self.files / "next"
                title = chosen.read_text() if chosen.exists() else "Plain"
                chosen.unlink(missing_ok=True)
                self.reboots += 1
                self.boot(title)


@contextmanager
def powered(host: NamespaceHost) -> Iterator[Power]:
    """Give a host power, and its button."""
    power = Power(host)
    power.start()
    try:
        yield power
    finally:
        power.ended.set()
        power.join()


def carried_out(tmp_path: Path, image: Image) -> Power:
    """Make a campaign of the study in `studies/boots.toml`, and go on with it until its run is collected; the host's
    power."""
    light_pack(tmp_path / "studies/boots.toml", image, tmp_path / "boots.vtax-pack")
    with namespace_hosts(tmp_path, image, ("h1",)) as (hosts, control), powered(hosts[0]) as power:
        vtax = command_of(control, tmp_path)
        inventory = inventory_of(hosts, tmp_path / "hosts.yml")
        options = ("--inventory", inventory, "-o", "c", "--trust", "--reboot")
        vtax("campaign", "new", "boots.vtax-pack", *options)

        def host() -> dict[str, str]:
            (found,) = json.loads(vtax("campaign", "status", "c", "--json"))["hosts"]
            return found

        for _ in range(12):
            vtax("campaign", "go", "c", timeout_s=RUN_S)
            if host()["state"] == "collected":
                break
            ended = wait_until(lambda: has_ended(hosts[0]), RUN_S, 0.5)
            assert ended, vtax("campaign", "status", "c")
        assert host()["state"] == "collected", (tmp_path / "c/log").read_text()[-4000:]
    return power


def boots_of(run: RunHandle) -> dict[str, str]:
    """The names of the boots of a run with one session, as they were made, each with the id of the kernel's."""
    (session,) = run.sessions
    return {name: facts["boot_id"] for name, facts in session.host["boots"].items()}


def test_a_campaign_measures_in_each_boot_of_a_study(image, tmp_path):
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies/boots.toml").write_text(STUDY)
    (tmp_path / "studies/count.sh").write_text("echo counted $(seq 1000 | wc -l)\n")
    power = carried_out(tmp_path, image)
    with Store.open(tmp_path / "controller/store.sqlite") as store:
        boots = boots_of(store.open_run("last"))
        (summary,) = store.runs()
    assert {*boots} == {"other", "plain"}
    assert len({*boots.values()}) == 2
    assert (summary.status, summary.trials, summary.failed) == ("finished", 2, 0)
    # the first boot of this seed is not the one that the host was in; last, its default
    assert power.reboots == 3
    assert (power.files / "cmdline").read_text().endswith(f"{ENTRIES['Plain']}\n")


def test_a_campaign_makes_the_two_boots_of_a_paper_one_after_the_other(image, tmp_path):
    """urschei2007 in its own order, at its smallest scale; a second `native` is there for what needs Xen."""
    (tmp_path / "studies").mkdir()
    own = tmp_path / "own.toml"
    own.write_text(find("urschei2007").read_text() + SECOND)
    options = ("--scale", "tiny", "--protocol", "paper", "-p", "native,second")
    boots = ("--boot", "bare=Plain:native", "--boot", "xen=Other:second")
    written = CliRunner().invoke(group, ["run", str(own), *options, *boots, "--toml"])
    assert written.exit_code == 0, written.exception
    (tmp_path / "studies/boots.toml").write_text(written.stdout)
    power = carried_out(tmp_path, image)
    with Store.open(tmp_path / "controller/store.sqlite") as store:
        run = store.open_run("last")
        made = boots_of(run)
        (summary,) = store.runs()
        with store.engine.connect() as connection:
            order = select(schema.platform.c.name).select_from(
                schema.trial.join(schema.cell, schema.trial.c.cell_id == schema.cell.c.id).join(
                    schema.platform, schema.cell.c.platform_id == schema.platform.c.id
                )
            )
            measured = connection.scalars(order.order_by(schema.trial.c.started_at)).all()
    assert measured == ["native"] * 4 + ["second"] * 4
    assert [*made] == ["bare", "xen"]
    assert len({*made.values()}) == 2
    assert (summary.status, summary.trials, summary.failed) == ("finished", 8, 0)
    assert power.reboots == 3
