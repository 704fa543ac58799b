"""How the agent gets into a guest: it is sent over the very byte stream it will answer on.

The image holds no vtax code, so one image serves every version. A platform's only duty is to run `argv()` in the
guest with the stream as stdin/stdout, or `argv(PATH)` with the path of a character device (virtio port, serial
line). The bootstrap writes GREETING, so that nothing is sent into a serial line that nobody has opened yet; then it
reads one line holding the length of the agent's source, that many bytes, and becomes it. The other side of this is
`guest.Guest.hello`.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path

from vtax.host.process import run

TOOLBOX = "/.vtax"
"""Directory of every guest's files with what is vtax's alone (see image.toolbox)."""
PYTHON = f"{TOOLBOX}/bin/python3"
CONFINE = f"{TOOLBOX}/bin/vtax-confine"
"""Confines itself and becomes another program: the first of a guest that shares its host's kernel."""
SANDBOX = f"{TOOLBOX}/bin/vtax-sandbox"
"""Isolates itself by single mechanisms and becomes another program (platforms.sandbox)."""
HIDDEN = f"{TOOLBOX}/hidden"
"""An empty file, to be mounted over what a guest shall not read."""
GREETING = b"<vtax guest>\n"
_CODE = (
    "import sys,posix as os\n"
    "p=sys.argv[1]\n"
    "if p=='-':r,w=0,1\n"
    "else:r=w=os.open(p,os.O_RDWR|os.O_NOCTTY)\n"
    "if os.isatty(r):__import__('tty').setraw(r)\n"
    f"os.write(w,{GREETING!r})\n"
    "def get(n):\n"
    " b=b''\n"
    " while len(b)<n:\n"
    "  c=os.read(r,n-len(b))\n"
    "  if not c:os._exit(1)\n"
    "  b+=c\n"
    " return b\n"
    "b=b''\n"
    "while b[-1:]!=b'\\n':b=(b+get(1)).lstrip(b'\\r\\n')\n"
    "exec(compile(get(int(b)),'vtax-agent','exec'),{'__name__':'vtax_agent','READ':r,'WRITE':w})"
)

_COMPILE = (
    "import sys,marshal,binascii\n"
    "code=marshal.dumps(compile(sys.stdin.buffer.read(),'vtax-agent','exec'))\n"
    "sys.stdout.write(binascii.b2a_base64(code,newline=False).decode())"
)


def argv(stream: str = "-") -> list[str]:
    """Return the command a platform runs inside the guest. stream: `-` for stdin/stdout, else a device path."""
    return [PYTHON, "-I", "-S", "-B", "-c", _CODE, stream]


@cache
def payload() -> bytes:
    """Return what the controller writes after the greeting: the length line and the agent's source."""
    source = files("vtax.guest").joinpath("agent.py").read_bytes()
    return f"{len(source)}\n".encode() + source


@cache
def compiled(tree: Path) -> bytes:
    """Return the payload with the agent compiled by the Python of a guest's own tree.

    Compiling is half of an agent's start, and takes an emulated CPU longer than Python's own. What is sent is still
    source: one statement.
    Raises CommandFailed when the tree's Python cannot be run here.
    """
    command: list[str | Path] = ["chroot", tree, PYTHON, "-I", "-S", "-B", "-c", _COMPILE]
    code = run(
        command, input_text=payload().decode().partition("\n")[2], environment={"LC_ALL": "C.UTF-8"}
    ).stdout
    source = f"import marshal,binascii\nexec(marshal.loads(binascii.a2b_base64('{code.strip()}')))\n".encode()
    return f"{len(source)}\n".encode() + source


@cache
def more(name: str) -> bytes:
    """Return the source of an extension of the agent (request `extend`): `agent_more`, `agent_shell`."""
    return files("vtax.guest").joinpath(f"{name}.py").read_bytes()
