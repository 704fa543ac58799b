"""Packages that a measuring host needs, beside Python: what quickstart installs, for those who use a wheel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from vtax.doctor.finding import Finding
from vtax.host.packages import packages_hint
from vtax.host.process import find_program
from vtax.messages import Note
from vtax.platforms.qemu.shares import PLACES as VIRTIOFSD_PLACES


@dataclass(frozen=True)
class Need:
    """Packages, named as in Debian, that bring programs, or files (absolute patterns). purpose: code of its note."""

    purpose: str
    signs: tuple[str, ...]
    packages: tuple[str, ...]


NEEDS = (
    Need("doctor-to-build", ("mmdebstrap",), ("mmdebstrap",)),
    Need(
        "doctor-to-build", ("/usr/share/keyrings/debian-archive-keyring.*",), ("debian-archive-keyring",)
    ),
    Need("doctor-to-build", ("mke2fs",), ("e2fsprogs",)),
    Need("doctor-for-lab", ("ip",), ("iproute2",)),
    Need("doctor-for-lab", ("iptables",), ("iptables",)),
    Need("doctor-for-lab", ("ethtool",), ("ethtool",)),
    Need("doctor-for-switches", ("ovs-vswitchd",), ("openvswitch-switch",)),
)  # fmt: skip
"""As in quickstart. What a platform needs is the hint of its probe."""
OPTIONAL: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "confinement": {
        "seccomp": ("/proc/sys/kernel/seccomp",),
        "AppArmor": ("/sys/kernel/security/apparmor",),
        "SELinux": ("/sys/fs/selinux/enforce",),
    },
    "runtimes": {
        "crun": ("crun",),
        "youki": ("youki",),
        "runsc": ("runsc",),
        "kata": ("containerd-shim-kata-v2",),
    },
    "shared directories": {"virtiofsd": (*VIRTIOFSD_PLACES, "virtiofsd")},
    "own images": {"skopeo": ("skopeo",), "umoci": ("umoci",)},
}
"""Finding -> what options of platforms use -> its signs, of which one suffices."""


def judge_packages() -> Finding:
    """Return the finding about the programs and files of NEEDS on this host."""
    why = "without them vtax can build neither images nor laboratory networks"
    missing = [need for need in NEEDS if not all(map(is_present, need.signs))]
    if not missing:
        return Finding("packages", "ok", Note("doctor-packages-there"), why, "", False)
    signs: dict[str, list[str]] = {}
    packages: list[str] = []
    for need in missing:
        signs.setdefault(need.purpose, []).extend(need.signs)
        packages += need.packages
    texts = [Note(purpose, names=names) for purpose, names in signs.items()]
    hint = packages_hint(*packages)
    return Finding(
        "packages", "bad", Note("doctor-packages-missing", texts=texts), why, hint, False
    )


def optional() -> Iterator[Finding]:
    """Yield a finding for each of OPTIONAL: what is there, and what is missing."""
    for name, signs_by_program in OPTIONAL.items():
        present: list[str] = []
        missing: list[str] = []
        for program, signs in signs_by_program.items():
            (present if any(map(is_present, signs)) else missing).append(program)
        note = Note("doctor-present-missing", names=present, others=missing)
        if not missing:
            note = Note("doctor-present", names=present)
        elif not present:
            note = Note("doctor-missing", names=missing)
        why = "options of a platform that need a missing package fail"
        yield Finding(name, "ok" if present else "none", note, why, "", False)


def is_present(sign: str) -> bool:
    """Return whether a program, or a file that an absolute pattern matches, is there."""
    if sign.startswith("/"):
        return any(Path("/").glob(sign[1:]))
    return find_program(sign) is not None
