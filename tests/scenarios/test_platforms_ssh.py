"""The ssh driver without a machine: names, options, and the line that a login shell is given."""

import ast
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from nesting import nest

from vtax.errors import BadInput, VtaxError
from vtax.host import removal
from vtax.host.resources import Remote
from vtax.network.plugboard import Uplink
from vtax.platforms import registry
from vtax.platforms.ssh import driver as ssh
from vtax.platforms.ssh import there as there

SHELLS = [
    shell
    for shell in ("sh", "bash", "dash", "zsh", "csh", "fish", "busybox")
    if shutil.which(shell)
]


def test_a_name_with_a_colon_gives_the_host():
    platform = registry.get("ssh:root@web1")
    assert platform.name == "ssh:root@web1"
    assert platform.identity()["options"]["host"] == "root@web1"
    assert platform.network_limits.interfaces == 0


def test_a_name_may_say_what_joins_the_machine_to_this_host():
    platform = registry.get("ssh:root@web1/eth1:enp3s0/eth2:enp4s0")
    assert platform.identity()["options"]["host"] == "root@web1"
    assert ssh.Ssh().uplinks(platform.options) == (
        Uplink("eth1", "enp3s0"),
        Uplink("eth2", "enp4s0"),
    )
    assert platform.network_limits.interfaces == 2


@pytest.mark.parametrize("name", ["ssh:", "ssh", "native:x", "shh:web1", ":web1"])
def test_other_names_with_colons_are_no_platforms(name):
    with pytest.raises(BadInput, match="there is no platform"):
        registry.get(name)


@pytest.mark.parametrize("host", ["-oProxyCommand=reboot", "web1 reboot", "a\nb"])
def test_a_host_cannot_be_an_option_or_several_words(host):
    with pytest.raises(BadInput, match="option host"):
        registry.get(f"ssh:{host}")


def test_an_unknown_local_user_is_bad_input():
    with pytest.raises(BadInput, match="no user 'no-such-user'"):
        ssh.client(ssh.SshOptions(host="web1", local_user="no-such-user"))


@pytest.mark.parametrize("shell", SHELLS)
def test_any_login_shell_passes_the_program_on_and_it_tidies_up(shell, tmp_path):
    awkward = """quote ' double " back \\\\ dollar $HOME `id` !! \n * ünï"""
    script = "import os,sys; print(os.environ['VTAX_MARK'], sys.argv[1], sep='|')"
    argv = [sys.executable, "-c", script, awkward]
    work = str(tmp_path / "work")
    line = ssh.remote_line(
        sys.executable, "keep", directory=work, tag="mark-1", argv=argv, interfaces=[]
    )
    command = ["busybox", "sh", "-c", line] if shell == "busybox" else [shell, "-c", line]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"mark-1|{awkward}\n"
    assert list(tmp_path.iterdir()) == []
    assert len(shlex.split(line)) == 6


def test_the_program_and_what_travels_with_it_share_no_name():
    names = [
        {each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.ClassDef)}
        | {
            each.id
            for each in ast.walk(tree)
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        }
        for tree in (ast.parse(Path(module.__file__).read_text()) for module in (there, removal))
    ]
    assert names[0] & {each for each in names[1] if each.startswith("_") or each.isupper()} == set()


@pytest.mark.parametrize(("status", "removed"), [(0, True), (3, False), (127, False)])
def test_a_machine_says_whether_there_was_something_to_remove(status, removed):
    assert Remote("web1", "/var/tmp/x", ("sh", "-c", f"exit {status}")).remove() is removed


def test_a_machine_that_does_not_answer_keeps_its_entry(golden):
    with pytest.raises(VtaxError) as caught:
        Remote("web1", "/var/tmp/x", ("sh", "-c", "echo no route >&2; exit 255")).remove()
    golden(str(caught.value))
    assert "run vtax clean" in caught.value.hint


def test_what_a_lost_guest_left_is_cleared_from_a_second_connection(tmp_path):
    work = tmp_path / "work"
    nest(work, 3000)
    left = subprocess.Popen(["sleep", "60"], env={"PATH": "/usr/bin:/bin", "VTAX_MARK": "mark-2"})
    line = ssh.remote_line(sys.executable, "clear", directory=str(work), tag="mark-2")
    assert subprocess.run(["sh", "-c", line], timeout=60, check=False).returncode == 0
    assert left.wait(10) == -9
    assert not work.exists()
    assert subprocess.run(["sh", "-c", line], timeout=60, check=False).returncode == 3
