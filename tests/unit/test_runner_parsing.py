"""A line of output that no parser knows costs its trial and never the run."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vtax.benchmarks import registry
from vtax.benchmarks.base import Context
from vtax.errors import BenchmarkError
from vtax.guest.guest import CommandResult
from vtax.runner.trial import parsed

FIXTURES = Path(__file__).parent / "fixtures"
CONTEXT = Context(1, 2**29, guest_address="198.18.0.2", peer_address="198.18.0.1", link_mbit_s=1e6)
REPORTS = [  # benchmark, its parameters, the program's role -> file with what it printed
    ("dd", {"file_size": 67108864}, {"single": "dd/9.7-write-flushed.txt"}),
    ("iperf2", {}, {"client": "iperf2/2.2.1-tcp_send.client.csv", "server": "iperf2/2.2.1-tcp_send.server.csv"}),
    (
        "iperf2",
        {"protocol": "udp"},
        {"client": "iperf2/2.2.1-udp_send.client.csv", "server": "iperf2/2.2.1-udp_send.server.csv"},
    ),
    ("iperf3", {}, {"client": "iperf3/3.18-tcp-send.json"}),
    ("iperf3", {"protocol": "udp"}, {"client": "iperf3/3.18-udp-send.json"}),
    ("netperf", {"test": "tcp_stream"}, {"client": "netperf/cpu_tcp_stream.txt"}),
    ("netperf", {"test": "tcp_rr"}, {"client": "netperf/cpu_tcp_rr.txt"}),
    ("sockperf", {}, {"client": "sockperf/bookworm-udp-under-load.txt"}),
    ("stream", {}, {"single": "stream/1.0-1-thread.txt"}),
    ("sysbench-cpu", {}, {"single": "sysbench/1.0.20-1-thread.txt"}),
]
_TOKEN = re.compile(r'"[^"]*"|[-+.\w]+')
_WORDS = ["", "0", "0.000", "-1", "1e+e", "1e999", "nan", "NaN", "-Infinity", "true", "null", "[]", "{}", "5", '"x"']
_WORDS += ["9" * 400, "9" * 5000, "[" * 100_000, "\x00", "1.2.3"]


def outcome(name, parameters, texts):
    benchmark = registry.get(name)
    results = {
        role: CommandResult((benchmark.tool,), 0, text, text if name == "dd" else "", 100.0, 100.0, user_s=1.0)
        for role, text in texts.items()
    }
    return parsed(benchmark, benchmark.Parameters(**parameters), CONTEXT, results)


def texts_of(files):
    return {role: (FIXTURES / file).read_text() for role, file in files.items()}


@pytest.mark.parametrize(("name", "parameters", "files"), REPORTS)
def test_the_real_report_is_understood(name, parameters, files):
    assert outcome(name, parameters, texts_of(files)).values


@pytest.mark.parametrize(
    ("number", "pattern", "replacement"),
    [
        (0, r", [0-9.]+ s,", ", 1e+e s,"),
        (2, r",\d+\.\d+,10,(\d+)", r",garbage,10,\1"),
        (3, r'"protocol":\s*"TCP"', '"protocol": 5'),
        (3, r"(?s).*", "[" * 100_000),
        (3, r'"bits_per_second":\s*[0-9.e+]+', '"bits_per_second": 1' + "0" * 400),
        (3, r'"host_total":\s*[0-9.]+', '"host_total": "5"'),
        (3, r'"host_total":\s*[0-9.]+', '"host_total": NaN'),
        (3, r'"tcp_mss_default":\s*[0-9.]+', '"tcp_mss_default": NaN'),
        (7, r"RunTime=[0-9.]+", "RunTime=0.000"),
    ],
)
def test_a_field_that_is_not_what_it_should_be_fails_the_trial(number, pattern, replacement):
    name, parameters, files = REPORTS[number]
    texts = texts_of(files)
    changed = {role: re.sub(pattern, replacement, text, flags=re.MULTILINE) for role, text in texts.items()}
    assert changed != texts
    with pytest.raises(BenchmarkError):
        outcome(name, parameters, changed)


@settings(max_examples=200)
@given(st.sampled_from(REPORTS), st.data())
def test_no_output_whatever_raises_anything_but_benchmark_error(report, data):
    name, parameters, files = report
    texts = texts_of(files)
    for _ in range(data.draw(st.integers(1, 3))):
        role = data.draw(st.sampled_from(sorted(texts)))
        tokens = list(_TOKEN.finditer(texts[role]))
        if tokens:
            found = data.draw(st.sampled_from(tokens))
            word = data.draw(st.sampled_from(_WORDS) | st.text(max_size=5))
            texts[role] = texts[role][: found.start()] + word + texts[role][found.end() :]
    try:
        made = outcome(name, parameters, texts)
    except BenchmarkError:
        return
    json.dumps([dict(made.values), dict(made.used)], allow_nan=False)
    assert {type(value) for value in made.values.values()} <= {float}
