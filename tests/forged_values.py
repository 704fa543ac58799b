"""Values that no vtax ever stored, for attacks on stores and bundles."""

from __future__ import annotations

from typing import Any

JSON_TEXTS = (
    "null", "true", "5", '"x"', "[]", "{}", "[1,2]", '{"a":1}', "{", "", "NaN", "Infinity", "1e999", "9" * 5000,
    "[" * 5000 + "]" * 5000, "[" * 500 + "]" * 500, '{"a":' * 100 + "1" + "}" * 100, r'{"kernel":"\ud800\u001b[2J"}',
    r'{"memory_visible_bytes":"\u00b2"}', '{"memory_visible_bytes":"' + "9" * 400 + '"}', '{"cpu":[[1]]}',
    '{"design":{"precision":"x"}}', '{"design":{"blocks":[1]}}', '{"design":[]}', '{"benchmark":{}}',
    '{"benchmark":[5]}', '{"benchmark":[{"topology":{}}]}', '{"design":{"confidence":5}}', '{"design":{"stop":"x"}}',
    '{"design":{"trials":"x","warmup":{},"order":[]}}', '{"title":5,"question":[1]}', '{"title":null,"tuning":{}}',
    '{"direction":[1]}', '{"direction":{}}', '{"direction":null}', r'{"\u202e":"\u2028"}', '{"cpus":"x"}',
    '{"cpus":{},"memory_bytes":"x","kernel":[],"distribution":{}}', '{"memory_bytes":-1e308}', '{"samples":5}',
    '{"samples":{"events":"x"}}', '{"samples":{"events":[null]}}', '{"samples":{"events":[1,"2",[3]]}}',
    '{"samples":{"events":[1e308,-1e308,0]}}', '{"driver":{}}', '{"driver":[1]}', '["\\u001b[2J"]', '[{"a":1},5]',
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    0, 1, -1, 2, 7, 2**31, 2**53, 2**63 - 1, -(2**63), 0.5, -0.0, 1e-320, 1e308, -1e308, float("inf"), float("-inf"),
    "", "x", "²", "12", "1e5", "\x1b[2J", "\u202egnp", "y" * 100_000, "a\nb", "../../x", b"", b"\xff\xfe", b"x" * 100,
    "=1+1", "native", "docker", "ok", "failed", "finished", "running", "higher", "0004", "0001", "9999",
)  # fmt: skip
