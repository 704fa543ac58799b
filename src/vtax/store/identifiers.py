"""Identifiers that are recognized by their form: addresses, ids of machines and disks, serial numbers, logins, homes.

The time grows with the length of a text: every pattern starts with something rare, and its repetitions are bounded or
possessive. A version such as 1.2.3.4 (after `v` or `version`), a time and a cell of a claim such as
`xen-pv@link.mtu=1500` are no identifiers. Addresses of the lab, of loopback, netmasks and multicast name nobody.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

MAC, IPV4, IPV6, ID = "MAC address", "IPv4 address", "IPv6 address", "machine id"
SERIAL, DISK, HOST, USER, PASSWORD = (
    "serial number",
    "disk id",
    "host name",
    "user name",
    "password",
)
# addresses that name nobody
_COMMON_V4 = tuple(
    map(ipaddress.IPv4Network, ("0.0.0.0/8", "127.0.0.0/8", "198.18.0.0/15", "224.0.0.0/3"))
)
_COMMON_V6 = tuple(map(ipaddress.IPv6Network, ("::/127", "2001:2::/48", "fe80::/128", "ff00::/8")))
_H, _START, _END = "[0-9A-Fa-f]", r"(?:(?<![0-9A-Za-z])|(?<=\\[nrt]))", "(?![0-9A-Za-z])"
_IS = r"""["'\\]{0,2}[ \t]{0,20}[:=#](?:\\[nrt]|[ \t"'\\]){0,20}"""  # between a name and its value, in JSON too
_HEXADECIMAL = re.compile(
    r"[0-9A-Fa-f][0-9A-Fa-f:._-]{6,}+|:[0-9A-Fa-f:.]{3,}+|[0-9A-Fa-f]{1,6}:[0-9A-Fa-f:.]{2,}+"
)
_IN_HEXADECIMAL = re.compile(
    rf"(?P<id>{_START}(?:{_H}{{8}}(?P<joint>[-_])(?:{_H}{{4}}(?P=joint)){{3}}{_H}{{12}}"
    rf"|{_H}{{32}}|[0-9A-F]{{4}}-[0-9A-F]{{4}}|[0-9a-f]{{8}}-[0-9]{{2}}){_END})"
    rf"|(?P<mac>{_START}(?:{_H}{{2}}(?P<joint_2>[-_]){_H}{{2}}(?:(?P=joint_2){_H}{{2}}){{4,}}"
    rf"|{_H}{{4}}(?P<joint_4>[.-]){_H}{{4}}(?P=joint_4){_H}{{4}}|{_H}{{6}}[:-]{_H}{{6}}){_END})"
    rf"|(?P<nic>(?i:(?<=enx)|(?<=wlx)|(?<=wwx)){_H}{{12}}{_END})"
    rf"|(?P<nibbles>(?<![0-9A-Za-z.])(?:{_H}\.){{15,}}+{_H}{_END})"
    r"|(?P<colons>(?<![0-9A-Fa-f:.])[0-9A-Fa-f.]*+:[0-9A-Fa-f.]*+:[0-9A-Fa-f:.]*+)"
    r"|(?P<dots>(?<![0-9.])\d{1,3}(?:\.\d{1,3}){3}(?!\d|\.\d+\.\d|\.\d{6}))"  # a port may follow a dot
)
_AT = re.compile(r"(?:@|%40|\\u0040)(?P<at>\[|[0-9A-Za-z][\w.-]*+(?!=))")
_BEFORE_AT = re.compile(r"[\w.+-]{1,64}")  # backwards
_LOGIN = re.compile(r"://(?P<user>[^\s/:@\"'<>\\]{1,64}):(?P<password>[^\s/@\"'<>\\]{1,128})@")
_DISKS = (
    "ata-",
    "scsi-",
    "nvme-",
    "usb-",
    "mmc-",
    "wwn-",
    "dm-uuid-",
    "dm-name-",
    "lvm-pv-uuid-",
    "md-uuid-",
    "naa.",
    "eui.",
    "t10.",
    "nvme.",
)
_MACS = re.compile(rf"(?<!{_H}){_H}{{2}}(?::{_H}{{2}}){{5,}}(?!{_H})")
_DOTS = re.compile(r"(?<![0-9.])\d{1,3}(?:\.\d{1,3}){3}(?!\d|\.\d)")
_VERSION = re.compile(r"(?:\bversion|\brelease|\bfirmware|\bv)[\"'\\:= ]{0,4}\Z", re.IGNORECASE)
_UNIT = re.compile(r"\.(?:service|socket|timer|slice|mount|target|device|scope)\Z")
_BEGINS_IPV6 = re.compile(rf"{_H}{{1,4}}:[0-9A-Fa-f:]")
_MAC_DIGITS = 12
_INSIDE = ("uuid", "serial")  # keys that may end a longer word: partuuid
_LONGEST_IPV6 = 45
_NUMBER = re.compile(r"\d*(?:\.\d*){0,2}-?|(?:[0-9a-f]{7,31}|[0-9A-F]{7,31})")
_DEVICE = re.compile(r"(?:tty|hvc|com|chardev|stdio|mon)[\w.:-]*", re.IGNORECASE)


_SERIAL = _IS + r"(?P<value>[0-9a-z][\w.-]{2,63})"
_KEYED_ID = _IS + r"(?P<value>[0-9a-f](?:[0-9a-f]|-(?=[0-9a-f])){3,63})(?![0-9a-z])"
_KEYED_MAC = rf"(?:{_IS}|[ \t]{{1,9}})(?P<value>(?:01)?[0-9a-f]{{12}})(?![0-9a-z])"
_NAME = _IS + r"(?P<value>[a-z_][\w.-]*+)"
_KEYS: tuple[tuple[str, str, str], ...] = (
    *((word, re.escape(word) + r"(?P<value>[0-9a-z][\w.:+-]{5,}+)", DISK) for word in _DISKS),
    (
        "by-",
        r"by-(?:id|uuid|partuuid|label|partlabel|path|diskseq)\\?/(?P<value>[^\s\"'\\,;)]++)",
        DISK,
    ),
    (
        "wwn device id",
        r"wwn device id[: \t]{1,20}(?P<value>[0-9a-f](?:[0-9a-f]| (?=[0-9a-f])){10,24})",
        SERIAL,
    ),
    ("serial", r"serial(?:[ _-]?(?:number|num|no\.?|short|nr))?" + _SERIAL, SERIAL),
    *((word, rf"{word}{_SERIAL}", SERIAL) for word in ("s/n", "sn", "wwn", "wwid")),
    *((word, rf"{word}[ _-]?tag{_SERIAL}", SERIAL) for word in ("asset", "service")),
    ("uuid", rf"uuid(?:_sub|_enc)?{_KEYED_ID}", ID),
    *((word, rf"{word}[ _-]?id{_KEYED_ID}", ID) for word in ("machine", "boot", "host", "volume")),
    ("mac", rf"mac(?:[ _-]?addr(?:ess)?)?{_KEYED_MAC}", MAC),
    *((word, word + _KEYED_MAC, MAC) for word in ("hwaddr", "lladdr", "ether", "bootif")),
    *((word, rf"{word} ?name{_NAME}", HOST) for word in ("host", "node")),
    *((word, word + _NAME, USER) for word in ("user", "logname", "username")),
    ("/home", r"/home\\?/(?P<value>[a-z_][\w.-]{0,63})", USER),
    ("/users", r"/users\\?/(?P<value>[a-z_][\w.-]{0,63})", USER),
    ("linux ", r"linux (?P<value>[^\s\\\"']++) \d+\.\d+\.\d", HOST),
    ("ssh://", r"ssh://(?P<value>[a-z][\w.-]*+)(?![@:])", HOST),
    *(
        (suffix, rf"{re.escape(suffix)}://(?P<value>[a-z][\w.-]*+)(?![@:])", HOST)
        for suffix in ("+tcp", "+tls", "+libssh", "+libssh2")
    ),
)  # what stands before the value in small letters, the pattern in small letters, the kind
_BY_KEY = tuple((key, re.compile(pattern), kind) for key, pattern, kind in _KEYS)


class Identifier(NamedTuple):
    """An identifier in a text.

    start, end: where in the text.
    kind: what it is.
    value: the same for all spellings of an address.
    """

    start: int
    end: int
    kind: str
    value: str


def identifiers(text: str) -> Iterator[Identifier]:
    """Yield the identifiers in a text, in order, none overlapping another."""
    candidates = [*_hexadecimal(text), *_logins(text), *_keyed(text)]
    candidates.sort(key=lambda candidate: (candidate.start, -candidate.end))
    end = 0
    for candidate in candidates:
        if candidate.start >= end:
            yield candidate
            end = candidate.end


def in_small_letters(text: str) -> str:
    """Return a text of the same length in small letters."""
    letters = text.lower()
    if len(letters) == len(text):
        return letters
    chars = []
    for char in text:
        letter = char.lower()
        chars.append(letter if len(letter) == 1 else char)
    return "".join(chars)


def address(text: str) -> tuple[str, str] | None:
    """Return an IP address that names somebody as (kind, its usual spelling); None for anything else."""
    try:
        ip = ipaddress.ip_address(text)
    except ValueError:
        parts = text.split(".")
        if len(parts) != 4 or not all(part.isdecimal() and int(part) < 256 for part in parts):
            return None
        ip = ipaddress.IPv4Address(".".join(str(int(part)) for part in parts))  # 010.009.008.007
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped:
        ip = ip.ipv4_mapped
    well_known = _COMMON_V4 if ip.version == 4 else _COMMON_V6
    if any(ip in network for network in well_known):
        return None
    return f"IPv{ip.version} address", ip.compressed


def _keyed(text: str) -> Iterator[Identifier]:
    """Yield what stands after its name: serial: X, UUID=X, /home/X."""
    small_letters = in_small_letters(text)
    for key, pattern, kind in _BY_KEY:
        if key not in small_letters:
            continue
        may_end_word = not key[0].isalpha() or key in _INSIDE
        for match in pattern.finditer(small_letters):
            start, end = match.span("value")
            value = text[start:end]
            if not may_end_word and small_letters[match.start() - 1 : match.start()].isalpha():
                continue
            if kind == DISK and key != "by-":
                start, value = match.start(), text[match.start() : end]
            if _is_value(kind, key, value, text[match.start() : start]):
                yield Identifier(start, end, kind, value)


def _is_value(kind: str, key: str, value: str, text_before: str) -> bool:
    if kind == SERIAL:
        return not _DEVICE.fullmatch(value) and (value.isupper() or any(map(str.isdigit, value)))
    if key in ("user", "logname"):  # the environment's USER=
        return text_before.isupper() or "=" not in text_before
    return key == "by-" or kind != DISK or any(map(str.isdigit, value))


def _logins(text: str) -> Iterator[Identifier]:
    if "@" not in text and "%40" not in text and "u0040" not in text:
        return
    for match in _LOGIN.finditer(text):
        yield Identifier(*match.span("user"), USER, match["user"])
        yield Identifier(*match.span("password"), PASSWORD, match["password"])
    for match in _AT.finditer(text):
        at, start = match["at"].rstrip(".-_"), match.start("at")
        is_ipv6 = bool(_BEGINS_IPV6.match(text, start))
        is_name = at[0].isalpha() and not is_ipv6
        user = _BEFORE_AT.match(text[max(match.start() - 64, 0) : match.start()][::-1])
        if user and ((is_name and not _UNIT.search(at)) or is_ipv6 or at == "[" or address(at)):
            yield Identifier(match.start() - user.end(), match.start(), USER, user[0][::-1])
            if is_name:
                yield Identifier(start, start + len(at), HOST, at)


def _hexadecimal(text: str) -> Iterator[Identifier]:
    """Yield addresses and ids: in runs of hexadecimal digits and what joins them."""
    for run in _HEXADECIMAL.finditer(text):
        if len(run[0]) == _MAC_DIGITS or not _NUMBER.fullmatch(run[0]):
            for match in _IN_HEXADECIMAL.finditer(text, run.start(), run.end() + 1):
                yield from _BY_GROUP[match.lastgroup or ""](match)


def _group(match: re.Match[str], name: str, kind: str) -> Iterator[Identifier]:
    if match[name]:
        yield Identifier(*match.span(name), kind, match[name])


def _id(match: re.Match[str]) -> Iterator[Identifier]:
    text = match["id"]
    if any(map(str.isdigit, text)) and any(map(str.isalpha, text)):  # 1024-2048 is a range
        yield Identifier(*match.span("id"), ID, text)


def _mac(match: re.Match[str]) -> Iterator[Identifier]:
    text = match["mac"]
    if (
        match["joint_2"]
        or "." in text
        or (any(map(str.isdigit, text)) and any(map(str.isalpha, text)))
    ):
        yield Identifier(*match.span("mac"), MAC, text)


def _dots(match: re.Match[str]) -> Iterator[Identifier]:
    return _ipv4(match, 0)


def _ipv4(match: re.Match[str], offset: int) -> Iterator[Identifier]:
    text, start, end = match.string, match.start(), match.end()
    ip = address(match[0])
    if ip is None:
        return
    text_before, text_after = text[max(start - 14, 0) : start], text[end : end + 1]
    if not (text_before[-1:].isalpha() or text_after.isalpha() or _VERSION.search(text_before)):
        yield Identifier(start + offset, end + offset, *ip)


def _colons(match: re.Match[str]) -> Iterator[Identifier]:
    """Yield addresses in a run of hexadecimal digits, colons and dots; its ends may belong to words beside it."""
    run, start = match["colons"], match.start()
    text_before, text_after = (
        match.string[start - 1 : start],
        match.string[match.end() : match.end() + 1],
    )
    if text_before.isalnum():  # of addr:fe80::1 the word's end; std::dec is no address
        cut = run.index(":")
        if run.startswith("::", cut):
            return
        run, start = run[cut + 1 :], start + cut + 1
    if text_after.isalnum():
        run = run[: max(run.rfind(":"), run.rfind(".")) + 1]
    run = run.rstrip(".")
    if run.endswith(":") and not run.endswith("::"):
        run = run[:-1]
    if run[:1] in (":", ".") and not run.startswith("::"):
        run, start = run[1:], start + 1
    yield from _in_run(run, start)


def _in_run(run: str, start: int) -> Iterator[Identifier]:
    if _names_ipv6(run):
        yield from _ipv6(run, start)
        return
    macs = [*_MACS.finditer(run)]
    for mac in macs:
        yield Identifier(start + mac.start(), start + mac.end(), MAC, mac[0])
    if macs:
        return
    if "::" in run or run.count(":") > 6:  # with a port or a word beside it, or broken
        first_digit, last_colon = run.find(":") + 1, run.rfind(":")
        for low, high in ((0, last_colon), (first_digit, len(run)), (first_digit, last_colon)):
            if _names_ipv6(run[low:high]):
                yield from _ipv6(run[low:high], start + low)
                return
        if run.count(":") > 3 and any(map(str.isdigit, run)):
            yield Identifier(start, start + len(run), IPV6, run.lower())
            return
    for dotted in _DOTS.finditer(run):
        yield from _ipv4(dotted, start)


def _ipv6(text: str, start: int) -> Iterator[Identifier]:
    """Yield an IPv6 address that begins there, unless it names nobody."""
    ip = address(text)
    if ip is not None:
        yield Identifier(start, start + len(text), *ip)


def _names_ipv6(text: str) -> bool:
    """Return whether this is an IPv6 address, and no pair of C++ names such as `a::b`."""
    if len(text) > _LONGEST_IPV6 or not any(map(str.isdigit, text)):
        return False
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


_BY_GROUP: dict[str, Callable[[re.Match[str]], Iterator[Identifier]]] = {
    "id": _id,
    "mac": _mac,
    "dots": _dots,
    "colons": _colons,
    "nic": lambda match: _group(match, "nic", MAC),
    "nibbles": lambda match: _group(match, "nibbles", IPV6),
}
