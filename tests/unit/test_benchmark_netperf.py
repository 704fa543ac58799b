"""netperf: what its commands ask for and what its real selectors mean."""

from pathlib import Path

import pytest

from vtax.benchmarks.base import Context
from vtax.benchmarks.netperf import Netperf, NetperfParameters
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult
from vtax.messages import Note

BENCHMARK = Netperf()

FIXTURES = Path(__file__).parent / "fixtures" / "netperf"
CONTEXT = Context(1, 2**29, guest_address="198.18.0.2", peer_address="198.18.0.1")


def parse(fixture, context=CONTEXT, status=0, stderr="", **parameters):
    result = CommandResult(
        ("netperf",), status, (FIXTURES / f"{fixture}.txt").read_text(), stderr, 1.1, 1.1
    )
    return BENCHMARK.parse(NetperfParameters(**parameters), context, {"client": result})


def client_argv(**parameters):
    return BENCHMARK.commands(NetperfParameters(**parameters), CONTEXT)[1].argv


def after(argv, flag):
    return argv[argv.index(flag) + 1]


def test_the_server_runs_on_the_peer():
    server, client = BENCHMARK.commands(NetperfParameters(), CONTEXT)
    assert (server.argv[0], server.place, server.ready_port) == ("netserver", "peer", 12865)
    assert server.stays
    assert after(client.argv, "-H") == "198.18.0.1"


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"message_size": 512, "socket_buffer": 4096}, {"-m": "512", "-s": "4096", "-S": "4096"}),
        ({"socket_buffer": 4096, "remote_socket_buffer": 16384}, {"-s": "4096", "-S": "16384"}),
        ({"test": "tcp_maerts", "message_size": 512}, {"-m": ",512"}),  # of the peer
        ({"test": "tcp_rr", "request_size": 1, "response_size": 45_000_000}, {"-r": "1,45000000"}),
        (
            {
                "confidence_percent": 95,
                "confidence_width_percent": 5,
                "min_iterations": 3,
                "max_iterations": 10,
            },
            {"-I": "95,5", "-i": "10,3"},
        ),
    ],
)
def test_parameters_reach_the_test(given, options):
    argv = client_argv(**given)
    assert {flag: after(argv, flag) for flag in options} == options


def test_latency_is_requested_for_only_where_transactions_are_measured():
    assert "P99_LATENCY" not in after(client_argv(test="tcp_stream"), "-k")
    assert "P99_LATENCY" in after(client_argv(test="tcp_rr"), "-k")


def test_a_stream_is_judged_at_the_receiver():
    outcome = parse("tcp_stream", message_size=512, socket_buffer=4096, remote_socket_buffer=16384)
    assert outcome.values["throughput"] == 701.91
    assert outcome.values["retransmits"] == 0
    assert outcome.warnings == ()
    assert outcome.effective["local_send_buffer"] == 8192
    assert outcome.effective["remote_receive_buffer"] == 32768
    assert outcome.effective["mss"] == 1448


def test_maerts_is_received_by_the_guest():
    values = parse("tcp_maerts", test="tcp_maerts").values
    assert values["throughput"] == 8116.47
    assert values["sent"] == 8116.59
    assert values["retransmits"] == 7


def test_udp_sent_and_received_are_two_rates():
    values = parse("udp_stream", test="udp_stream").values
    assert (values["sent"], values["throughput"]) == (1289.26, 526.58)
    assert "retransmits" not in values


def test_datagrams_that_fit_a_packet_have_a_rate_of_packets():
    frames = {"test": "udp_stream", "message_size": 18}
    mtu = Context(1, 2**29, mtu=1500)
    outcome = parse("udp_stream_64_byte_frames", mtu, **frames)
    received_mbit_s = outcome.values["throughput"]
    assert outcome.values["packets"] == pytest.approx(received_mbit_s * 1e6 / 8 / 18)
    assert "packets" not in parse("udp_stream_64_byte_frames", **frames).values
    narrow = Context(1, 2**29, mtu=1027)
    assert "packets" not in parse("udp_stream", narrow, test="udp_stream").values
    assert "packets" in parse("udp_stream", mtu, test="udp_stream").values


@pytest.mark.parametrize(
    ("fixture", "mean_us", "p99"),
    [("tcp_rr", 28.47, 42), ("udp_rr", 10.36, None), ("tcp_crr", 70.90, None)],
)
def test_transactions_come_with_their_latencies(fixture, mean_us, p99):
    values = parse(fixture, test=fixture).values
    assert values["transactions"] == pytest.approx(1e6 / mean_us)
    assert p99 is None or values["latency_p99"] == p99
    assert "throughput" not in values
    assert (
        values["latency_p50"]
        <= values["latency_p90"]
        <= values["latency_p99"]
        <= values["latency_max"]
    )


def test_large_responses_are_transactions_too():
    outcome = parse("tcp_rr_large", test="tcp_rr", request_size=1000, response_size=45_000_000)
    assert outcome.values["transactions"] == pytest.approx(1e6 / 25670.08)
    assert outcome.values["completed"] == 78
    assert outcome.effective["response_size"] == 45_000_000


MEBIBYTE = {"test": "tcp_rr", "request_size": 2**20, "response_size": "equal"}


def test_the_rate_of_few_transactions_is_of_their_mean_time_and_says_so():
    assert (
        "TRANSACTION_RATE=5.500" in (FIXTURES / "tcp_rr_few.txt").read_text()
    )  # 11 in 2 s: the 12th is cut off
    outcome = parse("tcp_rr_few", **MEBIBYTE, duration_s=2)
    assert outcome.values["transactions"] == pytest.approx(5.961, abs=0.001)
    assert outcome.values["completed"] == 11
    assert outcome.warnings == (Note("few-transactions", found=11, minimum=30),)


def test_a_number_of_transactions_takes_the_place_of_a_time():
    assert after(client_argv(**MEBIBYTE, count=30), "-l") == "-30"
    outcome = parse("tcp_rr_count", **MEBIBYTE, count=30)
    assert (outcome.values["completed"], outcome.warnings) == (30, ())
    wire = Context(1, 2**29, link_mbit_s=100)
    assert BENCHMARK.expected_s(NetperfParameters(**MEBIBYTE, count=30), wire) == pytest.approx(
        5.13, abs=0.01
    )


def test_over_netperfs_own_iterations_the_rate_is_netperfs():
    outcome = parse("tcp_rr_confident", **MEBIBYTE, duration_s=1, confidence_percent=95)
    assert (outcome.values["transactions"], outcome.values["completed"]) == (4.999, 15)
    assert Note("few-transactions", found=5, minimum=30) in outcome.warnings


@pytest.mark.parametrize(
    ("fixture", "parameters"),
    [
        ("cpu_tcp_stream", {}),
        ("cpu_tcp_rr", {"test": "tcp_rr"}),
        ("cpu_tcp_maerts", {"test": "tcp_maerts"}),
        ("cpu_udp_stream", {"test": "udp_stream", "message_size": 1400}),
        ("cpu_confident", {"confidence_percent": 95}),
    ],
)
def test_a_native_client_tells_the_cpu_of_the_whole_host_at_both_ends(fixture, parameters):
    outcome = parse(fixture, **parameters)
    assert (outcome.values["cpu_local"], outcome.values["cpu_remote"]) == (
        100.0,
        100.0,
    )  # others kept it busy
    assert (outcome.effective["local_cpus"], outcome.effective["remote_cpus"]) == (2, 2)


@pytest.mark.parametrize(("platform", "percent"), [("qemu", 48.91), ("gvisor", 0.95)])
def test_a_client_with_a_kernel_of_its_own_tells_that_ones_cpu(platform, percent):
    outcome = parse(f"cpu_tcp_stream_{platform}")
    assert (outcome.values["cpu_local"], outcome.effective["local_cpus"]) == (percent, 1)
    assert (outcome.values["cpu_remote"], outcome.effective["remote_cpus"]) == (100.0, 2)


def test_cpu_that_netperf_could_not_find_out_is_no_figure():
    assert "LOCAL_CPU_UTIL=-1.00" in (FIXTURES / "tcp_stream.txt").read_text()
    outcome = parse("tcp_stream")
    assert not {"cpu_local", "cpu_remote"} & set(outcome.values)
    assert "local_cpus" not in outcome.effective


def test_netperfs_confidence_is_in_the_result_alone_although_cpu_is_measured():
    assert {"-c", "-C"} <= set(client_argv())
    assert "-r" not in client_argv()
    assert "-r" in client_argv(confidence_percent=95)


def test_a_missed_confidence_is_a_warning_on_the_cell():
    missed = parse("tcp_stream_not_confident", confidence_percent=99, confidence_width_percent=0.1)
    assert "confidence-missed" in [warning.code for warning in missed.warnings]
    reached = parse("tcp_stream_confident", confidence_percent=95, confidence_width_percent=50)
    assert reached.warnings == ()
    assert reached.effective["iterations"] == 5


def test_with_confidence_the_result_is_the_mean_of_the_iterations():
    assert parse("tcp_stream_not_confident", confidence_percent=99).values["throughput"] == 7363.31


def test_a_capped_buffer_is_a_warning_although_it_looks_as_requested():
    warnings = parse("tcp_stream_large_buffer", socket_buffer=8388608).warnings
    assert {(note.code, note.data["requested"]) for note in warnings} == {
        ("buffer-not-as-requested", 8388608)
    }
    assert warnings[0].data["name"] == "local send buffer"


@pytest.mark.parametrize(
    ("fixture", "mtu"), [("cpu_tcp_stream_gvisor", 1500), ("tcp_stream_gvisor_mtu_500", 500)]
)
def test_what_gvisor_uses_is_reported_where_it_is_true_and_warned_of_where_it_is_not_as_requested(
    fixture, mtu
):
    outcome = parse(fixture, context=Context(1, 1, mtu=mtu, congestion="cubic"))
    assert outcome.effective["mss"] == "not reported"
    assert outcome.warnings == (
        Note("not-as-requested", name="congestion", requested="cubic", found="reno"),
    )
    assert (
        parse("tcp_stream", context=Context(1, 1, mtu=1500, congestion="cubic")).effective["mss"]
        == 1448
    )


def test_the_peers_congestion_control_is_compared_too():
    warnings = parse("cpu_tcp_stream_gvisor", context=Context(1, 1, congestion="reno")).warnings
    assert warnings == (
        Note("not-as-requested", name="peer_congestion", requested="reno", found="cubic"),
    )


def test_equal_sizes_are_those_of_the_request():
    parameters = NetperfParameters.model_validate(
        {"test": "tcp_rr", "request_size": 4096, "response_size": "equal"}
    )
    assert parameters.model_dump()["response_size"] == 4096
    alone = NetperfParameters.model_validate({"test": "tcp_rr", "response_size": "equal"})
    assert alone.model_dump()["response_size"] == 1


@pytest.mark.parametrize("sizes", [{"request_size": 1000}, {"response_size": 1000}])
def test_transactions_above_the_link_fail_the_trial_in_either_direction(sizes):
    rate = 35020.341 * 1000 * 8 / 1e6  # 280 Mbit/s
    with pytest.raises(BenchmarkError, match="impossible"):
        parse("tcp_rr", test="tcp_rr", context=Context(1, 1, link_mbit_s=rate / 1.1), **sizes)
    full_duplex = {"request_size": 1000, "response_size": 1000}
    assert parse(
        "tcp_rr", test="tcp_rr", context=Context(1, 1, link_mbit_s=rate), **full_duplex
    ).values
