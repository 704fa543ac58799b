"""The user's own files: where they come from, what is refused, what guests find, and who runs their program."""

import json
import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import needs_root

from vtax.errors import BadInput
from vtax.image import own
from vtax.image.image import OWN, Image
from vtax.image.own import FileSource, has_program
from vtax.image.recipe import DEFAULT, OwnFiles, data
from vtax.platforms import native, stdio
from vtax.platforms.ssh import driver as ssh

PLACES = ("/usr/bin", "/bin")
FILES = OwnFiles("shop", "0" * 64)


@pytest.fixture
def tools(installed):
    installed(but="")


@pytest.mark.parametrize(
    ("name", "source", "what"),
    [
        ("shop", "shop.tar", "is no source of an image"),
        ("shop", "docker-archive:", "is no source of an image"),
        ("shop", "ftp:shop.tar", "is no source of an image"),
        ("shop", "docker-archive:/no/such.tar", "there is no /no/such.tar"),
        ("shop", "dir:/", "not the one of this host"),
        ("shop", "dir:/etc/hostname", "/etc/hostname is a file, not a directory"),
        ("shop", "dir:/proc/self", "not the one of this host"),
        ("shop", "tar:/dev/null", "/dev/null is no file"),
        ("shop", "oci-archive:/usr", "/usr is no file"),
        ("Shop", "dir:/usr", "image cannot be 'Shop': names are at most 64 lower-case letters"),
        ("../shop", "dir:/usr", "image cannot be '../shop': names are"),
    ],
)
def test_what_is_no_source_is_refused(name, source, what, tools):
    with pytest.raises(BadInput, match=what):
        FileSource.of(name, source)


def test_what_cannot_be_unpacked_is_said_in_one_line_with_its_source(tmp_path):
    (tmp_path / "shop.tar").write_text("no archive" * 200)
    (tmp_path / "place").mkdir()
    source = FileSource("tar", str(tmp_path / "shop.tar"))
    with pytest.raises(BadInput) as refused:
        own.unpack("shop", source, tmp_path / "place", "vtax-test-unpack")
    assert (
        refused.value.what
        == "the image could not be unpacked: tar: This does not look like a tar archive"
    )
    assert refused.value.hint == f"tar --list --file {tmp_path}/shop.tar"


def test_a_program_that_unpacks_is_named_with_its_package(installed, golden):
    installed(but="umoci")
    with pytest.raises(BadInput) as refused:
        FileSource.of("shop", "podman:localhost/shop")
    golden(str(refused.value))
    assert refused.value.hint == "apt install umoci"
    assert FileSource.of("shop", "dir:/usr") == FileSource("dir", "/usr")


def test_files_of_the_users_make_another_image_whose_serving_guests_have_the_layer():
    shop = replace(DEFAULT, own=FILES)
    loaded = shop.with_packages(["nghttp2-client"])
    assert (
        len(
            {
                DEFAULT.key,
                shop.key,
                loaded.key,
                replace(shop, own=replace(FILES, digest="1" * 64)).key,
            }
        )
        == 4
    )
    assert loaded.base == DEFAULT.with_packages(["nghttp2-client"])
    assert loaded.tree_key == shop.tree_key != DEFAULT.tree_key
    assert DEFAULT.like(json.loads(json.dumps(loaded.record()))) == loaded
    assert DEFAULT.like(DEFAULT.record()) is not None


def test_guests_that_serve_start_from_the_image_that_is_named(tmp_path):
    image = Image("a" * 12, tmp_path / ("a" * 12))
    image.directory.mkdir()
    assert image.of_peers is image
    assert not image.is_own
    (image.directory / OWN).write_text("b" * 12 + "\n")
    assert image.is_own
    assert image.of_peers == Image("b" * 12, tmp_path / ("b" * 12))


def test_programs_are_found_as_in_the_guest(tmp_path):
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "bin").symlink_to("/usr/bin")
    (tmp_path / "usr/bin/tool").write_text("")
    (tmp_path / "usr/bin/link").symlink_to("/bin/tool")
    (tmp_path / "usr/bin/out").symlink_to("../../../../../../bin/sh")
    (tmp_path / "usr/bin/loop").symlink_to("loop")
    (tmp_path / "usr/bin/slashes").symlink_to("//bin/sh")
    assert [has_program(tmp_path, name, PLACES) for name in ("tool", "link", "/bin/tool")] == [
        True
    ] * 3
    assert not any(
        has_program(tmp_path, name, PLACES)
        for name in ("none", "out", "loop", "slashes", "/usr/bin", "/etc/hostname")
    )


def test_a_program_of_another_processor_is_refused(tmp_path, golden):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/sh").write_bytes(
        b"\x7fELF\x02\x01\x01" + bytes(11) + (183).to_bytes(2, "little")
    )
    with pytest.raises(BadInput) as caught:
        own._refuse_foreign_programs(tmp_path)
    golden(str(caught.value), "1")
    (tmp_path / "bin/sh").write_bytes(b"\x7fELF\x02\x02\x01" + bytes(11) + (22).to_bytes(2, "big"))
    with pytest.raises(BadInput) as caught:
        own._refuse_foreign_programs(tmp_path)
    golden(str(caught.value), "2")
    (tmp_path / "bin/sh").write_bytes(
        b"\x7fELF\x02\x01\x01" + bytes(11) + (62).to_bytes(2, "little")
    )
    own._refuse_foreign_programs(tmp_path)


@pytest.mark.parametrize("length", range(20))
def test_a_header_of_elf_that_is_cut_off_is_no_program(tmp_path, length):
    (tmp_path / "bin").mkdir()
    for order in (b"\1", b"\2", b"\0", b"\xff"):
        header = b"\x7fELF\2" + order + bytes(12) + (183).to_bytes(2, "little")
        (tmp_path / "bin/a").write_bytes(header[:length])
        own._refuse_foreign_programs(tmp_path)


def test_a_byte_order_that_there_is_not_is_no_program(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/a").write_bytes(b"\x7fELF\2\3" + bytes(12) + (183).to_bytes(2, "little"))
    own._refuse_foreign_programs(tmp_path)


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        ("a\nb\n", "b"),
        ("", "sh failed with status 3"),
        (
            "   • unpacking\npanic: cannot unpack: the disk is gone\n\ngoroutine 1 [running]:\nmain.main()\n"
            "\t/build/main.go:12 +0x1d\nexit status 2\n",
            "panic: cannot unpack: the disk is gone",
        ),
        (
            "fatal error: out of memory\n\ngoroutine 1 [running]:\nmain.go:12 +0x1d",
            "fatal error: out of memory",
        ),
        ("\x1b[31m" + "x" * 9000, "�[31m" + "x" * 294 + "…"),
    ],
)
def test_the_reason_of_a_program_that_failed_is_one_line(tmp_path, printed, reason):
    (tmp_path / "printed").write_text(printed)
    with pytest.raises(BadInput) as refused:
        own._run(["sh", "-c", f"cat {tmp_path}/printed >&2; exit 3"], "vtax-test-own")
    assert refused.value.what.endswith(f"unpacked: {reason}")


def test_too_many_files_holes_that_the_disk_cannot_hold_and_nothing_are_refused(
    tmp_path, monkeypatch
):
    with pytest.raises(BadInput, match="no files"):
        own._refuse_size(tmp_path)
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(1 << 42)
    with pytest.raises(BadInput, match="holes counted"):
        own._refuse_size(tmp_path)
    (tmp_path / "hole").unlink()
    (tmp_path / "one").write_text("")
    own._refuse_size(tmp_path)
    monkeypatch.setattr(own, "MAX_FILES", 0)
    with pytest.raises(BadInput, match="more than 0 files"):
        own._refuse_size(tmp_path)


@needs_root
def test_devices_pipes_and_links_that_lead_out_are_gone_and_what_guests_need_is_there(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "hosts").write_text("the host's")
    tree = tmp_path / "tree"
    (tree / "srv").mkdir(parents=True)
    os.mkfifo(tree / "srv/pipe")
    os.mknod(tree / "srv/disk", stat.S_IFBLK | 0o600, os.makedev(7, 0))
    for name in ("etc", "dev", "tmp", ".vtax"):
        (tree / name).symlink_to(outside)
    (tree / "srv/page").write_text("hello")
    (tree / "usr").symlink_to(outside)
    own._clean(tree)
    assert sorted(path.name for path in (tree / "srv").iterdir()) == ["page"]
    assert (outside / "hosts").read_text() == "the host's"
    assert list(outside.iterdir()) == [outside / "hosts"]
    assert not (tree / ".vtax").exists()
    for name in ("dev", "proc", "sys", "run", "etc", "root", "tmp", "scratch"):
        assert (tree / name).is_dir()
        assert not (tree / name).is_symlink()
    assert (tree / "tmp").stat().st_mode & 0o7777 == 0o1777


@needs_root
def test_a_directory_where_a_file_is_needed_gives_way(tmp_path):
    (tmp_path / "etc/hosts/deep").mkdir(parents=True)
    own._clean(tmp_path)
    assert (tmp_path / "etc/hosts").read_text().startswith("127.0.0.1 ")


def entered(tmp_path, settings, *argv):
    """Run the program of the image's own with files in the place of those in a guest."""
    text = data("entry.py").decode()
    for path in ("/.vtax/entry.json", "/etc/passwd", "/etc/group"):
        text = text.replace(path, str(tmp_path / Path(path).name))
    program = tmp_path / "entry.py"
    program.write_text(text)
    (tmp_path / "entry.json").write_text(
        json.dumps({"entry": [], "environment": {}, "directory": "/", "user": "", **settings})
    )
    return subprocess.run(
        [sys.executable, program, *argv], check=False, capture_output=True, text=True, timeout=20
    )


def test_the_images_program_has_its_environment_and_directory(tmp_path):
    entry = ["sh", "-c", "echo $GREETING $(pwd)"]
    done = entered(
        tmp_path, {"entry": entry, "environment": {"GREETING": "hi"}, "directory": "/usr"}
    )
    assert done.stdout == "hi /usr\n"
    assert entered(tmp_path, {"entry": entry}, "echo", "other").stdout == "other\n"
    assert (
        entered(tmp_path, {"entry": entry, "version": "shop 0a1b"}, "--vtax-version").stdout
        == "shop 0a1b\n"
    )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "the image names no program to run"),
        (
            {"entry": ["no-such-program"], "environment": {"PATH": "/bin"}},
            "no-such-program: No such file or directory",
        ),
        ({"entry": ["true"], "user": "shop"}, "the image has no user shop"),
        ({"entry": ["true"], "user": "7:shop"}, "the image has no group shop"),
    ],
)
def test_what_an_image_cannot_run_is_said(settings, said, tmp_path):
    done = entered(tmp_path, settings)
    assert done.returncode == 1
    assert done.stderr.strip() == said


@needs_root
@pytest.mark.parametrize(
    ("user", "ids"), [("shop", "33 44"), ("33", "33 44"), ("99", "99 0"), ("99:web", "99 55")]
)
def test_the_images_program_is_its_users(user, ids, tmp_path):
    (tmp_path / "passwd").write_text("root:x:0:0::/root:/bin/sh\nshop:x:33:44::/srv:/bin/sh\n")
    (tmp_path / "group").write_text("web:x:55:shop\n")
    done = entered(tmp_path, {"entry": ["sh", "-c", "echo $(id -u) $(id -g)"], "user": user})
    assert done.stdout.strip() == ids


def test_nothing_of_the_users_files_runs_on_the_host_to_prepare_a_guest(tmp_path, monkeypatch):
    image = Image("a" * 12, tmp_path / ("a" * 12))
    image.directory.mkdir()
    (image.directory / OWN).write_text("b" * 12 + "\n")
    used = []
    monkeypatch.setattr(stdio.bootstrap, "compiled", lambda tree: used.append(tree) or b"")
    stdio.compile_agent(SimpleNamespace(agent=b""), image)
    assert used == [tmp_path / ("b" * 12) / "tree"]


@pytest.mark.parametrize(("driver", "agent"), [(native.Native(), b"compiled"), (ssh.Ssh(), b"")])
def test_only_a_guest_of_the_image_gets_the_agent_that_the_images_python_compiled(
    driver, agent, monkeypatch
):
    guest = SimpleNamespace(channel=SimpleNamespace(agent=b""))
    monkeypatch.setattr(type(driver), "launch", lambda *_: guest)
    monkeypatch.setattr(stdio.bootstrap, "compiled", lambda tree: b"compiled")
    driver.start(None, SimpleNamespace(image=Image("a" * 12, Path("/absent"))))
    assert guest.channel.agent == agent


def test_a_compressed_archive_and_a_colon_in_a_name(tools, tmp_path):
    (tmp_path / "shop.tar.gz").write_bytes(b"\x1f\x8b" + bytes(8))
    with pytest.raises(BadInput, match="is compressed"):
        FileSource.of("shop", f"docker-archive:{tmp_path}/shop.tar.gz")
    (tmp_path / "a:b.tar").write_bytes(b"")
    assert FileSource.of("shop", f"tar:{tmp_path}/a:b.tar").place == f"{tmp_path}/a:b.tar"


@pytest.mark.parametrize("user", ["99999999999", "5:99999999999"])
@needs_root
def test_a_user_that_no_host_can_have_is_said(user, tmp_path):
    done = entered(tmp_path, {"entry": ["true"], "user": user})
    assert done.returncode == 1
    assert done.stderr.startswith("the directory or the user of the image: ")


@needs_root
def test_the_groups_of_a_user_are_its_own_unless_one_is_given(tmp_path):
    (tmp_path / "passwd").write_text("shop:x:33:44::/srv:/bin/sh\n")
    (tmp_path / "group").write_text("web:x:55:shop,other\n")
    settings = {
        "entry": ["sh", "-c", "echo $(id -G) $HOME"],
        "environment": {"HOME": "/own", "": "x"},
    }
    assert entered(tmp_path, {**settings, "user": "shop"}).stdout == "44 55 /own\n"
    assert entered(tmp_path, {**settings, "user": "shop:web"}).stdout == "55 /own\n"
    assert entered(tmp_path, {**settings, "directory": f"{tmp_path}/made"}).stdout == "0 /own\n"
