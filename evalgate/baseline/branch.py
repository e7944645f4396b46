"""Base results on a branch of the remote, one commit a run, written without any checkout and safe in a race."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from evalgate.baseline import layout
from evalgate.baseline.layout import Entry, Unreadable
from evalgate.baseline.store import BADGE, HISTORY, Revise, Stored, Warn
from evalgate.errors import UnavailableError
from evalgate.system import git
from evalgate.system.git import Complaint, GitFailed, Repository

PATIENCE_S = 300.0
LONGEST_PAUSE_S = 8.0
AUTHOR = ("evalgate", "evalgate@users.noreply.invalid")
_HISTORY = "Evalgate-History"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tip:
    """The branch as it was fetched: its commit ("" where it does not exist), its plain files, names of what else stands
    at its top (links, folders), how many commits it has."""

    commit: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    others: frozenset[str] = frozenset()
    history: int = 0

    @property
    def entries(self) -> list[Entry]:
        """The runs that it holds."""
        prefix = f"{layout.RUNS}/"
        return layout.parse_names(name.removeprefix(prefix) for name in self.files if name.startswith(prefix))

    @property
    def is_ours(self) -> bool:
        """Whether somebody keeps results of runs there, or nothing at all: a branch of code is no place for them."""
        return not self.commit or bool(self.entries) or not self.has_more

    @property
    def has_more(self) -> bool:
        """Whether others keep something there."""
        ours = {layout.README, HISTORY, BADGE, *(f"{layout.RUNS}/{each.name}" for each in self.entries)}
        return bool(self.files.keys() - ours or self.others - {layout.RUNS})


class DataBranch:
    """See `store.Store`. Only what is asked for is fetched; each save is one commit on top of the newest.

    After twice `keep` commits the branch starts anew with what it holds, so that clones of the repository do not
    carry old runs for ever; where others keep something there, or the remote allows no such push, it goes on growing.
    """

    def __init__(
        self,
        repo: Repository,
        *,
        branch: str,
        keep: int = layout.KEPT_RUNS,
        warn: Warn = lambda _: None,
        pause: Callable[[float], None] = time.sleep,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`repo`: any repository whose remote holds the branch. Raises UnavailableError for an impossible name."""
        if not _is_branch_name(branch):
            raise UnavailableError(f"{branch!r} is not a valid branch name")
        self._repo = git.empty_beside(repo, f"data-{random.randrange(16**8):08x}")  # noqa: S311 - no secret
        self._branch = branch
        self._keep = keep
        self._warn = warn
        self._pause = pause
        self._patience_s = patience_s
        self._may_start_anew = True

    @property
    def name(self) -> str:
        """How people call it."""
        return f"data branch {self._branch}"

    def find(self, candidates: Sequence[str]) -> Stored | None:
        """See `store.Store`."""
        tip = self._fetched()
        for distance, entry in layout.pick(tip.entries, candidates):
            path = self._repo.folder / f"{entry.commit}.json"
            path.unlink(missing_ok=True)
            try:
                layout.unpack(self._blob(tip.files[f"{layout.RUNS}/{entry.name}"], layout.MOST_PACKED_BYTES), path)
            except (Unreadable, GitFailed) as error:
                why = error.words if isinstance(error, GitFailed) else str(error)
                self._warn(f"{entry.name} on the {self.name} was ignored: it {why}")
            else:
                return Stored(commit=entry.commit, saved_at=entry.saved_at, distance=distance, path=path)
        return None

    def read(self, name: str) -> bytes | None:
        """See `store.Store`."""
        tip = self._fetched()
        if name in tip.others:
            raise UnavailableError(f"{name} on the {self.name} is not a plain file")
        return self._read(tip, name)

    def save(self, commit: str, results: Path, *, now: datetime, revise: Revise | None = None) -> None:
        """See `store.Store`. Raises GitFailed where others push faster for `patience_s`, or the token may not, and
        UnavailableError for a branch that holds other things and no run."""
        entry = layout.made_now(commit, now)
        packed = self._repo.folder / "packed.gz"
        layout.pack(results, packed)
        run = self._repo.run("hash-object", "-w", "--no-filters", str(packed))
        deadline = time.monotonic() + self._patience_s
        for pause in _pauses():
            tip = self._fetched()
            if not tip.is_ours:
                raise UnavailableError(
                    f"the branch {self._branch} contains other files and no results, so none are stored there",
                    hint="Set `data-branch` to a separate branch; it need not exist yet.",
                )
            try:
                self._push(self._made(tip, entry, run=run, revise=revise, now=now), tip)
            except GitFailed as error:
                if self._may_start_anew and self._starts_anew(tip) and "remote rejected" in error.words:
                    self._may_start_anew = False
                elif error.complaint is not Complaint.LOST_RACE or time.monotonic() > deadline:
                    raise
                self._pause(pause)
            else:
                return

    # --- reading -----------------------------------------------------------------------------------

    def _fetched(self) -> _Tip:
        ref = f"refs/heads/{self._branch}"
        spec = f"+{ref}:refs/evalgate/data"
        try:
            self._repo.run_with_remote(
                "fetch",
                "--quiet",
                "--no-tags",
                "--no-write-fetch-head",
                "--depth=1",
                "--filter=blob:none",
                "origin",
                spec,
            )
        except GitFailed as error:
            if error.complaint is Complaint.MISSING and "couldn't find remote ref" in error.words:
                return _Tip()
            raise
        commit = self._repo.run("rev-parse", "--verify", "refs/evalgate/data")
        message = self._repo.run_bytes("cat-file", "commit", commit).decode("utf-8", "replace")
        found = re.findall(rf"^{_HISTORY}: (\d{{1,9}})$", message, re.MULTILINE)
        listed = list(self._listed(commit))
        return _Tip(
            commit=commit,
            files={name: blob for name, blob in listed if blob},
            others=frozenset(name for name, blob in listed if not blob),
            history=int(found[-1]) if found else 1,
        )

    def _listed(self, commit: str) -> Iterator[tuple[str, str]]:
        """What is at the top and in `runs`: plain files with their object names, all else with ""."""
        for tree in (f"{commit}:", f"{commit}:{layout.RUNS}"):
            try:
                listed = self._repo.run_bytes("ls-tree", "-z", tree).decode("utf-8", "surrogateescape")
            except GitFailed:
                continue  # no `runs` yet
            prefix = f"{layout.RUNS}/" if tree.endswith(layout.RUNS) else ""
            for line in listed.split("\0"):
                about, _, name = line.partition("\t")
                if name:
                    yield prefix + name, about.split()[2] if about.startswith("100644 blob ") else ""

    def _read(self, tip: _Tip, name: str) -> bytes | None:
        return self._blob(tip.files[name], layout.MOST_HISTORY_BYTES) if name in tip.files else None

    def _blob(self, blob: str, most_bytes: int) -> bytes:
        return self._repo.run_with_remote("cat-file", "blob", blob, most_bytes=most_bytes)

    # --- writing -----------------------------------------------------------------------------------

    def _made(self, tip: _Tip, entry: Entry, *, run: str, revise: Revise | None, now: datetime) -> str:
        """A commit that adds the run to the tip."""
        files = {f"{layout.RUNS}/{entry.name}": run}
        if layout.README not in tip.files:
            files[layout.README] = self._written(layout.README_TEXT.encode())
        for name, data in (revise(self._read(tip, HISTORY)) if revise else {}).items():
            files[name] = self._written(data)
        dropped = layout.pick_dropped(tip.entries, keep=self._keep, new=entry)
        lines = [f"100644 {blob}\t{name}\0" for name, blob in files.items()]
        lines += [f"0 {'0' * len(run)}\t{layout.RUNS}/{each.name}\0" for each in dropped]
        index = self._repo.folder / "index"
        index.unlink(missing_ok=True)
        at_index = {"GIT_INDEX_FILE": str(index)}
        if tip.commit:
            self._repo.run("read-tree", tip.commit, environment=at_index)
        self._repo.run("update-index", "-z", "--index-info", given="".join(lines).encode(), environment=at_index)
        tree = self._repo.run("write-tree", "--missing-ok", environment=at_index)
        return self._commit(tree, tip, entry, now=now)

    def _written(self, data: bytes) -> str:
        path = self._repo.folder / "file"
        path.write_bytes(data)
        return self._repo.run("hash-object", "-w", "--no-filters", str(path))

    def _commit(self, tree: str, tip: _Tip, entry: Entry, *, now: datetime) -> str:
        anew = not tip.commit or (self._may_start_anew and self._starts_anew(tip))
        parents = () if anew else ("-p", tip.commit)
        history = 1 if anew else tip.history + 1
        # [skip ci]: a push with a personal token would start the workflows of every push
        message = f"Results of {entry.commit[:12]} [skip ci]\n\n{_HISTORY}: {history}\n"
        date = f"{int(now.timestamp())} +0000"
        name, email = AUTHOR
        who = {
            "GIT_AUTHOR_NAME": name,
            "GIT_AUTHOR_EMAIL": email,
            "GIT_AUTHOR_DATE": date,
            "GIT_COMMITTER_NAME": name,
            "GIT_COMMITTER_EMAIL": email,
            "GIT_COMMITTER_DATE": date,
        }
        return self._repo.run("commit-tree", tree, *parents, given=message.encode(), environment=who)

    def _starts_anew(self, tip: _Tip) -> bool:
        return tip.history >= 2 * self._keep and not tip.has_more

    def _push(self, commit: str, tip: _Tip) -> None:
        """Have the branch hold `commit`, provided that it still holds `tip`."""
        ref = f"refs/heads/{self._branch}"
        lease = f"--force-with-lease={ref}:{tip.commit}"
        self._repo.run_with_remote("push", "--quiet", "--no-verify", lease, "origin", f"{commit}:{ref}")


def _pauses() -> Iterator[float]:
    """Seconds to wait after each lost race: longer and longer, and never two runs alike."""
    longest = 0.1
    while True:
        yield random.uniform(0, longest)  # noqa: S311 - no secret
        longest = min(2 * longest, LONGEST_PAUSE_S)


def _is_branch_name(name: str) -> bool:
    """Whether git takes the name, near enough; what it refuses beyond this it says itself."""
    return (
        re.fullmatch(r"(?![-/.])(?!.*(?:\.\.|//|@\{|\.lock$|\.lock/|/\.|[/.]$))[^\s\x00-\x1f\x7f~^:?*\[\\]+", name)
        is not None
    )
