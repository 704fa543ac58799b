"""Taking a kernel out of what distributions ship, and off its modules what only makes them slow to load."""

import ctypes
import gzip
import lzma
import struct

import pytest

from vtax.image.kernel import elf_of, has_pvh_entry, unpack_zstd
from vtax.image.lighter import lighter, unsigned


def _elf(note_kind: int = 18) -> bytes:
    note = struct.pack("<III4sQ", 4, 8, note_kind, b"Xen\0", 0x1000000)
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 2, 62, 1, 0x1000000, 64, 0, 0, 64, 56, 1, 0, 0, 0
    )
    return header + struct.pack("<IIQQQQQQ", 4, 4, 120, 0, 0, len(note), len(note), 4) + note + bytes(4096)


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
    written = library.ZSTD_compress(target, ctypes.c_size_t(len(target)), content, ctypes.c_size_t(len(content)), 3)
    return target.raw[:written]


def test_a_kernel_packed_in_any_usual_way_is_found() -> None:
    elf = _elf()
    assert elf_of(_bzimage(_zstd(elf), len(elf))) == elf
    assert elf_of(_bzimage(lzma.compress(elf), len(elf))) == elf
    assert elf_of(_bzimage(gzip.compress(elf), None)) == elf


def test_a_kernel_that_cannot_be_entered_directly_is_left_alone() -> None:
    assert has_pvh_entry(_elf())
    elf = _elf(note_kind=6)
    assert elf_of(_bzimage(_zstd(elf), len(elf))) is None
    assert elf_of(_bzimage(b"\x02\x21\x4c\x18 lz4 is not known", 4096)) is None
    assert elf_of(_bzimage(_zstd(elf)[:-20], len(elf))) is None
    assert elf_of(bytes(4096)) is None


def test_a_zstd_frame_larger_than_said_is_refused() -> None:
    with pytest.raises(OSError, match="larger than said"):
        unpack_zstd(_zstd(bytes(1000)), 10)


def test_only_the_signature_is_taken_off_a_module() -> None:
    module = b"\x7fELF module" + bytes(100)
    signature = b"PKCS7" * 20
    signed = module + signature + bytes(8) + len(signature).to_bytes(4, "big") + b"~Module signature appended~\n"
    assert unsigned(signed) == module
    assert unsigned(module) == module


def _module() -> tuple[bytes, int, int]:
    """An ELF file with symbols and types; where its symbols are, and the header of the section of types."""
    names = b"\0.BTF\0.symtab\0read\0__pfx_read\0table\0elsewhere\0"
    symbols = [("", 0, 0), ("read", 2, 1), ("__pfx_read", 2, 1), ("table", 1, 1), ("elsewhere", 2, 0)]
    packed = [
        struct.pack("<IBBHQQ", names.find(name.encode() + b"\0"), kind, 0, at, 0, 0) for name, kind, at in symbols
    ]
    table = b"".join([struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0), *packed[1:]])
    body = names + table
    sections = [
        (0, 0, 0, 0),
        (names.find(b".BTF"), 1, 64, 8),
        (0, 3, 64, len(names)),
        (names.find(b".symtab"), 2, 64 + len(names), len(table)),
    ]
    headers = [struct.pack("<IIQQQQIIQQ", n, kind, 0, 0, at, size, 2, 0, 0, 0) for n, kind, at, size in sections]
    start = bytearray(64)
    start[:5] = b"\x7fELF\x02"
    struct.pack_into("<Q", start, 0x28, 64 + len(body))
    struct.pack_into("<HHH", start, 0x3A, 64, len(sections), 2)
    return bytes(start) + body + b"".join(headers), 64 + len(names), 64 + len(body) + 64


def test_a_module_keeps_the_names_of_its_functions_and_of_what_it_needs() -> None:
    module, symbols, types = _module()
    light = lighter(module)
    names = [struct.unpack_from("<I", light, symbols + 24 * n)[0] for n in range(5)]
    assert [light[64 + name :].partition(b"\0")[0] for name in names] == [b"", b"read", b"", b"", b"elsewhere"]
    assert struct.unpack_from("<Q", module, types + 0x20) == (8,)
    assert struct.unpack_from("<Q", light, types + 0x20) == (0,)
    changed = {at for at, (old, new) in enumerate(zip(module, light, strict=True)) if old != new}
    assert len(changed) == 3  # two names and a size
    assert lighter(light) == light


def test_what_is_no_module_is_left_as_it_is() -> None:
    assert lighter(b"virtio_net failover virtio_net\n") == b"virtio_net failover virtio_net\n"
