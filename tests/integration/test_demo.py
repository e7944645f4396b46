"""The demo shows what it promises: a gate that passes, a change that fails beside its base, and the
comment on it."""

import subprocess
import sys
from pathlib import Path

import pictures
import pytest
from builders import demonstration, template_words
from builders.nightly import BY_NIGHT

import evalgate

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The demo's folder, and what it printed."""
    return demonstration.copied(tmp_path_factory.mktemp("demo") / "demo", tmp_path_factory)


def test_the_demo_shows_a_change_that_makes_the_agent_worse(demo: tuple[Path, str]) -> None:
    _, printed = demo
    first, rest = printed.split("=== 2 of 3")
    second, third = rest.split("=== 3 of 3")
    assert "PASS: All 8 cases passed." in first
    assert "Against the base" not in first
    # what the comment says: both gates, by how much, which cases, and that the base did right
    assert "**Thresholds**: 3 of 8 cases failed (3 new)" in second
    assert "`tool_trajectory_avg_score` dropped from 1.00 to 0.71" in second
    assert "**3** failed (3 new)" in second
    assert '+ renew_loan(book_id="B-102"' in second
    assert '- check_availability(book_id="B-102")' in second
    assert "The base made the expected calls" in second
    # the thresholds hold, and the comparison alone says no
    assert "Thresholds: pass." in third
    assert "Against the base: fail. Worse than the base" in third


def test_templates_alone_change_every_sentence_of_the_comment(demo: tuple[Path, str]) -> None:
    """With all words of templates in full-width letters, the Latin ones that are left are the
    repository's own."""
    repository = demo[0] / "repository"
    settings = evalgate.load_settings(repository, base="main", runs=2, output="marked")
    with template_words.marked():
        report = evalgate.run(settings)
        comment = (repository / "marked" / "comment.md").read_text("utf-8")
    assert "**Ｔｈｒｅｓｈｏｌｄｓ**: 3 " in comment  # noqa: RUF001 - the mark
    files = [path for path in repository.rglob("*") if path.is_file() and ".git" not in path.parts]
    names = " ".join((report.display.title, *(path.read_text("utf-8", "ignore") for path in files)))
    own = template_words.latin(names) | template_words.UNITS | {"evalgate"}
    assert template_words.latin(comment) - own == set()


@BY_NIGHT
def test_every_picture_of_the_pages_can_be_drawn(demo: tuple[Path, str], tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "docs/pictures.py", "--demo", demo[0], "--into", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == pictures.PICTURES.keys()
