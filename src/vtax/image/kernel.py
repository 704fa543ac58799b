"""Takes the kernel proper out of the compressed file that distributions ship.

Unpacking itself is a fifth of an emulated machine's boot. The ELF file inside boots at once through the PVH entry
point, wherever the kernel has one (Linux: CONFIG_PVH; Debian's and Ubuntu's have).
Formats: Linux Documentation/arch/x86/boot.rst (header fields, payload), ELF-64, and Xen's public/elfnote.h
(XEN_ELFNOTE_PHYS32_ENTRY).
"""

from __future__ import annotations

import ctypes
import gzip
import lzma
import struct
import zlib

_SECTORS, _MAGIC, _PAYLOAD_OFFSET, _PAYLOAD_LENGTH = 0x1F1, 0x202, 0x248, 0x24C
_PT_NOTE, _PHYS32_ENTRY = 4, 18
_ZSTD_MAGIC, _XZ_MAGIC, _GZIP_MAGIC = b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\x00", b"\x1f\x8b"


def elf_of(bzimage: bytes) -> bytes | None:
    """Return the ELF kernel inside a bzImage.

    None when it is damaged, packed in an unknown way, or has no PVH entry point.
    """
    if bzimage[_MAGIC : _MAGIC + 4] != b"HdrS":
        return None
    try:
        setup_bytes = ((bzimage[_SECTORS] or 4) + 1) * 512
        offset, length = struct.unpack_from("<II", bzimage, _PAYLOAD_OFFSET)
        payload = bzimage[setup_bytes + offset : setup_bytes + offset + length]
        size = int.from_bytes(payload[-4:], "little")
        elf = _unpack(payload[:-4], payload, size)
    except (OSError, EOFError, lzma.LZMAError, zlib.error, struct.error):
        return None
    return elf if elf is not None and has_pvh_entry(elf) else None


def unpack_zstd(packed: bytes, size: int) -> bytes:
    """Unpack one zstd frame of at most size bytes with the library that dpkg itself needs. Raises OSError."""
    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_decompress.restype = ctypes.c_size_t
    library.ZSTD_decompress.argtypes = (
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_char_p,
        ctypes.c_size_t,
    )
    target = ctypes.create_string_buffer(size)
    result_bytes = library.ZSTD_decompress(target, size, packed, len(packed))
    if library.ZSTD_isError(ctypes.c_size_t(result_bytes)):
        raise OSError("not a zstd frame, or larger than said")
    return target.raw[:result_bytes]


def has_pvh_entry(elf: bytes) -> bool:
    """Return whether an ELF kernel carries the note that names its 32-bit entry point; a damaged one does not."""
    if elf[:5] != b"\x7fELF\x02":
        return False
    try:
        (table,) = struct.unpack_from("<Q", elf, 0x20)
        entry_bytes, entries = struct.unpack_from("<HH", elf, 0x36)
        headers = [
            struct.unpack_from("<IIQQQQ", elf, table + number * entry_bytes)
            for number in range(entries)
        ]
    except struct.error:  # beyond the end
        return False
    notes = [elf[at : at + size] for kind, _, at, _, _, size in headers if kind == _PT_NOTE]
    return any(map(_note_of, notes))


def _note_of(notes: bytes) -> bool:
    at = 0
    while at + 12 <= len(notes):
        name_bytes, value_bytes, kind = struct.unpack_from("<III", notes, at)
        if kind == _PHYS32_ENTRY and notes[at + 12 : at + 16] == b"Xen\0":
            return True
        at += 12 + (name_bytes + 3 & ~3) + (value_bytes + 3 & ~3)
    return False


def _unpack(packed: bytes, gzipped: bytes, size: int) -> bytes | None:
    """Return the payload of a bzImage, unpacked; None for an unknown packer.

    packed: without the size at its end.
    gzipped: with it, since in the format of gzip that size is a part of the stream.
    size: of what is unpacked, bytes.
    """
    if packed.startswith(_ZSTD_MAGIC):
        return unpack_zstd(packed, size)
    if packed.startswith(_XZ_MAGIC):
        return lzma.LZMADecompressor().decompress(packed)
    if packed.startswith(_GZIP_MAGIC):
        return gzip.decompress(gzipped)
    return None
