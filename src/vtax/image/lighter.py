"""Makes kernel modules lighter to load, leaving all that runs as it is.

Loading modules is nothing to a real CPU and a tenth of an emulated boot. What is taken out: the signature (checking
it took a third of that boot), the types for BPF programs, and the names of whatever is no function: the kernel looks
each traceable function up in a list of all names, and a file system has thousands. Functions keep their names, so
oopses show them and tracing works. The rest stays where it is in the file.
Formats: ELF-64 (elf(5)); Linux: include/linux/module_signature.h, and which names the kernel keeps (is_core_symbol in
kernel/module/kallsyms.c).
"""

from __future__ import annotations

import struct

_SIGNED = b"~Module signature appended~\n"
_ELF_64 = b"\x7fELF\x02"
_SECTION_BYTES, _SIZE_AT, _SYMBOL_BYTES = 64, 0x20, 24
_SYMBOL_TABLE, _FUNCTION = 2, 2
_TYPES = b".BTF"
_PADDING = b"__pfx_"
"""How the names of the padding before functions begin."""


def lighter(module: bytes) -> bytes:
    """The module without what only makes it slow to load; what is no ELF file, or has none of it, as it is."""
    bare = unsigned(module)
    return _without_names(bare) if bare.startswith(_ELF_64) else bare


def unsigned(module: bytes) -> bytes:
    """A module without the signature at its end, or what was given.

    The kernel loads unsigned modules unless it was built or told to enforce signatures; then it says so and marks
    itself tainted (E), which changes nothing else.
    """
    if not module.endswith(_SIGNED):
        return module
    header_end = len(module) - len(_SIGNED)
    return module[: header_end - 12 - int.from_bytes(module[header_end - 4 : header_end], "big")]


def _without_names(module: bytes) -> bytes:
    """Empties the section of types, and has symbols that are defined and no functions point to the empty name."""
    found = bytearray(module)
    (table,) = struct.unpack_from("<Q", found, 0x28)
    sections, names = struct.unpack_from("<HH", found, 0x3C)
    headers = [struct.unpack_from("<IIQQQQIIQQ", found, table + _SECTION_BYTES * n) for n in range(sections)]
    for number, (name, kind, _, _, offset, size, link, *_) in enumerate(headers):
        if _text(found, headers[names][4] + name) == _TYPES:
            struct.pack_into("<Q", found, table + _SECTION_BYTES * number + _SIZE_AT, 0)
        elif kind == _SYMBOL_TABLE:
            _forget_names(found, range(offset, offset + size, _SYMBOL_BYTES), headers[link][4])
    return bytes(found)


def _forget_names(module: bytearray, symbols: range, names: int) -> None:
    """symbols: where each begins. names: where the names do, the first of them empty."""
    for at in symbols:
        name, info, _, section = struct.unpack_from("<IBBH", module, at)
        function = info & 15 == _FUNCTION and not module.startswith(_PADDING, names + name)
        if section and not function:
            struct.pack_into("<I", module, at, 0)


def _text(module: bytearray, at: int) -> bytes:
    return bytes(module[at : module.index(0, at)])
