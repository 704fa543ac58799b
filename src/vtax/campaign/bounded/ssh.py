"""Runs ssh, and passes on at most VTAX_MOST_BYTES of what a host prints on either stream, each piece as it comes.

Ansible keeps all that a host prints, many times over. ssh is ended where a stream has an end here; the status is its
own. Nothing of vtax is imported: this starts for every task on every host.
"""

import os
import select
import signal
import subprocess
import sys

_PIECE_BYTES = 1 << 16


def main() -> int:
    """Run ssh with the arguments of this program; return its status."""
    environment = {**os.environ, "PATH": os.environ["VTAX_SSH_PATH"]}
    command = ["ssh", *sys.argv[1:]]
    if any(word.startswith("-W") for word in sys.argv[1:]):  # another ssh connects through it
        os.execvpe(command[0], command, environment)
    most_bytes = int(os.environ["VTAX_MOST_BYTES"])
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    targets = {process.stdout.fileno(): 1, process.stderr.fileno(): 2}
    remaining_bytes = dict.fromkeys(targets, most_bytes)
    while remaining_bytes:
        for source in select.select([*remaining_bytes], [], [])[0]:
            piece = os.read(source, min(remaining_bytes[source], _PIECE_BYTES))
            remaining_bytes[source] -= len(piece)
            _write(targets[source], piece)
            if not piece:
                del remaining_bytes[source]
            elif not remaining_bytes[source]:
                process.terminate()
                remaining_bytes.clear()
                break
    return _status(process)


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _status(process: "subprocess.Popen[bytes]") -> int:
    """Return the status as a shell gives it; what does not end by itself is killed."""
    try:
        status = process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        status = process.wait()
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
