"""What report.html holds, read as its script reads it."""

from __future__ import annotations

import base64
import json
import re
import zlib
from dataclasses import dataclass
from typing import Any

DATA = re.compile(r'<script type="text/plain">([^<]*)</script>')
LONGEST = 5_000
SCRIPT = re.compile(r"<script>.*</script>", re.DOTALL)


@dataclass(frozen=True)
class ReportPage:
    """`text`: the page without script and data; `index`: all cases; `cases`: what opens of each, by id."""

    text: str
    index: dict[str, Any]
    cases: dict[str, dict[str, Any]]


def read(page: str) -> ReportPage:
    unpacked = [json.loads(zlib.decompress(base64.b64decode(each), -15)) for each in DATA.findall(page)]
    index, parts = unpacked[0], unpacked[1:]
    cases = {row["id"]: parts[row["part"]][row["at"]] for row in index["cases"] if "part" in row}
    return ReportPage(text=SCRIPT.sub("", DATA.sub("", page)), index=index, cases=cases)


def reviewable(page: str) -> str:
    """The page as a golden file: what is packed stands in it as JSON, and the script not at all."""
    found = read(page)
    data = {"index": found.index, "cases": found.cases}
    policy = re.sub(r"script-src 'sha256-[^']*'", "script-src 'sha256-...'", found.text)
    data = _clipped(data)
    return f"{policy}\n{json.dumps(data, indent=1, ensure_ascii=False)}\n"


def _clipped(value: Any) -> Any:
    """Long texts by their beginning and their size."""
    if isinstance(value, str) and len(value) > LONGEST:
        return f"{value[:200]} ... {len(value)} characters"
    if isinstance(value, dict):
        return {_clipped(key): _clipped(each) for key, each in value.items()}
    return [_clipped(each) for each in value] if isinstance(value, list) else value
