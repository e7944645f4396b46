"""The questions that the agent's process asks of its checkout.

An audit hook observes opened files and listed folders. Functions of `os` that raise no audit event
are wrapped. Each question is one text and is reported once; its meaning and a checkout's answer are
described in `evalgate/system/inputs.py`. An ambiguous access becomes the question `everything`."""

from __future__ import annotations

import functools
import importlib
import json
import os
import stat
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from .pipe import Message

FILE = "file"
"""`file PATH`: a file's content."""
NAME = "name"
"""`name PATH`: whether it is a file, a folder, a link, or absent."""
FOLDER = "folder"
"""`folder PATH`: the names in it, with their kinds."""
ENTRIES = "entries"
"""`entries PATH`: the names in it, with the contents."""
MODULE = "module"
"""`module FOLDER/STEM`: the names in a folder that an import of STEM looks for."""
PACKAGES = "packages"
"""`packages PATH`: the names in a folder that describe installed packages."""
PYC = "pyc"
"""`pyc PATH`: bytecode, which may run instead of its source."""
NAMES = "names"
"""Without a path: the names of all files in the checkout."""
EVERYTHING = "everything"
"""Without a path: all files with their contents."""
KINDS = (FILE, NAME, FOLDER, ENTRIES, MODULE, PACKAGES, PYC, NAMES, EVERYTHING)
"""The kinds of questions."""

MOST_QUESTIONS = 20_000
"""Of one process; one more becomes `everything`."""
MOST_BYTES = 900_000
"""Less than a line may have, whatever `max-output` is: new questions are one message."""
MOST_FOLDERS = 20_000
"""Folders that are known to be outside the checkout; at this number all are forgotten."""
MOST_LINKS = 40
"""Links on the way to one file, as in Linux."""

WORKER = os.path.dirname(os.path.abspath(__file__)) + "/"
"""The folder of this module, with a slash at the end."""
STANDARD = os.path.dirname(os.path.abspath(os.__file__)) + "/"
"""The folder of Python's standard library, with a slash at the end."""
IMPORTER = "<frozen importlib._bootstrap_external>"
"""The file name of the import system's frames."""
BYTECODE_WRITERS = frozenset({"_write_atomic", "set_data", "_calc_mode"})
"""Functions of the import system that only write bytecode: their accesses decide nothing."""
METADATA = ("importlib.metadata", "importlib_metadata", "pkg_resources")
"""Ends of the names of modules that look for installed packages, also of vendored ones."""
METADATA_LISTERS = frozenset({"children", "safe_listdir", "find_on_path"})
"""Functions of these modules that list a folder and use only the names of packages."""
NAME_FUNCTIONS = frozenset({
    "exists", "lexists", "isfile", "isdir", "islink", "ismount", "is_file", "is_dir", "is_symlink", "is_mount",
    "realpath", "_joinrealpath",
})  # fmt: skip
"""Functions of the standard library that call `stat` or `lstat` only to check for a file or
folder."""
CHILDREN = (
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty",
)  # fmt: skip
"""Audit events of a new process, whose accesses are not observed."""
WRAPPED_FUNCTIONS = ("stat", "lstat", "access", "readlink", "open")
"""Functions of `os` without an audit event; that of `open` lacks the argument `dir_fd`."""
SUPPORT_SETS = (
    "supports_dir_fd",
    "supports_fd",
    "supports_follow_symlinks",
    "supports_effective_ids",
)
"""Sets in `os` of functions that take an argument: a wrapper must be in the same ones."""

read_link = os.readlink
"""The original of the wrapped function, which asks nothing."""
status_of = os.stat
"""The original of `os.stat`, likewise."""


def start(top: str) -> Tracer | None:
    """Trace this process in the checkout at `top` (an absolute path). Returns None if this Python
    implementation reports too little."""
    if os.name != "posix" or sys.implementation.name != "cpython":
        return None
    tracer = Tracer(top)
    tracer.ask_for_modules()
    tracer.wrap()
    sys.addaudithook(tracer.hook())
    return tracer


class Tracer:
    """The questions that this process asks of the checkout at `top`. Safe to use from many threads.

    `is_opaque`: the process started a child or loaded a library that reports nothing."""

    def __init__(self, top: str) -> None:
        """`top`: absolute. Paths count below it as spelled, and below its real path."""
        self.is_opaque = False
        self._tops = tuple(dict.fromkeys((os.path.realpath(top), os.path.abspath(top))))
        """The checkout by its real path, and as it is spelled."""
        self._top_prefixes = tuple(f"{top}/" for top in self._tops)
        self._skipped_prefixes = self._package_folders()
        """Folders without questions."""
        self._outside_folders: set[str] = set()
        """Folders as they are spelled that are outside the checkout, all links followed."""
        self._seen_paths: set[str] = set()
        """Each kind with a path as it was spelled: links on the way are followed once."""
        self._known_questions: set[str] = set()
        """All questions until now."""
        self._unsent: deque[str] = deque()
        """New questions; any thread may add one while another takes them."""
        self._byte_count = 0
        """Of all questions as JSON."""
        self._last_opaque: bool | None = None
        """As in the last message; None before the first one."""

    def message(self) -> Message | None:
        """The new questions since the last call; None if nothing is new. The first call returns a
        message."""
        questions: list[str] = []
        with suppress(IndexError):
            while True:
                questions.append(self._unsent.popleft())
        is_opaque = self.is_opaque
        if not questions and self._last_opaque == is_opaque:
            return None
        self._last_opaque = is_opaque
        return {"type": "inputs", "questions": questions, "opaque": is_opaque}

    def ask(self, question: str) -> None:
        """Keep a new question. Too many questions become `everything`."""
        if question in self._known_questions or EVERYTHING in self._known_questions:
            return
        self._byte_count += len(json.dumps(question, ensure_ascii=False).encode())
        if len(self._known_questions) >= MOST_QUESTIONS or self._byte_count > MOST_BYTES:
            question = EVERYTHING
        self._known_questions.add(question)
        self._unsent.append(question)

    def give_up(self) -> None:
        """Ask for `everything`, because an access is unknown."""
        self.ask(EVERYTHING)

    # --- where a path lies ---

    def _package_folders(self) -> tuple[str, ...]:
        """Folders without questions, with a slash at the end. The package list identifies their
        content."""
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
            if not any(top.startswith(place) for top in self._top_prefixes)
            and (not place.startswith(self._top_prefixes) or place.startswith(tuple(prefix_places)))
        )

    def is_skipped(self, path: Any) -> bool:
        """True if a path is in a folder without questions, as nearly all imports are."""
        return type(path) is str and path.startswith(self._skipped_prefixes) and "/.." not in path

    def _full_path(self, path: Any, dir_fd: Any = None) -> str | None:
        """The absolute path, or None if it is no path or cannot be in the checkout. Raises
        OSError."""
        if not isinstance(path, (str, bytes)) and not hasattr(path, "__fspath__"):
            return None  # a descriptor: the call that opened it has asked
        full_path = os.fsdecode(path)
        if not full_path.startswith("/"):
            base = os.getcwd() if dir_fd in (None, -1) else read_link(f"/proc/self/fd/{dir_fd}")
            full_path = f"{base}/{full_path}"
        if self.is_skipped(full_path):
            return None
        if (
            full_path.startswith(self._top_prefixes)
            or full_path in self._tops
            or self._leads_inside(full_path)
        ):
            return full_path
        return None

    def _leads_inside(self, path: str) -> bool:
        """True if a path outside the checkout leads into it by a link or by `..`."""
        folder, _, name = path.rpartition("/")
        if folder in self._outside_folders and name not in (".", ".."):
            try:
                read_link(path)
            except (OSError, ValueError):
                return False
        elif not self._relative(resolve(folder, [])):
            if len(self._outside_folders) >= MOST_FOLDERS:
                self._outside_folders.clear()
            self._outside_folders.add(folder)
        return bool(self._relative(resolve(path, [])))

    def _relative(self, place: str) -> str:
        """The relative form of a normal path, or "" if it is outside the checkout or in a folder
        without questions."""
        if place in self._tops:
            return "."
        for top in self._top_prefixes:
            if place.startswith(top) and not f"{place}/".startswith(self._skipped_prefixes):
                return place[len(top) :]
        return ""

    def _ask_path(self, kind: str, full_path: str, *, follows: bool = True) -> None:
        """Ask for a path as spelled, for its target, and for the links on the way."""
        key = kind + full_path
        if key in self._seen_paths:
            return
        if len(self._seen_paths) > MOST_QUESTIONS:
            self._seen_paths.clear()
        self._seen_paths.add(key)
        links: list[str] = []
        folder, _, name = full_path.rpartition("/")
        is_plain = follows or name in (".", "..")
        real_path = resolve(full_path, links) if is_plain else f"{resolve(folder, links)}/{name}"
        for link in links:
            if relative := self._relative(link):
                self.ask(f"{NAME} {spelling(relative)}")
        for place in dict.fromkeys((os.path.normpath(full_path), real_path)):
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
            "os.symlink": lambda *_: self._forget_places(),
            "import": self._import,
            "sqlite3.connect": self._connect,
            "ctypes.dlopen": self._load_library,
        }

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            """Pass the event to its handler; an error there becomes the question `everything`."""
            handle = handlers.get(event)
            if handle is not None:
                try:
                    handle(*arguments)
                except Exception:
                    self.give_up()

        return hook

    def _open(self, path: Any, mode: Any, flags: int) -> None:
        """Ask for a file that is opened; for its name if it is only made."""
        if self.is_skipped(path):
            return
        writes_only = flags & os.O_ACCMODE == os.O_WRONLY
        if writes_only and not flags & os.O_EXCL:
            return
        full_path = self._full_path(path, _folder_descriptor() if mode is None else None)
        caller = _caller()
        if full_path is None or _is_quiet(caller):
            return
        importer_frame = caller.f_back
        if (
            full_path.endswith(".pyc")
            and caller.f_code.co_filename == IMPORTER
            and importer_frame is not None
            and importer_frame.f_code.co_name == "get_code"
            and importer_frame.f_locals.get("bytecode_path") == path
        ):  # the bytecode file of a source
            self._ask_path(PYC, full_path)
        else:
            self._ask_path(NAME if writes_only else FILE, full_path)

    def _list(self, path: Any = None, *, scans: bool = False) -> None:
        """Ask for a folder that is listed, as deep as its lister looks."""
        path = "." if path is None else path
        full_path = self._full_path(
            read_link(f"/proc/self/fd/{path}") if isinstance(path, int) else path
        )
        caller = _caller()
        code = caller.f_code
        if full_path is None or code.co_filename == IMPORTER or _is_quiet(caller):
            return
        if code.co_name in METADATA_LISTERS and str(caller.f_globals.get("__name__")).endswith(
            METADATA
        ):
            self._ask_path(PACKAGES, full_path)
        else:
            self._ask_path(
                FOLDER if not scans or _is_standard(code.co_filename) else ENTRIES, full_path
            )

    def _change(self, path: Any, dir_fd: Any = None) -> None:
        """Ask for the name of a new folder or a removed file: the outcome depends on its
        existence."""
        full_path = self._full_path(path, dir_fd)
        if full_path is not None and not _is_quiet(_caller()):
            self._ask_path(NAME, full_path, follows=False)

    def _move(self, source: Any, _target: Any, dir_fd: Any = None, _target_fd: Any = None) -> None:
        """Ask for a file that gets another name: the process may read it under that name."""
        full_path = self._full_path(source, dir_fd)
        self._forget_places()
        if full_path is not None and not _is_quiet(_caller()):
            self._ask_path(FILE, full_path)
            with suppress(OSError):
                if stat.S_ISDIR(status_of(full_path).st_mode):
                    self.give_up()

    def _forget_places(self) -> None:
        """Forget where paths lead, because a link or a name has changed."""
        self._outside_folders.clear()
        self._seen_paths.clear()

    def _import(self, _module: Any, file: Any, *_: Any) -> None:
        """Ask for the file of an extension module; the event of other modules has no file."""
        full_path = self._full_path(file) if file else None
        if full_path is not None:
            self._ask_path(FILE, full_path)

    def _connect(self, database: Any) -> None:
        """Ask for a database of sqlite3, and the files beside it."""
        path = os.fsdecode(database)
        if path.startswith("file:"):
            from urllib.parse import unquote, urlsplit

            path = unquote(urlsplit(path).path)
        full_path = self._full_path(path) if path and path != ":memory:" else None
        for suffix in ("", "-journal", "-wal") if full_path is not None else ():
            self._ask_path(FILE, f"{full_path}{suffix}")

    def _load_library(self, name: Any) -> None:
        """Ask for a library that ctypes loads, which may do anything."""
        caller: FrameType | None = _caller()
        while caller is not None and f"{os.sep}ctypes{os.sep}" in caller.f_code.co_filename:
            if name is None and caller.f_code.co_name == "<module>":
                return  # ctypes itself only opens this process
            caller = caller.f_back
        full_path = self._full_path(name) if name and "/" in os.fsdecode(name) else None
        if full_path is not None:
            self._ask_path(FILE, full_path)
        self._start_child()

    def _start_child(self, *_: Any) -> None:
        """Note that something else may read any file from now on."""
        self.is_opaque = True
        self.ask(NAMES)

    def ask_for_modules(self) -> None:
        """Ask for the modules that are already loaded from folders of variables or installed
        packages."""
        stems = {
            "sitecustomize",
            "usercustomize",
            *(name.partition(".")[0] for name in sys.modules),
        }
        for folder in sys.path:
            full_path = self._full_path(folder or os.getcwd())
            for stem in stems if full_path is not None else ():
                self._ask_path(MODULE, f"{full_path}/{stem}", follows=False)
        files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        if any(isinstance(file, str) and self._full_path(file) is not None for file in files):
            self.give_up()

    # --- functions that raise no audit event ---

    def wrap(self) -> None:
        """Replace the functions of `os` by ones that ask first, in every module of the standard
        library that holds them."""
        system = importlib.import_module(os.name)
        question_methods = {"readlink": self._read_link, "open": None}
        for name in WRAPPED_FUNCTIONS:
            original = getattr(os, name)
            questioner = Questioner(original, question_methods.get(name, self._status), self)
            for supported in SUPPORT_SETS:
                if original in getattr(os, supported):
                    getattr(os, supported).add(questioner)
            accessor = getattr(sys.modules.get("pathlib"), "_NormalAccessor", None)  # Python 3.10
            for holder in (os, system, accessor):
                if getattr(holder, name, None) is original:
                    setattr(holder, name, questioner)
        import _posixsubprocess

        fork = Questioner(_posixsubprocess.fork_exec, self._start_child, self)
        _posixsubprocess.fork_exec = fork  # multiprocessing calls it by itself

    def _status(
        self, path: Any, *, dir_fd: Any = None, follow_symlinks: bool = True, is_link: bool = False
    ) -> None:
        """`stat`, `lstat` and `access`."""
        full_path = self._full_path(path, dir_fd)
        if full_path is None:
            return
        follows = follow_symlinks and not is_link
        caller = _caller()
        if caller.f_code.co_filename == IMPORTER:
            self._look_up(full_path, caller)
            return
        while caller.f_code.co_name in ("stat", "lstat") and "pathlib" in caller.f_code.co_filename:
            if caller.f_back is None or not _is_standard(caller.f_code.co_filename):
                break
            caller = caller.f_back
        is_name = caller.f_code.co_name in NAME_FUNCTIONS and _is_standard(
            caller.f_code.co_filename
        )
        if is_name or not follows:
            self._ask_path(NAME, full_path, follows=follows)
        if not is_name:
            self._ask_path(FILE, full_path)

    def _look_up(self, full_path: str, caller: FrameType) -> None:
        """Ask for the file or folder whose status the import system reads."""
        importer_frame = caller.f_back
        name = "" if importer_frame is None else importer_frame.f_code.co_name
        if importer_frame is not None and name == "find_spec":
            stem = str(importer_frame.f_locals.get("fullname")).rpartition(".")[2]
            if "/" not in stem:  # a file cannot have this name
                self._ask_path(MODULE, f"{full_path}/{stem}", follows=False)
        elif name == "path_stats":
            self._ask_path(FILE, full_path)
        elif name not in BYTECODE_WRITERS and "/__pycache__" not in full_path:
            self._ask_path(NAME, full_path)

    def _read_link(self, path: Any, *, dir_fd: Any = None) -> None:
        """Ask for a link itself, not for its target."""
        full_path = self._full_path(path, dir_fd)
        if full_path is not None:
            self._ask_path(NAME, full_path, follows=False)


class Questioner:
    """A function of `os` that asks before it runs. It is no descriptor, so a class can hold it like
    the original."""

    def __init__(self, original: Any, ask_path: Callable[..., None] | None, tracer: Tracer) -> None:
        """`ask_path`: None for `open`, whose audit event asks; it gets the arguments of the
        call."""
        functools.update_wrapper(self, original)
        self._original = original
        self._ask_path = ask_path
        self._tracer = tracer
        self._is_link = {"is_link": True} if original.__name__ == "lstat" else {}
        """`lstat` has no argument `follow_symlinks` that would say so."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Ask, then call the original."""
        path = arguments[0] if arguments else options.get("path")
        if self._ask_path is not None and not self._tracer.is_skipped(path):
            try:
                path_options = {
                    name: options[name] for name in ("dir_fd", "follow_symlinks") if name in options
                }
                self._ask_path(path, **path_options, **self._is_link)
            except Exception:
                self._tracer.give_up()
        return self._original(*arguments, **options)

    def __reduce__(self) -> str:
        """Pickles as the original does, by its name."""
        return str(self._original.__name__)


def resolve(path: str, links: list[str]) -> str:
    """An absolute path with every link followed. Adds the links to `links`. A missing part stays as
    spelled."""
    remaining_parts = path.split("/")[::-1]
    real_path = ""
    while remaining_parts:
        part = remaining_parts.pop()
        if part == "..":
            real_path = real_path.rpartition("/")[0]
        elif part not in ("", "."):
            link_path = f"{real_path}/{part}"
            try:
                target = read_link(link_path)
            except (OSError, ValueError):
                real_path = link_path
                continue
            links.append(link_path)
            if len(links) > MOST_LINKS:
                return link_path
            real_path = "" if target.startswith("/") else real_path
            remaining_parts.extend(target.split("/")[::-1])
    return real_path or "/"


def spelling(path: str) -> str:
    """A path in the form of questions: paths with `%` or unprintable characters are
    percent-encoded."""
    if path.isprintable() and "%" not in path:
        return path
    return "".join(
        chr(byte) if 32 <= byte < 127 and byte != 37 else f"%{byte:02X}"
        for byte in os.fsencode(path)
    )


def _caller() -> FrameType:
    """The innermost frame outside this module."""
    frame = sys._getframe(1)  # noqa: SLF001 - only the frame identifies the caller
    while frame.f_globals is MODULE_GLOBALS and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _folder_descriptor() -> Any:
    """The `dir_fd` of the current `os.open` call, which its audit event lacks."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - as above
    while frame is not None and frame.f_globals is MODULE_GLOBALS:
        if frame.f_code is Questioner.__call__.__code__:
            return frame.f_locals["options"].get("dir_fd")
        frame = frame.f_back
    return None


MODULE_GLOBALS = globals()
"""Identifies the frames of this module."""


def _is_quiet(frame: FrameType) -> bool:
    """True if the frame writes bytecode, or reads the installed packages for this worker."""
    name = frame.f_code.co_name
    file = frame.f_code.co_filename
    return (name in BYTECODE_WRITERS and file == IMPORTER) or (
        name == "read_packages" and file.startswith(WORKER)
    )


def _is_standard(file: str) -> bool:
    """True for a source file of the standard library, also for a frozen one."""
    return file.startswith("<frozen ") or (file.startswith(STANDARD) and "-packages/" not in file)
