"""What the doctor says of a host, from files of hosts good and bad; tunables that put back what they change."""

import json
import os
import time

import pytest
from click.testing import CliRunner

from vtax.cli.main import group
from vtax.doctor import checks, examine, packages, tunables
from vtax.doctor.examine import Examination, probe_all
from vtax.doctor.load import HostLoad, sample_load
from vtax.errors import VtaxError
from vtax.host.home import Home
from vtax.host.journal import Cleaned, Journal, clean
from vtax.host.process import run, spawn
from vtax.host.resources import TaggedProcesses, Tree, tagged_pids
from vtax.messages import Note
from vtax.platforms.base import Platform, Probe

LAPTOP = {
    "proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu vmx\n\nprocessor\t: 1\nflags\t\t: fpu vmx\n",
    "proc/self/mountinfo": "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n",
    "proc/meminfo": "MemAvailable:  900000 kB\nSwapTotal:  2000000 kB\nSwapFree:  1000000 kB\n",
    "proc/sys/kernel/randomize_va_space": "0\n",
    "proc/sys/kernel/numa_balancing": "1\n",
    "proc/sys/vm/swappiness": "60\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance\n",
    "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": "3\n",
    "sys/devices/system/cpu/intel_pstate/no_turbo": "0\n",
    "sys/devices/system/cpu/smt/active": "1\n",
    "sys/devices/system/node/node0/cpulist": "0\n",
    "sys/devices/system/node/node1/cpulist": "1\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
    "sys/class/power_supply/BAT0/status": "Discharging\n",
}
SERVER = {
    "proc/cpuinfo": "".join(f"processor\t: {n}\nflags\t\t: fpu vmx\n\n" for n in range(8)),
    "proc/self/mountinfo": "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n",
    "proc/meminfo": "MemAvailable:  9000000 kB\nSwapTotal:  2000000 kB\nSwapFree:  2000000 kB\n",
    "proc/sys/kernel/randomize_va_space": "2\n",
    "proc/sys/kernel/numa_balancing": "1\n",
    "proc/sys/vm/swappiness": "1\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
    "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": "0\n",
    "sys/devices/system/cpu/cpufreq/boost": "0\n",
    "sys/devices/system/cpu/smt/active": "0\n",
    "sys/devices/system/node/node0/cpulist": "0-7\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n",
}


def host(tmp_path, files):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def laptop(tmp_path):
    return host(tmp_path / "laptop", LAPTOP)


@pytest.fixture
def no_counters(monkeypatch):
    monkeypatch.setattr(
        checks, "not_counted", lambda root: dict.fromkeys(("energy", "VM exits", "cycles"), "why")
    )


def test_a_bad_host_is_reported_everything_with_reason_and_hint(laptop, no_counters):
    found = {finding.name: finding for finding in checks.findings(laptop)}
    assert {name: finding.severity for name, finding in found.items()} == {
        "CPUs": "warn",
        "frequency governor": "warn",
        "turbo": "warn",
        "sibling threads": "warn",
        "kinds of cores": "ok",
        "home of vtax": "ok",
        "transparent huge pages": "warn",
        "address layout": "warn",
        "swap": "warn",
        "NUMA": "warn",
        "free memory": "bad",
        "virtual host": "ok",
        "battery": "bad",
        "heat": "warn",
        "counters": "none",
    }
    assert found["frequency governor"].observed == "performance, powersave"
    assert found["swap"].observed == Note("doctor-swap-used", used="977 MiB", size="1.91 GiB")
    assert found["NUMA"].observed == Note("doctor-nodes-balanced", nodes=2)
    assert all(finding.why for finding in found.values())
    assert all(finding.hint for finding in found.values() if finding.severity in ("warn", "bad"))
    tunable = {name for name, finding in found.items() if finding.tunable}
    assert tunable == {
        "frequency governor",
        "turbo",
        "transparent huge pages",
        "address layout",
        "NUMA",
    }


def test_what_options_of_platforms_use_is_named_there_or_missing(monkeypatch):
    monkeypatch.setattr(
        packages, "is_present", lambda sign: sign in ("crun", "/usr/lib/qemu/virtiofsd")
    )
    found = {finding.name: (finding.severity, finding.observed) for finding in packages.optional()}
    assert found == {
        "confinement": ("none", "missing: seccomp, AppArmor, SELinux"),
        "runtimes": (
            "ok",
            Note("doctor-present-missing", names="crun", others="youki, runsc, kata"),
        ),
        "shared directories": ("ok", "present: virtiofsd"),
        "own images": ("none", "missing: skopeo, umoci"),
    }


def test_a_good_host_has_nothing_to_fix(tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "not_counted", lambda root: {"energy": "why"})
    found = checks.findings(host(tmp_path, SERVER))
    assert {finding.severity for finding in found} == {"ok"}
    assert {finding.hint for finding in found} == {""}
    assert not any(finding.tunable for finding in found)
    assert "battery" not in {finding.name for finding in found}


def test_tuning_is_promised_only_where_it_is_the_hint(tmp_path):
    unused = {"proc/meminfo": SERVER["proc/meminfo"], "proc/sys/kernel/numa_balancing": "0\n"}
    found = {
        finding.name: finding for finding in checks.findings(host(tmp_path, {**LAPTOP, **unused}))
    }
    assert found["swap"].tunable
    assert "swappiness=1" in found["swap"].hint
    assert found["NUMA"].severity == "warn"
    assert not found["NUMA"].tunable


def test_the_battery_of_a_mouse_is_not_the_hosts(tmp_path):
    mouse = {"sys/class/power_supply/hidpp_battery_0/status": "Discharging\n"}
    host(tmp_path, {**SERVER, **mouse, "sys/class/power_supply/hidpp_battery_0/scope": "Device\n"})
    assert "battery" not in {finding.name for finding in checks.findings(tmp_path)}
    host(tmp_path, {"sys/class/power_supply/BAT0/status": "Charging\n"})
    assert {finding.name: finding.severity for finding in checks.findings(tmp_path)}[
        "battery"
    ] == "ok"


def test_a_host_that_shows_nothing_is_not_judged(tmp_path):
    host(tmp_path, {"proc/cpuinfo": "processor\t: 0\n", "proc/meminfo": ""})
    assert {finding.name for finding in checks.findings(tmp_path)} == {
        "CPUs",
        "swap",
        "virtual host",
        "counters",
    }


def test_a_virtual_host_is_named(tmp_path):
    root = host(
        tmp_path,
        {
            "proc/cpuinfo": "flags\t\t: fpu hypervisor\n",
            "sys/class/dmi/id/product_name": "Standard PC\n",
        },
    )
    seen = next(check for check in checks.CHECKS if check.name == "virtual host").look(root)
    assert (seen.severity, seen.observed) == ("warn", "yes (Standard PC)")


@pytest.mark.parametrize(
    ("load", "levels"),
    [
        (HostLoad(4, 0.05, 0.0), ["ok", "ok"]),
        (HostLoad(4, 0.3, 0.02, ("make (7) 30%",)), ["warn", "warn"]),
        (HostLoad(4, 1.5, 0.2), ["bad", "bad"]),
    ],
)
def test_load_and_steal_are_judged_by_share(load, levels):
    found = checks.judge_load(load)
    assert [finding.severity for finding in found] == levels
    assert ("busiest: make (7) 30%" in found[0].observed) == bool(load.busiest)


def test_watching_gives_shares_that_can_be():
    seen = sample_load(0.05)
    assert 0 <= seen.busy_cpus <= seen.cpus
    assert 0 <= seen.steal <= 1


def test_every_tunable_is_put_back_and_the_journal_knew_the_old_value_first(laptop, tmp_path):
    with Journal(tmp_path / "journal") as journal:
        with tunables.tuned(journal, laptop) as printed:
            assert "turbo: 0 -> 1" in printed
            assert "frequency governor: performance, powersave -> performance" in " ".join(printed)
            governor = laptop / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
            assert governor.read_text() == "performance"
            assert (laptop / "proc/sys/vm/swappiness").read_text() == "1"
            before = {registered.path: registered.before for registered in journal.registered}
            assert before[str(governor)] == "powersave"
            assert before[str(laptop / "sys/kernel/mm/transparent_hugepage/enabled")] == "always"
            assert (
                str(laptop / "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor") not in before
            )
        assert journal.registered == ()
        now = {name: (laptop / name).read_text().strip() for name in LAPTOP}
    wanted = {name: text.strip() for name, text in LAPTOP.items()}
    wanted["sys/kernel/mm/transparent_hugepage/enabled"] = (
        "always"  # a kernel would show it in brackets
    )
    assert now == wanted


def test_a_tunable_that_cannot_be_turned_undoes_its_part(laptop, tmp_path, monkeypatch):
    second = laptop / "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor"
    second.write_text("schedutil")
    write = type(second).write_text

    def refuse(path, text):
        if path == second and text == "performance":
            raise OSError("not here")
        return write(path, text)

    monkeypatch.setattr(type(second), "write_text", refuse)
    with Journal(tmp_path / "journal") as journal:
        with pytest.raises(VtaxError, match="frequency governor cannot be set"):
            tunables.FREQUENCY_GOVERNOR.below(laptop).apply(journal)
        assert journal.registered == ()
    assert tunables.FREQUENCY_GOVERNOR.below(laptop).show() == "powersave, schedutil"


class FakeDriver:
    """Answers at once, and writes down that it was asked: it is, in another process."""

    def __init__(self, name, book):
        self.name = name
        self.book = book

    def isolation(self, options):
        return "kernel"

    def probe(self, options, image):
        with self.book.open("a") as book:
            book.write(f"{self.name} {options.level}\n")
        return Probe(True, version=str(options.level))


class HangingDriver(FakeDriver):
    """Starts a guest and a command that never ends, and leaks both."""

    def probe(self, options, image):
        super().probe(options, image)
        home = Home.from_environment()
        with Journal(home.journal) as journal:
            guest = home.guests / "vtax-hangs"
            journal.register(Tree(str(guest)))
            guest.mkdir()
            journal.register(TaggedProcesses("vtax-hangs", "a guest that hangs"))
            spawn(["sleep", "60"], tag="vtax-hangs")
            run(["sleep", "61.5"], tag="vtax-hangs-too")
        return Probe(True)


class RaisingDriver(FakeDriver):
    """Breaks its promise never to raise."""

    def probe(self, options, image):
        raise RuntimeError("not so")


class DyingDriver(FakeDriver):
    """Takes its process with it."""

    def probe(self, options, image):
        os._exit(3)


def platform(name, driver, level):
    return Platform(name, driver, Severity(level))


class Severity:
    """An option."""

    def __init__(self, level):
        self.level = level

    def model_dump(self, mode):
        return {"level": self.level}


def test_equal_platforms_are_probed_once_and_all_are_answered(tmp_path):
    one, two = FakeDriver("one", tmp_path / "book"), FakeDriver("two", tmp_path / "book")
    wanted = [
        platform("a", one, 1),
        platform("b", one, 1),
        platform("c", one, 2),
        platform("d", two, 1),
    ]
    printed = []
    probes = probe_all(wanted, None, time.monotonic() + 20, printed.append)
    assert {name: probe.version for name, probe in probes.items()} == {
        "a": "1",
        "b": "1",
        "c": "2",
        "d": "1",
    }
    assert sorted((tmp_path / "book").read_text().splitlines()) == ["one 1", "one 2", "two 1"]
    assert printed[-1] == "3 of 3 platforms"


@pytest.mark.slow
def test_a_probe_that_does_not_end_is_undone_in_the_middle_of_its_start(tmp_path, private_home):
    book = tmp_path / "book"
    wanted = [
        platform("quick", FakeDriver("quick", book), 1),
        platform("slow", HangingDriver("slow", book), 1),
    ]
    started_at = time.monotonic()
    probes = probe_all(wanted, None, started_at + 2)
    assert time.monotonic() - started_at < 12
    assert probes["quick"].available
    assert not probes["slow"].available
    assert probes["slow"].reason.endswith("exceeded the time limit of the examination")
    assert "slow 1" in book.read_text()
    assert tagged_pids("vtax-hangs") == tagged_pids("vtax-hangs-too") == []
    assert list(private_home.guests.iterdir()) == list(private_home.journal.iterdir()) == []


def test_what_a_late_probe_leaves_behind_all_the_same_is_reported(
    tmp_path, private_home, monkeypatch
):
    monkeypatch.setattr(examine, "clean", lambda directory: Cleaned((), ("mount /x: busy",)))
    probes = probe_all(
        [platform("slow", HangingDriver("slow", tmp_path / "book"), 1)],
        None,
        time.monotonic() + 0.5,
    )
    assert "leaked resources: mount /x: busy" in probes["slow"].reason
    assert probes["slow"].hint == "sudo vtax clean"
    monkeypatch.undo()
    clean(private_home.journal)


def test_a_probe_that_fails_costs_its_own_answer(tmp_path):
    made = {"raises": RaisingDriver, "dies": DyingDriver, "answers": FakeDriver}
    wanted = [platform(name, driver(name, tmp_path / "book"), 1) for name, driver in made.items()]
    started_at = time.monotonic()
    probes = probe_all(wanted, None, started_at + 20)
    assert time.monotonic() - started_at < 10
    assert probes["raises"].reason == Note("probe-failed", kind="RuntimeError", error="not so")
    assert "its probe ended without a result" in probes["dies"].reason
    assert [name for name, probe in probes.items() if probe.available] == ["answers"]


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.0, 10.0])
def test_an_emulated_host_has_ten_times_the_time(monkeypatch, factor):
    deadlines = []
    monkeypatch.setattr(examine, "timeout_factor", lambda: factor)

    def probe_all(platforms, image, deadline, progress):
        deadlines.append(deadline)
        return {platform.name: Probe(True) for platform in platforms}

    monkeypatch.setattr(examine, "probe_all", probe_all)
    began = time.monotonic()
    examine.examine(None)
    assert factor * examine.BOUND_S - 6 < deadlines[0] - began < factor * examine.BOUND_S


def test_an_examination_is_plain_json(laptop):
    examination = Examination(
        {"native": Probe(True, marks=("x",))}, tuple(checks.findings(laptop)), 1.5
    )
    shown = json.loads(json.dumps(examination.as_json()))
    assert shown["platforms"][0] == {
        "name": "native",
        "available": True,
        "reason": "",
        "hint": "",
        "marks": ["x"],
        "version": "",
        "seconds": 0.0,
    }
    assert shown["findings"][0]["name"] == "CPUs"
    assert examination.worst == "bad"


def test_cures_are_printed_whole_and_what_the_host_does_not_show_is_named(tmp_path, examined):
    root = host(
        tmp_path,
        {**SERVER, "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n"},
    )
    printed = (
        "a sentence that is longer than any table of a terminal is wide, " * 4
        + "and ends in /a/path"
    )
    probes = {
        "one": Probe(False, "no", printed),
        "two": Probe(True),
        "three": Probe(False, "not at all", printed),
    }
    examination = Examination(probes, tuple(checks.findings(root)), 1.0)
    examined(examination)
    lines = CliRunner().invoke(group, ["doctor"]).stdout.splitlines()
    assert lines[lines.index("one, three:") + 1] == f"    {printed}"
    at = next(
        i
        for i, line in enumerate(lines)
        if line.startswith("transparent huge pages (vtax run --tune-host")
    )
    assert lines[at + 1] == "    echo never > /sys/kernel/mm/transparent_hugepage/enabled"
    assert "not observable on this host: battery" in " ".join(lines)
    assert examination.as_json()["not_observed"] == ["battery"]


def test_a_rung_that_does_not_run_here_is_named_with_the_reason(examined):
    rungs = {
        "ground": Probe(True),
        "vhost": Probe(False, "this host has no /dev/vhost-net", "modprobe vhost_net"),
    }
    emulated = dict.fromkeys(("first", "second"), Probe(True, marks=("emulated",)))
    part = {"first": Probe(True, marks=("not confined",)), "second": Probe(True)}
    ladders = {"kvm": rungs, "tcg": emulated, "podman": part}
    examination = Examination({}, (), 1.0, ladders=ladders)
    examined(examination)
    lines = CliRunner().invoke(group, ["doctor"]).stdout.splitlines()
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in lines if " / " in line}
    assert rows == {
        "kvm": "1 / 2 vhost: this host has no /dev/vhost-net",
        "tcg": "2 / 2 emulated",
        "podman": "2 / 2",
    }
    [of_kvm, *_] = examination.as_json()["ladders"]
    assert of_kvm["name"] == "kvm"
    assert [(each["name"], each["available"]) for each in of_kvm["rungs"]] == [
        ("ground", True),
        ("vhost", False),
    ]


def test_every_platform_has_its_word_and_a_missing_probe_is_no_refusal(examined):
    late = Probe(False, "its probe exceeded the time limit of the examination", is_made=False)
    probes = {"one": late, "two": late, "three": Probe(True)}
    examined(Examination(probes, (), 1.0))
    lines = CliRunner().invoke(group, ["doctor"]).stdout.splitlines()
    words = {
        line.split()[0]: line.split()[1:]
        for line in lines
        if line.startswith(("one", "two", "three"))
    }
    assert words["one"][0] == words["two"][0] == "unknown"
    assert words["two"][1:] == ["as", "one"]
    assert words["three"] == ["yes"]
