"""The command `vtax serve`: which addresses need a token, what it prints, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import NoReturn

import pytest

from vtax.cli import serve
from vtax.errors import CommandFailed


@pytest.mark.parametrize(
    ("host", "has_token", "signal_number"),
    [
        ("127.0.0.1", False, signal.SIGHUP),
        ("127.0.0.2", True, signal.SIGTERM),
        ("0.0.0.0", True, signal.SIGHUP),
    ],
)
def test_every_address_but_the_default_has_a_token_and_signals_end_it(
    host, has_token, signal_number, tmp_path
):
    command = [sys.executable, "-m", "vtax", "serve", "--host", host, "--port", "0"]
    environment = {**os.environ, "VTAX_HOME": str(tmp_path)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        first = server.stdout.readline()
        server.send_signal(signal_number)
        _, errors = server.communicate(timeout=30)
    assert ("?token=" in first) == has_token
    assert f"//{serve.own_addresses()[0] if host == '0.0.0.0' else host}:" in first
    assert "Traceback" not in errors


def test_without_the_command_ip_the_name_of_the_host_is_printed(monkeypatch):
    def missing(*_: object, **__: object) -> NoReturn:
        raise CommandFailed("ip is not installed")

    monkeypatch.setattr(serve, "run", missing)
    assert serve.own_addresses() == [serve.socket.gethostname()]
