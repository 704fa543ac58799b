"""Regular expressions of a study on the output of a guest, in bounded time: in a process of their own that is killed.

Neither the pattern nor the text is ours, and Python's regular expressions may need exponential time and cannot be
stopped in a thread. So a fresh interpreter does the matching, with a limit on its time and its memory.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

from vtax.errors import BenchmarkError, CommandFailed
from vtax.host.process import run

TIMEOUT_S = 10.0
"""For all patterns of a trial together."""
_MEMORY_BYTES = 1 << 30
_MATCHES = 2  # one, and whether there are more
_CODE = f"""
import itertools, json, re, resource, sys, warnings
resource.setrlimit(resource.RLIMIT_AS, ({_MEMORY_BYTES}, {_MEMORY_BYTES}))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
warnings.simplefilter("ignore")
requested = json.load(sys.stdin)
found = {{}}
for name, (pattern, output) in requested["patterns"].items():
    matches = re.compile(pattern, re.MULTILINE).finditer(requested["texts"][output])
    found[name] = [(match[1] or "")[:100] for match in itertools.islice(matches, {_MATCHES})]
json.dump(found, sys.stdout)
"""


def matches(
    patterns: Mapping[str, tuple[str, str]], texts: Mapping[str, str], *, timeout_s: float = TIMEOUT_S
) -> dict[str, list[str]]:
    """What the group of each pattern matches, the first two times.

    patterns: name -> (regular expression with one group, key of the text it is for). Raises BenchmarkError when that
    takes more than timeout_s or 1 GiB.
    """
    if not patterns:
        return {}
    requested = json.dumps({"patterns": patterns, "texts": texts})
    try:
        answer = run([sys.executable, "-I", "-S", "-c", _CODE], input_text=requested, timeout_s=timeout_s).stdout
    except CommandFailed as error:
        listed = ", ".join(repr(pattern) for pattern, _ in patterns.values())
        why = "1 GiB of memory" if "MemoryError" in error.what else f"{timeout_s:g} s"
        raise BenchmarkError(
            f"the patterns need more than {why} on this output: {listed}"[:1000],
            hint="repetitions within repetitions and several '.*' in one pattern are slow; be more specific",
        ) from error
    found: dict[str, list[str]] = json.loads(answer)
    return found
