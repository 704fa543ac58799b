"""Links as wires: what tc(8) is requested for with and without netem, what is read back, and what a wire carries."""

import json
from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from vtax.benchmarks.base import Outcome
from vtax.benchmarks.netperf import NetperfParameters
from vtax.counters.packets import mean_packet_bytes, size_warning
from vtax.errors import BadInput, NetworkError
from vtax.messages import Note
from vtax.network import registry, wire
from vtax.network.links import Flow, Links
from vtax.network.settings import LinkSettings
from vtax.runner.trial import faster_than_a_wire

NETEM = {
    "kind": "netem",
    "options": {
        "limit": 1000,
        "delay": {"delay": 0.002, "jitter": 0.0001, "correlation": 0},
        "loss-random": {"loss": 1.00001e-05, "correlation": 0},
        "rate": {"rate": 12500000, "packetoverhead": 0, "cellsize": 0, "celloverhead": 0},
        "ecn": False,
        "gap": 0,
    },
}
"""As tc of iproute2 6.15 printed it on Linux 6.1."""
SHAPED = {"rate_mbit_s": 100, "delay_us": 2000, "jitter_us": 100, "loss": 0.001}


@pytest.fixture(params=[True, False], ids=["netem", "bucket"])
def netem(request, monkeypatch):
    monkeypatch.setattr(wire, "has_netem", lambda: request.param)
    return request.param


with_netem = pytest.mark.parametrize("netem", [True], indirect=True)
without_netem = pytest.mark.parametrize("netem", [False], indirect=True)


@with_netem
def test_netem_serializes_delays_and_loses(netem):
    words = " ".join(wire.queueing(LinkSettings(**SHAPED)))
    assert words == "netem limit 1000 delay 2000us 100us loss 0.001% rate 100000000bit"
    assert " ".join(wire.queueing(LinkSettings(delay_us=100))).endswith("delay 100us")
    limit = int(wire.queueing(LinkSettings(rate_mbit_s=1000, delay_us=100_000))[2])
    assert limit * 1518 * 8 / 1e9 >= 0.1  # what a link of 100 ms holds


@without_netem
@pytest.mark.parametrize(("rate", "frames"), [(10, 1), (100, 1), (101, 33), (1000, 329)])
def test_without_netem_a_rate_is_a_bucket_of_one_frame_where_that_holds_the_rate(
    rate, frames, netem
):
    words = wire.queueing(LinkSettings(rate_mbit_s=rate))
    assert words[:3] == ["tbf", "rate", f"{rate}000000bit"]
    assert int(words[4]) // 1518 == frames
    said = wire.description(LinkSettings(rate_mbit_s=rate))
    assert said == Note("token-bucket", count=frames, rate=rate, module="sch_netem")


@without_netem
@pytest.mark.parametrize("name", ["delay_us", "jitter_us", "loss"])
def test_a_kernel_without_netem_refuses_what_only_netem_can_with_the_modules_name(name, netem):
    link = {name: 5, **({"delay_us": 50} if name == "jitter_us" else {})}
    topology = registry.get("point-to-point")
    with pytest.raises(BadInput, match="no module sch_netem") as caught:
        topology.check(registry.settings("point-to-point", link))
    assert name in caught.value.hint


@with_netem
def test_a_kernel_with_netem_takes_them_and_says_nothing(netem):
    settings = registry.settings("point-to-point", SHAPED)
    registry.get("point-to-point").check(settings)
    assert wire.description(settings) is None


def test_netem_is_found_by_its_symbol_or_by_modprobe(monkeypatch, tmp_path, installed):
    symbols = tmp_path / "kallsyms"
    monkeypatch.setattr(wire, "_SYMBOLS", symbols)
    installed()
    for text, found in (("0 t tbf_enqueue\n", False), ("0 t netem_enqueue\t[sch_netem]\n", True)):
        symbols.write_text(text)
        assert wire.has_netem.__wrapped__() is found
    symbols.unlink()
    installed(but="")
    for status in (0, 1):
        monkeypatch.setattr(
            wire, "run", lambda argv, check, status=status: SimpleNamespace(status=status)
        )
        assert wire.has_netem.__wrapped__() is (status == 0)


@pytest.mark.parametrize(
    "wrong", [{"delay_us": 5, "jitter_us": 6}, {"loss": 101}, {"mtu": 1000, "packet_bytes": 1500}]
)
def test_a_link_that_cannot_be_is_refused(wrong):
    with pytest.raises(ValidationError):
        LinkSettings(**wrong)


def test_what_is_read_back_is_compared_with_what_was_requested():
    shaped = wire.read_queueing(json.dumps([NETEM]))
    assert wire.differences(LinkSettings(**SHAPED), shaped) == []
    for name in SHAPED:
        wrong = LinkSettings(**{**SHAPED, name: SHAPED[name] * 1.5})
        assert [text.partition(":")[0] for text in wire.differences(wrong, shaped)] == [name]
    gone = wire.read_queueing('[{"kind": "noqueue", "root": true, "options": {}}]')
    assert wire.differences(LinkSettings(rate_mbit_s=100), gone) == [
        Note("not-as-requested", name="rate_mbit_s", requested=100, found="not set")
    ]
    bucket = wire.read_queueing('[{"kind": "tbf", "options": {"rate": 12500000, "burst": 1518}}]')
    assert wire.differences(LinkSettings(rate_mbit_s=100), bucket) == []
    with pytest.raises(NetworkError, match="no queueing discipline"):
        wire.read_queueing("Cannot find device")


def test_a_wire_carries_what_the_formula_says():
    assert round(wire.transactions_per_s(100, 1500, 8192, 8192)) == 716
    assert round(wire.transactions_per_s(100, 1500, 512, 512)) == 10_382
    assert round(wire.transactions_per_s(100, 1500, 1, 1, is_datagram=True)) == round(
        1e8 / 8 / 2 / 84
    )
    assert wire.echo_s(LinkSettings(delay_us=1000), 8192) == pytest.approx(2e-3)


@pytest.mark.parametrize(("per_s", "says"), [(1449, True), (760, True), (745, False), (687, False)])
def test_more_transactions_than_a_wire_carries_are_no_figure_of_one(per_s, says):
    parameters = NetperfParameters(test="tcp_rr", request_size=8192, response_size=8192)
    text = faster_than_a_wire(
        LinkSettings(rate_mbit_s=100), Outcome({"transactions": per_s}), parameters
    )
    assert ("a wire of 100 Mbit/s carries 715.8" in str(text)) is says
    assert faster_than_a_wire(LinkSettings(), Outcome({"transactions": per_s}), parameters) is None


@pytest.mark.parametrize(
    ("seconds", "is_wire"), [(0.00069, False), (0.00132, True), (0.0015, True)]
)
def test_a_ping_pong_that_is_faster_than_a_wire_refuses_netem_and_names_a_bucket(
    seconds, is_wire, netem, monkeypatch
):
    """A burst: 8 KiB there and back at 100 Mbit/s need 1.35 ms."""
    end = SimpleNamespace(
        request=lambda settings, lab: None, uplinks=(), segments=(), own_hops=(), under_test=False
    )
    links = Links(
        None, LinkSettings(rate_mbit_s=100), [end], [Flow("a", "b", "198.18.0.2", "198.18.0.1")]
    )  # type: ignore[arg-type, list-item]
    monkeypatch.setattr(Links, "_ping_pong_s", lambda self, flow, at_least: seconds)
    assert links.wire_share is None
    if netem and not is_wire:
        with pytest.raises(NetworkError, match=r"no wire: 8192 bytes .* 690 us"):
            links._check_shaping()
        return
    texts = links._check_shaping()
    assert links.wire_share == pytest.approx(0.001348 / seconds, rel=0.01)
    assert bool(texts) is not netem
    numbers = [
        (text.data["found"], text.data["limit"]) for text in texts if text.code == "link-echo"
    ]
    assert len(numbers) == (0 if is_wire else len(texts))
    assert all((round(found), round(limit)) == (690, 1348) for found, limit in numbers)


def counted(**hops):
    return {
        ("link", f"{hop}.{name}"): float(value)
        for hop, values in hops.items()
        for name, value in zip(
            ("rx_bytes", "rx_packets", "tx_bytes", "tx_packets"), values, strict=True
        )
    }


def test_the_mean_packet_is_that_of_the_direction_with_the_data_at_hops_that_carry_it():
    found = mean_packet_bytes(
        counted(
            peer=(130e4, 1e4, 66e4, 1e4),
            guest=(66e4, 1e4, 130e4, 1e4),
            control=(2e4, 200, 1e4, 100),
            idle=(9, 1, 9, 1),
        )
    )
    assert found == {"peer": 116.0, "guest": 116.0}


@pytest.mark.parametrize(
    ("means", "requested", "text"),
    [
        ({"guest": 116.0, "peer": 112.0}, 116, ""),
        (
            {"guest": 116.0, "peer": 14_908.0},
            116,
            "requested 116, effective 14908 (mean of those with data at peer)",
        ),
        (
            {"in": 1500.0, "out": 1400.0},
            1500,
            "requested 1500, effective 1400 (mean of those with data at out)",
        ),
        ({"guest": 64_936.0}, None, ""),
        ({}, 116, "requested 116, and no hop counted 100 packets"),
    ],
)
def test_packets_of_another_size_than_requested_are_said(means, requested, text):
    assert size_warning(means, requested) == (f"packet_bytes: {text}" if text else None)


@pytest.mark.parametrize(
    ("rate", "mtu", "message", "is_datagram", "undelayed"),
    [
        (100, 1500, 1, False, True),
        (100, 1500, 1448, False, True),
        (100, 1500, 1449, False, False),
        (100, 1500, 1024, True, True),
        (100, 1500, 8192, True, False),
        (100, 116, 512, False, False),
        (1000, 1500, 8192, False, True),
        (None, 1500, 1, False, False),
    ],
)
def test_a_message_that_a_bucket_holds_is_not_delayed(
    monkeypatch, rate, mtu, message, is_datagram, undelayed
):
    settings = LinkSettings(rate_mbit_s=rate, mtu=mtu)
    monkeypatch.setattr(wire, "has_netem", lambda: False)
    assert wire.passes_undelayed(settings, message, is_datagram=is_datagram) == undelayed
    monkeypatch.setattr(wire, "has_netem", lambda: True)
    assert not wire.passes_undelayed(settings, message, is_datagram=is_datagram)
