"""Every service, fio and a client of a study with its server, once at tiny size in a native guest over a real lab."""

from __future__ import annotations

import json

import pytest
from support import needs_program, needs_root, vtax

from vtax.host.home import Home
from vtax.image import build as images

pytestmark = [
    needs_root,
    needs_program("mmdebstrap", "mke2fs"),
    pytest.mark.usefixtures("image", "private_home"),
]

STUDY = """
name = "services"
platforms = ["native"]
[guest]
vcpus = 1
memory = "512MiB"
[design]
stop = "fixed"
blocks = 1

[[program]]
name = "page"
port = 9000
version = ["python3", "--version"]
[program.argv]
client = ["python3", "-c", "CODE", "http://{peer_address}:{port}/"]
server = ["python3", "-m", "http.server", "{port}"]
[[program.metric]]
name = "time"
unit = "s"
better = "lower"
pattern = '^read in ([0-9.]+) s$'

[[benchmark]]
name = "page"
[[benchmark]]
name = "sysbench-oltp"
label = "socket"
parameters = { rows = 1000, duration_s = 1 }
factors = { test = ["oltp_point_select", "oltp_read_write", "load"] }
[[benchmark]]
name = "sysbench-oltp"
label = "tcp"
parameters = { rows = 1000, events = 200, client = "peer", connection = "tcp" }
[[benchmark]]
name = "pgbench"
parameters = { scale = 1, duration_s = 1 }
[[benchmark]]
name = "nginx"
parameters = { duration_s = 1, warm_up_s = 0, rate = 50 }
[[benchmark]]
name = "redis"
parameters = { requests = 1000 }
[[benchmark]]
name = "memcached"
parameters = { duration_s = 1 }
[[benchmark]]
name = "fio"
parameters = { rw = "randwrite", size = "1MiB", fsync = 16, once = true }
""".replace(
    "CODE",
    "import sys, time, urllib.request as r; t = time.perf_counter(); r.urlopen(sys.argv[1]).read(); "
    "print('read in', time.perf_counter() - t, 's')",
)
LABELS = {
    "page": 1,
    "socket": 3,
    "tcp": 1,
    "pgbench": 1,
    "nginx": 1,
    "redis": 1,
    "memcached": 1,
    "fio": 1,
}


def test_every_service_is_measured_from_an_image_that_is_built_for_it(tmp_path):
    study = tmp_path / "services.toml"
    study.write_text(STUDY)
    needed = json.loads(vtax("run", str(study), "--dry-run", "--json").stdout)["needed_image"]
    assert needed["data"] == ["mariadb-0", "mariadb-1000", "postgresql-1"]
    try:
        made = vtax("run", str(study), "--trust", "--json")
        assert made.returncode == 0, made.stderr
        trials = json.loads(vtax("show", "last", "--raw", "all", "--json").stdout)["trials"]
        assert [trial["error"] for trial in trials if trial["status"] != "ok"] == []
        assert len(trials) == sum(LABELS.values())
    finally:
        if not needed["built"]:
            images.remove(Home.from_environment(), needed["key"])
