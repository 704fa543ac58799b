"""Brings a file by sftp or scp as Ansible's `fetch`, without its programs on the host: the file's digest is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase


class FetchAction(ActionBase):  # type: ignore[misc]
    """The action of a task. src: on the host. dest: here."""

    _VALID_ARGS = frozenset(("src", "dest"))

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        """Bring the file; Ansible reports what is raised."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = self._task.args
        Path(arguments["dest"]).parent.mkdir(parents=True, exist_ok=True)
        self._connection.fetch_file(arguments["src"], arguments["dest"])
        return {**result, "changed": True}


ActionModule = FetchAction  # the name that Ansible looks for
