"""What an installation that failed says first."""

from __future__ import annotations

import pytest

from evalgate.system import python_env

UNSOLVABLE = """\
Using Python 3.13.0
  \N{MULTIPLICATION SIGN} No solution found when resolving dependencies:
  \u2570\u2500\u25b6 Because shelf was not found and you need
      shelf.

      hint: Did you mean `shelve`?
"""
FETCHING = """\
   Updating https://example.org/desk (HEAD)
error: Failed to download `desk==1.0`
  cause: Request failed after 3 retries
  cause: Failed to fetch: https://example.org/desk.whl
hint: `desk` was included because `shelf` depends on `desk`
"""


@pytest.mark.parametrize(
    ("detail", "cause"),
    [
        (
            UNSOLVABLE,
            "No solution found when resolving dependencies: Because shelf was not found and you need shelf.",
        ),
        (
            FETCHING,
            "Failed to download `desk==1.0`: Request failed after 3 retries: Failed to fetch: https://example.org/desk.whl",
        ),
        ("error: Failed to parse: `uv.lock`", "Failed to parse: `uv.lock`"),
        # nothing that uv says in its own voice
        ("Killed", ""),
        ("", ""),
    ],
)
def test_the_cause_is_uvs_own_sentence(detail: str, cause: str) -> None:
    assert python_env._cause(detail) == cause
