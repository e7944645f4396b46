"""Whether a change touches an agent: all that git tracks counts, but for evaluation files."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from evalgate import __version__, agents as agents_module
from evalgate.config import variables
from evalgate.config.settings import Settings, of_agents
from evalgate.discovery import agents as discovery_agents
from evalgate.errors import EvalgateError
from evalgate.formats import fingerprints
from evalgate.model import AgentDescription, AgentUse, Suite
from evalgate.system import git, redact
from evalgate.system.git import Repository
from evalgate.values import Environ

SOURCES = (".py", ".js", ".ts", ".mjs", ".cjs", ".go", ".rb", ".java", ".kt", ".sh", ".yaml", ".yml", ".json", ".toml")
LARGEST_SOURCE = 1024 * 1024


def of_tree(repo: Repository, sha: str, top: Path) -> str:
    """16 hex digits over all that git tracks at `sha`, as it lies in the checkout at `top`: hidden files, data and
    prompts anywhere in the repository, files that a .gitignore names and git tracks all the same.

    Left out: evaluation files, their criteria and evalgate.yml, which are compared for what they say. They count after
    all where some source names them: an agent may read them.
    """
    listed = repo.run_bytes("ls-tree", "-r", "-z", "--full-tree", sha).decode("utf-8", "surrogateescape")
    # what git knows a file by, by its path from the top
    files = {path: known for known, _, path in (entry.partition("\t") for entry in listed.split("\0") if entry)}
    within = f"{repo.prefix}/" if repo.prefix else ""
    asides = [path for path in files if discovery_agents.is_evaluation_file(path.removeprefix(within))]
    named = _named(asides, files, top)
    left_out = {path for path in asides if path not in named}
    seen = hashlib.sha256()
    for path, known in files.items():
        if path not in left_out:
            seen.update(os.fsencode(path) + b"\0" + _content(top / path, known) + b"\0")
    return seen.hexdigest()[:16]


def of_checkout(root: Path, *, environ: Environ, under: Path) -> str:
    """`of_tree` of the commit that is checked out; "" where git cannot tell."""
    try:
        with git.open_repository(root, environ=environ, token=None, under=under) as repo:
            return of_tree(repo, repo.head, repo.source.working_tree) if repo.head else ""
    except EvalgateError:
        return ""


def _content(path: Path, known: str) -> bytes:
    """As it is on disk, where a step may have changed it, with its mode; a submodule by its commit."""
    try:
        if path.is_symlink():
            return b"link " + os.fsencode(path.readlink())
        if not path.is_file():
            return known.encode()
        with path.open("rb") as file:
            return known[:6].encode() + hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return b"unreadable"


def _named(asides: Iterable[str], files: Iterable[str], top: Path) -> frozenset[str]:
    """Those of `asides` that a source names."""
    wanted: dict[str, tuple[bytes, ...]] = {path: _spellings(path) for path in asides}
    found: set[str] = set()
    for file in files:
        if not wanted.keys() - found:
            break
        for text in _source(file, top):
            found |= {path for path, words in wanted.items() if path != file and any(word in text for word in words)}
    return frozenset(found)


def _spellings(path: str) -> tuple[bytes, ...]:
    pure = PurePosixPath(path.lower())
    return tuple(os.fsencode(name) for name in (pure.name, f'"{pure.stem}"', f"'{pure.stem}'"))


def _source(file: str, top: Path) -> Iterator[bytes]:
    """The text of a file that may be part of an agent, in lower case: no test, no workflow, nothing of ours."""
    name = file.rpartition("/")[2]
    is_test = name.startswith(("test_", "conftest")) or name.endswith("_test.py")
    is_apart = is_test or file.startswith(".github/") or discovery_agents.is_evaluation_file(file)
    if is_apart or not name.endswith(SOURCES):
        return
    try:
        if (top / file).stat().st_size <= LARGEST_SOURCE:
            yield (top / file).read_bytes().lower()
    except OSError:
        return


OF_THE_MACHINE = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "CI", "*_PROXY", "*_proxy",
    "SSL_CERT_*", "*_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "PYTHONDONTWRITEBYTECODE",
)  # fmt: skip
"""Variables that differ between two runs of one job and change no answer."""


def variables_of(environment: Environ) -> Mapping[str, str]:
    """What of an agent's variables may change what it does. Of a secret that there is one: it may be rotated, and even
    a digest of it is nothing to keep."""
    return {
        name: ("set" if value else "")
        if name in variables.KEYS or redact.is_named(name)
        else variables.USER_INFO.sub("://", value)
        for name, value in environment.items()
        if not variables.matches(name, OF_THE_MACHINE)
    }


def surroundings(
    settings: Settings,
    *,
    tree: str,
    environment: Environ,
    about: Mapping[str, str],
    description: AgentDescription | None,
) -> str:
    """What beside its own files makes an agent do what it does, as 16 hex digits; "" where that is not known. `tree`:
    see `of_tree`; `about`, `description`: what the agent said of itself when it started: its Python, its framework, its
    packages; its instructions, models and tools as they were loaded."""
    if not tree or not about:
        return ""
    machine = [platform.system(), platform.machine()]
    loaded = None if description is None else dataclasses.asdict(description)
    # where its Python lies says nothing of what is in it, and head and the base have folders of their own
    said = {name: value for name, value in about.items() if name != "interpreter"}
    told = [tree, of_agents(settings), variables_of(environment), said, loaded, machine, __version__]
    return fingerprints.digest(told)


def between(
    suites: Iterable[Suite],
    theirs: Mapping[str, AgentUse],
    *,
    settings: tuple[Settings, Settings],
    roots: tuple[Path, Path],
    trees: Callable[[], tuple[str, str]],
) -> frozenset[str]:
    """The suites whose agent is the very same on both sides (head's first): its driver and options, its files, all that
    git tracks, and the settings that reach it. What is behind a URL cannot be told. `theirs`: the base's agents."""
    ours, base = settings
    if of_agents(ours) != of_agents(base):
        return frozenset()
    own = [suite for suite in suites if _is_same_use(suite.agent, theirs[suite.key])]
    # a folder that one side alone sets apart is not left out
    apart = set(discovery_agents.apart_of(ours)) & set(discovery_agents.apart_of(base))
    codes = [discovery_agents.AgentCode(root, apart=apart) for root in roots]
    same = [suite for suite in own if codes[0].fingerprint(suite.agent) == codes[1].fingerprint(suite.agent) != ""]
    if not same:
        return frozenset()
    now, before = trees()
    return frozenset(suite.key for suite in same) if now and now == before else frozenset()


def _is_same_use(ours: AgentUse, theirs: AgentUse) -> bool:
    is_told = not (ours.is_absent or theirs.is_absent or agents_module.is_remote(ours))
    return is_told and fingerprints.agent_key(ours) == fingerprints.agent_key(theirs)
