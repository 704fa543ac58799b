"""Removing a guest's control groups while something still happens in them."""

import os
import subprocess

from support import needs_root

from vtax.host import cgroups, resources

pytestmark = [needs_root]


def test_a_process_that_joins_after_the_look_is_ended_and_the_group_removed(journal, monkeypatch):
    """A killed vtax has forked a child that enters the guest's group while `vtax clean` removes it."""
    group, registered = cgroups.create(f"vtax-{journal.token}", journal)
    late: list[subprocess.Popen[bytes]] = []
    look = resources._members

    def look_too_early(directories):
        found = look(directories)
        if not late:
            with group.procs_file() as procs_file:
                late.append(subprocess.Popen(["sleep", "60"]))
                for fd in procs_file:
                    os.write(fd, str(late[0].pid).encode())
        return found

    monkeypatch.setattr(resources, "_members", look_too_early)
    registered.release()
    late[0].wait(5)  # it would sleep for a minute
    assert not any(path.exists() for _, path in group.directories)


def test_a_group_made_while_another_is_removed_goes_too(journal, monkeypatch):
    """LXC's monitor makes `lxc.pivot` when its container ends."""
    group, registered = cgroups.create(f"vtax-{journal.token}", journal)
    made = []
    rmdir = os.rmdir

    def rmdir_too_late(path, **where):
        if not made:
            made.append(group.child("lxc.pivot"))
        rmdir(path, **where)

    monkeypatch.setattr(os, "rmdir", rmdir_too_late)
    registered.release()
    assert made
    assert not any(path.exists() for _, path in group.directories)


def test_groups_nested_deeper_than_python_may_call_itself_are_removed(journal):
    """A guest that may write its own group makes as many in one another as it likes."""
    group, registered = cgroups.create(f"vtax-{journal.token}", journal)
    at = os.open(group.directories[0][1], os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    assert group.pids() == []
    registered.release()
    assert not any(path.exists() for _, path in group.directories)
