"""Git kept on a short lead: what a hostile repository, a foreign owner and a refusing remote can do
to us."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from builders import repositories as made
from builders.repositories import ENVIRON, git as git_

from evalgate.baseline import base as baseline_base
from evalgate.system import git
from evalgate.system.git import Complaint, Git, GitFailed

pytestmark = pytest.mark.integration

TOKEN = "ghs_averysecrettokenofsomelength"


@pytest.fixture
def under(tmp_path: Path) -> Path:
    return tmp_path / "private"


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    folder = made.made(tmp_path / "origin")
    made.commit(
        folder, {"agent.py": "old\n", ".gitattributes": "*.py filter=evil diff=evil merge=evil\n"}
    )
    made.commit(folder, {"agent.py": "new\n"})
    return folder


HOSTILE = """
[core]
    fsmonitor = {trap}
    hooksPath = {hooks}
    sshCommand = {trap}
    gitProxy = {trap}
    pager = {trap}
    editor = {trap}
    askPass = {trap}
    alternateRefsCommand = {trap}
    attributesFile = {attributes}
[credential]
    helper = !{trap}
[diff]
    external = {trap}
[diff "evil"]
    command = {trap}
    textconv = {trap}
[filter "evil"]
    smudge = {trap}
    clean = {trap}
    process = {trap}
    required = true
[alias]
    fetch = !{trap}
    worktree = !{trap}
    checkout = !{trap}
    rev-parse = !{trap}
[gpg]
    program = {trap}
[log]
    showSignature = true
[commit]
    gpgSign = true
[uploadpack]
    packObjectsHook = {trap}
[protocol "ext"]
    allow = always
[remote "origin"]
    url = {url}
    uploadpack = {trap}
    receivepack = {trap}
    vcs = evil
    promisor = true
[include]
    path = more-hostile
"""


@pytest.mark.parametrize("url", ["file://{origin}", "ext::{trap}", "ssh://{trap}@localhost:1/x"])
def test_a_hostile_configuration_runs_nothing(
    tmp_path: Path, origin: Path, under: Path, url: str
) -> None:
    clone = made.cloned(origin, tmp_path / "clone", "--depth=1")
    trap, hooks, sprung = tmp_path / "trap", tmp_path / "hooks", tmp_path / "sprung"
    trap.write_text(f'#!/bin/sh\necho "$0 $@" >> {sprung}\n')
    trap.chmod(0o755)
    hooks.mkdir()
    for name in (
        "post-checkout",
        "reference-transaction",
        "pre-push",
        "post-index-change",
        "fsmonitor-watchman",
    ):
        shutil.copy(trap, hooks / name)
        shutil.copy(trap, clone / ".git" / "hooks" / name)
    attributes = tmp_path / "attributes"
    attributes.write_text("* filter=evil diff=evil\n")
    address = url.format(origin=origin, trap=trap)
    text = HOSTILE.format(trap=trap, hooks=hooks, attributes=attributes, url=address)
    (clone / ".git" / "config").write_text(text)
    (clone / ".git" / "more-hostile").write_text(f"[core]\n\tfsmonitor = {trap}\n")

    with git.open_repository(clone, environ=ENVIRON, token=TOKEN, under=under) as repo:
        head = repo.head
        base = git_(origin, "rev-parse", "HEAD~1")
        try:
            picked = baseline_base.pick_base(repo, base="", event_base=base, environ={}).commit
        except GitFailed:
            picked = head  # an address that leads nowhere
        with baseline_base.checked_out(repo, picked) as there:
            assert (there.root / "agent.py").read_text() == ("old\n" if picked == base else "new\n")
        assert (picked == base) == url.startswith("file")

    assert not sprung.exists(), sprung.read_text()
    subprocess.run(
        ["git", "status"], cwd=clone, env=dict(ENVIRON), capture_output=True, check=False
    )
    assert sprung.exists(), "the trap works"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs the system: only root can give files away")
def test_a_workspace_that_belongs_to_somebody_else(
    tmp_path: Path, origin: Path, under: Path
) -> None:
    """As in a container action: the workspace is the runner's, the process is root's."""
    clone = made.cloned(origin, tmp_path / "clone", "--depth=1")
    for path in [clone, *clone.rglob("*")]:
        os.lchown(path, 12345, 12345)
    refused = subprocess.run(
        ["git", "status"], cwd=clone, env=dict(ENVIRON), capture_output=True, check=False
    )
    assert b"dubious ownership" in refused.stderr

    with git.open_repository(clone, environ=ENVIRON, token=None, under=under) as repo:
        base = baseline_base.pick_base(
            repo, base="", event_base=git_(origin, "rev-parse", "HEAD~1"), environ={}
        )
        with baseline_base.checked_out(repo, base.commit) as there:
            assert (there.root / "agent.py").read_text() == "old\n"


def test_variables_of_a_surrounding_hook_do_not_lead_astray(
    tmp_path: Path, origin: Path, under: Path
) -> None:
    other = made.made(tmp_path / "other")
    made.commit(other, {"x": "x"})
    environ = {
        **ENVIRON,
        "GIT_DIR": str(other / ".git"),
        "GIT_WORK_TREE": str(other),
        "GIT_INDEX_FILE": str(other / ".git/index"),
        "GIT_EXTERNAL_DIFF": "false",
    }
    with git.open_repository(origin, environ=environ, token=None, under=under) as repo:
        assert repo.head == git_(origin, "rev-parse", "HEAD")


def test_late_and_endless_output_is_ended(origin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = Git(environment=git.git_environment(ENVIRON))
    with pytest.raises(GitFailed, match="longer than 1 s") as late:
        runner.run("-c", "alias.sleep=!sleep 60", "sleep", cwd=str(origin), timeout_s=1)
    assert late.value.complaint is Complaint.TIMEOUT
    monkeypatch.setattr(git, "MOST_OUTPUT_BYTES", 1000)
    with pytest.raises(GitFailed, match="more than 1,000 bytes"):
        runner.run("-c", "alias.flood=!yes", "flood", cwd=str(origin), timeout_s=30)


def test_without_git_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(GitFailed, match="command not found") as failure:
        Git(environment={"PATH": str(tmp_path)}).run("status", cwd=str(tmp_path))
    assert failure.value.hint == "Install git 2.31 or newer."


# --- credentials ----------------------------------------------------------------------------------


class Remote(BaseHTTPRequestHandler):
    """Serves a repository by the dumb protocol to those who show the right header, and remembers
    what was shown."""

    shown: list[str]
    wanted: str | None
    folder: Path

    def do_GET(self) -> None:
        shown = self.headers.get_all("Authorization") or []
        self.shown.append(" + ".join(shown))
        if self.wanted is not None and shown != [self.wanted]:
            self.send_response(401)
            self.send_header("WWW-Authenticate", "Basic realm=git")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path = self.folder / self.path.partition("?")[0].removeprefix("/shop.git/")
        body = path.read_bytes() if path.is_file() else b""
        self.send_response(200 if path.is_file() else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(origin: Path) -> Iterator[tuple[type[Remote], str]]:
    git_(origin, "update-server-info")
    handler = type("Handler", (Remote,), {"shown": [], "wanted": None, "folder": origin / ".git"})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield handler, f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


def workspace(tmp_path: Path, address: str, *settings: tuple[str, str]) -> Path:
    """A repository with a commit of its own, whose origin is the server."""
    folder = made.made(tmp_path / "workspace")
    made.commit(folder, {"a": "a"})
    git_(folder, "remote", "add", "origin", f"{address}/shop.git")
    for key, value in settings:
        git_(folder, "config", key, value)
    return folder


def basic(token: str) -> str:
    return "Basic " + base64.b64encode(f"x-access-token:{token}".encode()).decode()


def test_the_checkouts_credentials_come_first_then_the_token(
    tmp_path: Path, origin: Path, under: Path, server: tuple[type[Remote], str]
) -> None:
    remote, address = server
    remote.wanted = basic(TOKEN)
    stale = basic("stale-token-of-the-checkout")
    folder = workspace(
        tmp_path, address, (f"http.{address}/.extraheader", f"Authorization: {stale}")
    )
    environ = {**ENVIRON, "GITHUB_SERVER_URL": address}
    with git.open_repository(folder, environ=environ, token=TOKEN, under=under) as repo:
        repo.fetch("refs/heads/main")
        assert repo.resolve("refs/evalgate/fetched/heads/main") == git_(origin, "rev-parse", "HEAD")
    assert remote.shown[0] == stale
    assert remote.shown[-1] == basic(TOKEN)


def test_credentials_that_the_checkout_keeps_in_a_file_of_their_own(
    tmp_path: Path, origin: Path, under: Path, server: tuple[type[Remote], str]
) -> None:
    """As actions/checkout does from version 6 on: `.git/config` only includes them."""
    remote, address = server
    remote.wanted = basic("kept-elsewhere")
    folder = workspace(tmp_path, address)
    kept = tmp_path / "credentials.config"
    git_(
        folder,
        "config",
        "--file",
        str(kept),
        f"http.{address}/.extraheader",
        f"Authorization: {remote.wanted}",
    )
    git_(folder, "config", f"includeIf.gitdir:{folder}/.git.path", str(kept))
    with git.open_repository(folder, environ=ENVIRON, token=None, under=under) as repo:
        repo.fetch("refs/heads/main")
        assert repo.resolve("refs/evalgate/fetched/heads/main") == git_(origin, "rev-parse", "HEAD")


def test_a_token_is_shown_to_its_server_alone(
    tmp_path: Path, under: Path, server: tuple[type[Remote], str]
) -> None:
    remote, address = server
    remote.wanted = basic(TOKEN)
    folder = workspace(tmp_path, address)
    environ = {**ENVIRON, "GITHUB_SERVER_URL": "https://github.com"}
    with (
        git.open_repository(folder, environ=environ, token=TOKEN, under=under) as repo,
        pytest.raises(GitFailed) as failure,
    ):
        repo.fetch("refs/heads/main")
    assert failure.value.complaint is Complaint.CREDENTIALS
    assert "contents: read" in failure.value.hint
    assert set(remote.shown) == {""}


def test_no_error_and_no_file_shows_a_secret(
    tmp_path: Path, under: Path, server: tuple[type[Remote], str]
) -> None:
    remote, address = server
    remote.wanted = "nobody has it"
    with_password = address.replace("//", "//ada:pass-word-of-ada@")
    header = (f"http.{address}/.extraheader", f"Authorization: {basic('left-by-the-checkout')}")
    folder = workspace(tmp_path, with_password, header)
    commands = tmp_path / "commands"
    shim = tmp_path / "bin" / "git"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\necho "$@" >> {commands}\nexec {shutil.which("git")} "$@"\n')
    shim.chmod(0o755)
    environ = {**ENVIRON, "PATH": f"{shim.parent}:{ENVIRON['PATH']}", "GITHUB_SERVER_URL": address}
    secrets = (
        TOKEN,
        basic(TOKEN).split()[1],
        "pass-word-of-ada",
        basic("left-by-the-checkout").split()[1],
    )
    with git.open_repository(folder, environ=environ, token=TOKEN, under=under) as repo:
        with pytest.raises(GitFailed) as failure:
            repo.fetch("refs/heads/main")
        on_disk = b"".join(path.read_bytes() for path in under.rglob("*") if path.is_file())
        said = f"{failure.value} {failure.value.hint} {failure.value.words} {repo!r}"
    assert "fetch" in commands.read_text()
    on_disk += commands.read_bytes()
    for secret in secrets:
        assert secret.encode() not in on_disk
        assert secret not in said
