"""No link between our pages is broken, and every page can be reached from docs/index.md."""

import re
from pathlib import Path

import pictures

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench/tried").glob("*.md")]
)
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)\s#]+)(?:#[^)]*)?\)")


def links(page: Path) -> list[Path]:
    """The files and folders that a page points at, code blocks passed over."""
    text = re.sub(
        r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    return [(page.parent / target).resolve() for target in LINK.findall(text)]


def test_links_lead_somewhere() -> None:
    assert [
        (str(page.relative_to(ROOT)), str(target))
        for page in PAGES
        for target in links(page)
        if not target.exists()
    ] == []


def test_every_page_is_reached_from_the_index() -> None:
    reached: set[Path] = set()
    queue = [ROOT / "docs" / "index.md"]
    while queue:
        page = queue.pop()
        if page in reached:
            continue
        reached.add(page)
        for target in links(page):
            queue += (
                target.rglob("*.md")
                if target.is_dir()
                else [target]
                if target.suffix == ".md"
                else []
            )

    pages = [page for page in PAGES if page.parent != ROOT]
    assert [str(page.relative_to(ROOT)) for page in pages if page not in reached] == []


def test_modules_that_contributors_are_sent_to_are_there() -> None:
    pages = [
        ROOT / "CONTRIBUTING.md",
        ROOT / "docs/architecture.md",
        *(ROOT / "docs/decisions").glob("*.md"),
    ]
    named = {
        (page.name, path)
        for page in pages
        for path in re.findall(r"`([a-z][\w/]*/[a-z_0-9]+\.py)`", page.read_text("utf-8"))
    }
    assert [
        each
        for each in sorted(named)
        if not any((top / each[1]).exists() for top in (ROOT, ROOT / "evalgate"))
    ] == []


def test_every_picture_is_drawn_by_a_script_and_shown() -> None:
    drawn = {ROOT / "docs" / "images" / name for name in (*pictures.PICTURES, "rooms.svg")}
    assert drawn == set((ROOT / "docs" / "images").iterdir())
    assert drawn <= {target for page in PAGES for target in links(page)}
    assert [path.name for path in drawn if path.stat().st_size >= 150_000] == []
