"""How the agent gets into a guest: it is sent over the very byte stream it will answer on.

The image holds no vtax code, so one image serves every version. A platform's only duty is to run `argv()` in the
guest with the stream as stdin/stdout, or `argv(PATH)` with the path of a character device (virtio port, serial
line). The bootstrap reads one line holding the length of the agent's source, then that many bytes, and becomes it.
"""

from __future__ import annotations

from importlib.resources import files

PYTHON = "/usr/bin/python3"
_CODE = (
    "import sys,os;"
    "p=sys.argv[1];"
    "r,w=(0,1) if p=='-' else (lambda f:(f,f))(os.open(p,os.O_RDWR|os.O_NOCTTY));"
    "p!='-' and os.isatty(r) and __import__('tty').setraw(r);"
    "b=b'';\n"
    "while not b.endswith(b'\\n'):b=(b+os.read(r,1)).lstrip(b'\\r\\n')\n"
    "n=int(b);s=b''\n"
    "while len(s)<n:s+=os.read(r,n-len(s))\n"
    "exec(compile(s,'vtax-agent','exec'),{'__name__':'vtax_agent','READ':r,'WRITE':w})"
)


def argv(stream: str = "-") -> list[str]:
    """The command a platform runs inside the guest. stream: `-` for stdin/stdout, else a device path."""
    return [PYTHON, "-I", "-S", "-B", "-c", _CODE, stream]


def payload() -> bytes:
    """What the controller writes first: the length line and the agent's source."""
    source = files("vtax.guest").joinpath("agent.py").read_bytes()
    return f"{len(source)}\n".encode() + source
