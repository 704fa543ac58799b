"""Images of the user's own, on every kind of platform: without a shell, with another C library, as another user."""

from __future__ import annotations

import json
import shutil

import pytest
from support import needs_program, needs_root, vtax

from vtax.benchmarks import registry as benchmarks
from vtax.host.process import run
from vtax.image import build as images
from vtax.image.recipe import DEFAULT
from vtax.platforms import registry

pytestmark = [
    needs_root,
    needs_program("skopeo", "umoci", "patchelf"),
    pytest.mark.usefixtures("own_images"),
]
PLATFORMS = [
    "native",
    "podman",
    "docker",
    "lxc",
    "nspawn",
    "bubblewrap",
    "gvisor-systrap",
    "qemu-tcg-virtio",
]
HEAD = """
name = "shop"
platforms = [PLATFORMS]
[guest]
image = "shop"
memory = "256MiB"
[design]
blocks = 1
"""
PAGE = """
[[program]]
name = "page"
port = 5480
server_in = "guest"
argv = { server = ["{entry}"], client = ["busybox", "wget", "-q", "-O", "-", "http://{guest_address}:{port}/page"] }
[[program.metric]]
name = "size"
unit = "B"
better = "higher"
pattern = "^page of ([0-9]+) bytes$"
[[benchmark]]
name = "page"
"""
WHO = """
[[program]]
name = "who"
argv = { guest = ["{entry}", "/app/id"] }
[[program.metric]]
name = "uid"
unit = "1"
better = "higher"
zero = true
pattern = "^uid=([0-9]+)"
[[benchmark]]
name = "who"
"""

NGINX = """
user nginx nginx;
worker_processes 1;
daemon off;
pid /run/nginx.pid;
error_log stderr;
events { worker_connections 64; }
http { access_log off; server { listen 5480; root /srv/www; } }
"""
MUSL = r"""
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The answer is the page of 42 bytes only where musl is the C library that runs this. */
int main(int argc, char **argv) {
    char maps[65536], asked[4096];
    FILE *file = fopen("/proc/self/maps", "r");
    maps[file ? fread(maps, 1, sizeof maps - 1, file) : 0] = 0;
    const char *body = strstr(maps, "ld-musl") ? "page of 42 bytes\n" : "page of 0 bytes\n";
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    int server = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (argc != 2 || bind(server, (struct sockaddr *)&at, sizeof at) || listen(server, 8)) return 1;
    for (;;) {
        int client = accept(server, NULL, NULL);
        if (client < 0) return 1;
        if (read(client, asked, sizeof asked) > 0)
            dprintf(client, "HTTP/1.0 200 OK\r\nContent-Length: %zu\r\n\r\n%s", strlen(body), body);
        close(client);
    }
}
"""


@pytest.fixture
def own_images(private_home):
    """Images that a test adds are removed: the directory of images is that of the installation."""
    before = {image.key for image in images.list_images(private_home)}
    yield
    for image in images.list_images(private_home):
        if image.key not in before and image.is_own:
            images.remove(private_home, image.key)


def archived(tmp_path, fill, entry, *settings):
    """Return an archive of `docker save`. fill: writes files into a root. settings: of umoci-config(1)."""
    layout, bundle = f"{tmp_path}/layout", tmp_path / "bundle"
    run(["umoci", "init", "--layout", layout])
    run(["umoci", "new", "--image", f"{layout}:shop"])
    run(["umoci", "unpack", "--image", f"{layout}:shop", bundle])
    fill(bundle / "rootfs")
    run(["umoci", "repack", "--image", f"{layout}:shop", bundle])
    started = [f"--config.entrypoint={word}" for word in entry]
    run(
        [
            "umoci",
            "config",
            "--image",
            f"{layout}:shop",
            *started,
            *(f"--config.{each}" for each in settings),
        ]
    )
    target = tmp_path / "shop.tar"
    run(
        [
            "skopeo",
            "--insecure-policy",
            "copy",
            f"oci:{layout}:shop",
            f"docker-archive:{target}:shop:1",
        ]
    )
    return target


@pytest.fixture
def archive(image, tmp_path):
    """An image without a shell, a user list or a C library: two static programs, and a page."""

    def fill(tree):
        (tree / "app").mkdir()
        for name in ("httpd", "id"):
            shutil.copy(image.tree / "usr/bin/busybox", tree / "app" / name)
        (tree / "app/page").write_text("page of 42 bytes\n")

    entry = ("./httpd", "-f", "-p", "5480")
    return archived(tmp_path, fill, entry, "workingdir=/app", "user=65532:65532")


def copy_libraries(packaged, programs, directory, *more):
    """Copy the libraries of programs of a tree, their loader among them. more: libraries that no program names."""
    needed = run(["chroot", packaged, "ldd", *programs]).stdout.split()
    for path in {
        *(word for word in needed if word.startswith("/") and not word.endswith(":")),
        *more,
    }:
        if (packaged / path.lstrip("/")).exists():
            shutil.copy(packaged / path.lstrip("/"), directory)


def serves_the_page(name, entry, platforms, image, tmp_path):
    """Measure an image whose entry point serves a page, on the platforms that run here: every trial gets it."""
    here = [each for each in platforms if registry.get(each).probe(image).available]
    study = tmp_path / f"{name}.toml"
    text = (
        (HEAD + PAGE)
        .replace("PLATFORMS", ", ".join(f'"{each}"' for each in here))
        .replace('"shop"', f'"{name}"')
    )
    study.write_text(
        text.replace('"{entry}"]', ", ".join(['"{entry}"', *(f'"{word}"' for word in entry)]) + "]")
    )
    made = vtax("run", str(study), "--trust", "--json")
    assert made.returncode == 0, made.stderr
    trials = json.loads(vtax("show", "last", "--raw", "all", "--json").stdout)["trials"]
    assert {trial["platform"]: trial["status"] for trial in trials} == dict.fromkeys(here, "ok")
    assert all(
        any("page of 42 bytes" in output["stdout"] for output in trial["outputs"])
        for trial in trials
    )


def test_an_image_without_a_shell_serves_and_works_on_every_platform_that_runs_here(
    archive, image, tmp_path
):
    added = vtax("image", "add", "shop", "--from", f"docker-archive:{archive}")
    assert added.returncode == 0, added.stderr
    study = tmp_path / "shop.toml"
    here = [name for name in PLATFORMS if registry.get(name).probe(image).available]
    study.write_text(
        (HEAD + PAGE + WHO).replace("PLATFORMS", ", ".join(f'"{name}"' for name in here))
    )
    made = vtax("run", str(study), "--trust", "--json")
    assert made.returncode == 0, made.stderr
    raw = json.loads(vtax("show", "last", "--raw", "all", "--json").stdout)
    found = {(trial["platform"], trial["benchmark"]): trial["status"] for trial in raw["trials"]}
    assert set(found.values()) == {"ok"}, found
    assert {platform for platform, _ in found} == set(here)
    of_who = [trial["outputs"] for trial in raw["trials"] if trial["benchmark"] == "who"]
    assert all("uid=65532" in output["stdout"] for outputs in of_who for output in outputs)


def test_a_benchmark_whose_program_the_image_lacks_is_not_tested_with_its_name(
    archive, image, tmp_path
):
    assert vtax("image", "add", "shop", "--from", f"docker-archive:{archive}").returncode == 0
    planned = vtax("run", "tour", "--image", "shop", "--platforms", "native", "--dry-run")
    assert "has no program sysbench" in planned.stdout + planned.stderr
    loaded = ("--load", "cat {url}", "--platforms", "native,lxc", "--dry-run")
    planned = vtax("run", "--image", "shop", *loaded)
    assert planned.returncode == 0, planned.stderr
    assert "--trust" not in planned.stdout
    planned = vtax("run", "--image", "shop", "--serve", "/app/no-such", *loaded)
    assert "has no program /app/no-such" in planned.stdout + planned.stderr
    (tmp_path / "root").mkdir()
    shutil.copy(image.tree / "usr/bin/busybox", tmp_path / "root/busybox")
    assert vtax("image", "add", "bare", "--from", f"dir:{tmp_path}/root").returncode == 0
    planned = vtax("run", "--image", "bare", *loaded)
    assert planned.returncode == 2
    assert "the image bare names no program to run" in planned.stderr
    assert "--serve" in planned.stderr


def test_the_name_of_an_image_is_that_which_was_added_last(image, tmp_path):
    keys = []
    for number, text in enumerate(("one", "two", "one")):
        tree = tmp_path / f"{number}"
        (tree / "bin").mkdir(parents=True)
        shutil.copy(image.tree / "usr/bin/busybox", tree / "bin/sh")
        (tree / "page").write_text(text)
        assert vtax("image", "add", "twice", "--from", f"dir:{tree}").returncode == 0
        planned = vtax(
            "run",
            "--image",
            "twice",
            "--serve",
            "/bin/sh",
            "--load",
            "busybox wget {url}",
            "-p",
            "native,podman",
            "--dry-run",
            "--json",
        )
        assert planned.returncode == 0, planned.stderr
        keys.append(json.loads(planned.stdout)["needed_image"]["key"])
    assert keys[0] == keys[2] != keys[1]


def test_an_unknown_image_is_named_with_those_that_there_are(archive):
    assert vtax("image", "add", "shop", "--from", f"docker-archive:{archive}").returncode == 0
    refused = vtax("run", "tour", "--image", "no-such", "--dry-run")
    assert refused.returncode == 2
    assert "there is no image no-such" in refused.stderr
    assert "shop" in refused.stderr.partition("there are: ")[2]


def test_a_directory_with_another_c_library_and_a_hostile_tree(image, tmp_path):
    """A tree whose own /usr/bin/python3, shell and loader do not work: nothing of the agent needs them."""
    tree = tmp_path / "tree"
    for name in ("bin", "lib64", "usr/bin"):
        (tree / name).mkdir(parents=True)
    shutil.copy(image.tree / "usr/bin/busybox", tree / "bin/id")
    (tree / "lib64/ld-linux-x86-64.so.2").write_text("no loader")
    (tree / "usr/bin/python3").write_text("no program")
    (tree / "bin/sh").write_text("no program")
    (tree / "etc").symlink_to("/etc")
    added = vtax("image", "add", "odd", "--from", f"dir:{tree}")
    assert added.returncode == 0, added.stderr
    study = tmp_path / "odd.toml"
    text = HEAD.replace("PLATFORMS", '"native"').replace('"shop"', '"odd"')
    study.write_text(text + WHO.replace("/app/id", "/bin/id"))
    made = vtax("run", str(study), "--trust")
    assert made.returncode == 0, made.stderr


@needs_program("musl-gcc")
def test_a_tree_whose_only_c_library_is_musl(image, tmp_path):
    """One program, its loader, and nothing else: on the host's kernel, in a container, and in a virtual machine."""
    tree, source = tmp_path / "tree", tmp_path / "server.c"
    for name in ("lib", "srv"):
        (tree / name).mkdir(parents=True)
    source.write_text(MUSL)
    run(["musl-gcc", "-O2", "-o", tree / "srv/server", source])
    shutil.copy("/lib/ld-musl-x86_64.so.1", tree / "lib")
    assert vtax("image", "add", "musl", "--from", f"dir:{tree}").returncode == 0
    serves_the_page(
        "musl",
        ["/srv/server", "5480"],
        ("native", "bubblewrap", "qemu-tcg-virtio"),
        image,
        tmp_path,
    )


@pytest.fixture
def fedora_like(shared_home, tmp_path):
    """nginx and its libraries where Fedora has them: /usr/lib64, one directory of programs, no shell."""
    packaged = images.ensure(
        shared_home, DEFAULT.with_packages(benchmarks.get("nginx").packages)
    ).tree
    tree = tmp_path / "fedora"
    for name in ("usr/bin", "usr/lib64", "etc/nginx", "srv/www", "var/log/nginx", "var/lib/nginx"):
        (tree / name).mkdir(parents=True)
    for name, target in {
        "bin": "usr/bin",
        "sbin": "usr/bin",
        "usr/sbin": "bin",
        "lib64": "usr/lib64",
    }.items():
        (tree / name).symlink_to(target)
    shutil.copy(packaged / "usr/sbin/nginx", tree / "usr/bin")
    copy_libraries(
        packaged, ["/usr/sbin/nginx"], tree / "usr/lib64", "/lib/x86_64-linux-gnu/libnss_files.so.2"
    )
    (tree / "etc/ld.so.conf").write_text("/usr/lib64\n")
    run(["ldconfig", "-r", tree])
    (tree / "etc/passwd").write_text(
        "root:x:0:0::/:/sbin/nologin\nnginx:x:997:995::/:/sbin/nologin\n"
    )
    (tree / "etc/group").write_text("root:x:0:\nnginx:x:995:\n")
    (tree / "etc/nginx/nginx.conf").write_text(NGINX)
    (tree / "srv/www/page").write_text("page of 42 bytes\n")
    return tree


def test_nginx_in_the_layout_of_another_distribution_serves_everywhere(
    fedora_like, image, tmp_path
):
    assert vtax("image", "add", "fedora", "--from", f"dir:{fedora_like}").returncode == 0
    entry = ["/usr/sbin/nginx", "-c", "/etc/nginx/nginx.conf"]
    serves_the_page("fedora", entry, PLATFORMS, image, tmp_path)


def is_loaded(archive, load, port, platforms, image):
    """Measure the image's own program without a study file, once on each platform; return trials and metrics."""
    assert vtax("image", "add", "shop", "--from", f"docker-archive:{archive}").returncode == 0
    here = [each for each in platforms if registry.get(each).probe(image).available]
    words = ["--port", str(port), "--load", load, "--blocks", "1", "-p", ",".join(here)]
    made = vtax("run", "--image", "shop", *words, "--trust", "--json")
    assert made.returncode == 0, made.stderr
    trials = json.loads(vtax("show", "last", "--raw", "all", "--json").stdout)["trials"]
    assert {trial["platform"]: trial["status"] for trial in trials} == dict.fromkeys(here, "ok"), (
        made.stderr
    )
    metrics = {section["metric"] for section in json.loads(made.stdout)["results"]}
    return trials, metrics


SERVICE = """
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        body = f"uid {os.getuid()} in {os.getcwd()} greets {os.environ['GREETED']}\\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

ThreadingHTTPServer(("", 8000), Answer).serve_forever()
"""


def test_a_service_in_python_without_a_shell(image, tmp_path):
    """Its Python, of the same name as the agent's, has a standard library and an environment of its own."""

    def fill(tree):
        for name in ("usr/bin", "usr/lib", "lib64", "srv", "etc"):
            (tree / name).mkdir(parents=True)
        shutil.copy(image.tree / "usr/bin/python3", tree / "usr/bin/python3")
        [library] = (image.tree / "usr/lib").glob("python3.*")
        shutil.copytree(library, tree / "usr/lib" / library.name, symlinks=True)
        copy_libraries(image.tree, ["/usr/bin/python3"], tree / "lib64")
        (tree / "etc/ld.so.conf").write_text("/lib64\n")
        run(["ldconfig", "-r", tree])
        (tree / "etc/passwd").write_text("nobody:x:65534:65534::/:/sbin/nologin\n")
        (tree / "srv/service.py").write_text(SERVICE)

    settings = ("workingdir=/srv", "user=nobody", "env=GREETED=you")
    archive = archived(tmp_path, fill, ("python3", "service.py"), *settings)
    trials, metrics = is_loaded(
        archive, "busybox wget -q -O - {url}", 8000, ("native", "nspawn", "qemu-tcg-virtio"), image
    )
    assert metrics == {"time", "host_cpu_per_run"}
    said = [
        output["stdout"]
        for trial in trials
        for output in trial["outputs"]
        if "greets" in output["stdout"]
    ]
    assert said == ["uid 65534 in /srv greets you\n"] * len(trials)


TABLES = """
CREATE TABLE pgbench_branches (bid int PRIMARY KEY);
INSERT INTO pgbench_branches VALUES (1);
CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, abalance int);
INSERT INTO pgbench_accounts SELECT n, 0 FROM generate_series(1, 100000) n;
"""


@pytest.mark.thorough
def test_postgresql_as_its_own_user(shared_home, image, tmp_path):
    """The server, its cluster and a shell, as images of databases have them; pgbench is on the peer."""
    packaged = images.ensure(shared_home, DEFAULT.with_packages(["postgresql-contrib"])).tree
    [programs] = (
        f"/{path.relative_to(packaged)}" for path in (packaged / "usr/lib/postgresql").glob("*/bin")
    )
    cluster = "var/lib/postgresql/data"

    def fill(tree):
        for name in ("bin", "lib64", "etc", "dev", "tmp", "usr/lib", "usr/share", cluster):
            (tree / name).mkdir(parents=True)
        (tree / "tmp").chmod(0o1777)
        shutil.copy(packaged / "usr/bin/busybox", tree / "bin/sh")
        for name in ("usr/lib/postgresql", "usr/share/postgresql"):
            shutil.copytree(packaged / name, tree / name, symlinks=True)
        copy_libraries(
            packaged, [f"{programs}/{name}" for name in ("postgres", "initdb")], tree / "lib64"
        )
        (tree / "etc/ld.so.conf").write_text("/lib64\n")
        run(["ldconfig", "-r", tree])
        (tree / "etc/passwd").write_text("postgres:x:999:999::/:/bin/sh\n")
        (tree / "etc/group").write_text("postgres:x:999:\n")
        (tree / cluster).chmod(0o700)
        shutil.chown(tree / cluster, 999, 999)
        (tree / "tables.sql").write_text(TABLES)
        make = (
            f"initdb -D /{cluster} -A trust -U postgres --locale=C && "
            f"postgres --single -D /{cluster} postgres </tables.sql && "
            f"echo host all all all trust >>/{cluster}/pg_hba.conf"
        )
        inside = f"exec chroot --userspec=999:999 {tree} /bin/sh -ec 'PATH={programs}; {make}'"
        run(
            ["unshare", "--mount", "sh", "-ec", f"mount --bind /dev {tree}/dev; {inside}"],
            timeout_s=300,
        )

    entry = ("postgres", "-D", f"/{cluster}", "-h", "*", "-k", "/tmp")
    archive = archived(tmp_path, fill, entry, "user=postgres", f"env=PATH={programs}")
    load = "pgbench -S -n -T 2 -h {guest_address} -p {port} -U postgres postgres"
    platforms = ("native", "podman", "qemu-tcg-virtio")
    trials, metrics = is_loaded(archive, load, 5432, platforms, image)
    latencies = {"latency_p50", "latency_p95", "latency_p99"}
    assert {"transactions", *latencies, "host_cpu_per_transaction"} <= metrics
    said = [
        output["stdout"]
        for trial in trials
        for output in trial["outputs"]
        if "tps = " in output["stdout"]
    ]
    assert len(said) == len(trials)
    assert all("number of failed transactions: 0 (" in each for each in said)
