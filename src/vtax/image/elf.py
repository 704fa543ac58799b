"""The header of an ELF file (elf(5)), of files from anybody: one that is cut off or contradicts itself is none."""

from __future__ import annotations

HEADER_BYTES = 20
"""Bytes that `machine_of` needs: e_ident, e_type and e_machine, at the same places in files of 32 and of 64 bits."""
_MAGIC = b"\x7fELF"
_MACHINE = slice(18, 20)
_BYTE_ORDERS = {1: "little", 2: "big"}  # e_ident[EI_DATA]


def machine_of(header: bytes) -> int | None:
    """Return e_machine of a file that begins so; None where that is no header of ELF, or not a whole one."""
    if len(header) < HEADER_BYTES or not header.startswith(_MAGIC):
        return None
    number = header[_MACHINE]
    match _BYTE_ORDERS.get(header[5]):
        case "little":
            return int.from_bytes(number, "little")
        case "big":
            return int.from_bytes(number, "big")
    return None
