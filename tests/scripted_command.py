"""vtax as a process of its own whose only platforms and benchmarks are the scripted ones, on a host of its own.

`python scripted_command.py LOCK ARGUMENT...` is `vtax ARGUMENT...` with LOCK as the host's measuring lock. No
platform is shown to work by it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import vtax

STUDY = """
name = "s"
platforms = ["native", "other"]
[design]
blocks = {blocks}
seed = 7
[[benchmark]]
name = "script"
parameters = {{ code = {code} }}
"""


def start(directory: Path, *arguments: str, **streams: Any) -> subprocess.Popen[bytes]:
    """The command in a process. directory: of its lock. streams: stdin, stdout, stderr, env of the process."""
    streams["env"] = {
        **os.environ,
        "PYTHONPATH": str(Path(vtax.__file__).parent.parent),
        **(streams.get("env") or {}),
    }
    argv = [sys.executable, __file__, str(directory / "host.lock"), *arguments]
    return subprocess.Popen(argv, **streams)


def study_file(directory: Path, blocks: int = 2, code: str = "echo 1.5") -> str:
    """The path of a study of two platforms, a trial each a block."""
    path = directory / "s.toml"
    path.write_text(STUDY.format(blocks=blocks, code=json.dumps(code)), encoding="utf-8")
    return str(path)


def host_of_scripts(patch: pytest.MonkeyPatch, lock: Path) -> None:
    """Commands of this process have the scripted platforms, this lock, root, and an image."""
    import scripted

    import vtax.cli.run
    from vtax.host import lock as locks
    from vtax.image.image import Image

    scripted.install(patch)
    patch.setattr("os.geteuid", lambda: 0)
    patch.setattr(locks, "HOST_LOCK", lock)
    for provided in ("built_image", "provide"):
        patch.setattr(vtax.cli.run, provided, lambda *_: Image("key", Path("/nowhere")))


def _main(lock: str, *arguments: str) -> None:
    from vtax.cli.main import main

    host_of_scripts(pytest.MonkeyPatch(), Path(lock))
    main(list(arguments))


if __name__ == "__main__":
    _main(*sys.argv[1:])
