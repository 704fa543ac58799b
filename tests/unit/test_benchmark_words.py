"""What a tool says is not lost behind its figures, and what it prints in other versions is read. Reports are changed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time

import pytest
from tool_reports import FIXTURES, outcome

from vtax.benchmarks import registry
from vtax.benchmarks.base import Context
from vtax.benchmarks.checks import successful_result
from vtax.benchmarks.json_report import read_report
from vtax.benchmarks.service import timed_by_log
from vtax.benchmarks.words import LONGEST, complaint_of, message_of, own_message, shortened
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult
from vtax.messages import Note

HISTOGRAM = json.dumps({"count": 827, "us": {str(n): 2 for n in range(100, 900, 2)}})
CONTEXT = Context(vcpus=1, memory_bytes=2**29)


def ran(stdout="", stderr="", status=0, **more):
    return CommandResult(("tool",), status, stdout, stderr, 10.0, 10.0, **more)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"No space left on device\nHINT: free some\n{HISTOGRAM}\n", "No space left on device; HINT: free some"),
        (f"{HISTOGRAM}\n", ""),
        (f"{HISTOGRAM}\nit ended\n", "it ended"),
        ('{\n  "a": 1,\n  "b": [\n    1,\n  ]\n}\nerror: no route\n', "error: no route"),
        ("[  1] connect failed: refused\n", "[ 1] connect failed: refused"),
    ],
)  # fmt: skip
def test_a_message_is_found_beside_figures(text, message):
    assert message_of(text) == message


def test_both_ends_of_a_long_message_are_kept():
    text = "\n".join(["no space left", *["and so on"] * 200, "the run was aborted"])
    message = message_of(text)
    assert message.startswith("no space left")
    assert message.endswith("the run was aborted")
    assert len(message) <= LONGEST
    assert len(shortened("x" * 1000, 50)) <= 50


def test_what_a_program_prints_stands_in_for_a_message_that_it_has_not():
    assert own_message(ran("1\n2\n", HISTOGRAM)) == "1; 2"
    assert own_message(ran("1\n2\n", "no\n")) == "no"
    assert own_message(ran()) == ""


def test_a_client_that_failed_names_its_reason_before_its_histogram():
    error = 'pgbench: error: client 1 aborted: ERROR: could not extend file "base/5": No space left on device'
    with pytest.raises(BenchmarkError, match="No space") as refusal:
        successful_result("pgbench", {"client": ran("", f"{error}\n{HISTOGRAM}\n", 2)}, "client")
    assert '"us"' not in str(refusal.value)


@pytest.mark.parametrize(
    ("stdout", "more", "says"),
    [
        ('{"end": 1}\n{"end": 2}\n', {}, "2 reports"),
        ('{"end": 1}{"end": 2}', {}, "2 reports"),
        ('{"end": [1, -nan]}', {}, "-nan, which is no number"),
        ('{"end": inf}', {}, "inf, which is no number"),
        ('{"end": [1, 2', {}, "cut off after 13 characters"),
        ('{"end" 1}', {}, "no JSON"),
        ('{"other": 1}', {}, "no 'end'"),
        ('{"end": [1, 2', {"truncated": True}, "so long"),
        ("tool: no route to host\n", {}, "no route to host"),
        ("", {"stderr": "tool: no route to host\n"}, "no route to host"),
        ("", {}, "printed nothing"),
        ('{"end": ' + "[" * 100_000, {}, "nested too deep"),
    ],
)
def test_status_0_and_no_report_says_what_was_wrong(stdout, more, says):
    with pytest.raises(BenchmarkError, match=re.escape(says)):
        read_report("tool", ran(stdout, **more), "end")


@pytest.mark.parametrize(
    "text",
    [
        'tool: option {x} is ignored\n{"end": 1}\n',
        '{x} is no option\n{"end": 1}\nbye {y}\n',
        'a\nb\n{\n "end": 1\n}',
    ],
)
def test_a_report_is_found_among_words_with_braces(text):
    report = read_report("tool", ran(text), "end")
    assert report.content == {"end": 1}
    assert len(report.words) in (1, 2)


def fio(before="", after=""):
    text = (FIXTURES / "fio/3.39-write.json").read_text()
    given = {"rw": "write", "block_size": 1048576, "size": 16777216, "once": True}
    return outcome("fio", given, {"single": before + text + after})


NOTE = "fio: cache invalidation of /scratch/vtax.0.0 failed: Permission denied"


def test_words_of_fio_at_status_0_are_warnings():
    plain = fio()
    for found in (fio(before=f"{NOTE}\n"), fio(after=f"\n{NOTE}\n")):
        assert found.values == plain.values
        assert [w.data["text"] for w in found.warnings if w.code == "tool-said"] == [NOTE]
    assert fio(before="fio: option {x} is ignored\n").values == plain.values


def test_words_of_iperf3_at_status_0_are_warnings_and_its_errors_are_not():
    text = (FIXTURES / "iperf3/3.18-tcp-send.json").read_text()
    warned = outcome("iperf3", {}, {"client": text, "client.err": "warning: old kernel\n"})
    assert Note("tool-said", text="warning: old kernel") in warned.warnings
    for texts in (
        {"client": f"{text}\niperf3: error - unable to send control message: Broken pipe\n"},
        {"client": text, "client.err": "iperf3: error - unable to send: Broken pipe\n"},
    ):
        with pytest.raises(BenchmarkError, match="Broken pipe"):
            outcome("iperf3", {}, texts)
    with pytest.raises(BenchmarkError, match="2 reports"):
        outcome("iperf3", {}, {"client": f"{text}\n{text}"})


def pgbench(change, log=lambda log: log):
    files = FIXTURES / "pgbench"
    text = change((files / "17-tpcb.txt").read_text())
    texts = {"client": text, "client.err": log((files / "17-tpcb.err").read_text())}
    return outcome("pgbench", {"duration_s": 2, "scale": 1, "clients": 2}, texts)


def without_failed(text):
    return re.sub(r"number of failed transactions.*\n", "", text)


def test_pgbench_14_counts_no_failed_transactions():
    found = pgbench(lambda text: "pgbench (14.19)\n" + without_failed(text.partition("\n")[2]))
    assert found.values == pgbench(lambda text: text).values


def test_pgbench_13_is_refused_by_its_version_and_17_for_what_it_lacks(golden):
    with pytest.raises(BenchmarkError, match="pgbench 13"):
        pgbench(lambda text: "pgbench (13.1)\n" + without_failed(text.partition("\n")[2]))
    with pytest.raises(BenchmarkError) as caught:
        pgbench(lambda text: "pgbench (17.1)\n" + without_failed(text.partition("\n")[2]))
    golden(str(caught.value))


def test_transactions_that_the_log_has_as_failed_are_counted():
    def failing(log):
        return json.dumps({**json.loads(log), "failed": 3})

    with pytest.raises(BenchmarkError, match="3 failed"):
        pgbench(lambda text: text, failing)


def test_rows_of_a_log_without_a_time_are_counted_apart(tmp_path):
    """pgbench writes `failed`, or with a limit of latency `skipped`, in place of the time."""
    rows = ["0 1 2000 0 1764327600 500000", "0 2 failed 0 1764327600 600000", "1 1 skipped 0 0 0",
            "1 2 4000 0 1764327600 900000"]  # fmt: skip
    program = f"open('{{log}}.1', 'w').write({chr(10).join(rows)!r})"
    argv = (sys.executable, "-c", program)
    directory, line, files = timed_by_log(str(tmp_path), 0, 2, "4*1000000+5*1", 1.0, argv)
    (tmp_path / "vtax-client-0").mkdir()
    for file in files:
        (tmp_path / "vtax-client-0" / file.path.rpartition("/")[2]).write_bytes(file.data)
    assert directory == str(tmp_path / "vtax-client-0")
    ended = subprocess.run(line, capture_output=True, text=True, check=True)
    found = json.loads(ended.stderr.splitlines()[-1])
    assert (found["count"], found["failed"]) == (2, 2)
    assert found["ms"]["latency_avg"] == 3.0


def test_sysbench_1_1_names_two_lines_otherwise():
    text = (FIXTURES / "sysbench/1.0.20-1-thread.txt").read_text()
    changed = text.replace("events per second:", "events/s (eps):").replace(
        "total time:", "time elapsed:"
    )
    assert changed.count("(eps)") == changed.count("time elapsed") == 1
    found, same = (outcome("sysbench-cpu", {}, {"single": each}) for each in (changed, text))
    assert found.values == same.values


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        ("dd (coreutils) 9.7\nCopyright", "9.7"),
        ("dd (uutils coreutils) 0.2.2\n", "uutils 0.2.2"),
        ("BusyBox v1.37.0 (2025-01-17) multi-call binary.\n", "busybox 1.37.0"),
        ("dd: unrecognized option '--version'\nBusyBox v1.36.1 () multi-call\n", "busybox 1.36.1"),
        ("toybox 0.8.9\n", "toybox 0.8.9"),
    ],
)
def test_the_version_of_another_dd_names_it(printed, version):
    assert registry.get("dd").version_of(printed) == version


def test_a_program_that_ended_well_complains_on_either_output():
    assert (
        complaint_of(ran("rate 0\nRecv error: Connection reset\n"))
        == "Recv error: Connection reset"
    )
    assert complaint_of(ran("rate 0\n", "no server\n")) == "no server"
    assert complaint_of(ran('rate 0\n{"lost_packets": 0}\n')) == ""


@pytest.mark.parametrize(
    "text", ["\n" * 2**20, "{\n" * 2**19, '{"a":\n' * 2**17, '{"a": [\n' * 2**17, "x\n" * 2**19]
)
def test_an_output_that_is_no_report_is_refused_in_little_time(text):
    started = time.monotonic()
    with pytest.raises(BenchmarkError, match="no report"):
        read_report("tool", ran(text, text), "end")
    assert time.monotonic() - started < 2
