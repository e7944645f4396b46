"""`evalgate mcp install`: the server in an assistant's own file, and nothing else in it changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from evalgate.cli import cli
from evalgate.wings.assistant.cli import CLIENTS


def called(*args: str) -> Result:
    return CliRunner().invoke(cli, ["mcp", *args])


def server_of(root: Path, client: str) -> Any:
    file, key, _ = CLIENTS[client]
    return json.loads((root / file).read_text())[key]["evalgate"]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_without_a_file_gets_one(tmp_path: Path, client: str) -> None:
    options = ["--root", str(tmp_path), "--no-relaxing", "--app", "projects/p/locations/l/apps/a"]
    shown = called("install", client, *options, "--print")
    assert (shown.exit_code, list(tmp_path.iterdir())) == (0, [])
    assert called("install", client, *options).exit_code == 0
    entry = server_of(tmp_path, client)
    assert json.loads(shown.output)[CLIENTS[client][1]]["evalgate"] == entry
    assert Path(entry["command"]).is_absolute()
    assert entry["args"][-6:] == [
        "mcp", "--root", str(tmp_path), "--app", "projects/p/locations/l/apps/a", "--no-relaxing",
    ]  # fmt: skip
    # again, with other options: in place of the old one
    assert called("install", client, "--root", str(tmp_path), "--read-only").exit_code == 0
    assert server_of(tmp_path, client)["args"][-1] == "--read-only"


OTHER = """{
    "theme": "dark",
    "mcpServers": {
        "other": {"command": "x",   "args": []}
    },
    "b\\u00fccher": [1,2]
}
"""
KEPT = [  # a file before, and what of it must still be there
    (
        OTHER,
        ['"other": {"command": "x",   "args": []}', '"b\\u00fccher": [1,2]', '    "theme": "dark"'],
    ),
    ('{"mcpServers":{}}', []),
    ('{"a": 1.50}', ['"a": 1.50']),
    ("{}", []),
    ('\ufeff{"a": 1}', ['"a": 1']),
    (OTHER.replace("\n", "\r\n"), ['"theme": "dark",\r\n']),
]


@pytest.mark.parametrize(("before", "pieces"), KEPT)
def test_what_was_there_stays_as_it_is_written(
    tmp_path: Path, before: str, pieces: list[str]
) -> None:
    path = tmp_path / ".cursor/mcp.json"
    path.parent.mkdir()
    path.write_bytes(before.encode())
    path.chmod(0o600)
    for _ in range(2):  # the second time nothing is added
        done = called("install", "cursor", "--root", str(tmp_path))
        assert done.exit_code == 0, done.output
    text = path.read_bytes().decode()
    assert all(piece in text for piece in pieces)
    content = json.loads(text.lstrip("\ufeff"))
    old = json.loads(before.lstrip("\ufeff"))
    assert content.pop("mcpServers").keys() == {*old.pop("mcpServers", {}), "evalgate"}
    assert content == old
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "before",
    [
        "",
        "[]",
        "{",
        '{"servers": []}',
        '{"servers": {"x": 1,}}',
        '{ // mine\n"servers": {}}',
        "\x00",
    ],
)
def test_what_is_not_json_is_left_alone(tmp_path: Path, before: str) -> None:
    """With the lines to add by hand."""
    path = tmp_path / ".vscode/mcp.json"
    path.parent.mkdir()
    path.write_text(before)
    done = called("install", "vscode", "--root", str(tmp_path))
    assert done.exit_code == 2
    assert ".vscode/mcp.json" in done.output
    assert path.read_text() == before


def test_a_link_out_of_the_repository_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "home.json").write_text("{}")
    root = tmp_path / "root"
    root.mkdir()
    (root / ".mcp.json").symlink_to(tmp_path / "home.json")
    done = called("install", "claude", "--root", str(root))
    assert (done.exit_code, "leads out of" in done.output) == (2, True)
    assert (tmp_path / "home.json").read_text() == "{}"


def test_options_before_the_name_are_not_lost_in_silence(tmp_path: Path) -> None:
    done = called("--root", str(tmp_path), "--no-relaxing", "install", "claude")
    assert (done.exit_code, "behind `install CLIENT`" in done.output) == (2, True)
    assert list(tmp_path.iterdir()) == []
