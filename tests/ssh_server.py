"""An SSH server of the test's own, with keys made for it. Nothing of the host's own configuration is read."""

import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_CONFIGURATION = """
ListenAddress {address}
Port {port}
HostKey {directory}/host_key
AuthorizedKeysFile {directory}/authorized_keys
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PidFile none
Subsystem sftp internal-sftp
"""
# sshd wants /run/sshd, which only the service makes: it gets a /run of its own.
_SERVE = (
    "mount -t tmpfs none /run && mkdir /run/sshd && exec /usr/sbin/sshd -D -e -f {configuration}"
)
_START_TIMEOUT_S = 10.0


def serve(
    directory: Path, address: str, port: int, keys: Mapping[str, str], *, inside: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    """Start a server, which the caller ends; directory then holds `known_hosts` and a private key for each of keys.

    keys: name of the key's file -> what is put before it in authorized_keys, sshd(8). inside: the command prefix of
    the namespace it listens in.
    """
    for name in ("host_key", *keys):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / name], check=True
        )
    allowed = [options + (directory / f"{name}.pub").read_text() for name, options in keys.items()]
    (directory / "authorized_keys").write_text("".join(allowed))
    known_as = address if port == 22 else f"[{address}]:{port}"
    (directory / "known_hosts").write_text(f"{known_as} {(directory / 'host_key.pub').read_text()}")
    (directory / "server").write_text(
        _CONFIGURATION.format(address=address, port=port, directory=directory)
    )
    return serve_again(directory, inside=inside)


def serve_again(directory: Path, *, inside: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Start a server once more that `serve` started there before, with its keys."""
    configuration, log = directory / "server", directory / "log"
    argv = [*inside, "unshare", "--mount", "sh", "-c", _SERVE.format(configuration=configuration)]
    with log.open("wb") as errors:
        server = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=errors)
    deadline = time.monotonic() + _START_TIMEOUT_S
    while "Server listening" not in (message := log.read_text()):
        assert time.monotonic() < deadline, message
        time.sleep(0.02)
    return server
