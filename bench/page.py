"""report.html with many cases, in Chromium: how long it takes to make, to open, to search, and how
much it holds.

    python bench/page.py [--cases 100,10000] [--noise 2000]

Half of the cases are failures of several causes, each side has one run of two turns. Prints a row
for each size and the ratio of the largest to the smallest; the last line is JSON."""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
from builders import build, chromium, comparing  # noqa: E402 - the tests' own reports
from playwright.sync_api import Page, sync_playwright  # noqa: E402 - as above

from evalgate import reports  # noqa: E402 - as above

WORDS = [
    "order",
    "refund",
    "ticket",
    "parcel",
    "street",
    "Monday",
    "price",
    "card",
    "library",
    "copy",
    "flight",
    "hotel",
]


def made(cases: int, noise: int = 0) -> tuple[Any, int]:
    """A compared report and the characters of its transcripts; `noise`: bytes in each answer that
    do not pack."""
    chance, size = random.Random(0), 0
    asked, head, base = [], {}, {}
    suite_key = build.suite().key
    for number in range(cases):
        text = f"case {number}: " + " ".join(chance.choices(WORDS, k=60))
        answer = " ".join(chance.choices(WORDS, k=80)) + chance.randbytes(noise).hex()
        tool = chance.choice(WORDS)
        expected = build.turn(text, build.call(tool, title=text[:40], number=number), answer=answer)
        other = build.turn(
            text, build.call(chance.choice(WORDS), title=text[:40]), answer=answer[::-1]
        )
        fails = number % 2 == 0
        asked.append(build.case(f"case_{number}", expected))
        right = build.scores(expected, **{build.TOOLS: [1.0], build.WORDS: [1.0]})
        wrong = build.scores(other, **{build.TOOLS: [0.0], build.WORDS: [0.0]})
        head[suite_key, f"case_{number}"] = [wrong if fails else right]
        base[suite_key, f"case_{number}"] = [right]
        size += 2 * (len(text) + len(answer) + 60)
    return comparing.beside([build.suite(*asked)], head, base), size


def measured(page: Page, address: str) -> dict[str, float]:
    began = time.perf_counter()
    page.goto(address, wait_until="commit")
    page.wait_for_selector("a.entry", timeout=60_000)
    listed = time.perf_counter() - began
    timed = """async (text) => {
      const box = document.getElementById('search'), began = performance.now();
      box.value = text; box.dispatchEvent(new Event('input', {bubbles: true}));
      await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
      return performance.now() - began;
    }"""
    keystroke = max(page.evaluate(timed, text) for text in ("r", "re", "ref", "refund", ""))
    # in the page: a click of Playwright's waits for frames as well, which says more of the machine
    opening = """async () => {
      const began = performance.now(), title = () => document.getElementById('title');
      document.querySelectorAll('a.entry')[3].click();
      while (!title()) await new Promise(done => setTimeout(done));
      title().getBoundingClientRect();
      return performance.now() - began;
    }"""
    opened = page.evaluate(opening)
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    heap = session.send("Runtime.getHeapUsage")["usedSize"]
    nodes = page.evaluate("document.querySelectorAll('*').length")
    return {
        "list_s": listed,
        "keystroke_ms": keystroke,
        "case_ms": opened,
        "nodes": nodes,
        "heap_mb": heap / 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="report.html with many cases.")
    parser.add_argument("--cases", default="100,10000")
    parser.add_argument(
        "--noise", type=int, default=0, help="Bytes an answer; 2000 make a page of 50 MB."
    )
    rows = {}
    with tempfile.TemporaryDirectory() as name, sync_playwright() as started:
        browser = started.chromium.launch(**chromium.launch_options())
        given = parser.parse_args()
        for size in map(int, given.cases.split(",")):
            report, raw = made(size, given.noise)
            began = time.perf_counter()
            text = reports.RENDERERS["html"].render(report)
            spent = time.perf_counter() - began
            place = Path(name, f"{size}.html")
            place.write_text(text, encoding="utf-8")
            found = measured(browser.new_page(), place.as_uri())
            rows[size] = {
                **found,
                "make_ms_a_case": spent * 1000 / size,
                "size_mb": len(text) / 1e6,
                "raw_mb": raw / 1e6,
            }
            print(size, {key: round(value, 3) for key, value in rows[size].items()}, flush=True)
        browser.close()
    least, most = rows[min(rows)], rows[max(rows)]
    ratios = {
        f"{key}_ratio": round(most[key] / least[key], 2)
        for key in ("list_s", "keystroke_ms", "case_ms", "nodes")
    }
    print(json.dumps({**{key: round(value, 3) for key, value in most.items()}, **ratios}))


if __name__ == "__main__":
    main()
