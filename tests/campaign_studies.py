"""Tables of studies that campaigns of tests measure."""

from __future__ import annotations

TWO_BOOTS = """
[[platform]]
name = "again"
driver = "native"
[[boot]]
name = "plain"
entry = "Plain"
platforms = ["native"]
[[boot]]
name = "other"
entry = "Other"
platforms = ["again"]
"""
"""Of platforms `native` and `again`, each in a boot of its own."""
COUNTING = """
[[program]]
name = "count"
files = ["count.sh"]
argv = { guest = ["sh", "{files}/count.sh"] }
expected_duration = "1s"
[[program.metric]]
name = "lines"
unit = "lines"
better = "higher"
pattern = '^counted ([0-9]+)$'
[[benchmark]]
name = "count"
"""
"""A benchmark of a program in a file beside the study, count.sh."""
