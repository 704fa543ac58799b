"""A line of output that no parser knows costs its trial and never the run."""

import re

import pytest
from tool_reports import REPORTS, outcome, texts_of

from vtax.errors import BenchmarkError


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parameters", "files"), REPORTS)
def test_the_real_report_is_understood(name, parameters, files):
    assert outcome(name, parameters, texts_of(files)).values


@pytest.mark.parametrize(
    ("benchmark", "place", "pattern", "replacement"),
    [
        ("dd", 0, r", [0-9.]+ s,", ", 1e+e s,"),
        ("iperf2", 1, r",\d+\.\d+,10,(\d+)", r",garbage,10,\1"),
        ("iperf3", 0, r'"protocol":\s*"TCP"', '"protocol": 5'),
        ("iperf3", 0, r"(?s).*", "[" * 100_000),
        ("iperf3", 0, r'"bits_per_second":\s*[0-9.e+]+', '"bits_per_second": 1' + "0" * 400),
        ("iperf3", 0, r'"host_total":\s*[0-9.]+', '"host_total": "5"'),
        ("iperf3", 0, r'"host_total":\s*[0-9.]+', '"host_total": NaN'),
        ("iperf3", 0, r'"tcp_mss_default":\s*[0-9.]+', '"tcp_mss_default": NaN'),
        ("sockperf", 0, r"RunTime=[0-9.]+", "RunTime=0.000"),
    ],
)
def test_a_field_that_is_not_what_it_should_be_fails_the_trial(
    benchmark, place, pattern, replacement
):
    reports = [report for report in REPORTS if report[0] == benchmark]
    name, parameters, files = reports[place]
    texts = texts_of(files)
    changed = {
        role: re.sub(pattern, replacement, text, flags=re.MULTILINE) for role, text in texts.items()
    }
    assert changed != texts
    with pytest.raises(BenchmarkError):
        outcome(name, parameters, changed)
