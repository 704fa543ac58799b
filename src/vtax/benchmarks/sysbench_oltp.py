"""sysbench OLTP: transactions of a MariaDB server in the guest, on one table of `rows` rows.

`oltp_point_select` looks rows up by their key, `oltp_read_only` and `oltp_read_write` are transactions of 14 and 18
queries, `load` makes and fills the table, timed by the controller. It measures server, file system and disk
together, and with `client = "guest"` the client on the same CPUs. It does not measure replication, several tables,
nor a server that was tuned: everything but `buffer_pool` is MariaDB's default, without TLS.

Its trap is where the client runs. In the guest it takes CPU time from the server; at the peer every query crosses
the network, and one that has used up its CPUs is a warning. The second trap is the cache: where `buffer_pool` holds
the table, a point select reads no disk. The rows are loaded once, when the image is built; every
trial has a fresh copy of them, so the page cache of the guest is warm and the buffer pool is empty.

A short trial (`events`, `trial_time`) is one of a server that was just started: its buffer pool is nearly empty.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from vtax.benchmarks.base import (
    Command,
    Context,
    Metric,
    Operations,
    Outcome,
    Parameters,
    Role,
    Service,
    WorkParameter,
    register_benchmark,
)
from vtax.benchmarks.checks import number_in, successful_result
from vtax.benchmarks.histograms import from_counts
from vtax.benchmarks.service import (
    LATENCY,
    Client,
    check_cache,
    cpus_of,
    latencies,
    saturation_warnings,
)
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult
from vtax.image.recipe import DataSet
from vtax.messages import Note
from vtax.study.fields import Size

PORT = 3306
_MEBIBYTE = 1024**2
_EMPTY_BYTES, _ROW_BYTES = (
    150 * _MEBIBYTE,
    240,
)  # about; log and undo files, and a row with its index
_NUMBER = r"[ \t]*([0-9]+(?:\.[0-9]+)?)"
_LINES = {
    "transactions": rf"transactions: +[0-9]+ +\({_NUMBER} per sec\.\)",
    "queries": rf"queries: +[0-9]+ +\({_NUMBER} per sec\.\)",
    "errors": rf"ignored errors:{_NUMBER} +\([0-9.]+ per sec\.\)",
    "reconnects": rf"reconnects:{_NUMBER} +\([0-9.]+ per sec\.\)",
    "time": rf"(?:total time|time elapsed):{_NUMBER}s",
    "events": rf"total number of events:{_NUMBER}",
    "threads": rf"Number of threads:{_NUMBER}",
    "latency_avg": rf"avg:{_NUMBER}",
    "latency_max": rf"max:{_NUMBER}",
}
_BUCKET = re.compile(r"^ +([0-9]+\.[0-9]+) \|\** +([0-9]+)$", re.MULTILINE)
_PERCENTILES = {"latency_p50": 0.50, "latency_p95": 0.95, "latency_p99": 0.99}
_SELECT_S, _TRANSACTION_S, _ROWS_PER_S = 1e-4, 5e-3, 3e4  # about; for the plan
_START_S = 2.0

# $1: the directory. The server is stopped before the script ends, and its tables are whole.
_SCRIPT = """
mariadb-install-db --no-defaults --user=mysql --datadir="$1" --skip-test-db \\
  --auth-root-authentication-method=normal >/tmp/log 2>&1 || { tail /tmp/log >&2; exit 1; }
mariadbd --no-defaults --user=mysql --datadir="$1" --socket=/tmp/socket --skip-networking >/tmp/log 2>&1 &
server=$!
until mariadb-admin --no-defaults --socket=/tmp/socket ping >/dev/null 2>&1; do
  kill -0 $server || { tail /tmp/log >&2; exit 1; }
  sleep 0.2
done
mariadb --no-defaults --socket=/tmp/socket -e "
  CREATE DATABASE sbtest;
  CREATE USER sbtest@'%', sbtest@localhost;
  GRANT ALL ON sbtest.* TO sbtest@'%', sbtest@localhost;"
[ @ROWS@ = 0 ] || sysbench oltp_common --mysql-socket=/tmp/socket --mysql-user=sbtest --table-size=@ROWS@ prepare >&2
mariadb-admin --no-defaults --socket=/tmp/socket shutdown
wait $server
"""


class SysbenchOltpParameters(Parameters):
    """Parameters that a study may fix or vary."""

    test: Literal["oltp_point_select", "oltp_read_only", "oltp_read_write", "load"] = Field(
        "oltp_point_select", description="what is measured; load: making and filling the table"
    )
    rows: int = Field(1_000_000, ge=1000, le=10**8, description="rows of the table")
    client: Client = Field("guest", description="where sysbench runs")
    connection: Literal["socket", "tcp"] = Field("socket", description="how it reaches the server")
    threads: int = Field(1, ge=1, le=1024, description="connections, each with a thread of its own")
    duration_s: int = Field(
        10, ge=1, le=86400, description="whole seconds measured, unless events is given"
    )
    events: int | None = Field(None, ge=1, description="transactions to do, however long they take")
    buffer_pool: Size = Field(
        128 * _MEBIBYTE,
        ge=8 * _MEBIBYTE,
        description="bytes of the server's cache (innodb_buffer_pool_size)",
    )

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if self.client == "peer" and self.connection == "socket":
            raise ValueError("client = 'peer' reaches the server by connection = 'tcp' only")
        return self


@register_benchmark
class SysbenchOltp(Service):
    name = "sysbench-oltp"
    title = "database transactions (MariaDB, sysbench OLTP)"
    tool = "mariadbd"
    packages = ("mariadb-server", "mariadb-client", "sysbench")
    Parameters = SysbenchOltpParameters
    work = Operations("transaction", "events", time="µs")
    no_count = "its test 'load' makes a whole table"
    load = ("threads",)
    metrics: Sequence[Metric] = (
        Metric(
            "transactions",
            "transactions/s",
            "higher",
            "transactions per second",
            primary=True,
            fixed_work="events",
            over_flows="sum",
        ),
        Metric(
            "load_time",
            "s",
            "lower",
            "time to make and fill the table, by the controller's clock",
            primary=True,
        ),
        Metric(
            "load_rate",
            "rows/s",
            "higher",
            "rows over that time",
            average="harmonic",
            over_flows="sum",
        ),
        Metric(
            "queries",
            "queries/s",
            "higher",
            "queries per second",
            fixed_work="events",
            over_flows="sum",
        ),
        Metric("time", "s", "lower", "time for the fixed number of transactions"),
        *latencies("transaction"),
    )
    version_argv = ("sh", "-c", "mariadbd --version; sysbench --version")

    def version_of(self, output: str) -> str:
        """Return `11.8.6-MariaDB with sysbench 1.0.20`."""
        server = re.search(r"Ver (\d\S*-MariaDB)", output)
        client = re.search(r"^sysbench (\S+)", output, re.MULTILINE)
        if not server or not client:
            raise BenchmarkError("mariadbd and sysbench printed no version", where=output[:200])
        return f"{server[1]} with sysbench {client[1]}"

    def counted(self, parameters: SysbenchOltpParameters) -> WorkParameter | None:
        return None if parameters.test == "load" else WorkParameter("events")

    def data(self, parameters: SysbenchOltpParameters) -> DataSet:
        """Return the data of a server; `load` starts from one without a table."""
        rows = 0 if parameters.test == "load" else parameters.rows
        return DataSet(
            f"mariadb-{rows}",
            _SCRIPT.replace("@ROWS@", str(rows)),
            _EMPTY_BYTES + rows * _ROW_BYTES,
        )

    def commands(self, parameters: SysbenchOltpParameters, context: Context) -> Sequence[Command]:
        """Return the commands of a trial, which copies the data and removes the copy."""
        p = parameters
        check_cache("buffer_pool", p.buffer_pool, context)
        directory, port = f"{context.scratch}/vtax-mariadb-{context.flow}", PORT + context.flow
        server = (
            "mariadbd",
            "--no-defaults",
            "--user=mysql",
            f"--datadir={directory}",
            f"--socket={directory}/socket",
            f"--bind-address={context.guest_address}",
            f"--port={port}",
            "--skip-ssl",
            "--skip-name-resolve",
            f"--innodb-buffer-pool-size={p.buffer_pool}",
        )
        client = ["sysbench", "oltp_common" if p.test == "load" else p.test]
        if p.connection == "socket":
            client += [f"--mysql-socket={directory}/socket"]
        else:
            client += [f"--mysql-host={context.guest_address}", f"--mysql-port={port}"]
        client += ["--mysql-user=sbtest", f"--table-size={p.rows}"]
        if p.test == "load":
            client += ["prepare"]
        else:
            duration_s = 0 if p.events else p.duration_s
            client += [
                f"--threads={p.threads}",
                f"--time={duration_s}",
                f"--events={p.events or 0}",
            ]
            client += ["--histogram=on", "run"]
        return (
            Command(
                "server",
                server,
                ready_port=port,
                before=(("cp", "-a", self.data(p).directory, directory),),
                makes=(directory,),
            ),
            Command("client", tuple(client), place=p.client),
        )

    def expected_s(self, parameters: SysbenchOltpParameters, context: Context) -> float:
        p = parameters
        if p.test == "load":
            return p.rows / _ROWS_PER_S + _START_S
        event_s = _SELECT_S if p.test == "oltp_point_select" else _TRANSACTION_S
        return (p.duration_s if p.events is None else p.events * event_s) + _START_S

    def parse(
        self,
        parameters: SysbenchOltpParameters,
        context: Context,
        results: Mapping[Role, CommandResult],
    ) -> Outcome:
        p, result = parameters, successful_result("sysbench", results, "client")
        effective: dict[str, Any] = {
            "test": p.test,
            "rows": p.rows,
            "client": p.client,
            "connection": p.connection,
        }
        if p.test == "load":
            if f"Inserting {p.rows} records into 'sbtest1'" not in result.stdout:
                raise BenchmarkError(
                    "sysbench loaded no table that vtax knows", where=result.stdout[-200:]
                )
            values = {"load_time": result.outside_s, "load_rate": p.rows / result.outside_s}
            return Outcome(values, effective)
        read = {
            name: number_in("sysbench", pattern, result.stdout, is_indented=True)
            for name, pattern in _LINES.items()
        }
        events, threads = int(read.pop("events")), int(read.pop("threads"))
        errors, reconnects = read.pop("errors"), read.pop("reconnects")
        if read["transactions"] <= 0 or read["time"] <= 0 or threads != p.threads:
            raise BenchmarkError(f"sysbench completed {events} transactions with {threads} threads")
        if p.events is not None and events != p.events:
            raise BenchmarkError(
                f"sysbench completed {events} transactions where {p.events} were requested"
            )
        if read["time"] > result.outside_s * 1.01 + 0.01:
            raise BenchmarkError(
                f"sysbench reports {read['time']:g} s, but it ran for {result.outside_s:.6f} s"
            )
        values = {**read, **percentiles(result.stdout, events)}
        if p.events is None:
            del values["time"]
        warnings = saturation_warnings(
            "sysbench", result.cpu_s, read["time"], threads, cpus_of(p.client, context)
        )
        if errors or reconnects:
            warnings.append(
                Note("transactions-repeated", failed=round(errors), lost=round(reconnects))
            )
        effective |= {"events": events, "threads": threads}
        histogram = from_counts(
            {float(value): int(count) for value, count in _BUCKET.findall(result.stdout)}
        )
        return Outcome(values, effective, tuple(warnings), histograms={LATENCY: histogram})


def percentiles(report: str, events: int) -> dict[str, float]:
    """Return the percentiles of the latency in ms: the lowest bucket of sysbench's histogram that so many events reach."""
    buckets = [(float(value), int(count)) for value, count in _BUCKET.findall(report)]
    if sum(count for _, count in buckets) != events:
        raise BenchmarkError(
            f"sysbench's histogram does not hold its {events} transactions", where=report[-200:]
        )
    value_by_name = {}
    for name, share in _PERCENTILES.items():
        remaining = share * events
        for value, count in buckets:
            remaining -= count
            if remaining <= 0:
                value_by_name[name] = value
                break
    return value_by_name
