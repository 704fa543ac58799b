"""The initrd: a well-formed archive, and the modules in the order they must be loaded."""

import lzma
import shutil
import subprocess

import pytest

from vtax.errors import ImageError
from vtax.guest.bootstrap import argv
from vtax.image.initrd import CpioEntry, build_initrd, collect_modules, cpio, write_modules


def _module(depends):
    return b"\x7fELF\0license=GPL\0depends=" + depends.encode() + b"\0retpoline=Y\0"


@pytest.fixture
def kernel(tmp_path):
    """A module directory: virtio_net needs net_failover, which needs failover; ext4 is compressed."""
    directory = tmp_path / "6.12-test"
    (directory / "kernel/net").mkdir(parents=True)
    for name, depends in {
        "virtio_net": "net_failover",
        "net_failover": "failover",
        "failover": "",
        "crc32c_generic": "",
        "crc32c_intel": "",
        "jbd2": "",
    }.items():
        (directory / f"kernel/net/{name}.ko").write_bytes(_module(depends))
    (directory / "kernel/ext4.ko.xz").write_bytes(lzma.compress(_module("jbd2")))
    (directory / "kernel/nvme-core.ko.xz").write_bytes(lzma.compress(_module("")))
    (directory / "kernel/nvme.ko").write_bytes(_module("nvme-core"))
    (directory / "modules.builtin").write_text("kernel/drivers/virtio/virtio-pci.ko\n")
    return directory


def test_what_a_module_depends_on_comes_before_it(kernel):
    assert collect_modules(kernel, ["virtio_net"]).chains["virtio_net"] == (
        "failover",
        "net_failover",
        "virtio_net",
    )


def test_compressed_modules_are_unpacked(kernel):
    assert collect_modules(kernel, ["ext4"]).files["ext4"] == _module("jbd2")


def test_modules_that_would_be_requested_for_at_run_time_come_first(kernel):
    chain = collect_modules(kernel, ["ext4"]).chains["ext4"]
    assert set(chain[:-2]) == {"crc32c_generic", "crc32c_intel"}
    assert chain[-2:] == ("jbd2", "ext4")


def test_modules_requested_at_run_time_that_a_newer_kernel_lacks_are_left_out(kernel):
    for path in kernel.glob("kernel/net/crc32c_*"):
        path.unlink()
    assert collect_modules(kernel, ["ext4"]).chains["ext4"] == ("jbd2", "ext4")


def test_dashes_and_underscores_are_the_same_name(kernel):
    assert collect_modules(kernel, ["nvme"]).chains["nvme"] == ("nvme_core", "nvme")


def test_what_is_built_in_needs_nothing_loaded(kernel):
    modules = collect_modules(kernel, ["virtio_pci"])
    assert modules.chains == {"virtio_pci": ()}
    assert modules.files == {}


def test_a_module_the_kernel_lacks_is_an_error(kernel):
    with pytest.raises(ImageError, match="no module e1000"):
        collect_modules(kernel, ["e1000"])


def test_the_order_is_written_one_chain_a_line(kernel, tmp_path):
    write_modules(collect_modules(kernel, ["virtio_net", "virtio_pci"]), tmp_path / "modules")
    lines = (tmp_path / "modules/order").read_text().splitlines()
    assert "virtio_net failover net_failover virtio_net" in lines
    assert "virtio_pci" in lines


def test_an_entry_is_aligned_and_the_archive_ends():
    archive = cpio([CpioEntry("a", 0o100644, b"12345")])
    assert len(archive) % 4 == 0
    assert archive.startswith(b"070701")
    assert archive.rstrip(b"\0").endswith(b"TRAILER!!!")


@pytest.mark.skipif(shutil.which("cpio") is None, reason="cpio is not installed")
def test_cpio_itself_reads_the_archive(tmp_path):
    archive = cpio(
        [
            CpioEntry("d", 0o040755),
            CpioEntry("d/file", 0o100755, b"content"),
            CpioEntry("d/link", 0o120777, b"file"),
        ]
    )
    subprocess.run(["cpio", "-i", "--quiet"], input=archive, cwd=tmp_path, check=True)
    assert (tmp_path / "d/link").read_bytes() == b"content"
    assert (tmp_path / "d/file").stat().st_mode & 0o777 == 0o755


def test_the_initrd_carries_the_bootstrap_as_it_is_now(kernel, tmp_path):
    write_modules(collect_modules(kernel, ["ext4"]), tmp_path / "modules")
    (tmp_path / "busybox").write_bytes(b"a static program")
    initrd = build_initrd(tmp_path / "busybox", tmp_path / "modules")
    *interpreter, _, code, _ = argv()
    for expected in (
        code.encode(),
        " ".join(interpreter).encode(),
        b"a static program",
        b"modules/ext4.ko",
    ):
        assert expected in initrd
