"""What a tool's output may not be: each costs its trial, with an error that says what is wrong.

A new benchmark adds rows: a real report, what is changed in it, and what the error says.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vtax.benchmarks import registry
from vtax.benchmarks.base import Context
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult

FIXTURES = Path(__file__).parent / "fixtures"
CONTEXT = Context(
    2, 2**30, guest_address="198.18.0.2", peer_address="198.18.0.1", flow=3, peer_vcpus=1
)
RUN_S = {
    "kernel-paths": 1.2,
    "memory-latency": 1.0,
    "linpack": 3.0,
    "pi": 2.0,
    "pi-flint": 2.0,
    "stream": 2.0,
}
RUN_S |= {"compile": 4.0, "sysbench-cpu": 3.0}
"""How long a program ran, where it is not 100 s."""
OF_CLIENTS = (
    "iperf3",
    "memcached",
    "netperf",
    "nginx",
    "pgbench",
    "redis",
    "sockperf",
    "sysbench-oltp",
)
MIB = 2**20
BONNIE = {"size": 2**30}
FIO = {"rw": "write", "block_size": MIB, "size": 16 * MIB, "once": True}
FIO_DIRECT = {
    "rw": "randrw",
    "size": 16 * MIB,
    "engine": "libaio",
    "iodepth": 8,
    "jobs": 2,
    "direct": True,
    "duration_s": 1,
}
FORK = {"operation": "fork_exec", "loops": 300}
LINPACK = {"order": 100, "precision": "double", "repetitions": 1000}
CHASE = {"working_set": "1MiB", "loads": 1_000_000}
PI, MANY, LONG = ("pi", "pi-flint"), {"digits": 1000}, {"digits": 100_000}
TPCB = {"duration_s": 2, "scale": 1, "clients": 2}
UNKNOWN = "no report that vtax knows"


def refused(
    benchmark: str,
    report: str,
    says: str,
    *changes: tuple[str, str] | tuple[str, str, int],
    given: dict[str, Any] | None = None,
    error: str = "",
    **ran: Any,
) -> Any:
    """A row: the report of a benchmark (a file, or its text), its standard error, and how the program ran."""
    return pytest.param(
        benchmark, report, error, changes, given or {}, ran, says, id=f"{benchmark}-{says}"
    )


REFUSED = [
    refused(
        "bonnie", "", "status 1: .*No space left on device", error="2.00a-disk-full.err", status=1
    ),
    *(
        refused("bonnie", "2.00a-1-gib-16-files.csv", says, (old, new, 1), given=BONNIE)
        for old, new, says in (
            ("1.98,", "1.97,", "no line that vtax knows"),
            ("217083", "0", "'0' for write"),
            ("217083", "nan", "'nan' for write"),
            ("217083", "", "not complete"),
            (",6471us", "", "no line that vtax knows"),
            (",1G,", ",1P,", "a size that vtax does not know"),
            (",1G,", ",2G,", "were asked for"),
            (",16,", ",17,", "were asked for"),
            ("217083", "100", "says it took"),
        )
    ),
    *(
        refused("checkout", "2.47.3.txt", UNKNOWN, (old, new))
        for old, new in (("install ", ""), (" ns\ncheck", " s\ncheck"), ("29 files\n", ""))
    ),
    refused("checkout", "2.47.3.txt", "has no files", ("of 29 files", "of 0 files")),
    refused("checkout", "2.47.3.txt", "of CPU time", cpu_s=300.0),
    refused(
        "checkout",
        "no-repository.txt",
        "status 128: .*missing.git' does not exist",
        error="no-repository.err",
        status=128,
    ),
    *(
        refused("compile", "gcc-14.2.0-20-files.txt", UNKNOWN, (old, new, 1), given={"files": 20})
        for old, new in (
            ("built.a", "other.a"),
            ("20\n", ""),
            ("80ed", "xxxx"),
            ("20\n", "20 20\n"),
        )
    ),
    refused(
        "compile",
        "gcc-14.2.0-broken-file.txt",
        r"make failed with status 2: .*bcmp\.c:1:1: error: .*Error 1",
        error="gcc-14.2.0-broken-file.err",
        status=2,
        given={"files": 3},
    ),
    refused(
        "compile",
        "gcc-14.2.0-20-files.txt",
        "20 files were compiled where 21 were",
        given={"files": 21},
    ),
    refused("compile", "gcc-14.2.0-20-files.txt", "of CPU time", given={"files": 20}, cpu_s=30.0),
    refused(
        "dd",
        "",
        "status 1: .*No space left on device.*1048576 bytes",
        error="9.1-no-space.txt",
        status=1,
    ),
    refused("dd", "", "status 1: .*0 bytes", error="9.1-not-direct.txt", status=1),
    refused("dd", "", "status 1: .*failed to open '/nowhere'", error="9.1-missing.txt", status=1),
    refused(
        "dd",
        "",
        "moved 1536 bytes where 131072 were requested",
        error="9.1-short.txt",
        given={"file_size": 131072, "block_size": 65536, "direction": "read"},
    ),
    refused("dd", "", "no summary", error="busybox-1.37.txt", given={"file_size": 64 * MIB}),
    refused(
        "dd",
        "",
        r"reports 0\.574313 s",
        error="9.7-write-flushed.txt",
        run_s=0.2,
        given={"file_size": 64 * MIB},
    ),
    refused("fio", "", "status 1: .*failed parsing directory", error="3.33-failed.err", status=1),
    refused("fio", "", "status 1: .*failed parsing directory", error="3.39-failed.err", status=1),
    refused("fio", "3.39-write.json", UNKNOWN, ('"jobs" :', '"work" :'), given=FIO),
    refused("fio", "3.39-write.json", "error 28", ('"error" : 0', '"error" : 28'), given=FIO),
    refused("fio", "3.39-write.json", "lacks 'clat_ns'", ('"clat_ns"', '"latency"'), given=FIO),
    refused(
        "fio",
        "3.39-write.json",
        "moved 1 bytes",
        ('"io_bytes" : 16777216', '"io_bytes" : 1'),
        given=FIO,
    ),
    refused("fio", "3.39-randrw-direct.json", "but it ran for", given=FIO_DIRECT, run_s=0.5),
    *(
        refused("fio", f"{version}-full.json", says, given=FIO, **ended)
        for version in ("3.33", "3.39")
        for says, ended in (
            (
                "status 1: fio: pid=.*No space left on device",
                {"status": 1, "error": f"{version}-full.err"},
            ),
            ("fill error 28", {}),
        )
    ),
    refused("fio", "3.39-write.json", "lacks 'clat_ns'", ('"clat_ns"', '"latency"'), given=FIO),
    refused("iperf3", "3.12-refused.json", "Connection refused", status=1),
    refused("iperf3", "3.18-refused.json", "Connection refused", status=1),
    refused("iperf3", "", "not found", error="sh: iperf3: not found\n", status=127),
    refused("iperf3", "3.18-tcp-send.json", "impossible", context=Context(1, 1, link_mbit_s=1000)),
    refused(
        "kernel-paths",
        "1.0-timer.txt",
        "woke up before its 1 ms were over",
        run_s=0.25,
        inside_s=0.41,
        given={"operation": "timer", "loops": 300},
    ),
    refused(
        "kernel-paths",
        "1.0-no-exec.txt",
        "status 1: .*: exec of /proc/self/exe: Exec format error",
        error="1.0-no-exec.err",
        status=1,
        given=FORK,
    ),
    *(
        refused("kernel-paths", "1.0-syscall.txt", says, (old, new), given={"loops": 300})
        for old, new, says in (
            ("operation syscall", "operation mmap", "'operation': 'mmap'"),
            ("loops 300", "loops 299", "'loops': '299'"),
            ("\ncomplete", "", "not complete"),
            ("min_ns 159.998", "min_ns -1", "its clock stands still"),
            ("p50_ns", "p51_ns", "it has no p50_ns"),
            ("seconds 0.000051307", "seconds 0.0", "no time passed"),
            ("seconds 0.000051307", "seconds 7.0", "reports 7 s of loops"),
        )
    ),
    refused("kernel-paths", "1.0-syscall.txt", "of CPU time", given={"loops": 300}, cpu_s=9.0),
    refused(
        "linpack",
        "1.0-100-double.txt",
        "solution is wrong",
        ("\nvalid", "\ninvalid"),
        given=LINPACK,
    ),
    refused(
        "linpack",
        "1.0-100-double.txt",
        "scaled residual is 16, not below 16",
        ("scaled_residual 2.40229331e-02", "scaled_residual 16"),
        given=LINPACK,
    ),
    refused(
        "linpack",
        "1.0-no-memory.txt",
        "status 2: no memory for the matrix: lower the order",
        error="1.0-no-memory.err",
        status=2,
        given={"order": 5000},
    ),
    refused("linpack", "1.0-no-memory.txt", "not complete", given={"order": 5000}),
    refused("linpack", "1.0-100-double.txt", "'order': '100'", given={**LINPACK, "order": 101}),
    refused(
        "linpack",
        "1.0-100-double.txt",
        "'precision': 'double'",
        given={**LINPACK, "precision": "single"},
    ),
    refused(
        "linpack",
        "1.0-100-double.txt",
        "'repetitions': '1000'",
        given={**LINPACK, "repetitions": 7},
    ),
    refused(
        "linpack",
        "1.0-100-double.txt",
        "and the guest counted",
        given=LINPACK,
        run_s=0.01,
        cpu_s=0.0,
    ),
    refused("linpack", "1.0-100-double.txt", "of CPU time", given=LINPACK, cpu_s=9.0),
    refused("memcached", "trixie-refused.txt", "status 1: servers: 127", status=1),
    refused("memcached", "bookworm-refused.txt", UNKNOWN),
    refused("memcached", "trixie-no-statistics.txt", UNKNOWN),
    refused("memcached", "trixie.txt", "12 found no value", ("get_misses: 0", "get_misses: 12")),
    refused("memcached", "trixie.txt", r"but it ran for 1\.000 s", run_s=1.0),
    refused(
        "memory-latency",
        "1.0-no-memory.txt",
        "status 2: no memory for the working set",
        error="1.0-no-memory.err",
        status=2,
        given=CHASE,
    ),
    *(
        refused("memory-latency", "1.0-1-mib-small.txt", says, (old, new), given=CHASE)
        for old, new, says in (
            ("working_set 1048576", "working_set 1", "'working_set': '1'"),
            ("loads 1000000", "loads 1", "'loads': '1'"),
            ("min_ns 6.510", "min_ns 0", "no time passed in the guest"),
            ("huge_bytes 0", "huge_bytes x", "where huge_bytes is a whole number"),
            ("\ncomplete", "", "not complete"),
            ("seconds 0.015789342", "seconds 5", "reports 5 s of loops"),
        )
    ),
    refused(
        "netperf",
        "tcp_rr_none.txt",
        r"no transaction of 47185920 and 47185920 bytes .* within 1\.09 s",
        given={
            "test": "tcp_rr",
            "request_size": 47185920,
            "response_size": "equal",
            "duration_s": 1,
        },
    ),
    refused(
        "netperf",
        "tcp_rr_none.txt",
        "netperf failed with .*partial response received: 0 bytes",
        status=1,
        error="recv_response: partial response received: 0 bytes\n",
        given={"test": "tcp_rr"},
    ),
    refused("netperf", "refused.txt", "could not establish", status=1),
    refused(
        "netperf", "udp_too_large.txt", "Message too long", error="udp_too_large.err", status=1
    ),
    refused("netperf", "tcp_stream.txt", "impossible", context=Context(1, 1, link_mbit_s=100)),
    refused(
        "nginx", "1.64.0-not-found.txt", "of 22567 requests 0 succeeded, 22567 failed", error="{}\n"
    ),
    refused("nginx", "1.64.0-refused.txt", "of 0 requests 0 succeeded", error="{}\n"),
    refused("nginx", "1.64.0.txt", UNKNOWN, ("finished in", "ended in"), error="1.64.0.err"),
    refused("nginx", "1.64.0.txt", "logged no request", error="{}\n"),
    refused("pgbench", "", "status 1: .*Connection refused", error="17-refused.err", status=1),
    refused(
        "pgbench",
        "17-tpcb.txt",
        "no line like 'tps = ",
        ("tps = ", "rate = "),
        error="17-tpcb.err",
        given=TPCB,
    ),
    refused(
        "pgbench",
        "17-tpcb.txt",
        "ran 3 clients",
        ("clients: 2", "clients: 3"),
        error="17-tpcb.err",
        given=TPCB,
    ),
    refused(
        "pgbench",
        "17-tpcb.txt",
        "4 failed",
        ("failed transactions: 0", "failed transactions: 4"),
        error="17-tpcb.err",
        given=TPCB,
    ),
    refused(
        "pgbench",
        "17-tpcb.txt",
        "and logged 827",
        ("processed: 827", "processed: 828"),
        error="17-tpcb.err",
        given=TPCB,
    ),
    refused("pgbench", "17-tpcb.txt", "logged no request", error='{"count": 0}\n', given=TPCB),
    refused(
        "pi",
        "cln-1.3.7.txt",
        "other digits than those of pi: 70150788",
        ("70150789", "70150788"),
        given=LONG,
    ),
    refused(
        "pi",
        "cln-1.3.6.txt",
        "printed 1000 digits where 2000 were requested",
        given={"digits": 2000},
    ),
    refused(
        "pi",
        "cln-1.3.7-no-file.txt",
        "status 2: .*cannot create /nowhere/o",
        error="cln-1.3.7-no-file.err",
        status=2,
        given=LONG,
    ),
    refused("pi", "cln-1.3.6.txt", "of CPU time", given=MANY, cpu_s=9.0),
    *(
        refused(name, text, "that vtax knows", given=MANY)
        for name in PI
        for text in ("", "3.14\n5\n")
    ),
    refused(
        "pi-flint",
        "pi/flint-3.1.0.txt",
        "other digits than those of pi",
        ("70150789", "70150788"),
        given=LONG,
    ),
    refused("pi-flint", "pi/flint-3.1.0.txt", "'digits': '100000'", given={"digits": 2000}),
    refused("pi-flint", "pi/flint-3.1.0.txt", "'threads': '2'", given={**LONG, "threads": 3}),
    refused(
        "pi-flint",
        "",
        r"status 2: no FLINT \(Debian package libflint19\)",
        error="pi/flint-missing.err",
        status=2,
        given=MANY,
    ),
    refused(
        "pi-flint",
        "pi/flint-3.1.0.txt",
        "and the guest counted 2 s",
        ("computed_s ", "computed_s 5"),
        given=LONG,
    ),
    *(
        refused("python-imports", "3.13.5.txt", says, (old, new, 1))
        for old, new, says in (
            ("210\n", "", "4 interpreters reported where 5 were started"),
            ("210\n", "209\n", "not the same one"),
            ("210\n", "0\n", "not the same one"),
        )
    ),
    refused("python-imports", "1\n-1\n1\n1\n1\n", "not the same one"),
    refused("python-imports", "x\n", "no number of files", given={"starts": 1}),
    refused(
        "python-imports",
        "",
        "status 1: .*No module named '_contextvars'",
        error="3.11.2-minimal.err",
        status=1,
    ),
    refused("python-imports", "3.13.5.txt", "of CPU time", cpu_s=300.0),
    refused("redis", "", "status 1: Could not connect to Redis", error="8.0-refused.err", status=1),
    refused("redis", "", UNKNOWN),
    refused("redis", "8.0.txt", UNKNOWN, ("====== GET", "====== PUT"), given={"requests": 20_000}),
    refused("redis", "8.0.txt", UNKNOWN, ("cumulative count", "count"), given={"requests": 20_000}),
    refused("redis", "7.0.txt", "but it ran for", given={"requests": 20_000}, run_s=0.5),
    *(
        refused("sockperf", f"{suite}-{protocol}-refused.txt", says, given={"protocol": protocol})
        for suite in ("bookworm", "trixie")
        for protocol, says in (("tcp", "Connection refused"), ("udp", "Is the server down"))
    ),
    refused("sockperf", "sockperf: Summary: Latency is fine\n", "not known"),
    refused(
        "sockperf",
        "bookworm-udp-logged.txt",
        "logged 1099 answers of 1100",
        ("Total 1099 observations", "Total 1100 observations"),
        given={"duration_s": 1},
    ),
    refused("stream", "1.0-1-thread.txt", "wrong values", ("\nvalid", "\ninvalid"), status=1),
    refused(
        "stream",
        "1.0-no-memory.txt",
        "no memory for an array of 100000000 elements",
        error="1.0-no-memory.err",
        status=2,
    ),
    *(
        refused("stream", "1.0-2-threads.txt", "not complete", change)
        for change in (
            ("triad 3452.0", "triads 3452.0"),
            ("valid\n", ""),
            ("threads 2", "threads two"),
        )
    ),
    *(
        refused("stream", "1.0-1-thread.txt", "no time at all", ("copy 6267.4", f"copy {rate}"))
        for rate in ("inf", "nan", "0.0")
    ),
    refused("stream", "1.0-1-thread.txt", "of CPU", cpu_s=5.0),
    *(
        refused("stream", "1.0-2-threads.txt", f"vtax-stream failed with {words}", status=status)
        for status, words in ((1, "status 1"), (-9, r"signal 9 \(SIGKILL\)"), (-99, "signal 99"))
    ),
    refused(
        "sysbench-cpu",
        "sysbench/1.0.20-500-events.txt",
        "500 events where 1000",
        given={"events": 1000},
    ),
    refused(
        "sysbench-cpu",
        "sysbench/1.0.20-refused.txt",
        r"status 1: .*FATAL: Invalid value of cpu-max-prime: 0\.",
        status=1,
    ),
    refused("sysbench-cpu", "sysbench/1.0.20-forced-shutdown.txt", "finished no event"),
    refused(
        "sysbench-cpu",
        "sysbench/1.0.20-1-thread.txt",
        r"used 4\.00 s of CPU time; 1 CPUs have 3\.00 s",
        cpu_s=4.0,
        context=Context(1, 2**29),
    ),
    refused("sysbench-cpu", "CPU speed:\n    events/s (eps): 12.0\n", "no line like"),
    refused(
        "sysbench-cpu",
        "sysbench 0.4.12:  multi-threaded system evaluation benchmark\n\n"
        "Test execution summary:\n    total number of events:              10000\n",
        r"sysbench 0\.4\.12, whose events are other work",
    ),
    refused(
        "sysbench-oltp",
        "10.11-killed.txt",
        "failed with status 1: .*Lost connection to server",
        status=1,
    ),
    refused(
        "sysbench-oltp",
        "11.8-refused.txt",
        "failed with status 1: .*Thread initialization failed",
        status=1,
    ),
    refused(
        "sysbench-oltp", "11.8-load.txt", "loaded no table", given={"test": "load", "rows": 20_000}
    ),
    *(
        refused(
            "sysbench-oltp", "10.11-point_select.txt", says, (old, new, 1), given={"events": 10_000}
        )
        for old, new, says in (
            ("transactions:   ", "commits:   ", "no line like 'transactions'"),
            ("events:              10000", "events:              9999", "where 10000"),
            (
                "0.016 |*****                                    217",
                "0.016 |*  216",
                "does not hold its 10000",
            ),
            (
                "total time:                          0.1815s",
                "total time:   200.0s",
                "but it ran for",
            ),
            ("Number of threads: 1", "Number of threads: 2", "with 2 threads"),
        )
    ),
]


def text_of(benchmark: str, name: str) -> str:
    """A report: its file, of the benchmark's directory where it names none, or what is a text already."""
    if "\n" in name or not name:
        return name
    return (FIXTURES / (name if "/" in name else f"{benchmark}/{name}")).read_text()


@pytest.mark.parametrize(
    ("benchmark", "report", "error", "changes", "given", "ran", "says"), REFUSED
)
def test_another_or_an_impossible_report_costs_its_trial(
    benchmark, report, error, changes, given, ran, says
):
    text = text_of(benchmark, report)
    for change in changes:
        assert change[0] in text
        text = text.replace(*change)
    run_s = ran.get("run_s", RUN_S.get(benchmark, 100.0))
    result = CommandResult(
        (registry.get(benchmark).tool,),
        ran.get("status", 0),
        text,
        text_of(benchmark, error),
        run_s,
        ran.get("inside_s", run_s),
        cpu_s=ran.get("cpu_s", 0.1),
    )
    role = "client" if benchmark in OF_CLIENTS else "single"
    made = registry.get(benchmark)
    with pytest.raises(BenchmarkError, match=says):
        made.parse(made.Parameters(**given), ran.get("context", CONTEXT), {role: result})
