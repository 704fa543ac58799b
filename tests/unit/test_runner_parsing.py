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
    changed = {
        role: re.sub(pattern, replacement, text, flags=re.MULTILINE) for role, text in texts.items()
    }
    assert changed != texts
    with pytest.raises(BenchmarkError):
        outcome(name, parameters, changed)
