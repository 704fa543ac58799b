"""nginx: HTTP/1.1 requests for one file of a server in the guest, over connections that stay open (h2load).

Without a `rate` every client sends its next request when it has the answer to the last: the figure is what server,
network and client manage together. With a `rate` requests are paced, and the latencies are the result. It does not
measure TLS, new connections, nor a page that is computed: the file is in the page cache.

Its trap is the load generator. One that has used up its CPUs is a warning. A paced client counts the latency from
when a request was sent: where a server stalls, requests that it held up were not sent, and their wait is in no
percentile; the rate that was reached shows it, and is a warning below 95 % of the requested one.

A short trial holds nothing else than a long one: connections are made and used in `warm_up_s` before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pydantic import Field

from vtax.benchmarks.base import (
    SHORTEST_S,
    Command,
    Context,
    GuestFile,
    Metric,
    Operations,
    Outcome,
    Parameters,
    Role,
    Service,
    register_benchmark,
)
from vtax.benchmarks.checks import successful_result
from vtax.benchmarks.printed import printed
from vtax.benchmarks.service import (
    MIN_RATE_SHARE,
    Client,
    cpus_of,
    histograms_of,
    latencies,
    read_log,
    samples_of,
    saturation_warnings,
    timed_by_log,
)
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult
from vtax.messages import Note
from vtax.study.fields import Size

PORT = 8080
_LATENCY_COLUMN, _ENDED = 2, "0*1+2*1"  # of h2load's log: start (µs), status, time (µs)
_REQUESTS = re.compile(
    r"^requests: (\d+) total, \d+ started, (\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout$",
    re.MULTILINE,
)
_FINISHED = re.compile(r"^finished in [0-9.]+m?s, ([0-9.]+) req/s, ", re.MULTILINE)
_CONFIGURATION = """
daemon off;
worker_processes {workers};
pid {directory}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  sendfile on;
  keepalive_requests 1000000000;
  client_body_temp_path {directory}/body;
  proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi;
  scgi_temp_path {directory}/scgi;
  server {{
    listen {address}:{port};
    root {directory}/files;
  }}
}}
"""


class NginxParameters(Parameters):
    """Parameters that a study may fix or vary."""

    file_size: Size = Field(1024, ge=1, le=64 * 1024**2, description="bytes of the file")
    client: Client = Field("peer", description="where h2load runs")
    connections: int = Field(
        8, ge=1, le=1024, description="connections, each with one request at a time"
    )
    threads: int = Field(
        1, ge=1, le=64, description="threads of h2load, at most one per connection"
    )
    workers: int | None = Field(
        None, ge=1, le=64, description="nginx's workers; default the guest's virtual CPUs"
    )
    duration_s: float = Field(10, ge=SHORTEST_S, le=86400, description="seconds measured")
    warm_up_s: float = Field(1, ge=0, le=60, description="seconds before them that are not counted")
    rate: float = Field(0, ge=0, le=1e7, description="requests per second; 0 is as fast as it goes")


@register_benchmark
class Nginx(Service):
    name = "nginx"
    title = "web server (nginx, h2load)"
    tool = "nginx"
    packages = ("nginx-light", "nghttp2-client")
    Parameters = NginxParameters
    work = Operations("request", "all_requests", time="µs")  # warm-up at the same rate
    load = ("rate", "connections")
    metrics: Sequence[Metric] = (
        Metric(
            "requests",
            "requests/s",
            "higher",
            "requests answered per second",
            primary=True,
            over_flows="sum",
        ),
        *latencies("request"),
    )
    version_argv = ("sh", "-c", "nginx -v; h2load --version")

    def version_of(self, output: str) -> str:
        """Return `1.26.3 with h2load 1.64.0`."""
        server = re.search(r"nginx version: nginx/(\S+)", output)
        client = re.search(r"^h2load nghttp2/(\S+)", output, re.MULTILINE)
        if not server or not client:
            raise BenchmarkError("nginx and h2load printed no version", where=output[:200])
        return f"{server[1]} with h2load {client[1]}"

    def commands(self, parameters: NginxParameters, context: Context) -> Sequence[Command]:
        p = parameters
        directory, port = f"{context.scratch}/vtax-nginx-{context.flow}", PORT + context.flow
        configuration = _CONFIGURATION.format(
            directory=directory,
            address=context.guest_address,
            port=port,
            workers=p.workers or context.vcpus,
        )
        page = f"{directory}/files/page"
        argv = [
            "h2load",
            "--h1",
            f"--clients={p.connections}",
            f"--threads={min(p.threads, p.connections)}",
            f"--duration={round(p.duration_s * 1000)}ms",
            f"--warm-up-time={round(p.warm_up_s * 1000)}ms",
        ]
        if p.rate:
            argv += [f"--rps={p.rate / p.connections:g}"]
        argv += ["--log-file={log}", f"http://{context.guest_address}:{port}/page"]
        scratch = context.scratch_of(peer=p.client == "peer")
        of_client, line, files = timed_by_log(
            scratch, context.flow, _LATENCY_COLUMN, _ENDED, p.duration_s, argv
        )
        return (
            Command(
                "server",
                ("nginx", "-e", "stderr", "-c", f"{directory}/nginx.conf"),
                ready_port=port,
                before=(
                    ("mkdir", f"{directory}/files"),
                    ("truncate", f"--size={p.file_size}", page),
                ),
                makes=(directory,),
                files=(GuestFile(f"{directory}/nginx.conf", configuration.encode()),),
            ),
            Command("client", line, place=p.client, files=files, makes=(of_client,)),
        )

    def expected_s(self, parameters: NginxParameters, context: Context) -> float:
        return parameters.duration_s + parameters.warm_up_s + 0.5

    def parse(
        self, parameters: NginxParameters, context: Context, results: Mapping[Role, CommandResult]
    ) -> Outcome:
        p, result = parameters, successful_result("h2load", results, "client")
        requests, summary = _REQUESTS.search(result.stdout), _FINISHED.search(result.stdout)
        if not requests or not summary:
            raise BenchmarkError(
                "h2load printed no report that vtax knows", where=result.stdout[-200:]
            )
        total, done_requests, succeeded, failed, errored, timed_out = map(int, requests.groups())
        rate = printed(summary[1])
        if succeeded != total or done_requests != total or total == 0 or rate <= 0:
            raise BenchmarkError(
                f"of {total} requests {succeeded} succeeded, {failed} failed, {errored} ended with an error and "
                f"{timed_out} timed out"
            )
        log = read_log("h2load", result)
        threads = min(p.threads, p.connections)
        warnings = saturation_warnings(
            "h2load", log["cpu_s"], log["elapsed_s"], threads, cpus_of(p.client, context)
        )
        if p.rate and rate < MIN_RATE_SHARE * p.rate:
            warnings.append(
                Note("rate-not-reached", requested=p.rate, unit="requests/s", found=rate)
            )
        effective = {
            "file_size": p.file_size,
            "client": p.client,
            "connections": p.connections,
            "threads": threads,
            "requests": total,
            "all_requests": round(total * (1 + p.warm_up_s / p.duration_s)),
        }
        values = {"requests": rate, **log["ms"]}
        samples, interval = samples_of(log, "requests", p.duration_s)
        return Outcome(values, effective | interval, tuple(warnings), samples, histograms_of(log))
