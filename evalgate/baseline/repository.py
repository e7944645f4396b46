"""A private repository that borrows the user's objects: we fetch and check out here, and nothing of theirs changes.

No setting of the user's repository is in force here but those that `source` takes over, so that none can run a
command (docs/decisions/008-private-repository.md).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from evalgate.baseline import git_environment, private_folder, source
from evalgate.baseline.git import MOST_OUTPUT_BYTES, NETWORK_TIMEOUT_S, Complaint, Git, GitFailed
from evalgate.baseline.source import Remote, Source

GITHUB = "https://github.com"

Settings = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """What is asked for commits, and what they are fetched into.

    `root`: evalgate's, as given; `prefix`: where it lies below the top of the working tree, "" for the top itself;
    `folder`: private, gone at the end; `ways`: settings with which the remote is asked, one after the other.
    """

    root: Path
    prefix: str
    source: Source
    folder: Path
    git_dir: Path
    remote: Remote
    head: str
    git: Git
    ways: tuple[Settings, ...] = field(default=(), repr=False)

    def run(self, *arguments: str, given: bytes = b"", environment: Mapping[str, str] | None = None) -> str:
        """What `git ARGUMENTS` says, blanks around it cut; no network. Raises GitFailed."""
        return _text(self.run_bytes(*arguments, given=given, environment=environment))

    def run_bytes(
        self,
        *arguments: str,
        given: bytes = b"",
        environment: Mapping[str, str] | None = None,
        sink: Callable[[bytes], object] | None = None,
        most_bytes: int = MOST_OUTPUT_BYTES,
    ) -> bytes:
        """As `run`, every byte of it; see `Git.run`."""
        return self.git.run(
            f"--git-dir={self.git_dir}",
            *arguments,
            cwd=str(self.folder),
            given=given,
            environment=environment,
            sink=sink,
            most_bytes=most_bytes,
        )

    def run_with_remote(
        self, *arguments: str, timeout_s: float = NETWORK_TIMEOUT_S, most_bytes: int = MOST_OUTPUT_BYTES
    ) -> bytes:
        """As `run_bytes`, with the remote `origin` at hand: with the credentials of the checkout, else with the token.

        Raises GitFailed, that of the last way.
        """
        if not self.remote.url:
            raise GitFailed(
                command=f"git {arguments[0]}", words="the repository has no remote", complaint=Complaint.MISSING
            )
        for number, way in enumerate(self.ways):
            try:
                return self.git.run(
                    f"--git-dir={self.git_dir}",
                    *arguments,
                    cwd=str(self.folder),
                    timeout_s=timeout_s,
                    most_bytes=most_bytes,
                    settings=[*way, *self.remote.partial],
                )
            except GitFailed as error:
                # to those who may not see it, GitHub says that a private repository is not there
                may_help = error.complaint in {Complaint.CREDENTIALS, Complaint.MISSING}
                if not may_help or number + 1 == len(self.ways):
                    raise
        raise AssertionError("there is always a way")

    def fetch(self, *names: str, depth: int | None = None, deepen: int | None = None) -> None:
        """Fetch commits or refs by name, and no tag. Raises GitFailed."""
        options = [f"--depth={depth}"] if depth else [f"--deepen={deepen}"] if deepen else []
        specs = [f"+{name}:refs/evalgate/fetched/{name.removeprefix('refs/')}" for name in names]
        quiet = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
        self.run_with_remote("fetch", *quiet, *options, "origin", *specs)

    def has_commit(self, sha: str) -> bool:
        """Whether the commit is here."""
        return source.is_full_sha(sha) and self.resolve(sha) == sha

    def resolve(self, name: str) -> str | None:
        """The commit that a name (branch, tag, SHA, `HEAD~2`) stands for here; None where it stands for none."""
        if not name or name.startswith("-") or "\0" in name or "\n" in name:
            return None
        try:
            return self.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}") or None
        except GitFailed as error:
            if error.complaint in {Complaint.NO_GIT, Complaint.TIMEOUT}:
                raise
            return None

    @property
    def is_shallow(self) -> bool:
        """Whether history ends somewhere because it was not fetched further."""
        shallow = self.git_dir / "shallow"
        return shallow.is_file() and shallow.stat().st_size > 0


@contextlib.contextmanager
def opened(root: Path, *, environ: Mapping[str, str], token: str | None, under: Path) -> Iterator[Repository]:
    """The repository that `root` lies in, for as long as the block lasts; what is private lies in `under`.

    The user's settings are read now and never again: open it before an agent runs. Raises UnavailableError.
    """
    found = source.find(root)
    with private_folder.made(under) as folder:
        yield _borrowed(found, root=root, environ=environ, token=token, folder=folder)


def borrowed_submodule(found: Source, *, parent: Repository, folder: Path) -> Repository:
    """A repository of a submodule, without a remote, in a new `folder` of the parent's. Raises GitFailed."""
    folder.mkdir()
    return _private(found, root=found.working_tree, git=parent.git, folder=folder)


def empty_beside(repo: Repository, name: str) -> Repository:
    """An empty repository in a new folder of `repo`'s, with the same remote; contents are fetched when asked for."""
    folder = repo.folder / name
    folder.mkdir()
    git_dir = folder / "repository.git"
    kind = f"--object-format={'sha256' if len(repo.head) == 64 else 'sha1'}"
    repo.git.run("init", "--bare", "--quiet", "--template=", kind, str(git_dir), cwd=str(folder))
    partial = (("remote.origin.promisor", "true"), ("remote.origin.partialclonefilter", "blob:none"))
    return replace(repo, folder=folder, git_dir=git_dir, head="", remote=replace(repo.remote, partial=partial))


def _borrowed(found: Source, *, root: Path, environ: Mapping[str, str], token: str | None, folder: Path) -> Repository:
    server = environ.get("GITHUB_SERVER_URL") or GITHUB
    git = Git(
        environment=git_environment.kept_of(environ),
        settings=[*git_environment.given_settings(environ), *git_environment.HARDENED],
    )
    settings = tuple(source.read_settings(git, found.git_dir, cwd=folder))
    remote = source.parse_remote(settings, working_tree=found.working_tree)
    git = replace(git, secrets=_secrets(remote, token))
    return _private(
        found, root=root, git=git, folder=folder, remote=remote, ways=_ways(remote, token=token, server=server)
    )


def _private(
    found: Source,
    *,
    root: Path,
    git: Git,
    folder: Path,
    remote: Remote | None = None,
    ways: tuple[Settings, ...] = (),
) -> Repository:
    """A bare repository in `folder` with the branches of `found`, whose objects it borrows."""
    git_dir = folder / "repository.git"
    settings = dict(source.read_settings(git, found.git_dir, cwd=folder))
    kind = f"--object-format={source.object_format(settings)}"
    git.run("init", "--bare", "--quiet", "--template=", kind, str(git_dir), cwd=str(folder))
    (git_dir / "objects" / "info").mkdir(exist_ok=True)
    (git_dir / "objects" / "info" / "alternates").write_bytes(quoted_path(found.common_dir / "objects"))
    _copy(found.common_dir / "shallow", git_dir / "shallow")
    refs = source.read_refs(git, found.git_dir, cwd=folder)
    (git_dir / "packed-refs").write_text(refs, encoding="utf-8", errors="surrogateescape")
    head = _read_head(git, found, folder)
    if head:
        (git_dir / "HEAD").write_text(f"{head}\n", encoding="ascii")
    sparse = source.parse_sparse(settings)
    if sparse:
        (git_dir / "info").mkdir(exist_ok=True)
        _copy(found.git_dir / "info" / "sparse-checkout", git_dir / "info" / "sparse-checkout")
    return Repository(
        root=root,
        prefix=_prefix(root, found),
        source=found,
        folder=folder,
        git_dir=git_dir,
        remote=remote or Remote(),
        head=head,
        git=replace(git, settings=[*git.settings, *sparse]),
        ways=ways,
    )


def _copy(path: Path, to: Path) -> None:
    if path.is_file():
        to.write_bytes(path.read_bytes())


def _text(said: bytes) -> str:
    return said.decode("utf-8", "surrogateescape").strip()


def _read_head(git: Git, found: Source, folder: Path) -> str:
    try:
        return source.read_head(git, found.git_dir, cwd=folder)
    except GitFailed as error:
        if error.complaint is not Complaint.MISSING:
            raise
        return ""  # a branch without a commit


def _prefix(root: Path, found: Source) -> str:
    below = root.resolve().relative_to(found.working_tree).as_posix()
    return "" if below == "." else below


def quoted_path(path: Path) -> bytes:
    """A path as a line of `objects/info/alternates`, quoted as in C."""
    data = str(path).encode("utf-8", "surrogateescape")
    plain = b"".join(bytes([byte]) if 32 <= byte < 127 and byte not in b'"\\' else b"\\%03o" % byte for byte in data)
    return b'"' + plain + b'"\n'


def _ways(remote: Remote, *, token: str | None, server: str) -> tuple[Settings, ...]:
    ways: list[Settings] = [[*remote.headers, ("remote.origin.url", remote.url)]]
    if token:
        url = over_https(remote.url, server=server)
        ways.append([*git_environment.token_settings(token, server=server), ("remote.origin.url", url)])
    return tuple(ways)


def over_https(url: str, *, server: str) -> str:
    """An ssh address of `server` as the https address that a token opens; any other address as it is."""
    host = urlsplit(server).hostname or ""
    found = re.fullmatch(r"(?:ssh://)?(?:[^@/]+@)?([^:/@]+)(?::\d+/|[:/])(.+)", url)
    if found is None or "://" in url.removeprefix("ssh://") or found[1] != host:
        return url
    return f"{server.rstrip('/')}/{found[2]}"


def _secrets(remote: Remote, token: str | None) -> dict[str, str]:
    """What no error may show: the token, as it stands and as git sends it, and headers of the checkout."""
    found = {f"header {number}": value for number, (_, value) in enumerate(remote.headers) if value}
    found |= {f"credential {number}": value.split()[-1] for number, (_, value) in enumerate(remote.headers) if value}
    user_and_password = urlsplit(remote.url).netloc.rpartition("@")[0] if "://" in remote.url else ""
    if user_and_password:
        found |= {"address": user_and_password, "password": user_and_password.rpartition(":")[2]}
    if token:
        found |= {"token": token, "basic": git_environment.basic(token)}
    return found
