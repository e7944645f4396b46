"""The token of a root, kept in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalgate.errors import ConfigError
from evalgate.wings.assistant.server import kept_token


def test_a_token_is_made_once_and_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "evalgate/mcp/x.token"
    token = kept_token(path)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert kept_token(path) == token
    assert kept_token(path.with_name("y.token")) != token
    assert sorted(file.name for file in path.parent.iterdir()) == ["x.token", "y.token"]


@pytest.mark.parametrize(
    ("content", "mode"),
    [(None, 0o640), (None, 0o604), ("", 0o600), ("short", 0o600), ("\u00e9" * 32, 0o600)],
)
def test_a_token_that_others_may_know_is_not_used(
    tmp_path: Path, content: str | None, mode: int
) -> None:
    path = tmp_path / "x.token"
    kept_token(path)
    if content is not None:
        path.write_text(content)
    path.chmod(mode)
    with pytest.raises(ConfigError, match=r"is no token that only its owner may read"):
        kept_token(path)
