"""How long an assistant waits for `evalgate mcp` with many CES evaluations: the first request, then
get, update and list.

    python bench/assistant.py [--evaluations 1000] [--times 20]

The last line is JSON, in milliseconds: the median of each, after the first request."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from evalgate.wings.assistant.resources import ServerResources  # noqa: E402 - the checkout's
from evalgate.wings.ces.read import Kind  # noqa: E402 - as above

GOLDEN = ROOT / "tests/data/ces/golden_library_renewal.json"
APP = "projects/p/locations/l/apps/a"
SETTLED_S = 0.15
"""After which a file that was written counts as unchanged."""


def write(root: Path, evaluations: int) -> None:
    """Evaluations as an export has them, each in a folder."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    del golden["golden"]["evaluationExpectations"]
    for number in range(evaluations):
        folder = root / f"evaluations/e{number}"
        folder.mkdir(parents=True)
        about = {"name": f"{APP}/evaluations/evaluation-{number}", "displayName": f"e{number}"}
        text = json.dumps({**golden, **about}, indent=2)
        (folder / f"e{number}.json").write_text(text, encoding="utf-8")


def milliseconds(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000


def measured(root: Path, times: int) -> dict[str, float]:
    resources = ServerResources(root)
    name = f"{APP}/evaluations/evaluation-0"
    samples: dict[str, list[float]] = {"get": [], "update": [], "list": []}
    first = milliseconds(lambda: resources.get(Kind.EVALUATION, name))
    for number in range(times):
        body = {"name": name, "tags": [f"tag-{number}"]}
        samples["update"].append(
            milliseconds(lambda body=body: resources.update(Kind.EVALUATION, body))
        )
        time.sleep(SETTLED_S)
        resources.get(Kind.EVALUATION, name)
        samples["get"].append(milliseconds(lambda: resources.get(Kind.EVALUATION, name)))
        samples["list"].append(milliseconds(lambda: resources.listed(Kind.EVALUATION)))
    medians = {key: round(statistics.median(values), 1) for key, values in samples.items()}
    return {"first": round(first, 1), **medians}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evaluations", type=int, default=1000)
    parser.add_argument("--times", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), options.evaluations)
        print(json.dumps(measured(Path(folder), options.times)))


if __name__ == "__main__":
    main()
