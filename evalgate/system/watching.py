"""The files of a checkout that any process opens, in any language: by inotify, on Linux only.

The kernel reports each open of a file and of a folder in a watched folder: reads, writes, `mmap`
(by its open), started programs and libraries, paths relative to a descriptor, `/proc/self/fd`. It
reports the name in the checkout, not the process. The rules for a caller:

- A read counts under the name at the time of the entry: a renamed file counts as opened, since it
  may be read under its next name, and files of a renamed folder have their first path.
- A file in `__pycache__` counts as its source, too: Python compares size and time of the source and
  does not open it. A cache of that kind elsewhere (PYTHONPYCACHEPREFIX) is not seen.
- An open through a link is reported at its target. Targets of links, existing names, sizes and
  modes are read without an open (`readlink`, `stat`): a caller counts all of them as read.
- A hard link is reported under the name that was used: not the file's first name, if a process gave
  it a second one.
- A later folder is watched as soon as its event is read. Files that were opened in it before did
  not exist at the entry, so no commit decides their content.
- A descriptor from outside and a folder in `apart` are not seen, nor reads in a process's own mount
  that copies from the checkout (an overlay in a user namespace), nor `open_by_handle_at`, which
  needs root.
- Reads of this process count as well: close the watch first."""

from __future__ import annotations

import errno
import os
import shutil
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Self

if sys.platform == "linux":
    from inotify_simple import INotify, flags, parse_events

    FOLDER = int(flags.ISDIR)
    """The event is about a folder."""
    OPENS = int(flags.OPEN | flags.MOVED_FROM)
    """Events that count as a read."""
    ARRIVALS = int(flags.CREATE | flags.MOVED_TO)
    """Events of a new name, which may be a folder to watch."""
    LOSSES = int(flags.Q_OVERFLOW | flags.UNMOUNT)
    """Events after which opens are no longer known."""
    MASK = OPENS | ARRIVALS | int(flags.ONLYDIR | flags.DONT_FOLLOW)
    """All events of a folder, without IN_EXCL_UNLINK, which would hide the open of a file by
    /proc/self/fd after its name was removed."""

HEADER = struct.Struct("iIII")
"""The layout of an event: watch, mask, cookie, length of the name with its padding (`struct
inotify_event`)."""
BUFFER_BYTES = 1 << 20
"""The most bytes of one read."""
PAUSE_S = 0.005
"""The pause between two reads, so that one wakes the thread for many events. The queue of 16,384 is
enough for 3 million opens a second."""
DRAIN_S = 10.0
"""The longest time for reading the kernel's queue."""
MOST_PATHS = 1_000_000
"""Limit of the paths that processes can make us store; beyond it the watch is lost."""
MOST_CHARACTERS = 100_000_000
"""Limit of the characters in these paths, with the same effect."""
MOST_RECORDS = 200_000
"""The most events that are recognized by their bytes; then all are forgotten, which only costs
time."""

REASONS = {
    errno.ENOSYS: "this system has no inotify",
    errno.ENOSPC: "there are too few inotify watches (/proc/sys/fs/inotify/max_user_watches)",
    errno.EMFILE: "there are too many inotify instances or open files (/proc/sys/fs/inotify/max_user_instances)",
}
"""Why there is no watch, by the system's error."""
ABSENT = (FileNotFoundError, NotADirectoryError)
"""Errors for a folder that is gone."""


class Watch:
    """The opens in the checkout `top` during the block; no call raises.

    `apart`: files and folders that do not count, as paths relative to `top` with slashes.
    `why_lost`: "" while all opens are known, else the reason, permanently."""

    def __init__(self, top: Path, apart: Collection[str] = ()) -> None:
        """Watches from the beginning of the block on."""
        self.why_lost = ""
        self._top = os.path.realpath(top)
        self._apart = set(apart)
        self._folders: dict[int, str] = {}
        """By watch, at the time of the entry."""
        self._records: set[bytes] = set()
        """Events that need no second look."""
        self._paths: set[str] = set()
        """Opened ones, relative to the top."""
        self._characters = 0
        """In these paths."""
        self._changed = threading.Condition()
        """Notified after each read, and at the loss; guards what events change."""
        self._draining = threading.RLock()
        """Held by the thread that waits for queued events."""
        self._inotify: INotify | None = None
        """None outside of the block."""
        self._reader: threading.Thread | None = None
        """The thread that reads events; None before the block."""
        self._is_ended = False
        """True from `close` on."""
        self._private = ""
        """A folder of our own with a file `mark`; "" before the block."""
        self._private_watch = -1
        """That of our own folder."""
        self._marks = 0
        """Events of `mark` that were processed: all before them are, too."""

    def __enter__(self) -> Self:
        """Watch all folders; an error ends in `why_lost`."""
        if sys.platform != "linux":
            self._lose(REASONS[errno.ENOSYS])
            return self
        samples: dict[int, str] = {}
        try:
            # the folders are listed before the first watch, so that our own opens are not events
            listing = list(self._list_folders("", samples))
            self._inotify = INotify()
            self._private = tempfile.mkdtemp(prefix="evalgate-watch-")
            Path(self._private, "mark").touch()
            self._private_watch = self._inotify.add_watch(self._private, MASK)
            for folder in listing:
                self._add(folder)
            if not self._folders:
                raise NotADirectoryError(errno.ENOTDIR, "the checkout is not there")
            self._reader = threading.Thread(
                target=self._read, args=(self._inotify.fileno(),), daemon=True
            )
            self._reader.start()
            self._test_file_systems(samples.values())
        except OSError as error:
            self._lose_by(error)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def accessed_paths(self) -> frozenset[str]:
        """The files and folders that were opened before this call, relative to the top, which is
        "."; with the sources of files in `__pycache__`, whether they exist or not. After `close`:
        the opens until then."""
        with self._draining:
            self._drain()
        with self._changed:
            paths = frozenset(self._paths)
        return paths.union(chain.from_iterable(map(_sources, paths)))

    def close(self) -> None:
        """End the watch: later opens do not count."""
        with self._draining:
            self._drain()
            self._is_ended = True
            inotify = self._inotify
            self._inotify = None
            if inotify is not None:
                with suppress(OSError):
                    inotify.rm_watch(self._private_watch)  # an event, which wakes the thread
                if self._reader is not None:
                    self._reader.join(DRAIN_S)
                inotify.close()
            if self._private:
                shutil.rmtree(self._private, ignore_errors=True)

    # --- beginning ----------------------------------------------------------------------------

    def _list_folders(self, folder: str, samples: dict[int, str] | None = None) -> Iterator[str]:
        """`folder` and the folders below it that are to be watched. `samples`, by device: the last
        file in it.

        Raises OSError."""
        pending = [folder]
        while pending:
            folder = pending.pop()
            try:
                with os.scandir(_join(self._top, folder)) as listing:
                    entries = list(listing)
            except ABSENT:
                continue
            if samples is not None:
                files = [entry for entry in entries if entry.is_file(follow_symlinks=False)]
                device = os.lstat(_join(self._top, folder)).st_dev
                samples[device] = (
                    _join(folder, files[0].name) if files else samples.get(device, folder)
                )
            yield folder
            folders = (
                _join(folder, entry.name)
                for entry in entries
                if entry.is_dir(follow_symlinks=False)
            )
            pending += (path for path in folders if path not in self._apart)

    def _add(self, folder: str) -> bool:
        """Watch a folder; True if it was not watched yet. A renamed folder keeps its first path.
        Raises OSError."""
        inotify = self._inotify
        try:
            watch = inotify.add_watch(_join(self._top, folder), MASK) if inotify else -1
        except ABSENT:
            return False
        if watch in self._folders:
            return False
        self._folders[watch] = folder
        return True

    def _test_file_systems(self, samples: Iterable[str]) -> None:
        """Open a file of each file system: one without a lasting identity of folders reports
        nothing (9p without a cache makes another inode for each lookup)."""
        paths = []
        for path in samples:
            with suppress(OSError):
                os.close(
                    os.open(_join(self._top, path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
                )
                paths.append(path or ".")
        self._drain()
        with self._changed:
            silent_paths = [path for path in paths if path not in self._paths]
            self._paths.clear()
            self._records.clear()
        if silent_paths:
            self._lose(f"the file system of {silent_paths[0]!r} does not report what is opened")

    # --- reading ------------------------------------------------------------------------------

    def _read(self, descriptor: int) -> None:
        """Process events until the end."""
        try:
            while not (self._is_ended or self.why_lost):
                events = os.read(descriptor, BUFFER_BYTES)
                with self._changed:
                    self._process_events(events)
                    self._changed.notify_all()
                time.sleep(PAUSE_S)
        except OSError as error:
            self._lose_by(error)
        except Exception as error:  # noqa: BLE001 - after any error, opens are no longer known
            self._lose(f"the watch failed: {error!r}")

    def _process_events(self, events: bytes) -> None:
        """Process what one read brought: events one after another."""
        start = 0
        records = self._records
        while start < len(events):
            end = start + HEADER.size + HEADER.unpack_from(events, start)[3]
            record = events[start:end]
            if record not in records:
                self._process_event(record)
            start = end
        if len(records) > MOST_RECORDS:
            records.clear()
        if len(self._paths) > MOST_PATHS or self._characters > MOST_CHARACTERS:
            self._lose("too many files were opened")

    def _process_event(self, record: bytes) -> None:
        """Note an open, watch a new folder, or lose the watch."""
        watch, mask, _, name = parse_events(record)[0]
        if mask & LOSSES:
            overflow = "more was opened at once than the kernel keeps (/proc/sys/fs/inotify/max_queued_events)"
            self._lose(overflow if watch < 0 else "a file system of the checkout was unmounted")
        elif watch == self._private_watch:
            self._marks += bool(mask & OPENS and name == "mark")
            if mask & int(flags.IGNORED) and not self._is_ended:
                self._lose("the folder of the watch was removed")
        elif mask & int(flags.IGNORED):
            self._folders.pop(watch, None)
        elif watch in self._folders and mask & (OPENS | ARRIVALS):
            path = _join(self._folders[watch], name)
            if path in self._apart:
                return
            if mask & ARRIVALS and mask & FOLDER:
                with suppress(PermissionError):  # nothing is missed in a folder that is closed
                    if self._add(path):
                        for folder in self._list_folders(path):
                            self._add(folder)
            else:
                self._records.add(record)
            if mask & OPENS and path not in self._paths:
                self._paths.add(path or ".")
                self._characters += len(path)

    def _drain(self) -> None:
        """Wait until all queued events are processed. The queue is in order: they are when our own
        open is."""
        with self._changed:
            if self._reader is None or self._is_ended or self.why_lost:
                return
            marks = self._marks
            try:
                os.close(os.open(f"{self._private}/mark", os.O_RDONLY))
            except OSError as error:
                self._lose_by(error)
            if not self._changed.wait_for(lambda: self.why_lost or self._marks > marks, DRAIN_S):
                self._lose("the kernel's events are not read in time")

    # --- the loss of the watch
    # ---------------------------------------------------------------------

    def _lose(self, reason: str) -> None:
        """Keep the first reason, and wake threads that wait for events."""
        with self._changed:
            self.why_lost = self.why_lost or reason
            self._changed.notify_all()

    def _lose_by(self, error: OSError) -> None:
        """Lose the watch, with the reason of an error."""
        if isinstance(error, PermissionError):
            self._lose(f"{error.filename!r} cannot be read")
        else:
            self._lose(REASONS.get(error.errno or 0, f"the watch failed: {error.strerror}"))


def attribute_opens(
    files: frozenset[str], claims: Mapping[str, frozenset[str]], opaque: Collection[str]
) -> dict[str, frozenset[str]]:
    """The opened files, by agent, if several agents run in one checkout.

    `claims`: the files that each agent's tracers saw. `opaque`: agents that no tracer sees fully. A
    claimed file counts for the agents that claim it and for the opaque ones; any other file counts
    for every agent."""
    claimed_files = frozenset().union(*claims.values())
    agents = claims.keys() | set(opaque)
    return {
        agent: (claimed_files | files)
        if agent in opaque
        else claims[agent] | (files - claimed_files)
        for agent in sorted(agents)
    }


def _join(folder: str, name: str) -> str:
    """A path below a folder; either part may be ""."""
    return f"{folder}/{name}" if folder and name else folder or name


def _sources(path: str) -> Iterator[str]:
    """The modules that a file in `__pycache__` may be compiled from: its name before any of its
    dots."""
    package, _, name = path.rpartition("/")
    if name.endswith(".pyc") and (package == "__pycache__" or package.endswith("/__pycache__")):
        parts = name.split(".")[:-1]
        for count in range(1, len(parts)):
            yield _join(
                package.removesuffix("__pycache__").removesuffix("/"),
                ".".join(parts[:count]) + ".py",
            )
