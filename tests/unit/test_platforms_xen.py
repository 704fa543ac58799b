"""The Xen driver without Xen: what xl prints, what a domain's configuration says, and why a host is refused."""

from __future__ import annotations

import gzip
import re
from dataclasses import replace
from pathlib import Path

import pytest

from vtax.counters import domains
from vtax.errors import BadInput, CommandFailed, PlatformError
from vtax.host.journal import Journal
from vtax.image.image import Image
from vtax.messages import Note
from vtax.network.plugboard import Interface
from vtax.platforms import registry, virtual_machine
from vtax.platforms.base import GuestSpec, Resources
from vtax.platforms.xen import config, driver, tools
from vtax.platforms.xen.config import VARIANTS, XenOptions
from vtax.platforms.xen.driver import PARTS, backend_pids, cpu_s, destroy, domain_cpu_s
from vtax.runner import memory
from vtax.runner.check import check_host

# As xl of Xen 4.17.5 (Debian 12) prints them.
LIST = """Name                                        ID   Mem VCPUs	State	Time(s)
Domain-0                                     0  1280     1     r-----     188.3
vtax-810477                                  1   256     1     --p---       6.3
"""
VCPUS = """Name                                ID  VCPU   CPU State   Time(s) Affinity (Hard / Soft)
Domain-0                             0     0    0   r--      40.5  all / all
"""
INFO = """host                   : nested
release                : 6.1.0-50-amd64
nr_cpus                : 1
hw_caps                : 078bf3fd:82982201:20100800:00000005:00000000:00000000:00000000:00000000
free_memory            : 2772
xen_major              : 4
xen_minor              : 17
xen_extra              : .5
xen_version            : 4.17.5
cc_compile_date        : Sat Nov 29 13:52:25 UTC 2025
"""
POOLS = """Name               CPU list
Pool-0             0
guests             1,3-4
empty
"""
IN_POOL = """Name                                        ID   Mem VCPUs	State	Time(s)         Cpupool
vtax-1                                       3   256     1     --p---       0.3          guests
"""
CREATE = """Parsing config from /var/lib/vtax/guests/vtax-dddd19/domain.cfg
got a tsc mode string: "native"
libxl: error: libxl_console.c:271:libxl__device_console_add: Domain 2:Primary console has invalid configuration
"""
NO_MEMORY = (
    CREATE + "libxl: error: libxl_mem.c:1:libxl__x: Domain 2:failed to free memory for the domain\n"
)
BOOT = virtual_machine.Boot(Path("/image/vmlinux"), Path("/image/initrd.cpio"))
TWO_CPUS = Resources(2, 512 << 20, (2, 3))
NICS = (Interface("eth0", "02:76:74:00:02:00", ("198.18.0.2/24",)),)


def written(interfaces=NICS, resources=TWO_CPUS, **options):
    place = Path("/guests/vtax-1")
    made = config.XenIo("vtax-1", place / "disk.qcow2", place, place / "vif", "default", interfaces)
    lines = config.domain(XenOptions(**options), resources, BOOT, made).splitlines()
    return dict(line.split(" = ", 1) for line in lines)


def test_the_list_of_domains_is_read_with_their_time():
    dom0, paused = tools.parse_list(LIST)
    assert dom0 == tools.Domain("Domain-0", 0, 1280, 1, "r-----", 188.3)
    assert (paused.name, paused.domid, paused.state, paused.cpu_s) == (
        "vtax-810477",
        1,
        "--p---",
        6.3,
    )
    assert (tools.state(dom0), tools.state(paused)) == ("running", "paused")


def test_a_domain_of_the_users_may_have_spaces_in_its_name():
    named = "old  web server                              7   512     2     ------      12.0"
    found = tools.parse_list(f"{LIST}{named}\n")
    assert [domain.name for domain in found] == ["Domain-0", "vtax-810477", "old  web server"]
    assert (found[2].domid, found[2].vcpus, tools.state(found[2])) == (7, 2, "runnable")


@pytest.mark.parametrize("damaged", ["Name\nvtax-1 1 256", "Name\nvtax-1 1 256 1 r----- many"])
def test_another_table_is_an_error_that_shows_the_line(damaged):
    with pytest.raises(
        CommandFailed, match=r"xl list printed a line of another kind: 'vtax-1 1 256"
    ):
        tools.parse_list(damaged)


def test_the_affinity_of_virtual_cpus_is_a_list_of_cpus_and_all_is_every_one():
    assert tools.parse_vcpu_list(VCPUS, 2) == [tools.Vcpu(0, 40.5, (0, 1))]
    pinned = VCPUS.replace("all / all", "0-2,5 / all")
    assert tools.parse_vcpu_list(pinned, 8)[0].cpus == (0, 1, 2, 5)
    with pytest.raises(CommandFailed, match="another kind"):
        tools.parse_vcpu_list(VCPUS.replace("all / all", "none / all"), 8)


def test_the_hypervisor_is_known_to_be_virtual_by_its_cpus_flag():
    values = tools.parse_info(INFO)
    assert tools.version(values) == "Xen 4.17.5"
    assert tools.marks(values) == ("nested",)
    assert tools.marks({**values, "hw_caps": "bfebfbff:77faf3ff:2c100800:00000121"}) == ()
    assert tools.marks({}) == ()


def as_xen(root: Path, kind: str | None, features: str | None) -> None:
    """What the kernel says of the hypervisor below it."""
    for name, text in (("type", kind), ("properties/features", features)):
        if text is not None:
            (root / "sys/hypervisor" / name).parent.mkdir(parents=True, exist_ok=True)
            (root / "sys/hypervisor" / name).write_text(f"{text}\n")


@pytest.mark.parametrize(
    ("kind", "features", "reason"),
    [
        (None, None, "this host is no dom0: it does not run under Xen"),
        ("kvm", None, "this host is no dom0: it does not run under Xen"),
        ("xen", "00000705", "this host is a guest of Xen, and only dom0 starts domains"),
        ("xen", "00000f05", "Xen's services do not run"),
    ],
)
def test_a_host_that_is_no_dom0_is_refused_with_a_hint(tmp_path, kind, features, reason):
    as_xen(tmp_path, kind, features)
    with pytest.raises(PlatformError, match=reason) as refused:
        tools.check_host(tmp_path)
    assert refused.value.hint


def test_a_dom0_without_xl_names_the_package_to_install(tmp_path, installed):
    as_xen(tmp_path, "xen", "00000f05")
    (tmp_path / "proc/xen").mkdir(parents=True)
    (tmp_path / "proc/xen/capabilities").touch()
    installed(but="xl")
    with pytest.raises(PlatformError) as refused:
        tools.check_host(tmp_path)
    assert refused.value.what == Note("not-installed", names=("xl",), count=1)
    assert refused.value.hint == "apt install xen-utils-common"
    installed()
    with pytest.raises(PlatformError) as refused:
        tools.check_host(tmp_path)
    assert refused.value.what == Note(
        "not-installed", names=("xl", "xenstore-write", "qemu-img"), count=3
    )
    assert refused.value.hint == "apt install xen-utils-common xenstore-utils qemu-utils"


@pytest.fixture
def dom0(monkeypatch):
    """This host is a dom0 with its tools."""
    monkeypatch.setattr(tools, "check_host", lambda: None)


@pytest.fixture
def xl(on_path):
    """Makes an xl that prints the given texts for its commands, and fails for others as xl does."""

    def printing(**outputs: str) -> None:
        cases = "\n".join(f"{name}) cat <<'END'\n{text}\nEND\n;;" for name, text in outputs.items())
        on_path(
            "xl",
            f'case $1 in\n{cases}\n*) echo "$2 is an invalid domain identifier (rc=-6)" >&2; exit 1;;\nesac',
        )

    return printing


def test_the_error_of_xl_is_shown_whatever_bytes_are_in_it(tmp_path, on_path):
    on_path("xl", r"printf 'libxl: error: x.c:1:f: no disk \377\n' >&2; exit 1")
    programs = virtual_machine.Programs("unit", (), tmp_path / "stderr.log")
    with pytest.raises(PlatformError) as failed:
        driver._create(
            spec(tmp_path, Journal(tmp_path / "journal")), tmp_path / "domain.cfg", programs
        )
    assert failed.value.what == Note("failed-with-status", what="xl create", status=1)
    assert failed.value.where == "no disk \ufffd"


def test_an_old_xen_and_a_silent_one_are_refused(xl):
    xl(info=INFO.replace("xen_minor              : 17", "xen_minor : 8"))
    with pytest.raises(PlatformError) as refused:
        tools.info()
    assert refused.value.what == Note("xen-too-old", version="4.8")
    xl()
    with pytest.raises(PlatformError) as refused:
        tools.info()
    assert refused.value.what == Note("xl-silent")
    assert refused.value.hint == "systemctl start xen"


def spec(
    tmp_path: Path, journal: Journal, name: str = "vtax-1", memory: int = 512 << 20
) -> GuestSpec:
    return GuestSpec(name, Image("key", tmp_path), Resources(1, memory, (0,)), tmp_path, journal)


def test_a_domain_of_the_users_with_the_same_name_is_left_alone(tmp_path, xl, dom0):
    xl(info=INFO.strip(), list=LIST.strip())
    journal = Journal(tmp_path / "journal")
    with pytest.raises(PlatformError) as refused:
        driver.Xen().start(XenOptions(), spec(tmp_path, journal, "vtax-810477"))
    assert refused.value.what == Note("domain-exists", name="vtax-810477")
    assert journal.close() == []


def test_a_guest_that_the_hypervisor_has_no_memory_for_is_refused(tmp_path, xl, dom0):
    xl(info=INFO.strip(), list=LIST.strip())
    with Journal(tmp_path / "journal") as journal, pytest.raises(PlatformError) as refused:
        driver.Xen().start(XenOptions(), spec(tmp_path, journal, memory=4 << 30))
    assert refused.value.what == Note(
        "hypervisor-memory", free_mib=2772, name="vtax-1", needed_mib=4120
    )
    assert "dom0_mem" in refused.value.hint


def test_the_memory_of_guests_is_what_the_hypervisor_has_free_and_on_other_hosts_the_hosts(
    monkeypatch, xl, host_memory
):
    xl(info=INFO.strip())
    host_memory(1 << 30)
    platforms = [registry.get(name) for name in ("xen-dom0", "xen-pv", "xen-hvm")]

    def refused():
        raise PlatformError("no dom0")

    monkeypatch.setattr(tools, "check_host", refused)
    assert memory.memory_pools(platforms) == [memory.Memory(1 << 30)]
    monkeypatch.setattr(tools, "check_host", lambda: None)
    dom0, hypervisor = memory.memory_pools(platforms)
    assert (str(dom0), str(hypervisor)) == (
        "this host has 1 GiB",
        "the hypervisor has 2.71 GiB free",
    )
    assert hypervisor.fits(1, 2748 << 20)
    assert not hypervisor.fits(1, 2749 << 20)  # 24 MiB beside each
    assert hypervisor.fits(2, 1362 << 20)
    assert not hypervisor.fits(2, 1363 << 20)
    check_host(1, 2 << 30, "--memory", platforms[1:])
    with pytest.raises(BadInput, match=r"2 GiB of memory .*this host has 1 GiB"):
        check_host(1, 2 << 30, "--memory", platforms)
    with pytest.raises(BadInput, match=r"3 GiB of memory .*the hypervisor has 2\.71 GiB"):
        check_host(1, 3 << 30, "--memory", platforms[1:])


def test_a_guest_in_a_cpu_pool_has_that_pools_cpus(tmp_path, xl):
    xl(**{"cpupool-list": POOLS.rstrip("\n"), "list": IN_POOL.strip()})
    wanted = spec(tmp_path, Journal(tmp_path / "journal"))
    assert driver._in_pool("", wanted) is wanted
    assert driver._in_pool("guests", wanted).resources.cpus == (1,)
    unpinned = replace(wanted, resources=replace(wanted.resources, pinned=False))
    assert driver._in_pool("guests", unpinned).resources.cpus == (1, 3, 4)
    assert tools.pool_of("vtax-1") == "guests"
    assert written(cpupool="guests")["pool"] == "'guests'"
    assert "pool" not in written()


@pytest.mark.parametrize(
    ("pool", "reason"),
    [("empty", "CPU pool empty has 0 CPUs, and vtax-1 needs 1"), ("mine", "no CPU pool mine")],
)
def test_a_cpu_pool_without_cpus_or_an_unknown_one_is_refused(tmp_path, pool, reason, xl):
    xl(**{"cpupool-list": POOLS.rstrip("\n")})
    with pytest.raises(PlatformError, match=reason) as refused:
        driver._in_pool(pool, spec(tmp_path, Journal(tmp_path / "journal")))
    assert "xl cpupool" in refused.value.hint


def test_a_dom0_without_the_library_that_counts_its_domains_says_which(tmp_path):
    assert domains.reason_unavailable(tmp_path / "none") == ""
    as_xen(tmp_path, "xen", "00000f05")
    (tmp_path / "sys/hypervisor/version").mkdir()
    for part, number in (("major", "9"), ("minor", "99")):
        (tmp_path / "sys/hypervisor/version" / part).write_text(f"{number}\n")
    domains._open.cache_clear()
    assert "libxenstat of Xen 9.99 is missing" in domains.reason_unavailable(tmp_path)


def test_without_that_library_a_domains_cpu_time_is_the_one_that_xl_prints(monkeypatch, xl):
    xl(list=LIST.strip())
    monkeypatch.setattr(domains, "cpu_s", dict)
    assert domain_cpu_s("vtax-810477") == 6.3
    assert domain_cpu_s("vtax-000000") is None
    monkeypatch.setattr(
        domains, "cpu_s", lambda: {"Domain-0": 2.5, "vtax-810477": 6.31, "theirs": 1.0}
    )
    assert domain_cpu_s("vtax-810477") == 6.31
    assert domains.read() == pytest.approx({"dom0_cpu_s": 2.5, "other_domains_cpu_s": 7.31})


def test_what_xl_complains_of_is_shown_without_its_source_and_without_what_is_harmless():
    assert tools.errors(CREATE) == ""
    assert tools.errors(NO_MEMORY) == "Domain 2:failed to free memory for the domain"


def test_a_domain_has_its_cpus_memory_and_two_channels_of_which_one_is_used():
    values = written()
    assert (values["vcpus"], values["memory"], values["maxmem"]) == ("2", "512", "512")
    assert values["cpus"] == "['2', '3']"
    assert values["channel"].count("connection=socket") == 2
    assert "path=/guests/vtax-1/vtax-1,name=vtax-1" in values["channel"]
    unpinned = written(resources=Resources(2, 512 << 20, (0, 1, 2), pinned=False))
    assert unpinned["cpus"] == "['0,1,2', '0,1,2']"


@pytest.mark.parametrize(
    ("platform", "kind", "vif", "device", "root"),
    [
        ("xen-pv", "'pv'", "type=vif", "vdev=xvda", "/dev/xvda"),
        ("xen-pvh", "'pvh'", "type=vif", "vdev=xvda", "/dev/xvda"),
        ("xen-hvm-pv", "'hvm'", "type=vif", "vdev=xvda", "/dev/xvda"),
        ("xen-hvm", "'hvm'", "type=ioemu, model=e1000", "vdev=hda", "/dev/sda"),
    ],
)
def test_each_platform_has_its_type_disk_and_interface(platform, kind, vif, device, root):
    values = written(**VARIANTS[platform])
    assert values["type"] == kind
    assert vif in values["vif"]
    assert "mac=02:76:74:00:02:00" in values["vif"]
    assert device in values["disk"]
    assert f"vtax.root={root}" in values["cmdline"]
    assert ("xen_emul_unplug=never" in values["cmdline"]) == (platform == "xen-hvm")


def test_only_a_domain_of_type_hvm_has_emulated_devices():
    with pytest.raises(BadInput, match="no emulated devices"):
        registry.make("mine", "xen", {"type": "pv", "devices": "emulated"})


def test_a_domain_of_type_hvm_boots_the_images_kernel(golden):
    with pytest.raises(BadInput) as caught:
        registry.make("mine", "xen", {"type": "hvm", "kernel": "host"})
    golden(str(caught.value))


def test_text_that_the_configuration_cannot_quote_is_refused():
    with pytest.raises(ValueError, match="cannot have"):
        config.text({"name": "it's"})


def test_a_domain_that_crashed_is_described_by_its_consoles_last_lines(tmp_path, xl):
    console, stderr = tmp_path / "console.log", tmp_path / "stderr.log"
    console.write_text("a\nb\n[    0.9] Kernel panic - not syncing: VFS: Unable to mount root fs\n")
    stderr.write_text(NO_MEMORY)
    xl(list=LIST.strip())
    panic = "console: [    0.9] Kernel panic - not syncing: VFS: Unable to mount root fs"
    error = "xl: Domain 2:failed to free memory for the domain"
    assert driver.describe("vtax-1", stderr, console) == f"{panic}; {error}; the domain has ended"
    console.write_text("a\nb\nc\nd\n")
    stderr.unlink()
    assert (
        driver.describe("vtax-810477", stderr, console)
        == "console: b | c | d; the domain is paused"
    )
    xl()
    assert driver.describe("vtax-1", stderr, console).startswith("console: b | c | d; xl list")


def test_the_device_model_of_a_domain_of_type_hvm_loads_a_packed_kernel_and_initrd(tmp_path):
    image = Image("key", tmp_path)
    for path, content in (
        (image.initrd, b"files" * 1000),
        (image.kernel, b"packed"),
        (image.elf_kernel, b"unpacked"),
    ):
        path.write_bytes(content)
    place = tmp_path / "guest"
    place.mkdir()
    guest = replace(spec(tmp_path, Journal(tmp_path / "journal")), directory=place)
    assert driver._boot(XenOptions(type="pv"), guest) == virtual_machine.Boot(
        image.elf_kernel, image.initrd
    )
    boot = driver._boot(XenOptions(type="hvm"), guest)
    assert boot.kernel == image.kernel
    assert gzip.decompress(boot.initrd.read_bytes()) == image.initrd.read_bytes()
    assert boot.initrd.stat().st_size < 200


def test_the_threads_that_carry_packets_are_found_by_the_name_of_the_port(tmp_path):
    for pid, name in (
        (7, "guest-eth0-q0-guest-rx"),
        (8, "guest-eth0-q0-d"),
        (9, "guest-eth01-q0-gu"),
    ):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "comm").write_text(f"{name}\n")
        (tmp_path / str(pid) / "stat").write_text(
            f"{pid} ({name}) S 2 0 0 0 -1 0 0 0 0 0 100 50 0 0 20\n"
        )
    found = backend_pids(("guest-eth0",), tmp_path)
    assert sorted(found) == [7, 8]
    assert cpu_s(found, tmp_path) == pytest.approx(3.0)
    assert backend_pids((), tmp_path) == []
    assert re.fullmatch(PARTS[0].process, "guest-eth0-q0-guest-rx")


def test_clean_destroys_the_domain_of_a_killed_run_and_accepts_one_that_is_gone(xl):
    xl(destroy="")
    assert destroy("vtax-1").remove()
    xl()
    assert not destroy("vtax-1").remove()
