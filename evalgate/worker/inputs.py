"""The questions that the agent's process asks of its checkout.

An audit hook observes opened files and listed folders. Functions of `os` that raise no audit event
are wrapped. Each question is one text and is reported once; its meaning and a checkout's answer are
described in `evalgate/system/inputs.py`. An ambiguous access becomes the question `everything`."""

from __future__ import annotations

import functools
import importlib
import os
import stat
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

Message = dict[str, Any]

FILE = "file"
NAME = "name"
FOLDER = "folder"
ENTRIES = "entries"
MODULE = "module"
PACKAGES = "packages"
PYC = "pyc"
NAMES = "names"
EVERYTHING = "everything"

MOST_QUESTIONS = 20_000
MOST_CHARACTERS = 2_000_000
LINE_CHARACTERS = 50_000
MOST_FOLDERS = 20_000
MOST_LINKS = 40
"""On the way to one file, as in Linux."""

WORKER = os.path.dirname(os.path.abspath(__file__)) + "/"
STANDARD = os.path.dirname(os.path.abspath(os.__file__)) + "/"
IMPORTER = "<frozen importlib._bootstrap_external>"
BYTECODE_WRITERS = frozenset({"_write_atomic", "set_data", "_calc_mode"})
METADATA = ("importlib.metadata", "importlib_metadata", "pkg_resources")
METADATA_LISTERS = frozenset({"children", "safe_listdir", "find_on_path"})
NAME_FUNCTIONS = frozenset({
    "exists", "lexists", "isfile", "isdir", "islink", "ismount", "is_file", "is_dir", "is_symlink", "is_mount",
    "realpath", "_joinrealpath",
})  # fmt: skip
"""Functions of the standard library that call `stat` or `lstat` only to check for a file or
folder."""
CHILDREN = (
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty",
)  # fmt: skip
WRAPPED = ("stat", "lstat", "access", "readlink", "open")
SUPPORTS = ("supports_dir_fd", "supports_fd", "supports_follow_symlinks", "supports_effective_ids")

read_link: Callable[[str], str] = os.readlink  # the originals, which ask nothing
status_of: Callable[[str], os.stat_result] = os.stat


def start(top: str) -> Tracer | None:
    """Trace this process from now on, in the checkout at `top` (absolute); None if this Python
    reports too little."""
    if os.name != "posix" or sys.implementation.name != "cpython":
        return None
    tracer = Tracer(top)
    tracer.ask_for_modules()
    tracer.wrap()
    sys.addaudithook(tracer.hook())
    return tracer


class Tracer:
    """The questions that were asked of the checkout at `top`; safe to use from many threads.

    `is_opaque`: a child process or a library that reports nothing was started or loaded.
    """

    def __init__(self, top: str) -> None:
        self.is_opaque = False
        self._real_top = os.path.realpath(top)
        self._tops = tuple(dict.fromkeys((self._real_top, os.path.abspath(top))))
        self._inside = tuple(f"{top}/" for top in self._tops)
        self._skipped = self._package_folders()
        self._elsewhere: set[str] = set()
        self._texts: set[str] = set()
        self._asked: set[str] = set()
        self._fresh: deque[str] = deque()
        self._characters = 0
        self._last_opaque: bool | None = None

    def messages(self) -> list[Message]:
        """What is new since the last time, in lines of a moderate length; the first time there is
        one at least."""
        groups: list[list[str]] = []
        room = 0
        with suppress(IndexError):
            while True:
                question = self._fresh.popleft()
                if len(question) > room:
                    groups.append([])
                    room = LINE_CHARACTERS
                room -= len(question)
                groups[-1].append(question)
        is_opaque = self.is_opaque
        if not groups and self._last_opaque != is_opaque:
            groups.append([])
        self._last_opaque = is_opaque
        return [
            {"type": "inputs", "questions": questions, "opaque": is_opaque} for questions in groups
        ]

    def ask(self, question: str) -> None:
        """Keep a question that was not asked before; too many of them are `everything`."""
        if question in self._asked or EVERYTHING in self._asked:
            return
        self._characters += len(question)
        if len(self._asked) >= MOST_QUESTIONS or self._characters > MOST_CHARACTERS:
            question = EVERYTHING
        self._asked.add(question)
        self._fresh.append(question)

    def give_up(self) -> None:
        """Something was asked, and nobody can say what."""
        self.ask(EVERYTHING)

    # --- where a path lies ---

    def _package_folders(self) -> tuple[str, ...]:
        """Folders without questions, with a slash at the end: their packages distinguish them."""
        prefixes = [sys.prefix, sys.exec_prefix] if sys.prefix != sys.base_prefix else []
        prefix_places = [WORKER, *(f"{place}/" for place in prefixes)]
        package_places = [
            STANDARD,
            *(f"{place}/" for place in sys.path if place.startswith("/") and "-packages" in place),
        ]
        places = dict.fromkeys(
            f"{form(place)}/"
            for place in (*prefix_places, *package_places)
            for form in (os.path.abspath, os.path.realpath)
        )
        return tuple(
            place
            for place in places
            if not any(top.startswith(place) for top in self._inside)
            and (not place.startswith(self._inside) or place.startswith(tuple(prefix_places)))
        )

    def is_skipped(self, path: Any) -> bool:
        """True if a path is plainly in a folder without questions: nearly all imports are."""
        return type(path) is str and path.startswith(self._skipped) and "/.." not in path

    def _text(self, path: Any, dir_fd: Any = None) -> str | None:
        """The absolute path; None if it cannot be in the checkout, or is not a path. Raises
        OSError."""
        if not isinstance(path, (str, bytes)) and not hasattr(path, "__fspath__"):
            return None  # a descriptor: whatever opened it has asked
        text: str = os.fsdecode(path)
        if not text.startswith("/"):
            base = os.getcwd() if dir_fd in (None, -1) else read_link(f"/proc/self/fd/{dir_fd}")
            text = f"{base}/{text}"
        if self.is_skipped(text):
            return None
        return (
            text
            if text.startswith(self._inside) or text in self._tops or self._leads_inside(text)
            else None
        )

    def _leads_inside(self, path: str) -> bool:
        """True if a path that is spelled as outside the checkout leads into it by a link, or by
        `..`."""
        folder, _, name = path.rpartition("/")
        if folder in self._elsewhere and name not in (".", ".."):
            try:
                read_link(path)
            except (OSError, ValueError):
                return False
        elif not self._relative(resolve(folder, [])):
            if len(self._elsewhere) >= MOST_FOLDERS:
                self._elsewhere.clear()
            self._elsewhere.add(folder)
        return bool(self._relative(resolve(path, [])))

    def _relative(self, place: str) -> str:
        """A normal path as one relative to the top; "" if it is outside or in a folder without
        questions."""
        if place in self._tops:
            return "."
        for top in self._inside:
            if place.startswith(top) and not f"{place}/".startswith(self._skipped):
                return place[len(top) :]
        return ""

    def _tell(self, kind: str, text: str, *, follows: bool = True) -> None:
        """Ask for a path as it is spelled, for its target, and for the links on the way."""
        key = kind + text
        if key in self._texts:
            return
        if len(self._texts) > MOST_QUESTIONS:
            self._texts.clear()
        self._texts.add(key)
        links: list[str] = []
        folder, _, name = text.rpartition("/")
        is_plain = follows or name in (".", "..")
        real = resolve(text, links) if is_plain else f"{resolve(folder, links)}/{name}"
        for link in links:
            if relative := self._relative(link):
                self.ask(f"{NAME} {spelling(relative)}")
        for place in dict.fromkeys((os.path.normpath(text), real)):
            if relative := self._relative(place):
                self.ask(f"{kind} {spelling(relative)}")

    # --- what Python does ---

    def hook(self) -> Callable[[str, tuple[Any, ...]], None]:
        """The audit hook. It never raises."""
        handlers: dict[str, Callable[..., None]] = {
            **dict.fromkeys(CHILDREN, self._start_child),
            "open": self._open,
            "os.listdir": self._list,
            "os.scandir": functools.partial(self._list, scans=True),
            "os.mkdir": lambda path, _mode, dir_fd: self._change(path, dir_fd),
            "os.remove": self._change,
            "os.rmdir": self._change,
            "os.rename": self._move,
            "os.link": self._move,
            "os.symlink": self._link,
            "import": self._import,
            "sqlite3.connect": self._connect,
            "ctypes.dlopen": self._load_library,
        }

        def hook(event: str, values: tuple[Any, ...]) -> None:
            handle = handlers.get(event)
            if handle is not None:
                try:
                    handle(*values)
                except Exception:
                    self.give_up()

        return hook

    def _open(self, path: Any, mode: Any, flags: int) -> None:
        if self.is_skipped(path):
            return
        writes_only = flags & os.O_ACCMODE == os.O_WRONLY
        if writes_only and not flags & os.O_EXCL:
            return
        text = self._text(path, _folder_descriptor() if mode is None else None)
        caller = _caller()
        if text is None or _is_quiet(caller):
            return
        if text.endswith(".pyc") and _is_bytecode_of_source(caller, path):
            self._tell(PYC, text)
        else:
            self._tell(NAME if writes_only else FILE, text)

    def _list(self, path: Any = None, *, scans: bool = False) -> None:
        path = "." if path is None else path
        text = self._text(read_link(f"/proc/self/fd/{path}") if isinstance(path, int) else path)
        caller = _caller()
        code = caller.f_code
        if text is None or code.co_filename == IMPORTER or _is_quiet(caller):
            return
        if code.co_name in METADATA_LISTERS and str(caller.f_globals.get("__name__")).endswith(
            METADATA
        ):
            self._tell(PACKAGES, text)
        else:
            self._tell(FOLDER if not scans or _is_standard(code.co_filename) else ENTRIES, text)

    def _change(self, path: Any, dir_fd: Any = None) -> None:
        """A folder is made, a name is removed: that fails, or not, by what is there."""
        text = self._text(path, dir_fd)
        if text is not None and not _is_quiet(_caller()):
            self._tell(NAME, text, follows=False)

    def _move(self, source: Any, _target: Any, dir_fd: Any = None, _target_fd: Any = None) -> None:
        """A file gets another name, under which it may be read."""
        text = self._text(source, dir_fd)
        self._forget_places()
        if text is not None and not _is_quiet(_caller()):
            self._tell(FILE, text)
            with suppress(OSError):
                if stat.S_ISDIR(status_of(text).st_mode):
                    self.give_up()

    def _link(self, *_: Any) -> None:
        self._forget_places()

    def _forget_places(self) -> None:
        self._elsewhere.clear()
        self._texts.clear()

    def _import(self, _module: Any, file: Any, *_: Any) -> None:
        if file:
            text = self._text(file)
            if text is not None:
                self._tell(FILE, text)

    def _connect(self, database: Any) -> None:
        path = os.fsdecode(database)
        if path.startswith("file:"):
            from urllib.parse import unquote, urlsplit

            path = unquote(urlsplit(path).path)
        text = self._text(path) if path and path != ":memory:" else None
        for suffix in ("", "-journal", "-wal") if text is not None else ():
            self._tell(FILE, f"{text}{suffix}")

    def _load_library(self, name: Any) -> None:
        caller: FrameType | None = _caller()
        while caller is not None and f"{os.sep}ctypes{os.sep}" in caller.f_code.co_filename:
            if name is None and caller.f_code.co_name == "<module>":
                return  # ctypes itself, which only takes hold of this process
            caller = caller.f_back
        text = self._text(name) if name and "/" in os.fsdecode(name) else None
        if text is not None:
            self._tell(FILE, text)
        self._start_child()

    def _start_child(self, *_: Any) -> None:
        self.is_opaque = True
        self.ask(NAMES)

    def ask_for_modules(self) -> None:
        """Ask for what was imported until now, from folders that variables or installed packages
        name."""
        stems = {
            "sitecustomize",
            "usercustomize",
            *(name.partition(".")[0] for name in sys.modules),
        }
        for folder in sys.path:
            text = self._text(folder or os.getcwd())
            for stem in stems if text is not None else ():
                self._tell(MODULE, f"{text}/{stem}", follows=False)
        files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        if any(isinstance(file, str) and self._text(file) is not None for file in files):
            self.give_up()

    # --- functions that raise no audit event ---

    def wrap(self) -> None:
        """Put functions that ask in the place of those of `os`, wherever the standard library keeps
        them."""
        system = importlib.import_module(os.name)
        notes = {"readlink": self._read_link, "open": None}
        for name in WRAPPED:
            real = getattr(os, name)
            questioner = Questioner(real, notes.get(name, self._status), self)
            for supported in SUPPORTS:
                if real in getattr(os, supported):
                    getattr(os, supported).add(questioner)
            accessor = getattr(sys.modules.get("pathlib"), "_NormalAccessor", None)  # Python 3.10
            for holder in (os, system, accessor):
                if getattr(holder, name, None) is real:
                    setattr(holder, name, questioner)
        import _posixsubprocess

        fork = Questioner(_posixsubprocess.fork_exec, self._start_child, self)
        _posixsubprocess.fork_exec = fork  # multiprocessing calls it by itself

    def _status(
        self, path: Any, *, dir_fd: Any = None, follow_symlinks: bool = True, is_link: bool = False
    ) -> None:
        """`stat`, `lstat` and `access`."""
        text = self._text(path, dir_fd)
        if text is None:
            return
        follows = follow_symlinks and not is_link
        caller = _caller()
        if caller.f_code.co_filename == IMPORTER:
            self._look_up(text, caller)
            return
        while (
            caller.f_back is not None
            and caller.f_code.co_name in ("stat", "lstat")
            and _is_pathlib(caller)
        ):
            caller = caller.f_back
        is_name = caller.f_code.co_name in NAME_FUNCTIONS and _is_standard(
            caller.f_code.co_filename
        )
        if is_name or not follows:
            self._tell(NAME, text, follows=follows)
        if not is_name:
            self._tell(FILE, text)

    def _look_up(self, text: str, caller: FrameType) -> None:
        """The import system asks for the status of a file or folder."""
        reason = caller.f_back
        name = "" if reason is None else reason.f_code.co_name
        if reason is not None and name == "find_spec":
            stem = str(reason.f_locals.get("fullname")).rpartition(".")[2]
            if "/" not in stem:  # else there is no such file
                self._tell(MODULE, f"{text}/{stem}", follows=False)
        elif name == "path_stats":
            self._tell(FILE, text)
        elif name not in BYTECODE_WRITERS and "/__pycache__" not in text:
            self._tell(NAME, text)

    def _read_link(self, path: Any, *, dir_fd: Any = None) -> None:
        text = self._text(path, dir_fd)
        if text is not None:
            self._tell(NAME, text, follows=False)


class Questioner:
    """A function of `os` that asks before it runs. It is no descriptor: a class may hold it as it
    held the original."""

    def __init__(self, real: Any, note: Callable[..., None] | None, tracer: Tracer) -> None:
        functools.update_wrapper(self, real)
        self._real = real
        self._note = note
        self._tracer = tracer
        self._is_link = {"is_link": True} if real.__name__ == "lstat" else {}

    def __call__(self, *values: Any, **options: Any) -> Any:
        """Ask, then call the original."""
        path = values[0] if values else options.get("path")
        if self._note is not None and not self._tracer.is_skipped(path):
            try:
                chosen = {
                    name: options[name] for name in ("dir_fd", "follow_symlinks") if name in options
                }
                self._note(path, **chosen, **self._is_link)
            except Exception:
                self._tracer.give_up()
        return self._real(*values, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_real"), name)

    def __reduce__(self) -> str:
        return str(self._real.__name__)


def resolve(path: str, links: list[str]) -> str:
    """An absolute path with every link followed, which are added to `links`; what is absent stays
    as it is spelled."""
    remaining_parts = path.split("/")[::-1]
    place = ""
    while remaining_parts:
        part = remaining_parts.pop()
        if part == "..":
            place = place.rpartition("/")[0]
        elif part not in ("", "."):
            step = f"{place}/{part}"
            try:
                target = read_link(step)
            except (OSError, ValueError):
                place = step
                continue
            links.append(step)
            if len(links) > MOST_LINKS:
                return step
            place = "" if target.startswith("/") else place
            remaining_parts.extend(target.split("/")[::-1])
    return place or "/"


def spelling(path: str) -> str:
    """A path as questions spell it: bytes of those that have `%`, or what cannot be printed, are
    percent-encoded."""
    if path.isprintable() and "%" not in path:
        return path
    return "".join(
        chr(byte) if 32 <= byte < 127 and byte != 37 else f"%{byte:02X}"
        for byte in os.fsencode(path)
    )


def _caller() -> FrameType:
    """The innermost frame that is not of this module."""
    frame = sys._getframe(1)  # noqa: SLF001 - who asks is known by nothing else
    while frame.f_globals is OWN and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _folder_descriptor() -> Any:
    """`dir_fd` of the call of `os.open` that is under way, which its audit event does not tell."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - as above
    while frame is not None and frame.f_globals is OWN:
        if frame.f_code is Questioner.__call__.__code__:
            return frame.f_locals["options"].get("dir_fd")
        frame = frame.f_back
    return None


OWN = globals()


def _is_quiet(frame: FrameType) -> bool:
    """True if Python writes bytecode there, or our worker looks at the installed packages."""
    name = frame.f_code.co_name
    file = frame.f_code.co_filename
    return (name in BYTECODE_WRITERS and file == IMPORTER) or (
        name == "installed" and file.startswith(WORKER)
    )


def _is_standard(file: str) -> bool:
    return file.startswith("<frozen ") or (file.startswith(STANDARD) and "-packages/" not in file)


def _is_pathlib(frame: FrameType) -> bool:
    return "pathlib" in frame.f_code.co_filename and _is_standard(frame.f_code.co_filename)


def _is_bytecode_of_source(frame: FrameType, path: Any) -> bool:
    """True if the import system opens the file that may replace a source."""
    reason = frame.f_back
    if (
        frame.f_code.co_filename != IMPORTER
        or reason is None
        or reason.f_code.co_name != "get_code"
    ):
        return False
    return bool(reason.f_locals.get("bytecode_path") == path)
