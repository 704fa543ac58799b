"""pgbench: transactions of a PostgreSQL server in the guest, on tables of `scale` × 100 000 accounts, loaded once.

`tpcb` is pgbench's own transaction of five statements that write, `simple_update` leaves out the two that clients
wait for each other at, `select` reads one account. The figures hold server, file system and disk (every commit
waits for fsync). It does not measure TPC-B as its rules ask, replication, nor a tuned server. All settings but
`shared_buffers` are PostgreSQL's defaults; dynamic shared memory is in files, since not every guest has /dev/shm.

Its trap is `scale`: with fewer branches than clients, `tpcb` measures how they wait for one row. The other is the
client: one that has used up its CPUs is a warning, and in the guest it shares them with the server. With a `rate`,
the latency counts from when a transaction was due, so a server that stalls is seen.

A short trial (`transactions`, `trial_time`) is one of a server that was just started: its cache is nearly empty.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal, Self

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
from vtax.benchmarks.service import (
    MIN_RATE_SHARE,
    Client,
    check_cache,
    cpus_of,
    histograms_of,
    latencies,
    read_log,
    samples_of,
    saturation_warnings,
    timed_by_log,
)
from vtax.benchmarks.words import message_of
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult
from vtax.image.recipe import DataSet
from vtax.messages import Note
from vtax.study.fields import Size

PORT = 5432
_MEBIBYTE = 1024**2
_EMPTY_BYTES, _SCALE_BYTES = 40 * _MEBIBYTE, 16 * _MEBIBYTE  # about
_START_S, _TRANSACTION_S = 1.0, 1e-3  # about; for the plan
_LATENCY_COLUMN, _ENDED = (
    2,
    "4*1000000+5*1",
)  # of its log: client, number, time (µs), script, end (s, µs)
_VERSION = re.compile(r"^pgbench \((?:PostgreSQL\) )?(\d+)", re.MULTILINE)
_OLDEST = 14  # the first version that reports the time of connecting apart
_COUNTS_FAILED = 15  # the first version that counts failed transactions
_FAILED = r"number of failed transactions: (\d+) .*"
_LINES = {
    "transactions": r"number of transactions actually processed: (\d+)(?:/\d+)?",
    "clients": r"number of clients: (\d+)",
    "scale": r"scaling factor: (\d+)",
    "rate": r"tps = ([0-9.]+) \(without initial connection time\)",
}
_AS_POSTGRES = "setpriv --reuid=postgres --regid=postgres --clear-groups"
# PostgreSQL listens before it answers: it first reads its log.
_ANSWERS = (
    'for n in $(seq 300); do pg_isready --quiet "$@" && exit; sleep 0.2; done; pg_isready "$@"'
)
_SERVER = f'exec {_AS_POSTGRES} "$(echo /usr/lib/postgresql/*/bin)/postgres" "$@"'

# $1: the directory. The server is stopped before the script ends, and its tables are whole.
_SCRIPT = f"""
as_postgres="{_AS_POSTGRES}"
programs=$(echo /usr/lib/postgresql/*/bin)
install -d -o postgres -g postgres -m 700 "$1"
cd /tmp
$as_postgres "$programs/initdb" --pgdata="$1" --auth=trust --encoding=UTF8 --locale=C >/tmp/log
$as_postgres "$programs/pg_ctl" --pgdata="$1" --wait --timeout=300 --log=/tmp/server.log \\
  --options="-c listen_addresses= -c unix_socket_directories=/tmp -c dynamic_shared_memory_type=mmap" start \\
  || {{ tail /tmp/server.log >&2; exit 1; }}
"$programs/createdb" --host=/tmp --username=postgres pgbench
"$programs/pgbench" --host=/tmp --username=postgres --initialize --quiet --scale=@SCALE@ pgbench >&2
echo "host all all all trust" >>"$1/pg_hba.conf"
$as_postgres "$programs/pg_ctl" --pgdata="$1" --wait --timeout=300 --mode=fast stop
"""

_BUILTINS = {"tpcb": "tpcb-like", "simple_update": "simple-update", "select": "select-only"}


class PgbenchParameters(Parameters):
    """Parameters that a study may fix or vary."""

    test: Literal["tpcb", "simple_update", "select"] = Field("tpcb", description="the transaction")
    scale: int = Field(
        10, ge=1, le=10_000, description="size of the tables, in units of 100 000 accounts"
    )
    client: Client = Field("peer", description="where pgbench runs")
    connection: Literal["socket", "tcp"] = Field("tcp", description="how it reaches the server")
    clients: int = Field(1, ge=1, le=90, description="connections at once")
    threads: int = Field(
        1, ge=1, le=90, description="threads of pgbench, which share the connections"
    )
    duration_s: int = Field(
        10, ge=1, le=86400, description="whole seconds measured, unless transactions is given"
    )
    transactions: int | None = Field(
        None, ge=1, le=10**9, description="transactions of each connection, in place of a time"
    )
    rate: float = Field(
        0, ge=0, le=1e6, description="transactions per second; 0 is as fast as it goes"
    )
    shared_buffers: Size = Field(
        128 * _MEBIBYTE, ge=_MEBIBYTE, description="bytes of the server's cache"
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.client == "peer" and self.connection == "socket":
            raise ValueError("client = 'peer' reaches the server by connection = 'tcp' only")
        if self.threads > self.clients:
            raise ValueError(f"threads ({self.threads}) are more than clients ({self.clients})")
        return self


@register_benchmark
class Pgbench(Service):
    name = "pgbench"
    title = "database transactions (PostgreSQL, pgbench)"
    tool = "pgbench"
    packages = ("postgresql", "postgresql-contrib")
    Parameters = PgbenchParameters
    work = Operations("transaction", "transactions", time="µs")
    counts = WorkParameter("transactions")
    load = ("rate", "clients")
    metrics: Sequence[Metric] = (
        Metric(
            "transactions",
            "transactions/s",
            "higher",
            "transactions per second",
            primary=True,
            fixed_work="transactions",
            over_flows="sum",
        ),
        *latencies("transaction"),
    )
    version_argv = ("pgbench", "--version")
    version_pattern = r"^pgbench \(PostgreSQL\) (\S+)"

    def data(self, parameters: PgbenchParameters) -> DataSet:
        scale = parameters.scale
        script = _SCRIPT.replace("@SCALE@", str(scale))
        return DataSet(f"postgresql-{scale}", script, _EMPTY_BYTES + scale * _SCALE_BYTES)

    def commands(self, parameters: PgbenchParameters, context: Context) -> Sequence[Command]:
        """Return the commands of a trial, which copies the data and removes the copy."""
        p = parameters
        check_cache("shared_buffers", p.shared_buffers, context)
        directory, port = f"{context.scratch}/vtax-postgresql-{context.flow}", PORT + context.flow
        server = ["sh", "-c", _SERVER, "postgres", "-D", directory]
        server += ["-h", context.guest_address, "-p", str(port), "-k", directory]
        server += ["-c", f"shared_buffers={p.shared_buffers // 1024}kB"]
        server += ["-c", "dynamic_shared_memory_type=mmap"]
        argv = [
            "pgbench",
            "--no-vacuum",
            "--username=postgres",
            f"--port={port}",
            f"--host={directory if p.connection == 'socket' else context.guest_address}",
            f"--builtin={_BUILTINS[p.test]}",
            f"--client={p.clients}",
            f"--jobs={p.threads}",
            f"--time={p.duration_s}"
            if p.transactions is None
            else f"--transactions={p.transactions}",
        ]
        if p.rate:
            argv += [f"--rate={p.rate:g}"]
        argv += ["--log", "--log-prefix={log}", "pgbench"]
        scratch = context.scratch_of(peer=p.client == "peer")
        of_client, line, files = timed_by_log(
            scratch, context.flow, _LATENCY_COLUMN, _ENDED, _timed_s(p), argv
        )
        answers = ("sh", "-c", _ANSWERS, "sh", "--host", context.guest_address, "--port", str(port))
        copied = ("cp", "-a", self.data(p).directory, directory)
        return (
            Command(
                "server",
                tuple(server),
                ready_port=port,
                before=(copied,),
                makes=(directory,),
            ),
            Command(
                "client",
                line,
                place=p.client,
                files=files,
                before=(answers,),
                makes=(of_client,),
            ),
        )

    def expected_s(self, parameters: PgbenchParameters, context: Context) -> float:
        if parameters.transactions is not None:
            return parameters.transactions * _TRANSACTION_S + _START_S
        return parameters.duration_s + _START_S

    def parse(
        self, parameters: PgbenchParameters, context: Context, results: Mapping[Role, CommandResult]
    ) -> Outcome:
        """Read rate and latencies; with a requested rate, a transaction is timed from when it was due."""
        p, result = parameters, successful_result("pgbench", results, "client")
        version = _version_in(result.stdout)
        report = {
            name: number_in("pgbench", pattern, result.stdout) for name, pattern in _LINES.items()
        }
        log = read_log("pgbench", result)
        failed = log.get("failed", 0)
        if version is None or version >= _COUNTS_FAILED:
            failed = max(failed, number_in("pgbench", _FAILED, result.stdout))
        if (report["clients"], report["scale"]) != (p.clients, p.scale):
            raise BenchmarkError(
                f"pgbench ran {report['clients']:g} clients at scale {report['scale']:g} where {p.clients} and {p.scale} "
                "were requested"
            )
        if p.transactions is not None and report["transactions"] != p.transactions * p.clients:
            raise BenchmarkError(
                f"pgbench completed {report['transactions']:g} transactions where {p.transactions} of each of "
                f"{p.clients} connections were requested"
            )
        if failed or report["rate"] <= 0 or log["count"] != report["transactions"]:
            raise BenchmarkError(
                f"pgbench completed {report['transactions']:g} transactions, {failed:g} failed, and logged "
                f"{log['count']}",
                where=message_of(result.stderr),
            )
        warnings = saturation_warnings(
            "pgbench", log["cpu_s"], log["elapsed_s"], p.threads, cpus_of(p.client, context)
        )
        if p.rate and report["rate"] < MIN_RATE_SHARE * p.rate:
            warnings.append(
                Note(
                    "rate-not-reached",
                    requested=p.rate,
                    unit="transactions/s",
                    found=report["rate"],
                )
            )
        if p.test == "tpcb" and p.clients > p.scale:
            warnings.append(Note("clients-wait", clients=p.clients, branches=p.scale))
        effective = {
            "test": p.test,
            "scale": p.scale,
            "client": p.client,
            "connection": p.connection,
            "clients": p.clients,
            "transactions": int(report["transactions"]),
        }
        values = {"transactions": report["rate"], **log["ms"]}
        samples, interval = samples_of(log, "transactions", _timed_s(p))
        return Outcome(values, effective | interval, tuple(warnings), samples, histograms_of(log))


def _timed_s(p: PgbenchParameters) -> float:
    """Return the seconds that are measured; 0 where a number of transactions is given."""
    return p.duration_s if p.transactions is None else 0.0


def _version_in(report: str) -> int | None:
    """Return the major version that stands above a report. Raises BenchmarkError for one that is too old."""
    match = _VERSION.search(report)
    if match and int(match[1]) < _OLDEST:
        raise BenchmarkError(
            f"this is pgbench {match[1]}, whose report is another one",
            hint=f"install PostgreSQL {_OLDEST} or later",
        )
    return int(match[1]) if match else None
