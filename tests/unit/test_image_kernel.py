"""Taking a kernel out of what distributions ship."""

import ctypes
import gzip
import lzma
import struct

import pytest

from vtax.image.kernel import elf_of, has_pvh_entry, unpack_zstd


def _elf(note_kind: int = 18) -> bytes:
    note = struct.pack("<III4sQ", 4, 8, note_kind, b"Xen\0", 0x1000000)
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 2, 62, 1, 0x1000000, 64, 0, 0, 64, 56, 1, 0, 0, 0
    )
    return (
        header
        + struct.pack("<IIQQQQQQ", 4, 4, 120, 0, 0, len(note), len(note), 4)
        + note
        + bytes(4096)
    )


def _bzimage(packed: bytes, size: int | None) -> bytes:
    payload = packed if size is None else packed + size.to_bytes(4, "little")
    setup = bytearray(1024)
    setup[0x1F1] = 1
    setup[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", setup, 0x248, 16, len(payload))
    return bytes(setup) + bytes(16) + payload + b"trailing"


def _zstd(content: bytes) -> bytes:
    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_compress.restype = ctypes.c_size_t
    target = ctypes.create_string_buffer(len(content) + 1024)
    written = library.ZSTD_compress(
        target, ctypes.c_size_t(len(target)), content, ctypes.c_size_t(len(content)), 3
    )
    return target.raw[:written]


def test_a_kernel_packed_in_any_usual_way_is_found():
    elf = _elf()
    assert elf_of(_bzimage(_zstd(elf), len(elf))) == elf
    assert elf_of(_bzimage(lzma.compress(elf), len(elf))) == elf
    assert elf_of(_bzimage(gzip.compress(elf), None)) == elf


def test_a_kernel_that_cannot_be_entered_directly_is_left_alone():
    assert has_pvh_entry(_elf())
    elf = _elf(note_kind=6)
    assert elf_of(_bzimage(_zstd(elf), len(elf))) is None
    assert elf_of(_bzimage(b"\x02\x21\x4c\x18 lz4 is not known", 4096)) is None
    assert elf_of(_bzimage(_zstd(elf)[:-20], len(elf))) is None
    assert elf_of(bytes(4096)) is None


def test_a_kernel_that_is_cut_off_or_lies_about_its_tables_is_left_alone():
    elf = _elf()
    whole = _bzimage(gzip.compress(elf), None)
    for length in range(0, len(whole), 64):
        assert elf_of(whole[:length]) is None
    for length in range(120):
        assert not has_pvh_entry(elf[:length])
    far = bytearray(elf)
    far[0x20:0x28] = (1 << 62).to_bytes(8, "little")
    assert not has_pvh_entry(bytes(far))


def test_a_zstd_frame_larger_than_said_is_refused():
    with pytest.raises(OSError, match="larger than said"):
        unpack_zstd(_zstd(bytes(1000)), 10)
