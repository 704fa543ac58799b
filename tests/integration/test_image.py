"""The built image: complete, the same in every form, free of this host, and nothing left when a build is killed."""

import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
from dataclasses import replace
from pathlib import Path

import pytest
from support import needs_program, needs_root

from vtax.errors import BadInput, ImageError
from vtax.guest.bootstrap import argv
from vtax.host.home import Home
from vtax.host.journal import Journal, clean
from vtax.host.mounts import mounts_below
from vtax.host.process import run
from vtax.host.resources import tagged_pids
from vtax.image import build as images
from vtax.image import contents
from vtax.image.export import free_bytes
from vtax.image.image import disk_usage_bytes
from vtax.image.recipe import DEFAULT, PACKAGES, DataSet

pytestmark = [
    needs_root,
    needs_program("mmdebstrap", "mke2fs", "e2fsck", "debugfs"),
]
INITRD_LIMIT_BYTES = 12 << 20


def inside(image, *command, environment=None, check=True):
    """Run a program in the image's tree; nothing there is written."""
    return run(["chroot", image.tree, *command], environment=environment, check=check)


def debugfs(image, request):
    return run(["debugfs", "-R", request, image.disk]).stdout


@pytest.fixture(scope="module")
def manifest(image):
    return json.loads(image.manifest.read_text())


def test_the_manifest_says_what_the_image_is(image, manifest):
    assert manifest["key"] == image.key == DEFAULT.key
    assert set(PACKAGES) <= manifest["packages"].keys()
    assert re.match(r"\d+\.\d+", manifest["kernel"])
    assert manifest["disk_bytes"] == image.disk.stat().st_size


@pytest.mark.parametrize(
    "command",
    [
        ("/usr/bin/sysbench", "--version"),
        ("/usr/bin/iperf3", "--version"),
        ("/usr/bin/netperf", "-V"),
        ("/usr/bin/fio", "--version"),
        ("/usr/bin/sockperf", "--version"),
        ("/usr/sbin/ip", "-V"),
        ("/usr/sbin/ethtool", "--version"),
        ("/usr/bin/busybox", "true"),
    ],
)
def test_every_tool_starts(image, command):
    inside(image, *command)


def test_stream_gives_valid_results_and_refuses_nonsense(image):
    report = inside(
        image, "/usr/bin/vtax-stream", "100000", "3", environment={"OMP_NUM_THREADS": "2"}
    ).stdout
    assert "threads 2\n" in report
    assert report.endswith("valid\n")
    assert inside(image, "/usr/bin/vtax-stream", "many", "3", check=False).status == 2
    assert inside(image, "/usr/bin/vtax-stream", "100", "1", check=False).status == 2


def test_the_agents_python_compiles_nothing_at_its_start(image):
    interpreter = argv()[:4]
    printed = inside(
        image,
        *interpreter,
        "-v",
        "-c",
        "import json, select, socket, struct, subprocess, threading",
    ).stderr
    imported = re.findall(r"^# code object from '?(/usr/lib/[^'\n]*)", printed, re.MULTILINE)
    assert len(imported) > 20
    assert all(path.endswith(".pyc") for path in imported)


def test_nothing_of_this_host_is_in_the_image(image):
    assert (image.tree / "etc/hostname").read_text() == "vtax\n"
    assert (image.tree / "etc/resolv.conf").read_text() == ""
    assert (image.tree / "etc/apt/sources.list").read_text() == ""
    assert list((image.tree / "etc/apt/sources.list.d").iterdir()) == []
    assert not [
        path for path in image.tree.glob("etc/apt/apt.conf.d/*") if "mmdebstrap" in path.name
    ]
    assert len((image.tree / "etc/machine-id").read_text()) == 33
    assert list((image.tree / "var/lib/apt/lists").glob("*Packages*")) == []


def test_no_compiler_stays_in_the_image(image, manifest):
    assert list((image.tree / "usr/bin").glob("*gcc*")) == []
    assert "libc6-dev" not in manifest["packages"]
    assert "gcc" in manifest["compiler"]
    assert not (image.directory / "build-root").exists()


def test_scratch_is_empty_and_anyone_may_write(image):
    assert list((image.tree / "scratch").iterdir()) == []
    assert (image.tree / "scratch").stat().st_mode & 0o7777 == 0o1777


def test_the_archive_holds_the_files_of_the_tree(image):
    with tarfile.open(image.archive) as archive:
        members = {member.name: member for member in archive}
    for name in ("usr/bin/vtax-stream", "usr/bin/python3.13", "etc/shadow", "scratch"):
        member, there = members[f"./{name}"], (image.tree / name).lstat()
        assert (member.uid, member.gid, member.mode) == (
            there.st_uid,
            there.st_gid,
            there.st_mode & 0o7777,
        )
        assert member.size == (there.st_size if member.isfile() else 0)
        assert member.uname == member.gname == ""
    on_disk = {
        f"./{(Path(directory) / name).relative_to(image.tree)}"
        for directory, names, others in os.walk(image.tree)
        for name in (*names, *others)
        if not Path(directory).is_relative_to(image.tree / "dev")
    }
    assert on_disk == members.keys() - {"."}


def test_the_disk_is_sound_and_holds_the_same_files(image, tmp_path):
    assert run(["e2fsck", "-f", "-n", image.disk], check=False).status == 0
    debugfs(image, f"dump /usr/bin/vtax-stream {tmp_path}/copy")
    assert (tmp_path / "copy").read_bytes() == (image.tree / "usr/bin/vtax-stream").read_bytes()
    assert "Mode:  01777" in debugfs(image, "stat /scratch")


def test_the_disk_is_sparse_and_has_room_for_scratch(image):
    stat = image.disk.stat()
    assert stat.st_blocks * 512 < stat.st_size / 2
    free = re.search(r"^Free blocks:\s+(\d+)", debugfs(image, "stats"), re.MULTILINE)
    assert int(free[1]) * 4096 > 1 << 30


def test_nothing_of_the_disk_is_initialised_while_a_guest_measures(image):
    described = debugfs(image, "stats")
    assert "UNINIT" not in re.sub(
        r"BLOCK_UNINIT|INODE_UNINIT, ITABLE_ZEROED|INODE_UNINIT,ITABLE_ZEROED", "", described
    )
    assert "Reserved block count:     0" in described


def test_the_initrd_is_small_and_well_formed(image):
    assert image.initrd.stat().st_size < INITRD_LIMIT_BYTES
    listing = subprocess.run(
        [image.tree / "usr/bin/busybox", "cpio", "-t"],
        stdin=image.initrd.open(),
        capture_output=True,
        check=True,
    )
    names = set(listing.stdout.decode().split())
    assert {
        "init",
        "bootstrap",
        "interpreter",
        "bin/busybox",
        "dev/console",
        "modules/order",
    } <= names
    assert {
        f"modules/{name}.ko"
        for name in ("virtio_net", "virtio_blk", "e1000", "8139cp", "ahci", "ext4")
    } <= names


def test_another_initrd_costs_no_second_build(image, shared_home):
    recipe = replace(DEFAULT, initrd="integration-test")
    with Journal(shared_home.journal) as journal:
        other = images.build(shared_home, recipe, journal)
    try:
        assert other.archive.samefile(image.archive)
        assert other.initrd.stat().st_ino != image.initrd.stat().st_ino
    finally:
        images.remove(shared_home, recipe.key)
    assert image.manifest.exists()


def test_a_disk_of_another_size_holds_the_same_files_and_is_sparse(image, tmp_path):
    home, size = Home(tmp_path / "home").ensure(), 6 << 30
    run(["cp", "--archive", image.directory, home.images / image.key], timeout_s=120)
    with Journal(home.journal) as journal:
        large = images.build(home, DEFAULT.with_disk(size), journal)
        assert (
            large.disk.stat().st_size
            == size
            == json.loads(large.manifest.read_text())["disk_bytes"]
        )
        assert disk_usage_bytes(large.disk) < image.disk.stat().st_size
        assert 5.5 * 2**30 < free_bytes(large.disk) < size
        assert (large.tree / "usr/bin/busybox").samefile(images.find(home).tree / "usr/bin/busybox")
        run(["e2fsck", "-f", "-n", large.disk])
        with pytest.raises(BadInput, match=r"a disk of 128 MiB does not hold the image .* needs"):
            images.build(home, DEFAULT.with_disk(128 << 20), journal)
        with pytest.raises(BadInput, match=r"a disk of 1024 TiB is requested .* this host has"):
            images.build(home, DEFAULT.with_disk(1 << 50), journal)
    assert {each.key for each in images.list_images(home)} == {image.key, large.key}


def test_a_layer_adds_its_packages_to_the_base_and_changes_nothing_else(image, manifest, tmp_path):
    home = Home(tmp_path / "home").ensure()
    run(["cp", "--archive", image.directory, home.images / image.key], timeout_s=120)
    base = images.find(home)
    layered = images.ensure(home, DEFAULT.with_packages(["pi"]))
    of_layer = json.loads(layered.manifest.read_text())
    assert (of_layer["base"], of_layer["changed"]) == (base.key, {})
    assert of_layer["packages"] == {**manifest["packages"], **of_layer["added"]}
    assert "pi" in of_layer["added"]
    assert inside(layered, "/usr/bin/pi", "20").stdout.strip() == "3.1415926535897932384"
    debugfs(layered, f"dump /usr/bin/pi {tmp_path}/copy")
    assert (tmp_path / "copy").read_bytes() == (layered.tree / "usr/bin/pi").read_bytes()
    assert layered.kernel.samefile(base.kernel)
    test_nothing_of_this_host_is_in_the_image(layered)
    test_scratch_is_empty_and_anyone_may_write(layered)
    differing = _differing(base.tree, layered.tree)
    assert {name for name in differing if not name.startswith(("var/", "etc/ld.so.cache"))} == set()
    assert not (base.tree / "usr/bin/pi").exists()
    contents.check(base)
    images.remove(home, base.key)
    contents.check(layered)


def test_clean_removes_a_layer_that_was_killed_and_keeps_the_base(image, tmp_path):
    home = Home(tmp_path / "home").ensure()
    run(["cp", "--archive", image.directory, home.images / image.key], timeout_s=120)
    code = (
        "from vtax.host.home import Home; from vtax.image.build import ensure; from pathlib import Path; import sys\n"
        "from vtax.image.recipe import DEFAULT\n"
        "ensure(Home(Path(sys.argv[1])), DEFAULT.with_packages(['pi']), lambda stage: print(stage, flush=True))"
    )
    builder = subprocess.Popen([sys.executable, "-c", code, home.root], stdout=subprocess.PIPE)
    try:
        builder.stdout.readline()
        (partial,) = home.images.glob("*.partial")
        _until((partial / "tree/usr").exists)
    finally:
        builder.send_signal(signal.SIGKILL)
        builder.wait()
        builder.stdout.close()
    assert clean(home.journal).problems == ()
    assert sorted(path.name for path in home.images.iterdir()) == sorted([image.key, "build.lock"])
    contents.check(images.find(home))
    assert mounts_below(home.root) == []


def test_data_that_were_killed_while_they_were_made_are_made_again(image, tmp_path):
    home = Home(tmp_path / "home").ensure()
    run(["cp", "--archive", image.directory, home.images / image.key], timeout_s=120)
    # The first build waits until it is killed, since nobody makes /go; the second finds the base with it.
    script = 'echo half >"$1/tables"; sleep 4321 & until [ -e /go ]; do sleep 0.1; done; echo whole >"$1/tables"'
    recipe = DEFAULT.with_data([DataSet("tables", script, 1)])
    code = (
        "from vtax.host.home import Home; from vtax.image.build import ensure; from pathlib import Path; import sys\n"
        "from vtax.image.recipe import DEFAULT, DataSet\n"
        "ensure(Home(Path(sys.argv[1])), DEFAULT.with_data([DataSet('tables', sys.argv[2], 1)]))"
    )
    builder = subprocess.Popen([sys.executable, "-c", code, home.root, script])
    try:
        _until(lambda: list(home.images.glob("*.partial/tree/var/lib/vtax/tables/tables")))
    finally:
        builder.send_signal(signal.SIGKILL)
        builder.wait()
    assert clean(home.journal).problems == ()
    assert images.find(home, recipe) is None
    assert sorted(path.name for path in home.images.iterdir()) == sorted([image.key, "build.lock"])
    assert run(["pgrep", "-f", "sleep 4321"], check=False).stdout == ""
    images.remove(home, image.key)
    run(["cp", "--archive", image.directory, home.images / image.key], timeout_s=120)
    (home.images / image.key / "tree/go").touch()
    contents.record(images.find(home))
    whole = images.ensure(home, recipe)
    assert (whole.tree / "var/lib/vtax/tables/tables").read_text() == "whole\n"
    assert list((whole.tree / "tmp").iterdir()) == []
    assert run(["pgrep", "-f", "sleep 4321"], check=False).stdout == ""
    assert json.loads(whole.manifest.read_text())["data_s"].keys() == {"tables"}
    assert "whole" in debugfs(whole, "cat /var/lib/vtax/tables/tables")


def test_data_that_cannot_be_made_leave_no_image_and_say_why(image, tmp_path):
    home = Home(tmp_path / "home").ensure()
    run(["cp", "--archive", image.directory, home.images / image.key], timeout_s=120)
    recipe = DEFAULT.with_data([DataSet("tables", "echo no room >&2; exit 3", 1)])
    with pytest.raises(ImageError, match="the data tables could not be made") as caught:
        images.ensure(home, recipe)
    assert "no room" in caught.value.where
    assert sorted(path.name for path in home.images.iterdir()) == sorted([image.key, "build.lock"])


def test_a_build_without_a_network_says_so_and_leaves_nothing(tmp_path):
    code = (
        "from vtax.host.home import Home; from vtax.image.build import ensure; from pathlib import Path; import sys\n"
        "from vtax.errors import ImageError\n"
        "try: ensure(Home(Path(sys.argv[1])))\n"
        "except ImageError as error: print(error); sys.exit(7)"
    )
    done = run(
        ["unshare", "--net", sys.executable, "-c", code, tmp_path / "home"],
        check=False,
        timeout_s=120,
    )
    assert done.status == 7, done.stderr
    assert len(done.stdout.splitlines()) <= 3
    assert "apt-get update" in done.stdout
    assert [path.name for path in (tmp_path / "home/images").iterdir()] == ["build.lock"]
    assert list((tmp_path / "home/journal").iterdir()) == []


def test_clean_ends_a_killed_build_and_removes_what_it_made(tmp_path):
    home = Home(tmp_path / "home").ensure()
    code = (
        "from vtax.host.home import Home; from vtax.image.build import ensure; from pathlib import Path; import sys\n"
        "ensure(Home(Path(sys.argv[1])), progress=lambda stage: print(stage, flush=True))"
    )
    builder = subprocess.Popen([sys.executable, "-c", code, home.root], stdout=subprocess.PIPE)
    try:
        builder.stdout.readline()
        (partial,) = home.images.glob("*.partial")
        _until(lambda: (partial / "tree").exists() and (partial / "build-root").exists())
    finally:
        builder.send_signal(signal.SIGKILL)
        builder.wait()
        builder.stdout.close()
    assert images.find(home) is None
    tag = f"image-{partial.name.split('.')[1]}"
    assert tagged_pids(tag)
    cleaned = clean(home.journal)
    assert cleaned.problems == ()
    assert tagged_pids(tag) == []
    assert [path.name for path in home.images.iterdir()] == ["build.lock"]
    assert mounts_below(home.root) == []


@pytest.mark.thorough
def test_an_unknown_package_is_one_clear_error(tmp_path):
    recipe = replace(DEFAULT, packages=("no-such-package-of-vtax",))
    with pytest.raises(ImageError, match="mmdebstrap could not make"):
        images.ensure(Home(tmp_path / "home"), recipe)
    assert images.list_images(Home(tmp_path / "home")) == []


def _differing(one, other):
    """Names of regular files below one that the other lacks or has with another content."""
    names = [
        Path(directory, name).relative_to(one)
        for directory, _, files in os.walk(one)
        for name in files
        if Path(directory, name).is_file() and not Path(directory, name).is_symlink()
    ]
    there = [name for name in names if (other / name).is_file()]
    changed = [name for name in there if (one / name).read_bytes() != (other / name).read_bytes()]
    return {str(name) for name in [*changed, *(set(names) - set(there))]}


def _until(true, timeout_s=60.0):
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)
