"""CES files for the terminal: the comparison of two versions, and the exchange of changes with a
live app.

Every update of an app has a mask of the changed fields and the etag that was read."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from evalgate.discovery import walk
from evalgate.errors import ConfigError, NothingToDo, Place, Problem, UnavailableError, errors_in
from evalgate.results import kept, output
from evalgate.text import plain, words
from evalgate.values import (
    Environ,
    Json,
    JsonObject,
    digest_of,
    frozen_dataclass,
    json_text,
    only,
    with_keys,
    without,
)
from . import compare, edit, live, read, shapes
from .compare import FieldChange
from .edit import Refused
from .live import Live, LiveFailed
from .read import (
    APP_NAME,
    COLLECTION_OF,
    WRITABLE,
    AppEvaluation,
    Kind,
    Library,
    Resource,
)
from .resources import ID, Resources


@frozen_dataclass
class Difference:
    """A difference in one resource: only one side has it, or its fields differ."""

    kind: Kind
    title: str
    only_in: str = ""  # old, new
    changes: tuple[FieldChange, ...] = ()

    @property
    def relaxed_reasons(self) -> tuple[str, ...]:
        """What of it may relax."""
        if self.only_in == "old":
            return (compare.removed(self.kind),)
        return compare.relaxed_reasons(self.changes)


@frozen_dataclass
class Version:
    """A resource on one side: in some files or in an app. `content` None: this side lacks it.
    `file`: its file; `path`: its place in the file. `unknown`: fields of the app that evalgate does
    not know."""

    kind: Kind
    title: str
    content: JsonObject | None = None
    name: str = ""
    etag: str = ""
    file: str = ""
    path: tuple[str | int, ...] = ()
    unknown: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind} {self.title}"


# --- reading --------------------------------------------------------------------------------------


def library(path: Path) -> Library:
    """The CES files in a folder, or a file. Raises ConfigError if a file is broken, or none is a
    CES file."""
    if not path.exists():
        raise ConfigError("the file does not exist", place=Place(str(path)))
    paths = [path]
    if path.is_dir():
        paths = sorted(
            file for file in path.rglob("*") if file.name.endswith(read.ENDINGS) and file.is_file()
        )
    texts: dict[str, str | Problem] = {}
    for file_path in paths:
        file = str(file_path)
        text = plain.decode(walk.read_user_file(file_path, label=file), file=file)
        if file_path == path or isinstance(text, Problem) or read.kind_of(text, file=file):
            texts[file] = text
    ces_library = read.library(texts)
    if errors_in(ces_library.problems):
        raise ConfigError.collected(ces_library.problems)
    if not texts:
        raise ConfigError(f"no CES file in {path}")
    return ces_library


# --- comparing ------------------------------------------------------------------------------------


def differences(old: Path, new: Path) -> tuple[list[Difference], tuple[Problem, ...]]:
    """The differences between two versions of files, and the warnings of both."""
    libraries = [library(path) for path in (old, new)]
    resource_differences = [
        difference
        for old_version, version in pairs(*map(_compared, libraries))
        for difference in _difference(version, old_version.content, version.content)
    ]
    return resource_differences, tuple(
        problem for ces_library in libraries for problem in ces_library.problems
    )


def _compared(library: Library) -> Iterator[Version]:
    """The resources of files, and the settings of each app with its personas as one resource."""
    for resource in library.of(*Kind):
        if resource.kind is not Kind.PERSONA or not resource.path:
            yield Version(
                kind=resource.kind,
                title=resource.title,
                content=resource.content,
                name=resource.name,
            )


def pairs(
    old_versions: Iterable[Version], new_versions: Iterable[Version]
) -> Iterator[tuple[Version, Version]]:
    """The versions of each resource, paired by name, otherwise by display name."""
    candidates = list(old_versions)
    for new in new_versions:
        of_kind = [old for old in candidates if old.kind is new.kind]
        by_name = next((old for old in of_kind if new.name and old.name == new.name), None)
        old = by_name or next((old for old in of_kind if old.title == new.title), None)
        if old is not None:
            candidates.remove(old)
        yield old or Version(kind=new.kind, title=new.title), new
    for old in candidates:
        yield old, Version(kind=old.kind, title=old.title)


# --- a live app ----------------------------------------------------------------------------------


PULLED = f"{kept.FOLDER}/ces/pulled"
"""The resources as they were pulled, by name and etag: the base of the next pull."""


@dataclass(slots=True)
class AppChanges:
    """The actions of a command, or those of a preview: `differences`, and texts about differences
    that were left alone."""

    differences: list[Difference] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def note_refusal(self, version: Version) -> Iterator[None]:
        """Note a refusal of the change of this resource."""
        try:
            yield
        except Refused as refused:
            self.refused.append(f"{version}: {refused.message}")


class AppFiles:
    """An app and the files of its evaluations below a folder."""

    def __init__(self, folder: Path, *, app: str, environment: Environ, endpoint: str) -> None:
        """`app`: its name. Without one, the files name it, except in CI, where anybody may have
        written them. Raises ConfigError."""
        if not folder.is_dir():
            raise ConfigError(f"{folder} is not a folder")
        self._files = Resources(folder)
        self._library = self._files.library()
        if broken := errors_in(self._library.problems):
            raise ConfigError.collected(broken)
        if not app and environment.get("CI", "").lower() not in ("", "0", "false"):
            message = (
                "in CI the app must be named (`--app`): the files of a change could name any other"
            )
            raise ConfigError(message, hint=_APP_HINT)
        self.app = app or _app_name(self._library)
        if not APP_NAME.fullmatch(self.app):
            raise ConfigError(f"{self.app[:200]!r} is not the name of an app", hint=_APP_HINT)
        self._names: dict[tuple[str, str], str] = {}
        with _errors_explained():
            self._live = Live(environment, endpoint=endpoint)

    def close(self) -> None:
        """Close the connection."""
        self._live.close()

    # --- commands --------------------------------------------------------------------------------

    def drift(self) -> AppChanges:
        """The differences between the app and the files."""
        pairs = self._pairs()
        if not pairs:
            raise NothingToDo("neither the files nor the app have evaluations")
        return AppChanges(
            differences=[
                difference
                for in_app, in_file in pairs
                for difference in _difference(in_file, in_file.content, in_app.content)
            ]
        )

    def pull(self, *, preview: bool = False, overwrite: bool = False) -> AppChanges:
        """Write the app's changes since the last pull to the files. Changes in the files alone
        stay, and so do resources that the app lacks. A field that changed on both sides is refused;
        `overwrite` takes the app's value."""
        done = AppChanges()
        with contextlib.nullcontext() if preview else self._files.lock():
            for in_app, in_file in self._pairs():
                if in_app.content is None:
                    done.notes.append(f"{in_file}: only in the files ({in_file.file}), left")
                    continue
                done.notes += [
                    f"{in_file}: `{field_name}` is unknown, left out"
                    for field_name in in_app.unknown
                ]
                with done.note_refusal(in_file):
                    content = in_app.content
                    if in_file.content is not None and not overwrite:
                        content = self._merged(in_file, in_app)
                    if not preview:
                        self._write_to_file(in_file, in_app, content)
                    done.differences += _difference(in_file, in_file.content, content)
                    if kept_fields := live.mask(in_app.content, content, read.SHAPES[in_app.kind]):
                        fields = words.listed(kept_fields)
                        done.notes.append(
                            f"{in_file}: {fields} changed in {in_file.file} only, kept"
                        )
        return done

    def push(
        self, *, preview: bool = False, no_relaxing: bool = False, overwrite: bool = False
    ) -> AppChanges:
        """Write the content of the files to the app if it differs; resources of the app alone stay.

        `overwrite`: also replace changes in the app since the last pull. With `no_relaxing`, raises
        ConfigError if a change relaxes, and writes nothing."""
        done = AppChanges()
        changed: list[tuple[Version, Version, Difference]] = []
        for in_app, in_file in self._pairs():
            if in_file.content is None:
                done.notes.append(f"{in_file}: only in the app, left")
                continue
            new_content = _with_app_fields(in_app, in_file.content)
            changed += [
                (in_app, in_file, difference)
                for difference in _difference(in_file, in_app.content, new_content)
            ]
        reasons = [
            f"{in_file}: {relaxation}"
            for _, in_file, difference in changed
            for relaxation in difference.relaxed_reasons
        ]
        if no_relaxing and reasons:
            raise ConfigError(
                f"nothing was pushed, because it may relax (`--no-relaxing`): {'; '.join(reasons)}"
            )
        with contextlib.nullcontext() if preview else self._files.lock():
            for in_app, in_file, difference in changed:
                with done.note_refusal(in_file):
                    if not preview:
                        self._write_to_app(in_app, in_file, overwrite=overwrite)
                    done.differences.append(difference)
        return done

    # --- reading ---------------------------------------------------------------------------------

    def _pairs(self) -> list[tuple[Version, Version]]:
        """Every resource in the app and in the files, and the settings of the app. Raises
        ConfigError for an unreadable resource."""
        with _errors_explained():
            app_versions = {
                kind: [_read(raw, kind) for raw in self._live.listed(self.app, COLLECTION_OF[kind])]
                for kind in WRITABLE
            }
            app = self._live.get(self.app)
            # the names for display names, which an export has instead of names
            used_text = json.dumps([resource.content for resource in self._library.of(*WRITABLE)])
            self._names = live.find_names(self._live, self.app, used_text)
        joined_pairs = [
            pair
            for kind in WRITABLE
            for pair in pairs(app_versions[kind], map(self._of_file, self._library.of(kind)))
        ]
        return [*joined_pairs, *self._of_app(app)]

    def _of_file(self, resource: Resource) -> Version:
        """A resource of the files in the form of the app."""
        content = live.move_to_app(resource.content, self.app, self._names)
        return Version(
            kind=resource.kind,
            title=resource.title,
            name=content.pop("name", ""),
            content=content,
            etag=str(getattr(resource.message, "etag", "")),
            file=resource.file,
            path=resource.path,
        )

    def _of_app(self, raw: Json) -> list[tuple[Version, Version]]:
        """The app's settings and those of app.json."""
        resources = self._library.of(Kind.APP)
        if len(resources) > 1:
            raise ConfigError(
                f"more than one app: {words.listed([resource.file for resource in resources])}",
                hint="Name the folder of the one that is meant.",
            )
        in_app = _read({**raw, "name": self.app}, Kind.APP)
        in_file = Version(kind=Kind.APP, title=in_app.title)
        for resource in resources:
            in_file = Version(
                kind=Kind.APP,
                title=in_app.title,
                content=live.move_to_app(resource.content, self.app, self._names) or None,
                etag=str(self._library.readings[resource.file].raw.get("etag", "")),
                file=resource.file,
            )
        return [(in_app, in_file)] if in_app.content or in_file.content else []

    # --- writing ---------------------------------------------------------------------------------

    def _merged(self, in_file: Version, in_app: Version) -> JsonObject:
        """The file's content with the app's changes since the last pull. Raises Refused if a field
        changed on both sides."""
        content = dict(in_file.content or {})
        app_content = in_app.content or {}
        base = app_content
        if not in_file.etag or in_file.etag != in_app.etag:
            # the file's content after the last pull or push; empty if unknown
            path = self._path_of_pull(in_app.name, in_file.etag)
            try:
                base = dict(json.loads(path.read_text("utf-8"))["content"])
            except (OSError, ValueError, LookupError, TypeError):
                base = {}
        conflicts: list[str] = []
        for key in dict.fromkeys((*content, *app_content)):
            file_value, app_value, base_value = (
                only(side, (key,)) for side in (content, app_content, base)
            )
            if app_value in (file_value, base_value):
                continue
            if file_value == base_value:
                content = {**without(content, (key,)), **app_value}
            else:
                conflicts += live.mask(file_value, app_value, read.SHAPES[in_file.kind])
        if conflicts:
            fields = words.listed(conflicts)
            reason = f"{fields} changed in the app and in {in_file.file}"
            if not base:
                reason = f"{fields} differ in {in_file.file}, and what was pulled is not known here"
            hint = "edit the file and `push --overwrite`, or `pull --overwrite` takes the app's"
            raise Refused("ABORTED", f"{reason}: {hint}")
        return content

    def _path_of_pull(self, name: str, etag: str) -> Path:
        return self._files.inside(f"{PULLED}/{digest_of(f'{name} {etag}', 24)}.json")

    def _note_base(self, name: str, etag: str, content: Json) -> None:
        """Save the app's content under its etag."""
        record = {"name": name, "etag": etag, "content": content}
        path = self._path_of_pull(name, etag)
        output.make_folder(path.parent)
        output.write_file(path, [json.dumps(record) + "\n"])

    def _write_to_file(self, in_file: Version, in_app: Version, content: Json) -> None:
        """Write the content to the resource's file. Raises Refused."""
        new = {**content, "name": in_app.name, "etag": in_app.etag}
        if in_file.content is None:
            file = "app.json"
            if in_app.kind is not Kind.APP:
                file = self._files.new_file(self._files.library(), in_app.kind, in_app.title)
            elif (self._files.root / file).exists():
                raise Refused(
                    "ALREADY_EXISTS",
                    "app.json says nothing of evaluations: add `evaluationSettings: {}`",
                )
            first = ("name", "displayName", "etag", "description", "tags")
            ordered = with_keys(new, first) | dict(sorted(new.items()))
            self._files.save(file, json_text(ordered))
        elif not in_file.path:
            self._edit_file(in_file, new)
        elif content != in_file.content:
            raise Refused(
                "FAILED_PRECONDITION", f"it is written out in {in_file.file}: edit it there"
            )
        self._note_base(in_app.name, in_app.etag, in_app.content or {})

    def _write_to_app(self, in_app: Version, in_file: Version, *, overwrite: bool) -> None:
        """Write the file's content to the app: all of it if the app lacks the resource, otherwise
        the changes. Raises Refused."""
        content = live.move_to_app(in_file.content, self.app, self._names)
        content = _with_app_fields(in_app, content)
        with _errors_explained():
            if in_app.content is None:
                collection = COLLECTION_OF[in_file.kind]
                own_id = in_file.name.rpartition("/")[2]
                resource_id = own_id if ID.fullmatch(own_id) else ""
                resource = self._live.create(self.app, collection, content, resource_id=resource_id)
                self._names[collection, in_file.title] = str(resource["name"])
            else:
                etag = in_file.etag or in_app.etag
                resource = self._update(in_app, content, in_app.etag if overwrite else etag)
        identity = {"name": resource["name"], "etag": resource.get("etag", "")}
        self._note_base(identity["name"], identity["etag"], content)
        if not in_file.path:  # inside another file it has no name to note
            self._edit_file(in_file, {**(in_file.content or {}), **identity}, is_renamed=True)

    def _update(self, in_app: Version, content: Json, etag: str) -> JsonObject:
        paths = live.mask(in_app.content or {}, content, read.SHAPES[in_app.kind])
        lost_fields = [
            field_name
            for field_name in in_app.unknown
            if any(field_name.startswith(path) for path in paths)
        ]
        if lost_fields:
            raise Refused(
                "FAILED_PRECONDITION",
                f"{words.listed(lost_fields)}, which evalgate does not know, would be lost",
            )
        body = only(content, {path.partition(".")[0] for path in paths})
        return self._live.update({**body, "name": in_app.name, "etag": etag}, mask=",".join(paths))

    def _edit_file(self, in_file: Version, new: Json, *, is_renamed: bool = False) -> None:
        """Change a file only where its new content differs. `is_renamed`: also where the name in it
        is that of another app. Raises Refused."""
        raw = self._library.readings[in_file.file].raw
        identity = {key: raw[key] for key in ("name", "etag") if raw.get(key)}
        if "name" in identity and not is_renamed:
            identity["name"] = live.move_to_app(identity, self.app, {})["name"]
        old = {**(in_file.content or {}), **identity}
        text = self._files.source(in_file.file).text
        new_text = edit.edited(text, old, new, is_json=in_file.file.endswith(".json"))
        reading = read.parse(new_text, file=in_file.file, kind=in_file.kind)
        if errors_in(reading.problems) or reading.raw.get("etag") != new["etag"]:
            raise Refused(
                "FAILED_PRECONDITION", f"{in_file.file} cannot be changed in place: edit it by hand"
            )
        if new_text != text:
            self._files.save(in_file.file, new_text)


def _with_app_fields(in_app: Version, content: JsonObject) -> JsonObject:
    """The content of the files for the app, whose settings stay if the files do not name them."""
    return {**(in_app.content or {}), **content} if in_app.kind is Kind.APP else content


def _read(raw: Json, kind: Kind) -> Version:
    """A resource of the app, unchanged. Raises ConfigError if it cannot be read."""
    name = str(raw.get("name", ""))
    unknown: list[str] = []
    # the other fields of an app are not ours
    content = only(raw, shapes.fields_of(AppEvaluation)) if kind is Kind.APP else raw
    message, problems = read.parse_message(content, kind, file=name, unknown=unknown)
    if message is None:
        raise ConfigError.collected(problems)
    content = shapes.content_of(message)
    content.pop("name", None)
    return Version(
        kind=kind,
        title=str(raw.get("displayName") or name),
        content=content,
        name=name,
        etag=str(raw.get("etag", "")),
        unknown=tuple(unknown),
    )


def _difference(
    of: Version, old: JsonObject | None, new: JsonObject | None
) -> Iterator[Difference]:
    """The difference between the two sides of a resource; none if they are equal."""
    if old is None or new is None:
        yield Difference(kind=of.kind, title=of.title, only_in="new" if old is None else "old")
    elif changes := tuple(compare.changes(old, new)):
        yield Difference(kind=of.kind, title=of.title, changes=changes)


_APP_HINT = "Name it: --app projects/P/locations/L/apps/A"


def _app_name(library: Library) -> str:
    """The app that the files name. Raises ConfigError if they name none, or several."""
    apps = library.app_names - {shapes.LOCAL_APP}
    apps |= {
        str(reading.raw["name"])
        for reading in library.readings.values()
        if reading.kind is Kind.APP and reading.raw.get("name")
    }
    if len(apps) == 1:
        return apps.pop()
    message = f"the files name {words.listed(sorted(apps))}" if apps else "the files name no app"
    raise ConfigError(message, hint=_APP_HINT)


_REFUSALS = {
    **dict.fromkeys(
        (
            "INVALID_ARGUMENT",
            "NOT_FOUND",
            "ALREADY_EXISTS",
            "FAILED_PRECONDITION",
            "PERMISSION_DENIED",
        ),
        "",
    ),
    "ABORTED": "; it was changed in the app since it was pulled: `evalgate ces drift` shows how, `pull` "
    "takes it over, `push --overwrite` writes over it",
}
"""The codes of refusals of one resource, with what there is to add to their messages."""


@contextlib.contextmanager
def _errors_explained() -> Iterator[None]:
    """Turn errors of the API into errors with a hint: Refused for errors of one resource, otherwise
    UnavailableError."""
    try:
        yield
    except LiveFailed as failed:
        if failed.code in _REFUSALS:
            raise Refused(failed.code, f"{failed}{_REFUSALS[failed.code]}") from failed
        hint = "GOOGLE_APPLICATION_CREDENTIALS names a file of credentials; or `gcloud auth application-default login`."
        is_credentials = failed.code == "UNAUTHENTICATED"
        raise UnavailableError(
            f"the CES API: {failed}", hint=hint if is_credentials else ""
        ) from failed
