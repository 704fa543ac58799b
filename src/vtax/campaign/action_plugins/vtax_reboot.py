"""Reboots a host as Ansible's `reboot`, by commands alone: none of its programs looks at the host before."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import reboot


class RebootAction(reboot.ActionModule):  # type: ignore[misc]
    """The action of a task. reboot_command: has the path of a program, which is not looked for."""

    def get_distribution(self, task_vars: Any) -> dict[str, str]:
        """Return what hosts of vtax are."""
        return {"name": "linux", "version": "", "family": "linux"}


ActionModule = RebootAction  # the name that Ansible looks for
