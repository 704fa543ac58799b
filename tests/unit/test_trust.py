"""What a study names as run by root of this host: found by the options' own marks, run only after consent."""

from __future__ import annotations

import io
import json
import os
import shutil
import socket
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin

import pytest
from click.testing import CliRunner
from pydantic import Field

from vtax.cli.main import group
from vtax.cli.trust import consented
from vtax.errors import BadInput
from vtax.host.consents import Consent, has_consent, record_consent
from vtax.image.image import Image
from vtax.messages import Note
from vtax.platforms import registry
from vtax.platforms.base import Driver, HostProgram, Platform, Probe, RunsAsRoot
from vtax.platforms.options import DriverOptions
from vtax.platforms.ssh import driver as ssh
from vtax.runner.plan import host_programs, make_plan
from vtax.study.keys import marked
from vtax.study.load import LoadedStudy, load, shipped, validate

INERT = {
    ("ssh", "host"),
    ("ssh", "python"),
    ("ssh", "home"),
    ("ssh", "scratch"),
    ("ssh", "uplinks"),
    ("qemu", "cpu"),
    ("libvirt", "domain"),
    ("libvirt", "channel"),
    ("libvirt", "scratch"),
    ("xen", "cpupool"),
}
"""Options of free text that no program of this host is started by: each was looked at."""
PROGRAM = HostProgram("mine", "gvisor", "runsc", "/opt/runsc", "a program")
NOWHERE = Image("key", Path("/nowhere"))


class OddOptions(DriverOptions):
    program: Annotated[str, RunsAsRoot("a program")] | None = Field(None, description="what runs")
    way: Literal["a", "b"] = "a"


class OddDriver(Driver):
    """A driver of somebody else's whose platforms are named `odd:PROGRAM`."""

    name = "odd"
    summary = "odd"
    Options = OddOptions
    variants: Mapping[str, Mapping[str, Any]] = {"odd-shipped": {"program": "/usr/lib/odd"}}
    argument = "program"

    def __init__(self) -> None:
        self.probed = 0

    def probe(self, options: OddOptions, image: Image | None) -> Probe:
        self.probed += 1
        return Probe(True)

    def start(self, options: OddOptions, spec: object) -> Any:
        raise NotImplementedError


@pytest.fixture
def odd(monkeypatch: pytest.MonkeyPatch) -> OddDriver:
    made, others = OddDriver(), registry.drivers()
    monkeypatch.setattr(registry, "drivers", lambda: {**others, "odd": made})
    return made


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", os.getuid if os.getuid() == 0 else lambda: 0)


def declared(tables: list[dict[str, Any]], link: dict[str, Any] | None = None) -> LoadedStudy:
    named = [] if link else [table["name"] for table in tables]
    benchmark = {"name": "iperf3", "link": link} if link else {"name": "stream"}
    study = {
        "name": "s",
        "platforms": ["native", *named],
        "platform": tables,
        "benchmark": [benchmark],
    }
    return LoadedStudy(validate(study, "test"), "test", "0" * 64)


def programs(
    tables: list[dict[str, Any]], link: dict[str, Any] | None = None
) -> list[tuple[str, str, str]]:
    return [each.identity for each in host_programs(declared(tables, link))]


def test_every_option_of_free_text_is_marked_or_known_to_start_nothing():
    free = {
        (driver.name, name)
        for driver in registry.drivers().values()
        for name, info in driver.Options.model_fields.items()
        if get_origin(info.annotation) is not Literal and "str" in repr(info.annotation)
        if name not in marked(driver.Options, RunsAsRoot)
    }
    assert free == INERT


def test_nothing_that_ships_needs_consent():
    for name in registry.names():
        assert registry.get(name).host_programs == ()
    for name in shipped():
        assert host_programs(load(name)) == ()
    assert registry.get("ssh:root@web1").host_programs == ()
    assert registry.make("mine", "gvisor", {"runsc": "runsc"}).host_programs == ()


@pytest.mark.parametrize(
    ("driver", "options", "named"),
    [
        ("gvisor", {"runsc": "/tmp/x"}, ["runsc"]),
        ("ssh", {"host": "a", "config": "/tmp/c"}, ["config"]),
        (
            "libvirt",
            {"domain": "d", "uri": "qemu:///system?socket=/run/user/1/libvirt-sock"},
            ["uri"],
        ),
        ("ssh", {"host": "a", "local_user": "www", "config": "/tmp/c"}, ["config", "local_user"]),
    ],
)
def test_a_table_that_names_a_program_or_a_configuration_is_found(driver, options, named):
    found = programs([{"name": "mine", "driver": driver, **options}])
    assert found == [(driver, name, options[name]) for name in named]


def test_a_peer_that_names_a_configuration_is_found():
    table = {
        "name": "other",
        "driver": "ssh",
        "host": "a",
        "config": "/tmp/c",
        "uplinks": "eth0:eth0",
    }
    found = programs([table], {"peer": "other"})
    assert found == [("ssh", "config", "/tmp/c")]


def test_a_name_that_sets_a_program_is_found(odd):
    study = validate(
        {"name": "s", "platforms": ["native", "odd:/x"], "benchmark": [{"name": "stream"}]}, "test"
    )
    assert [program.value for program in host_programs(LoadedStudy(study, "test"))] == ["/x"]
    assert registry.get("odd-shipped").host_programs == ()


@pytest.mark.parametrize(
    ("driver", "options"),
    [
        ("libvirt", {"domain": "d", "uri": uri})
        for uri in (
            "qemu+ext:///system?command=/tmp/x",
            "qemu:///system?command=/tmp/x",
            "qemu+ssh://host/system",
            "qemu:///system?socket=/a&command=/tmp/x",
            "qemu+ssh:///system?proxy=/tmp/x",
            "qemu:///embed?root=/tmp/x",
            "-c",
        )
    ]
    + [
        ("ssh", {"host": host})
        for host in (
            "-oProxyCommand=x",
            "a;touch x",
            "$(x)",
            "`x`",
            "a b",
            "a'b",
            "root@-oProxyCommand=x",
            "a\nb",
        )
    ]
    + [("ssh", {"host": "a", "python": "/bin/sh"}), ("ssh", {"host": "a", "scratch": "relative"})]
    + [("gvisor", {"runsc": "--debug"})],
)
def test_options_of_remote_drivers_that_start_something_are_refused(driver, options):
    with pytest.raises(BadInput, match="it must be text such as"):
        registry.make("mine", driver, options)


@pytest.mark.parametrize(
    ("driver", "options"),
    [
        ("libvirt", {"domain": "d", "uri": "qemu:///session"}),
        ("ssh", {"host": "me@web-1.example.org"}),
        ("ssh", {"host": "fe80::1%eth0"}),
        ("ssh", {"host": "a", "python": "/opt/python/3.12/bin/python3.12", "scratch": "/data/x"}),
    ],
)
def test_options_of_remote_drivers_that_people_use_are_taken(driver, options):
    assert registry.make("mine", driver, options).host_programs == ()


def test_a_dry_run_starts_no_program_that_a_study_names(tmp_path, as_root):
    trace = tmp_path / "trace"
    program = tmp_path / "runsc"
    program.write_text(f"#!/bin/sh\ntouch {trace}\n")
    program.chmod(0o755)
    loaded = declared([{"name": "mine", "driver": "gvisor", "runsc": str(program)}])
    native = {"native": Probe(True)}
    plan = make_plan(loaded, image=NOWHERE, seed=1, probes=native, dry=True)
    assert not trace.exists()
    assert [each.value for each in plan.programs] == [str(program)]
    registry.make("mine", "gvisor", {"runsc": str(program)}).probe(NOWHERE)
    assert trace.exists()


def test_a_dry_run_connects_to_no_socket_that_a_study_names(tmp_path):
    path = tmp_path / "sock"
    table = {
        "name": "mine",
        "driver": "libvirt",
        "domain": "d",
        "uri": f"qemu:///system?socket={path}",
    }
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        listening.setblocking(False)
        plan = make_plan(
            declared([table]), image=NOWHERE, seed=1, probes={"native": Probe(True)}, dry=True
        )
        with pytest.raises(BlockingIOError):
            listening.accept()
    assert [each.option for each in plan.programs] == ["uri"]
    assert [each.probe.reason for each in plan.platforms if each.platform.name == "mine"] == [
        Note("not-probed-programs")
    ]


def test_a_dry_run_connects_to_no_machine_that_a_study_names(tmp_path, monkeypatch, on_path):
    trace = tmp_path / "trace"
    on_path("ssh", f"touch {trace}\nexit 255")
    monkeypatch.delenv("SUDO_USER", raising=False)
    table = {"name": "mine", "driver": "ssh", "host": "machine.example"}
    plan = make_plan(
        declared([table]), image=NOWHERE, seed=1, probes={"native": Probe(True)}, dry=True
    )
    assert [each.probe.reason for each in plan.platforms if each.platform.name == "mine"] == [
        Note("not-probed-machine")
    ]
    assert not trace.exists()
    registry.make("mine", "ssh", {"host": "machine.example"}).probe(NOWHERE)
    assert trace.exists() == (os.geteuid() == 0)  # a guest's process starts as root only


@pytest.mark.skipif(shutil.which("ssh") is None, reason="ssh is not installed")
def test_a_dry_run_reaches_no_peer_by_a_configuration_that_a_study_names(tmp_path, monkeypatch):
    monkeypatch.setattr(ssh, "check_nic", lambda name, mtu: None)
    monkeypatch.delenv("SUDO_USER", raising=False)
    trace = tmp_path / "trace"
    config = tmp_path / "config"
    config.write_text(f"Host *\n ProxyCommand touch {trace}\n")
    table = {
        "name": "other",
        "driver": "ssh",
        "host": "a",
        "config": str(config),
        "uplinks": "eth0:eth0",
    }
    loaded = declared([table], {"peer": "other"})
    native = {"native": Probe(True)}
    plan = make_plan(loaded, image=NOWHERE, seed=1, probes=native, dry=True)
    assert not trace.exists()
    with pytest.raises(BadInput) as caught:
        make_plan(loaded, image=NOWHERE, seed=1, probes=native, consented=plan.programs)
    assert caught.value.where == "test: link setting peer of iperf3"
    assert caught.value.hint.startswith("make this work: ssh -o BatchMode=yes a ")
    assert trace.exists()


def test_without_consent_no_plan_is_made_and_nothing_is_probed(odd):
    loaded = declared([{"name": "mine", "driver": "odd", "program": "/x"}])
    native = {"native": Probe(True)}
    with pytest.raises(BadInput, match=r"platform mine: program = '/x' \(a program\)") as caught:
        make_plan(loaded, image=NOWHERE, seed=1, probes=native)
    assert "--trust" in caught.value.hint
    assert odd.probed == 0
    make_plan(loaded, image=NOWHERE, seed=1, probes=native, consented=host_programs(loaded))
    assert odd.probed == 1


def test_the_command_line_refuses_a_study_that_names_a_program(tmp_path, private_home, as_root):
    study = tmp_path / "s.toml"
    study.write_text(
        'name = "s"\nplatforms = ["native", "mine"]\n[[benchmark]]\nname = "stream"\n'
        '[[platform]]\nname = "mine"\ndriver = "gvisor"\nrunsc = "/tmp/x"\n'
    )
    result = CliRunner().invoke(group, ["run", str(study)])
    assert isinstance(result.exception, BadInput)
    assert "runsc = '/tmp/x'" in result.exception.what
    assert "--trust" in result.exception.hint
    assert not private_home.consents.exists()


def test_the_plan_of_an_ordinary_user_shows_what_would_run(tmp_path, unmade_home):
    study = tmp_path / "s.toml"
    study.write_text(
        'name = "s"\nplatforms = ["native", "mine"]\n[[benchmark]]\nname = "stream"\n'
        '[[platform]]\nname = "mine"\ndriver = "gvisor"\nrunsc = "/tmp/x"\n'
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.geteuid", lambda: 65534)
        printed = CliRunner().invoke(group, ["run", str(study), "--dry-run"]).output
        plan = json.loads(
            CliRunner().invoke(group, ["run", str(study), "--dry-run", "--json"]).stdout
        )
    assert (
        "this study runs as root of this host: platform mine: runsc = '/tmp/x' (a program)"
        in printed
    )
    assert "starts none of these" in printed
    assert plan["runs_as_root"] == [
        {"platform": "mine", "option": "runsc", "value": "/tmp/x", "what": "a program"},
    ]


def test_consent_is_kept_for_one_content_of_a_file(private_home):
    with pytest.raises(BadInput, match="/opt/runsc"):
        consented(private_home, [PROGRAM], "s.toml", digest="a")
    consented(private_home, [PROGRAM], "s.toml", digest="a", trust=True)
    assert consented(private_home, [PROGRAM], "s.toml", digest="a") == [PROGRAM]
    with pytest.raises(BadInput, match="/opt/runsc"):
        consented(private_home, [PROGRAM], "s.toml", digest="b")
    other = HostProgram("mine", "gvisor", "runsc", "/tmp/other", "a program")
    with pytest.raises(BadInput, match="/tmp/other"):
        consented(private_home, [PROGRAM, other], "s.toml", digest="a")


def test_a_stored_run_goes_on_after_any_consent_to_its_programs(private_home):
    with pytest.raises(BadInput, match="--trust"):
        consented(private_home, [PROGRAM], "run s-1")
    consented(private_home, [PROGRAM], "s.toml", digest="a", trust=True)
    assert consented(private_home, [PROGRAM], "run s-1") == [PROGRAM]


def test_nothing_named_needs_no_consent_and_keeps_none(private_home):
    assert consented(private_home, [], "s.toml", digest="a", trust=True) == []
    assert not private_home.consents.exists()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("answer", "taken"), [("y\n", True), ("n\n", False), ("\n", False), ("", False)]
)
def test_a_terminal_is_requested_and_shown_what_would_run(answer, taken, private_home, monkeypatch):
    shown = Terminal()
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setattr("sys.stdout", Terminal())
    if taken:
        assert consented(private_home, [PROGRAM], "s.toml", digest="a") == [PROGRAM]
    else:
        with pytest.raises(BadInput, match="nothing was run"):
            consented(private_home, [PROGRAM], "s.toml", digest="a")
    assert "platform mine: runsc = '/opt/runsc' (a program)" in shown.getvalue()
    assert has_consent(private_home, [PROGRAM.identity], "a") is taken


def test_only_root_can_read_and_write_consents(private_home, golden):
    record_consent(private_home, Consent("a", "s.toml", (PROGRAM.identity,)))
    assert stat.S_IMODE(private_home.consents.stat().st_mode) == 0o600
    private_home.consents.chmod(0o666)
    with pytest.raises(BadInput) as caught:
        has_consent(private_home, [PROGRAM.identity], "a")
    golden(str(caught.value))


@pytest.mark.parametrize(
    "content", ["", "{", "[1]", "[" * 9000, '[{"digest": "a"}]', "\x00", '[{"programs": 3}]']
)
def test_damaged_consents_are_none(content, private_home):
    private_home.consents.write_text(content)
    private_home.consents.chmod(0o600)
    assert not has_consent(private_home, [PROGRAM.identity], "a")
    record_consent(private_home, Consent("a", "s.toml", (PROGRAM.identity,)))
    assert has_consent(private_home, [PROGRAM.identity], "a")


def test_a_consent_behind_a_symbolic_link_is_refused(private_home, tmp_path):
    (tmp_path / "elsewhere").write_text("[]")
    private_home.consents.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInput, match="cannot be read"):
        has_consent(private_home, [PROGRAM.identity], "a")


def test_what_is_shown_cannot_pass_for_something_else():
    platform = Platform(
        "mine",
        registry.drivers()["gvisor"],
        registry.drivers()["gvisor"].Options(runsc="/a\x1b[2J\u202e"),
    )
    assert (
        str(platform.host_programs[0]) == "platform mine: runsc = '/a\\x1b[2J\\u202e' (a program)"
    )
