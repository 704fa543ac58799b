"""Kernel modules without what an emulated CPU would read, sort or search for nothing while they are loaded.

A module of the kernel is a relocatable file of ELF (elf(5)). Its code and data stay as they are; a start that loads
ext4 executes a fifth fewer instructions.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

_SIGNED = b"~Module signature appended~\n"
_ELF64 = b"\x7fELF\x02"
_SECTION = struct.Struct("<IIQQQQIIQQ")
_RELOCATION = struct.Struct("<QQq")
_SYMBOL = struct.Struct("<IBBHQQ")
_NOBITS, _ALLOC = 8, 2
_CALL, _NOP = bytes.fromhex("e800000000"), bytes.fromhex("0f1f440000")
_TRACED = "__mcount_loc"
_DROPPED = frozenset((".BTF", ".orc_unwind", ".orc_unwind_ip"))


@dataclass(frozen=True)
class _Section:
    """A section: its name, the fields of its header, and its content."""

    name: str
    header: tuple[int, ...]
    body: bytes


def trimmed(module: bytes) -> bytes:
    """Return a module that loads faster.

    It has no signature at its end (Linux, module_signature.h): checking it is a third of an emulated boot. The kernel
    loads unsigned modules unless it was built or configured to enforce signatures; then it logs this and is tainted
    (E), which changes nothing else. It has no types for BPF programs, and no table by which its functions are found
    in stack traces, which is sorted at every load. What calls the tracer at the head of each function is the NOP that
    the kernel would write there, and the table of those places is gone, whose entries it looks up one by one: a guest
    traces functions of the kernel itself alone.
    """
    if module.endswith(_SIGNED):
        header_end = len(module) - len(_SIGNED)
        module = module[
            : header_end - 12 - int.from_bytes(module[header_end - 4 : header_end], "big")
        ]
    if not module.startswith(_ELF64):
        return module
    sections = _untraced(_sections(module))
    dropped_names = _DROPPED | {f".rela{name}" for name in _DROPPED}
    for number, section in enumerate(sections):
        if section.name in dropped_names:
            sections[number] = _emptied(section)
    return _file(module[:64], sections)


def _sections(module: bytes) -> list[_Section]:
    (table,) = struct.unpack_from("<Q", module, 40)
    _, count, names = struct.unpack_from("<HHH", module, 58)
    unnamed = []
    for number in range(count):
        header = _SECTION.unpack_from(module, table + number * _SECTION.size)
        _, kind, _, _, at, size, *_ = header
        unnamed.append(_Section("", header, b"" if kind == _NOBITS else module[at : at + size]))
    strings = unnamed[names].body
    return [replace(section, name=_text(strings, section.header[0])) for section in unnamed]


def _text(strings: bytes, at: int) -> str:
    return strings[at : strings.index(b"\0", at)].decode()


def _untraced(sections: list[_Section]) -> list[_Section]:
    """Do what the kernel does to the calls of its tracer (x86, ftrace_init_nop), if all of them are as expected."""
    at = {section.name: number for number, section in enumerate(sections)}
    if f".rela{_TRACED}" not in at:
        return sections
    table = sections[at[f".rela{_TRACED}"]]
    symbols = sections[table.header[6]]
    names = sections[symbols.header[6]].body
    calls_in: dict[int, set[int]] = {}
    for _, info, addend in _RELOCATION.iter_unpack(table.body):
        _, _, _, section, value, _ = _SYMBOL.unpack_from(symbols.body, (info >> 32) * _SYMBOL.size)
        calls_in.setdefault(section, set()).add(value + addend)
    result = list(sections)
    for number, calls in calls_in.items():
        relocations = at[f".rela{sections[number].name}"]
        code, others = bytearray(sections[number].body), bytearray()
        for offset, info, addend in _RELOCATION.iter_unpack(sections[relocations].body):
            name, *_ = _SYMBOL.unpack_from(symbols.body, (info >> 32) * _SYMBOL.size)
            call = offset - 1
            is_call = call in calls and code[call : call + 5] == _CALL
            if is_call and _text(names, name) == "__fentry__":
                code[call : call + 5] = _NOP
                calls.discard(call)
            else:
                others += _RELOCATION.pack(offset, info, addend)
        if calls:
            return sections
        result[number] = replace(sections[number], body=bytes(code))
        result[relocations] = replace(sections[relocations], body=bytes(others))
    for name in (_TRACED, f".rela{_TRACED}"):
        result[at[name]] = _emptied(result[at[name]])
    return result


def _emptied(section: _Section) -> _Section:
    """Return a section that the kernel does not find: without name, content and memory. Numbers of others stay."""
    _, kind, flags, *rest = section.header
    return _Section("", (0, kind, flags & ~_ALLOC, *rest), b"")


def _file(start: bytes, sections: list[_Section]) -> bytes:
    """Return the file of these sections, their headers last. start: the file's own header."""
    content, headers = bytearray(start), []
    for section in sections:
        name, kind, flags, address, _, size, link, info, align, entry = section.header
        content += bytes(-len(content) % max(align, 1))
        if kind != _NOBITS:
            size = len(section.body)
        headers.append(
            _SECTION.pack(name, kind, flags, address, len(content), size, link, info, align, entry)
        )
        content += section.body
    content += bytes(-len(content) % 8)
    struct.pack_into("<Q", content, 40, len(content))
    return bytes(content) + b"".join(headers)
