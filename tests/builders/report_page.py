"""What report.html holds, read as its script reads it."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

DATA = re.compile(r'<script type="text/plain">([^<]*)</script>')
LONGEST, WIDTH = 5_000, 120
SCRIPT = re.compile(r"<script>.*</script>", re.DOTALL)


@dataclass(frozen=True)
class ReportPage:
    """`text`: the page without script and data; `index`: all cases; `searched`: what the search
    reads of each; `cases`: what opens of each, by id; `traces`: what was recorded, by a case's
    number of its trace."""

    text: str
    index: dict[str, Any]
    searched: list[str]
    cases: dict[str, dict[str, Any]]
    traces: list[dict[str, Any]]


def read(page: str) -> ReportPage:
    first, searched, *others = [
        zlib.decompress(base64.b64decode(each), -15).decode() for each in DATA.findall(page)
    ]
    index, parts = json.loads(first), [json.loads(each) for each in others]
    cases = {row["id"]: parts[row["part"]][row["at"]] for row in index["cases"] if "part" in row}
    text = SCRIPT.sub("", DATA.sub("", page))
    traces = parts[index["traces"] :]
    return ReportPage(
        text=text, index=index, searched=searched.split("\n"), cases=cases, traces=traces
    )


def strings(value: Any, *, names: bool = True) -> Iterator[str]:
    """All texts of a JSON value, those that fields are named by too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value if names else ()
        for each in value.values():
            yield from strings(each, names=names)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from strings(each, names=names)


def reviewable(page: str) -> str:
    """The page as a golden file: what is packed stands in it as JSON, and the script not at all."""
    found = read(page)
    data = {"index": found.index, "searched": found.searched, "cases": found.cases}
    policy = re.sub(r"(?<=-src &#x27;sha256-)[^&]*", "...", found.text)
    data = _clipped(data)
    return f"{policy}\n{_lines(data)}\n"


def _lines(value: Any, indent: str = "") -> str:
    """JSON whose lines are as long as they may be: what fits stands on one."""
    whole = json.dumps(value, ensure_ascii=False)
    if len(whole) <= WIDTH or not isinstance(value, dict | list) or not value:
        return whole
    deeper = f"{indent} "
    if isinstance(value, list):
        rows = [_lines(each, deeper) for each in value]
    else:
        rows = [
            f"{json.dumps(name, ensure_ascii=False)}: {_lines(each, deeper)}"
            for name, each in value.items()
        ]
    opened, closed = "[]" if isinstance(value, list) else "{}"
    joined = f",\n{deeper}".join(rows)
    return f"{opened}\n{deeper}{joined}\n{indent}{closed}"


def _clipped(value: Any) -> Any:
    """Long texts by their beginning and their size."""
    if isinstance(value, str) and len(value) > LONGEST:
        return f"{value[:200]} ... {len(value)} characters"
    if isinstance(value, dict):
        return {_clipped(key): _clipped(each) for key, each in value.items()}
    return [_clipped(each) for each in value] if isinstance(value, list) else value
