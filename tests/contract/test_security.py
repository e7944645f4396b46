"""What the security pages promise is held by tests that there are."""

import re
from pathlib import Path

from evalgate.baseline import rules as baseline_rules
from evalgate.config import settings

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/security.md").read_text(encoding="utf-8")
PROMISES = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")


def sections(page: str) -> dict[str, str]:
    """The text below each second heading, by its address on the page."""
    parts = re.split(r"^## (.+)$", page, flags=re.MULTILINE)
    return {
        re.sub(r"[^\w -]", "", title).lower().replace(" ", "-"): text
        for title, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def rows(text: str) -> list[str]:
    """The rows of tables whose last column is of tests."""
    found, holds = [], False
    for line in text.splitlines():
        holds = line.startswith("|") and (holds or line.rstrip(" |").endswith("| Test"))
        if holds and not re.match(r"\|[ :-]+\||.*\| Test \|$", line):
            found.append(line)
    return found


def test_a_test_that_is_named_is_there() -> None:
    named = set(NAMED.findall(PAGE))
    texts = {file: (ROOT / "tests" / file).read_text(encoding="utf-8") for file, _ in named}
    assert [
        f"{file}::{name}"
        for file, name in sorted(named)
        if not re.search(rf"^(async )?def {name}\(", texts[file], re.MULTILINE)
    ] == []


def test_every_path_names_the_test_that_holds_it() -> None:
    found = rows(PAGE)
    assert len(found) > 25
    cells = [row.rsplit(" | ", 1)[-1] for row in found]
    # nothing else: a name that is spelled otherwise would be compared with no test
    assert [cell for cell in cells if NAMED.sub("T", cell).rstrip(" |").strip("T, ")] == []
    assert [cell for cell in cells if not NAMED.search(cell)] == []


def test_every_promise_leads_to_the_tests_that_hold_it() -> None:
    """Each item leads to a section of the page, and each of those has tests."""
    known = sections(PAGE)
    items = re.split(r"^- ", sections(PROMISES)["what-evalgate-protects"], flags=re.MULTILINE)[1:]
    assert items
    for item in items:
        led = re.findall(r"\(docs/security\.md#([\w-]+)\)", item)
        assert led, item
        assert [name for name in led if not rows(known.get(name, ""))] == [], item


def test_what_a_change_does_not_decide_is_named_where_a_user_reads_of_it() -> None:
    said = sections((ROOT / "docs/settings.md").read_text(encoding="utf-8"))["in-a-pull-request"]
    names = [
        *map(settings.input_name, baseline_rules.OF_DOORS),
        *(f"judge: {name}" for name in baseline_rules.JUDGE_SETTINGS),
    ]
    assert [name for name in names if f"`{name}`" not in said] == []


def test_what_is_not_protected_is_said_on_both_pages() -> None:
    unprotected = sections(PAGE)["what-is-not-protected"]
    for said in ("can change the workflow", "network is open", "terminal"):
        assert said in unprotected
        assert said in sections(PROMISES)["what-it-does-not-protect"].replace("\n", " ")
