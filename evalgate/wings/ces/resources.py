"""The CES resources of a repository, read and written.

Every resource has a name and an etag, an update has a mask, and the answer lists the relaxations.
Only the changed values of a file differ."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from posixpath import basename, join
from typing import Any

import filelock
import platformdirs

from evalgate.config import load
from evalgate.discovery.walk import Tree
from evalgate.errors import EvalgateError, errors_in
from evalgate.formats import rewrite
from evalgate.gate import waiting
from evalgate.gate.waiting import WaitingChange
from evalgate.results import kept
from evalgate.text import plain, words
from evalgate.values import Json, JsonObject, canonical_text, digest_of, frozen_dataclass, json_text
from . import cases, compare, edit, read, shapes
from .edit import Refused, refusal
from .read import (
    APP_NAME,
    COLLECTION_OF,
    WRITABLE,
    Kind,
    Library,
    Resource,
)
from .shapes import Proto

LOCK_SECONDS = 30.0
ID = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]{4,35}")
RUNS = f"{kept.FOLDER}/ces"
"""The folder of the results of runs that were started here."""


@frozen_dataclass
class Done:
    """A change that was made or previewed: the new resource (None: deleted), the differences, the
    relaxations, and the difference of the file."""

    resource: JsonObject | None
    changes: tuple[compare.FieldChange, ...] = ()
    relaxations: tuple[str, ...] = ()
    diff: str = ""


class Resources:
    """The resources below a root. Every method raises Refused with a code of google.rpc for a
    rejected request."""

    def __init__(
        self,
        root: Path,
        *,
        app: str = shapes.LOCAL_APP,
        read_only: bool = False,
        no_relaxing: bool = False,
    ) -> None:
        """`app`: the app of resources without a name."""
        self.root = root.resolve()
        self._app = app
        self._read_only = read_only
        self._no_relaxing = no_relaxing
        digest = digest_of(str(self.root), 16)
        folder = Path(platformdirs.user_cache_dir("evalgate")) / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        self._parse = functools.lru_cache(maxsize=4096)(read.parse)
        self._lock = filelock.FileLock(folder / f"{digest}.lock", timeout=LOCK_SECONDS)

    def name_of(self, resource: Resource) -> str:
        """The name of a resource; without one, a name from its title."""
        if "/" in resource.name:
            return resource.name
        return f"{self._app}/{COLLECTION_OF[resource.kind]}/{resource.id}"

    def view(self, resource: Resource) -> JsonObject:
        """A resource as the API shows it; its etag is one of the content."""
        has_etag = "etag" in type(resource.message).model_fields  # results and runs have none
        etag = {"etag": etag_of(resource.content)} if has_etag else {}
        return {**resource.message.json(), "name": self.name_of(resource), **etag}

    def create(self, kind: Kind, body: Any, *, parent: str = "", resource_id: str = "") -> Done:
        """Write a new resource to a file of its own."""
        self.require_writable()
        content = shapes.content_of(_message_of(body, kind))
        with self.lock():
            library = self.library()
            title = str(content.get("displayName", ""))
            resource_id = resource_id or _made_id(title)
            if not ID.fullmatch(resource_id):
                reason = "expected 5 to 36 letters, digits, `-` or `_`, a letter or digit first"
                raise refusal((f"{kind}Id", reason))
            apps = library.app_names
            is_local = self._app == shapes.LOCAL_APP and len(apps) == 1
            parent = parent or (apps.pop() if is_local else self._app)
            name = content["name"] = self._prefix(library, kind, parent) + resource_id
            if any(resource.id == resource_id for resource in library.of(kind)):
                raise Refused("ALREADY_EXISTS", f"{name!r} is already there")
            self._checked(content, kind, library, besides=None)
            file = self.new_file(library, kind, title)
            text = json_text(content)
            view = self.view(_parsed(text, file, kind, content))
            self.save(file, text)
        return Done(resource=view)

    def update(self, kind: Kind, body: Any, *, mask: Any = None, preview: bool = False) -> Done:
        """Write the masked fields of the body; with `preview` only report the change."""
        if not preview:
            self.require_writable()
        if not isinstance(body, dict) or not isinstance(body.get("name"), str):
            raise refusal(("name", "the name of the resource is missing"))
        shape = read.RESOURCES[kind]
        content = shapes.content_of(_message_of(body, kind, is_partial=True))
        paths = edit.mask_of(mask, body, shape)
        with self.lock():
            library = self.library()
            resource = self._find_own(library, kind, body["name"], body.get("etag"))
            old = resource.content
            new = edit.with_fields(old, content, paths, shape)
            new = shapes.content_of(self._checked(new, kind, library, besides=resource))
            changes = tuple(compare.changes(old, new))
            relaxations = compare.relaxed_reasons(changes)
            file = resource.file
            text = old_text = self.source(file).text
            if changes:
                text = edit.edited(old_text, old, new, is_json=file.endswith(".json"))
            view = self.view(_parsed(text, file, kind, new))
            change = self._change(resource, old_text, text, relaxations)
            if not preview:
                self.make(change)
        return Done(resource=view, changes=changes, relaxations=relaxations, diff=change.diff)

    def delete(self, kind: Kind, name: str, *, etag: str = "") -> Done:
        """Delete a resource's file. Raises Refused if another resource refers to it."""
        self.require_writable()
        with self.lock():
            library = self.library()
            resource = self._find_own(library, kind, name, etag)
            users = [
                user
                for user in library.of(Kind.DATASET, Kind.EVALUATION)
                if resource in self._resolve(library, user.message)
            ]
            if users:
                user_names = words.listed([self.name_of(user) for user in users])
                raise Refused(
                    "FAILED_PRECONDITION",
                    f"{user_names} refers to it: remove the reference there first",
                )
            relaxations = (compare.removed(kind),) if kind in WRITABLE else ()
            text = self.source(resource.file).text
            self.make(self._change(resource, text, None, relaxations))
        return Done(resource=None, relaxations=relaxations)

    def make(self, change: WaitingChange) -> None:
        """Make a change. Under `--no-relaxing`, keep a change that may relax for a person, and
        raise Refused."""
        if self._no_relaxing and change.reasons:
            waiting.keep(self.root, change)
            violations = [
                (path, reason)
                for path, _, reason in (text.partition(": ") for text in change.reasons)
            ]
            raise Refused(
                "PERMISSION_DENIED",
                f"the change may relax: {change.reasons[0]} (--no-relaxing); a person can make it: "
                f"`evalgate ces accept {shlex.quote(change.name)}`",
                violations,
            )
        for file in change.texts:
            self.inside(file)
        try:
            waiting.make(self.root, change)
        except EvalgateError as error:
            raise Refused("ABORTED", error.message) from error

    # --- how -------------------------------------------------------------------------------------

    def library(self) -> Library:
        """All current files with all of their problems, including those between files."""
        settings = load.load_settings({"root": str(self.root)})
        tree = Tree(self.root, exclude=settings.gate_file.exclude)
        kinds: dict[str, Kind | None] = dict.fromkeys(cases.FORMAT.find(tree))
        for kind in (Kind.RESULT, Kind.RUN):
            paths = sorted((self.root / RUNS / COLLECTION_OF[kind]).glob("*.json"))
            kinds |= {path.relative_to(self.root).as_posix(): kind for path in paths}
        readings = {}
        for file, kind_of_file in kinds.items():
            text = plain.decode(tree.read(file, largest=cases.LARGEST_BYTES), file=file)
            readings[file] = self._parse(text, file=file, kind=kind_of_file)
        return read.with_problems(readings)

    def _resolve(self, library: Library, message: Proto) -> list[Resource | str]:
        """What the references of a message name: by name, the last part of it, or title; for those
        that lead nowhere a text that says so."""
        kind, names, _ = read.references_of(message)
        by_name = {
            name: resource
            for resource in library.of(kind)
            for name in (self.name_of(resource), resource.id, resource.title)
        }
        return [
            by_name.get(name)
            or by_name.get(basename(name))
            or f"no {kind} {name[-200:]!r}"
            + words.suggest(basename(name)[:100], by_name, prefix="; ")
            for name in names
        ]

    def _prefix(self, library: Library, kind: Kind, parent: str) -> str:
        """The prefix of the names of a collection. Results are below an evaluation, or below any
        (`-`). Raises Refused if there is no such app."""
        app, _, below = parent.partition("/evaluations/")
        is_shaped = bool(below) == (kind is Kind.RESULT) and "/" not in below
        if not APP_NAME.fullmatch(app) or not is_shaped:
            shape = "projects/P/locations/L/apps/A"
            more = "/evaluations/E" if kind is Kind.RESULT else ""
            raise refusal(("parent", f"expected {shape}{more}, got {parent[:200]!r}"))
        apps = library.app_names
        if apps and app not in {*apps, self._app}:
            raise Refused("NOT_FOUND", f"parent: nothing here is of the app {app[:200]!r}")
        if kind is not Kind.RESULT:
            return f"{app}/{COLLECTION_OF[kind]}/"
        return f"{app}/evaluations/" if below == "-" else f"{parent}/results/"

    def _find(self, library: Library, kind: Kind, name: str) -> Resource:
        matches = [resource for resource in library.of(kind) if self.name_of(resource) == name]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise Refused(
                "FAILED_PRECONDITION",
                f"{name!r} stands in {words.listed([match.file for match in matches])}",
            )
        names = [self.name_of(resource) for resource in library.of(kind)]
        hint = words.suggest(name[:300], names, prefix="; ")
        broken = errors_in(library.problems)
        more = (
            f" ({words.counted(len(broken), 'error')} in CES files: `evalgate validate`)"
            if broken
            else ""
        )
        raise Refused("NOT_FOUND", f"no {kind} {name[:300]!r}{hint}{more}")

    def _find_own(self, library: Library, kind: Kind, name: str, etag: Any) -> Resource:
        """The resource of this name and etag, in a file of its own."""
        resource = self._find(library, kind, name)
        check_etag(etag, resource.content, "resource")
        if resource.path:
            raise Refused(
                "FAILED_PRECONDITION", f"it is written out in {resource.file}: edit that file"
            )
        return resource

    def _checked(
        self, content: JsonObject, kind: Kind, library: Library, *, besides: Resource | None
    ) -> Proto:
        """The resource to be written, valid alone and among the others."""
        message = _message_of(content, kind)
        title = content.get("displayName")
        for resource in library.of(kind):
            is_other = besides is None or resource.file != besides.file
            if is_other and resource.title == title:
                raise Refused(
                    "ALREADY_EXISTS",
                    f"the displayName {title!r} is used by {self.name_of(resource)}",
                )
        known_names = read.references_of(besides.message)[1] if besides is not None else ()
        _, names, keys = read.references_of(message)
        field = ".".join((str(kind), *keys))
        violations = [
            (f"{field}[{number}]", reason)
            for number, reason in enumerate(self._resolve(library, message))
            if isinstance(reason, str) and names[number] not in known_names
        ]
        if violations:  # a new reference leads nowhere
            raise refusal(*violations)
        return message

    def new_file(self, library: Library, kind: Kind, title: str) -> str:
        """The file of a new resource: beside the others, as in an export."""
        siblings = library.of(*WRITABLE)
        app = read.app_folder(siblings[0].file) if siblings else ""
        name = read.file_name(title)
        file = join(app, COLLECTION_OF[kind], name, f"{name}.json")
        if (self.root / file).exists():
            raise Refused("ALREADY_EXISTS", f"the file {file} is already there")
        return file

    def _change(
        self, resource: Resource, old: str, new: str | None, relaxations: tuple[str, ...]
    ) -> WaitingChange:
        """A change of the text of a resource's file; `new` None: the file is deleted."""
        is_evaluation = resource.kind is Kind.EVALUATION
        name = resource.id if is_evaluation else f"{resource.kind}:{resource.id}"
        texts = {resource.file: (old, new)}
        return WaitingChange(name=name, texts=texts, reasons=relaxations)

    def source(self, file: str) -> rewrite.Source:
        """The current file."""
        try:
            return rewrite.read(self.inside(file), shown_as=file)
        except EvalgateError as error:
            raise Refused("FAILED_PRECONDITION", f"{file}: {error.message}") from error

    def inside(self, file: str) -> Path:
        """The path of a file; links may not lead out of the root."""
        path = self.root / file
        if (
            ".." in Path(file).parts
            or path.is_symlink()
            or not path.parent.resolve().is_relative_to(self.root)
        ):
            raise Refused(
                "PERMISSION_DENIED", f"{file!r} leads out of the root, or is a symbolic link"
            )
        return path

    def save(self, file: str, text: str) -> None:
        """Replace a file as a whole, or create it."""
        path = self.inside(file)
        try:
            if path.exists():
                rewrite.save(self.source(file), text)
            else:
                rewrite.create(path, text, root=self.root)
        except EvalgateError as error:
            raise Refused("ABORTED", error.message) from error

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other writers out. Raises Refused if one takes too long."""
        try:
            with self._lock:
                yield
        except filelock.Timeout:
            raise Refused("ABORTED", "another process is writing; try again") from None

    def require_writable(self) -> None:
        """Raises Refused under `--read-only`."""
        if self._read_only:
            raise Refused("PERMISSION_DENIED", "the server was started with --read-only")


def etag_of(content: Any) -> str:
    """A hash of the fields that a caller can write."""
    return digest_of(canonical_text(content), 24)


def check_etag(etag: Any, content: Any, noun: str) -> None:
    """Raises Refused if a caller's etag is not that of the content."""
    if etag and etag != etag_of(content):
        raise Refused(
            "ABORTED", f"the etag is stale: the {noun} was changed since it was read; get it again"
        )


def _parsed(text: str, file: str, kind: Kind, content: Json) -> Resource:
    """The resource in a text. Raises Refused if it has other content."""
    resources = read.parse(text, file=file, kind=kind).resources
    resource = next((resource for resource in resources if not resource.path), None)
    if resource is None or resource.content != content:
        raise Refused("FAILED_PRECONDITION", f"{file} cannot be changed in place: edit it by hand")
    return resource


def _made_id(title: str) -> str:
    slug = re.sub(r"[^a-zA-Z0-9]+", "-", title).strip("-")[:36].rstrip("-")
    if len(slug) > 4:
        return slug
    return f"{slug or 'new'}-{digest_of(title, 8)}"


def _message_of(body: Any, kind: Kind, *, is_partial: bool = False) -> Proto:
    """The message in a body. Raises Refused with each of its errors; `is_partial`: as in
    `parse_message`."""
    message, problems = read.parse_message(body, kind, file="", is_partial=is_partial)
    if message is not None:
        return message
    violations = []
    for problem in errors_in(problems):
        path = f".{problem.place.json_path}" if problem.place and problem.place.json_path else ""
        hint = f" ({problem.hint})" if problem.hint else ""
        violations.append((f"{kind}{path}", f"{problem.message}{hint}"))
    raise refusal(*violations)
