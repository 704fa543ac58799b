"""Topologies of which another machine has a half, and trunks that pairs share."""

import json
import os
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from vtax.errors import BadInput, Busy, GuestError, PlatformError
from vtax.guest.channel import Channel
from vtax.host.process import Result
from vtax.image.image import Image
from vtax.messages import Note, packed, restored
from vtax.network import registry
from vtax.network.end import NetworkEnd
from vtax.network.links import Flow, Links
from vtax.platforms.base import GuestSpec, Resources
from vtax.runner import elsewhere, there
from vtax.runner.elsewhere import PREFIX
from vtax.runner.lanes import naming_lost

NATIVE = {
    "version": there.__version__,
    "platform": ["native", "native", {}],
    "vcpus": 1,
    "image": "0123456789ab",
}
"""A guest that is asked for."""


def test_pairs_are_dealt_out_among_trunks_each_on_one():
    settings = registry.settings("vlan-pairs", {"pairs": 5, "trunks": 2})
    assert [settings.vlans(trunk) for trunk in range(2)] == [[100, 102, 104], [101, 103]]


def test_a_trunk_that_carries_nothing_is_refused():
    with pytest.raises(BadInput, match=r"trunks 3 .*pairs 2"):
        registry.settings("vlan-pairs", {"pairs": 2, "trunks": 3})


@pytest.mark.parametrize("name", ["guest-to-guest", "vlan-pairs"])
def test_the_machine_of_the_other_half_is_the_settings_peer(name):
    topology = registry.get(name)
    assert (
        topology.other_machine(registry.settings(name, {"peer": "ssh:web1/eth1:ens3"}))
        == "ssh:web1/eth1:ens3"
    )
    assert topology.other_machine(registry.settings(name, {})) == ""


def test_a_native_peer_is_no_other_half():
    topology = registry.get("point-to-point")
    settings = registry.settings("point-to-point", {"peer": "ssh:web1/eth1:ens3"})
    assert topology.machines(settings) == {"peer": "ssh:web1/eth1:ens3"}
    assert topology.other_machine(settings) == ""


class WithImage(there.Half):
    """A half on a machine that has every image."""

    def _image(self, key):
        return None


def half(tmp_path, kind=there.Half):
    return kind(
        SimpleNamespace(images=tmp_path, ensure=lambda: None), SimpleNamespace(), ExitStack()
    )


def asked(half, request, **arguments):
    answer = there.answer(half, json.dumps([request, arguments]).encode())
    assert answer.startswith(PREFIX)
    return json.loads(answer.removeprefix(PREFIX))


def test_another_version_of_vtax_is_refused(tmp_path):
    answer = asked(
        half(tmp_path),
        "check",
        version="9.9",
        image="x",
        platform=[],
        vcpus=1,
        memory_bytes=1,
        links=[],
    )
    assert "and this is 9.9" in answer["error"][0]


def test_a_missing_image_is_named(tmp_path):
    answer = asked(half(tmp_path), "check", **NATIVE, links=[], memory_bytes=1 << 20)
    assert answer["error"][0] == "it has no image 0123456789ab"


def test_a_machine_that_measures_by_itself_is_left_alone(tmp_path, monkeypatch, measuring):
    answer = asked(half(tmp_path, WithImage), "check", **NATIVE, links=[], memory_bytes=1 << 20)
    assert answer["error"][0].startswith("tour-7 (process ")
    said = PREFIX.decode() + json.dumps(answer)
    monkeypatch.setattr(elsewhere, "run", lambda *given, **kept: Result((), 0, said, ""))
    monkeypatch.setattr(
        elsewhere, "_driver", lambda machine: SimpleNamespace(command=lambda *given: ["true"])
    )
    with pytest.raises(Busy) as caught:
        elsewhere._ask_check(SimpleNamespace(name="lab3", options={}), {})
    assert (caught.value.what.code, caught.value.what.data["name"]) == ("on-machine", "lab3")
    assert "tour-7" in caught.value.what.data["what"]
    assert caught.value.exit_status == os.EX_TEMPFAIL


def test_guests_that_do_not_fit_there_all_at_once_are_refused(tmp_path, installed):
    installed(but="")
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    links = [["vlan-pairs", {"pairs": 16, "peer": "ssh:web1/eth1:ens3"}]]
    answer = asked(
        half(tmp_path, WithImage), "check", **NATIVE, links=links, memory_bytes=total // 15
    )
    assert restored(answer["error"][0]).startswith("16 guests of")


def test_only_guests_of_this_half_need_this_hosts_memory():
    assert (
        registry.get("vlan-pairs").guests_there(
            registry.settings("vlan-pairs", {"pairs": 3, "peer": "x"})
        )
        == 3
    )
    assert registry.get("guest-to-guest").guests_there(registry.settings("guest-to-guest", {})) == 0


def test_nothing_is_started_before_it_is_built(tmp_path):
    assert asked(half(tmp_path), "start", role="peer")["error"][0] == packed(
        Note("nothing-built-there")
    )


class Connection:
    """A machine that answers every request in the same way, and writes down what is asked."""

    def __init__(self, answer):
        self.asked, self.answer = [], answer
        self.channel = SimpleNamespace(
            write=lambda data, deadline: self.asked.append(json.loads(data))
        )
        self.channel.skip_to = lambda marker, limit, deadline: json.dumps(self.answer).encode()
        self.stop = lambda: self.asked.append("stopped")


def machine(answer):
    """The half behind such a connection. remains: what becomes of its entry in the journal."""
    made = object.__new__(elsewhere.OtherMachine)
    made.name, made._connection, made._changed, made._left = "lab3", Connection(answer), None, {}
    made._first = {"peer": [["ip"]], "peer1": []}
    made.remains = []
    made._remains = SimpleNamespace(
        forget=lambda: made.remains.append("forgotten"),
        release=lambda: made.remains.append("removed"),
    )
    return made


def test_its_half_is_changed_once_for_all_its_guests():
    made = machine({"done": {"commands": {"peer1": [["true"]]}, "link_mbit_s": 1000.0}})
    settings = registry.settings("vlan-pairs", {"pairs": 2, "mtu": 600})
    assert made._commands("peer", None) == [["ip"]]
    assert [made._commands(role, settings) for role in ("peer", "peer1")] == [(), [["true"]]]
    assert [request for request, _ in made._connection.asked] == ["apply"]
    made._commands("peer", settings)  # the same settings again, as after a failure
    assert len(made._connection.asked) == 2
    assert made.link_mbit_s == 1000.0


def test_what_is_known_there_of_a_guest_that_falls_silent_is_in_its_error(monkeypatch, tmp_path):
    made = machine({"done": "the kernel panicked"})
    channel = Channel(*os.pipe(), lambda: "ssh still running")
    launched = SimpleNamespace(channel=channel, stop=channel.close)
    made._driver, made._options = SimpleNamespace(launch=lambda options, spec, argv: launched), None
    started = {
        "stream": "/run/x",
        "agent": "",
        "silence_hint": "",
        "scratch": "/x",
        "notes": [],
        "commands": [],
    }
    monkeypatch.setattr(
        made,
        "_ask",
        lambda request, **more: started if request == "start" else "the kernel panicked",
    )
    image, resources = Image("key", tmp_path), Resources(1, 1, (0,))
    spec = GuestSpec("vtax-1", image, resources, tmp_path, SimpleNamespace())
    guest = made.start(NetworkEnd("peer", [], under_test=True, is_there=True), spec)
    assert guest.channel.broken("it fell silent").where == "ssh still running; the kernel panicked"
    guest.stop()


def test_what_fails_there_names_the_machine():
    with pytest.raises(PlatformError) as refused:
        machine({"error": ["no switch", "", ""]}).counters()
    assert refused.value.what == Note("on-machine", name="lab3", what="no switch")


@pytest.mark.parametrize("answer", [[], {"error": "x"}, {}, 3])
def test_an_answer_of_another_form_is_an_error_of_the_machine(answer):
    with pytest.raises(PlatformError) as refused:
        machine(answer).counters()
    assert refused.value.what == Note("machine-unreadable", name="lab3")


def test_nothing_that_it_says_controls_a_terminal():
    with pytest.raises(PlatformError) as raised:
        machine({"error": ["\x1b[2J", "", ""]}).counters()
    assert "\x1b" not in str(raised.value)


@pytest.mark.parametrize(
    ("answer", "remains"), [({"done": None}, "forgotten"), ({"error": ["x", "", ""]}, "removed")]
)
def test_what_it_did_not_take_down_is_removed_by_a_second_connection(answer, remains):
    made = machine(answer)
    made.close()
    assert made.remains == [remains]
    assert made._connection.asked[-1] == "stopped"


def ends(**lost):
    return {
        role: SimpleNamespace(guest=SimpleNamespace(lost=is_lost)) for role, is_lost in lost.items()
    }


def links(flow, **under_test):
    made = [NetworkEnd(role, [], under_test=is_tested) for role, is_tested in under_test.items()]
    return Links(
        SimpleNamespace(), registry.settings("guest-to-guest", {}), made, [Flow(*flow, "", "")]
    )


@pytest.mark.parametrize(
    ("lost", "between", "said"),
    [
        (
            {"guest": False, "peer": True},
            (("guest", "peer"), {"guest": True, "peer": False}),
            "the peer of",
        ),
        (
            {"guest": False, "peer": True},
            (("guest", "peer"), {"guest": True, "peer": True}),
            "the peer of",
        ),
        (
            {"guest": True, "peer": False},
            (("guest", "peer"), {"guest": True, "peer": False}),
            "gone",
        ),
        ({"dut": True, "peer": False}, (("dut", "peer"), {"dut": True, "peer": False}), "gone"),
        ({"guest": False, "guest2": True}, None, "gone"),
        ({"guest": False, "neighbour": True}, None, "the neighbour of"),
    ],
)
def test_an_end_that_is_lost_is_named_unless_it_is_the_guest_that_is_measured(lost, between, said):
    made = links(between[0], **between[1]) if between else None
    with pytest.raises(GuestError, match=f"^{said}"), naming_lost(ends(**lost), made):
        raise GuestError("gone")
