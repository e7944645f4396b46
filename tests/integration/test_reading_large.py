"""Large evaluation files cost memory and time by the case, however their lines are cut."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.integration

CHILD = """
import json, resource, sys
from evalgate import formats
from pathlib import Path
text = Path(sys.argv[1]).read_text("utf-8")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
reading = formats.parse_eval_set(text, file="x.evalset.json")
after = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "cases": len(reading.eval_set.cases), "kib": after.ru_maxrss - before, "seconds": after.ru_utime,
    "last": str(reading.eval_set.cases[-1].place),
}))
"""


def measured(path) -> dict:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, path], check=True, capture_output=True, text=True, timeout=120
    )
    return json.loads(done.stdout)


def case(i: int) -> dict:
    return {
        "eval_id": f"case_{i}",
        "conversation": [
            {
                "user_content": {"parts": [{"text": f"case {i}"}], "role": "user"},
                "final_response": {
                    "parts": [{"text": f"The weather is sunny and the sum is {i}."}],
                    "role": "model",
                },
                "intermediate_data": {
                    "tool_uses": [
                        {"name": "get_weather", "args": {"city": f"city-{i % 10}"}},
                        {"name": "add", "args": {"a": i, "b": 1}},
                    ]
                },
            }
        ],
        "session_input": {"app_name": "app", "user_id": "user", "state": {}},
    }


@pytest.mark.parametrize("indent", [None, 2])
def test_twenty_thousand_cases(tmp_path, indent):
    path = tmp_path / "large.json"
    value = {"eval_set_id": "s", "eval_cases": [case(i) for i in range(20_000)]}
    path.write_text(json.dumps(value, indent=indent), encoding="utf-8")
    found = measured(path)
    assert found["cases"] == 20_000
    assert found["kib"] < 20_000 * 2.5  # about 1.5 are needed
    # a search for line ends from the start of the file would take minutes
    assert found["seconds"] < 20
    assert found["last"].startswith("x.evalset.json:1:" if indent is None else "x.evalset.json:")
