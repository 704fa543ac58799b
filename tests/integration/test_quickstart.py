"""quickstart refuses what it cannot do: one clear message, exit status 2, and the machine as it was.

Each test runs the real script on a copy of the checkout's files, in namespaces of its own where one thing is missing:
a program is hidden by a mount, the network by an empty network namespace, disk space by a small file system.
"""

import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import needs_program, needs_root

CHECKOUT = Path(__file__).resolve().parents[2]
FILES = (
    "quickstart",
    "pyproject.toml",
    "requirements.lock",
    "requirements-dev.lock",
    "src/vtax/host/packages.txt",
)

pytestmark = needs_root


@dataclass
class Copy:
    """A checkout to run quickstart in."""

    path: Path

    def run(
        self, *arguments: str, setup: str = "", inside: str = "", network: bool = True
    ) -> subprocess.CompletedProcess:
        """What quickstart did. setup: shell lines before it in its mount namespace; inside: a command around it."""
        script = f"{setup}\nexec {inside} ./quickstart {shlex.join(arguments)}"
        return self.shell(script, *([] if network else ["--net"]))

    def shell(self, script: str, *namespaces: str) -> subprocess.CompletedProcess:
        """What a script did in a mount namespace of its own, and in further ones."""
        return subprocess.run(
            ["unshare", "--mount", "--propagation", "private", *namespaces, "sh", "-euc", script],
            cwd=self.path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def refused(self, *arguments: str, **how) -> str:
        """The message of a refusal, after checking its form and that it left nothing but its log."""
        result = self.run(*arguments, **how)
        assert result.returncode == 2, result
        message = result.stderr[result.stderr.index("quickstart: ") :]
        assert [line.split(": ")[0] for line in message.splitlines()] == ["quickstart", "  hint"]
        assert {entry.name for entry in self.path.iterdir()} <= {
            *FILES,
            "src",
            "quickstart.log",
            "elsewhere",
        }
        return message


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / name, tmp_path / name)
    return Copy(tmp_path)


TOUR = """#!/bin/sh
echo 'plan: 2 cells' >&2
echo '[block 1/1, 1/2] native dd: 1 GB/s (about 9 s left)' >&2
echo '[block 1/1, 2/2] lxc dd: FAILED: no space (about 0 s left)' >&2
echo answer
exit 3
"""


def test_without_a_terminal_the_lines_of_trials_go_to_the_log(copy):
    (copy.path / ".venv/bin").mkdir(parents=True)
    (copy.path / ".venv/bin/vtax").write_text(TOUR)
    (copy.path / ".venv/bin/vtax").chmod(0o755)
    (copy.path / "quickstart.log").write_text("installed\n")
    script = "set -- --yes\n. <(sed '$d' quickstart)\nrun_tour || echo status $?"
    done = copy.shell(f"exec bash -c {shlex.quote(script)}")
    assert done.stdout.splitlines()[1:] == ["answer", "status 3"]
    plan, failure = done.stderr.splitlines()
    assert plan == "plan: 2 cells"
    assert "FAILED: no space" in failure
    log = (copy.path / "quickstart.log").read_text().splitlines()
    assert log == ["installed", "[block 1/1, 1/2] native dd: 1 GB/s (about 9 s left)"]


PATIENT = """#!/bin/sh
echo 'plan: 2 cells' >&2
for _ in $(seq 100); do
  [ ! -s seen ] || break
  sleep 0.1
done
cat seen
"""


def test_without_a_terminal_a_line_comes_when_it_is_printed(copy):
    (copy.path / ".venv/bin").mkdir(parents=True)
    (copy.path / ".venv/bin/vtax").write_text(PATIENT)
    (copy.path / ".venv/bin/vtax").chmod(0o755)
    script = "set -- --yes\n. <(sed '$d' quickstart)\nrun_tour 2>seen"
    done = copy.shell(f"exec bash -c {shlex.quote(script)}")
    assert done.stdout.splitlines()[1:] == ["plan: 2 cells"]


def hidden(program: str) -> str:
    """Shell lines that take a program away in this mount namespace: a whiteout in an overlay over its directory."""
    found = Path(shutil.which(program, path="/usr/sbin:/usr/bin")).resolve()
    directory = found.parent
    return (
        "mount -t tmpfs tmpfs /mnt; mkdir /mnt/upper /mnt/work; "
        f"mount -t overlay -o lowerdir={directory},upperdir=/mnt/upper,workdir=/mnt/work overlay {directory}; "
        f"rm {found}"
    )


def test_help_needs_no_root_and_installs_nothing(copy):
    result = copy.run("--help", inside="unshare --user")
    assert result.returncode == 0
    assert "--install-only" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--frobnicate"], "there is no option --frobnicate"),
        (["--without"], "--without needs a list of packages"),
    ],
)
def test_options_it_does_not_know_are_refused(copy, arguments, expected):
    assert expected in copy.refused(*arguments)


def test_an_ordinary_user_is_reported_to_use_sudo(copy):
    assert "sudo ./quickstart" in copy.refused("--yes", inside="unshare --user")


def test_another_architecture_is_refused(copy):
    assert "this is Linux i686" in copy.refused("--yes", inside="setarch i686")


def test_a_system_without_a_package_manager_or_of_an_unknown_family_is_refused(copy):
    assert "there is no apt-get" in copy.refused("--yes", setup=hidden("apt-get"))
    assert "this distribution" in copy.refused("--yes", setup=distribution(copy, "ID=arch"))


FAKE_MANAGER = """#!/bin/sh
echo "$0 $*" >>/mnt/said
"""


@pytest.mark.parametrize(
    ("os_release", "program", "asked"),
    [
        ('ID=rocky\nID_LIKE="rhel centos fedora"', "dnf", "iproute moby-engine docker-cli ethtool"),
        ('ID=opensuse-leap\nID_LIKE="suse opensuse"', "zypper", "iproute2 docker ethtool"),
    ],
)
def test_packages_of_another_family_come_by_their_names_and_its_manager(
    copy, os_release, program, asked
):
    finished_environment(copy.path, made_in=copy.path)
    manager = copy.path.parent / program
    manager.write_text(FAKE_MANAGER)
    manager.chmod(0o755)
    setup = f"""{distribution(copy, os_release)}
        {hidden("ethtool")}
        mkdir /mnt/bin; cp {manager} /mnt/bin; export PATH=/mnt/bin:$PATH"""
    script, needed = (
        copy.path / "quickstart",
        "echo 'for a test|no-such-program|iproute2 docker.io ethtool'; return",
    )
    script.write_text(script.read_text().replace("\nneeds() {\n", f"\nneeds() {{\n{needed}\n"))
    result = copy.run(
        "--yes", "--install-only", setup=setup, inside="sh -c '\"$@\" && cat /mnt/said' sh"
    )
    assert result.returncode == 0, result
    calls = [
        line.split("/")[-1] for line in result.stdout.splitlines() if line.startswith("/mnt/bin/")
    ]
    assert [call.split()[0] for call in calls] == [program] * 4
    assert all(call.endswith(f" {asked}") for call in calls[1:])
    assert sum("dry-run" in call or "tsflags=test" in call for call in calls) == 1


def distribution(copy: Copy, os_release: str) -> str:
    """Shell lines that make this mount namespace's host one of another distribution."""
    text = copy.path.parent / "os-release"
    text.write_text(os_release + "\n")
    return f"mount --bind {text} /etc/os-release"


def test_an_old_python_is_refused(copy):
    old = copy.path.parent / "old-python"
    old.write_text("#!/bin/sh\necho 3.9\n")
    old.chmod(0o755)
    message = copy.refused("--yes", setup=f"mount --bind {old} /usr/bin/python3")
    assert "needs Python 3.11 or newer; /usr/bin/python3 is 3.9" in message


def test_a_full_disk_is_noticed_before_anything_is_made(copy):
    elsewhere = copy.path / "elsewhere"
    elsewhere.mkdir()
    message = copy.refused(
        "--yes",
        setup=f"mount -t tmpfs -o size=50m tmpfs {elsewhere}; export VTAX_HOME={elsewhere}/vtax",
    )
    assert f"2100 MiB are needed on the disk of {elsewhere}, 50 MiB are free" in message


def test_without_a_terminal_it_shows_the_plan_and_asks_for_yes(copy):
    assert "add --yes" in copy.refused()
    assert "A private Python environment will be made" in copy.run().stdout


def test_a_link_that_is_something_else_is_not_overwritten(copy):
    setup = "mount -t tmpfs tmpfs /usr/local/bin; touch /usr/local/bin/vtax"
    assert "/usr/local/bin/vtax exists and is something else" in copy.refused(
        "--yes", "--link", setup=setup
    )


@pytest.fixture
def empty_apt(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Shell lines that make apt-get believe that nothing is installed, and keep what it writes to itself."""
    state = tmp_path_factory.mktemp("apt")
    (state / "status").touch()
    (state / "lists" / "partial").mkdir(parents=True)
    (state / "archives" / "partial").mkdir(parents=True)
    (state / "apt.conf").write_text(
        f'Dir::State::status "{state}/status";\nDir::State::lists "{state}/lists";\nDir::Cache "{state}";\n'
    )
    return f"export APT_CONFIG={state}/apt.conf"


def test_without_network_no_system_package_is_touched(copy, empty_apt):
    installed = Path("/var/lib/dpkg/status").read_bytes()
    message = copy.refused("--yes", setup=f"{empty_apt}; {hidden('ethtool')}", network=False)
    assert "no network: the system packages cannot be fetched; nothing was installed" in message
    assert Path("/var/lib/dpkg/status").read_bytes() == installed


def test_without_network_no_environment_is_left(copy):
    message = copy.refused("--yes", setup="export PIP_RETRIES=0", network=False)
    assert "the Python packages could not be fetched; .venv was removed" in message


def test_a_half_built_environment_is_not_taken_for_a_finished_one(copy):
    (copy.path / ".venv" / "bin").mkdir(parents=True)
    (copy.path / ".venv" / "bin" / "vtax").touch(0o755)
    (copy.path / ".venv" / ".vtax-building").touch()
    assert "could not be fetched" in copy.refused(
        "--yes", setup="export PIP_RETRIES=0", network=False
    )


def test_ctrl_c_leaves_an_environment_that_does_not_look_finished(copy):
    started = subprocess.Popen(
        ["unshare", "--net", "env", "PIP_RETRIES=30", "./quickstart", "--yes"],
        cwd=copy.path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_until((copy.path / ".venv" / "bin" / "pip").exists)
    os.killpg(started.pid, signal.SIGINT)
    _, message = started.communicate(timeout=30)
    assert started.returncode == 130
    assert "run it again to go on" in message
    assert (copy.path / ".venv" / ".vtax-building").exists()
    assert not (copy.path / ".venv" / ".vtax-finished").exists()


FAKE_APT = """#!/bin/sh
case "$*" in *" install "*--simulate* | *--simulate*" install "* | *--download-only* | *update) exit 0 ;; esac
touch /mnt/installing
sleep 3
"""


def test_a_void_policy_of_a_killed_quickstart_is_removed_by_the_next_and_one_in_force_is_not(
    copy, tmp_path_factory
):
    apt = tmp_path_factory.mktemp("apt") / "apt-get"
    apt.write_text(FAKE_APT)
    apt.chmod(0o755)
    script = f"""
        {hidden("ethtool")}
        mount --bind {apt} /usr/bin/apt-get
        policy=/usr/sbin/policy-rc.d
        rm -f $policy
        ./quickstart --yes --install-only & first=$!
        until [ -e /mnt/installing ]; do sleep 0.05; done
        sh $policy any start && exit 1 || [ $? = 101 ]
        ./quickstart --without ethtool || [ $? = 2 ]
        [ -e $policy ] || {{ echo a policy in force was removed; exit 1; }}
        kill -KILL $first
        wait $first || true
        sh $policy any start || {{ echo the policy outlives its process; exit 1; }}
        ./quickstart --without ethtool || [ $? = 2 ]
        [ ! -e $policy ] || {{ echo the void policy stays; exit 1; }}
        echo '#!/bin/sh' > $policy
        ./quickstart --without ethtool || [ $? = 2 ]
        [ -e $policy ] || {{ echo a policy of others was removed; exit 1; }}
    """
    result = copy.shell(script)
    assert result.returncode == 0, result
    assert result.stdout.count("a quickstart that was killed had left it") == 1


UNIT = "[Install]\\nWantedBy=multi-user.target\\n"
APT_OF_UNITS = """#!/bin/sh
case "$*" in *--simulate* | *--download-only* | *update) exit 0 ;; esac
for unit in newd.service newd.socket newd.timer; do systemctl --root=/ enable $unit; done
systemctl --root=/ --global enable newd.socket
systemctl --root=/ enable newd.target
"""
ENABLED = "find /etc/systemd/system /etc/systemd/user -path '*.wants/*' | sort"


@pytest.mark.skipif(Path("/run/systemd/system").exists(), reason="systemd runs here")
@needs_program("systemctl", "ethtool")
def test_units_that_packages_enable_are_off_again_and_others_stay(copy, tmp_path_factory):
    finished_environment(copy.path, made_in=copy.path)
    apt = tmp_path_factory.mktemp("apt") / "apt-get"
    apt.write_text(APT_OF_UNITS)
    apt.chmod(0o755)
    script = f"""
        {hidden("ethtool")}
        mkdir /mnt/etc /mnt/etc-work
        mount -t overlay -o lowerdir=/etc,upperdir=/mnt/etc,workdir=/mnt/etc-work overlay /etc
        mount --bind {apt} /usr/bin/apt-get
        for unit in newd.service newd.socket newd.timer newd.target oldd.socket; do
          printf '{UNIT}' >/etc/systemd/system/$unit
        done
        mkdir -p /etc/systemd/user
        cp /etc/systemd/system/newd.socket /etc/systemd/user
        systemctl --root=/ enable oldd.socket
        {ENABLED} >/mnt/before
        ./quickstart --yes --install-only
        {ENABLED} | diff /mnt/before - | grep '^[<>]'
    """
    result = copy.shell(script)
    assert result.returncode == 0, result
    assert "left off: newd.service newd.socket newd.timer user/newd.socket" in result.stdout
    assert (
        result.stdout.splitlines()[-1]
        == "> /etc/systemd/system/multi-user.target.wants/newd.target"
    )


def finished_environment(checkout: Path, made_in: Path) -> None:
    """What a finished quickstart leaves in .venv, its scripts leading to the checkout where it was made."""
    scripts = checkout / ".venv" / "bin"
    scripts.mkdir(parents=True)
    (scripts / "python3").symlink_to("/usr/bin/python3")
    (scripts / "pip").write_text(f"#!{made_in}/.venv/bin/python3\n")
    functions = (CHECKOUT / "quickstart").read_text().removesuffix('main "$@"\n')
    stamp = 'fingerprint requirements.lock >"$stamp"'
    subprocess.run(["bash", "-c", f"{functions}\n{stamp}"], cwd=checkout, check=True)


def test_the_environment_of_a_copied_checkout_is_made_anew(copy):
    finished_environment(copy.path, made_in=copy.path)
    assert copy.run("--install-only").stdout == "Installed. Next: .venv/bin/vtax doctor\n"
    shutil.rmtree(copy.path / ".venv")
    finished_environment(copy.path, made_in=Path(f"/elsewhere{copy.path}"))
    assert "A private Python environment will be made" in copy.run("--install-only").stdout
    (copy.path / ".venv" / "of-the-other").touch()
    started = subprocess.Popen(
        ["unshare", "--net", "env", "PIP_RETRIES=30", "./quickstart", "--yes"],
        cwd=copy.path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    pip = copy.path / ".venv" / "bin" / "pip"
    wait_until(lambda: pip.exists() and pip.read_text().startswith(f"#!{copy.path}/.venv/"))
    assert not (copy.path / ".venv" / "of-the-other").exists()
    os.killpg(started.pid, signal.SIGINT)
    started.wait(30)


def test_packages_are_compiled_before_anything_is_measured_and_not_after_a_request_to_stop(copy):
    finished_environment(copy.path, made_in=copy.path)
    packages = copy.path / ".venv" / "lib" / "python3.0" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "package.py").write_text("answer = 42\n")
    functions = (CHECKOUT / "quickstart").read_text().removesuffix('main "$@"\n')

    def ended(then: str) -> int:
        script = f"{functions}\ncompile_packages &\ncompiling=$!\n{then}"
        return subprocess.run(["bash", "-c", script], cwd=copy.path, check=False).returncode

    assert ended("wait_until_compiled") == 0
    assert len(list(packages.rglob("package.*.pyc"))) == 1
    for number in range(2000):
        (packages / f"more{number}.py").write_text("answer = [" + "42, " * 2000 + "]\n")
    assert ended("stop_on_signal") == 130
    time.sleep(0.5)
    made = len(list(packages.rglob("*.pyc")))
    time.sleep(1)
    assert len(list(packages.rglob("*.pyc"))) == made < 2001


def wait_until(condition: Callable[[], bool], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.05)
