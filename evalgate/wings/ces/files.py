"""CES files for the terminal: the comparison of two versions, and the exchange of changes with a
live app.

Every update of an app has a mask of the changed fields and the etag that was read."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from evalgate.discovery import walk
from evalgate.errors import ConfigError, NothingToDo, Place, Problem, UnavailableError, errors_in
from evalgate.results import kept, output
from evalgate.text import plain, words
from evalgate.values import Environ, Json, JsonObject, digest_of, frozen_dataclass, without
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
    Reading,
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
    texts: dict[str, str] = {}
    for file_path in paths:
        file = str(file_path)
        text = plain.decode(walk.read_user_file(file_path, label=file), file=file)
        if isinstance(text, Problem):
            raise ConfigError.collected([text])
        if file_path == path or read.kind_of(text, file=file):
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
    resource_differences: list[Difference] = []
    for pair in pairs(*map(_compared, libraries)):
        resource = pair[1] or pair[0]
        assert resource is not None
        old_content, right = (None if version is None else version.content for version in pair)
        resource_differences += _difference(resource, old_content, right)
    return resource_differences, tuple(
        problem for ces_library in libraries for problem in ces_library.problems
    )


def _compared(library: Library) -> list[Resource]:
    """The resources of files, and the settings of each app with its personas as one resource."""
    apps = [
        Resource(kind=Kind.APP, file=file, path=(), message=reading.app, place=Place(file))
        for file, reading in library.readings.items()
        if reading.app is not None
    ]
    return [
        *apps,
        *(
            resource
            for resource in library.of(*Kind)
            if resource.kind is not Kind.PERSONA or not resource.path
        ),
    ]


Version = TypeVar("Version", Resource, "Pair")


def pairs(
    old_versions: Iterable[Version], new_versions: Iterable[Version]
) -> Iterator[tuple[Version | None, Version | None]]:
    """The versions of each resource, paired by name, otherwise by display name."""
    candidates = list(old_versions)
    for new in new_versions:
        of_kind = [old for old in candidates if old.kind is new.kind]
        by_name = next((old for old in of_kind if new.name and old.name == new.name), None)
        old = by_name or next((old for old in of_kind if old.title == new.title), None)
        if old is not None:
            candidates.remove(old)
        yield old, new
    for old in candidates:
        yield old, None


# --- a live app ----------------------------------------------------------------------------------


PULLED = f"{kept.FOLDER}/ces/pulled"
"""The resources as they were pulled, by name and etag: the base of the next pull."""


@frozen_dataclass
class Pair:
    """A resource in the files and in the app, in one spelling; None if a side lacks it. `file`: its
    file; `path`: its place in the file. `unknown`: fields of the app that evalgate does not
    know."""

    kind: Kind
    title: str
    file: str = ""
    path: tuple[str | int, ...] = ()
    file_content: JsonObject | None = None
    my_etag: str = ""
    app_content: JsonObject | None = None
    name: str = ""
    etag: str = ""
    unknown: tuple[str, ...] = ()


@dataclass(slots=True)
class Done:
    """The actions of a command, or those of a preview: `differences`, and texts about differences
    that were left alone."""

    differences: list[Difference] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


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

    def drift(self) -> Done:
        """The differences between the app and the files."""
        pairs = self._pairs()
        if not pairs:
            raise NothingToDo("neither the files nor the app have evaluations")
        return Done(
            differences=[
                difference
                for pair in pairs
                for difference in _difference(pair, pair.file_content, pair.app_content)
            ]
        )

    def pull(self, *, preview: bool = False, overwrite: bool = False) -> Done:
        """Write the app's changes since the last pull to the files. Changes in the files alone
        stay, and so do resources that the app lacks. A field that changed on both sides is refused;
        `overwrite` takes the app's value."""
        done = Done()
        with contextlib.nullcontext() if preview else self._files.lock():
            for pair in self._pairs():
                label = f"{pair.kind} {pair.title}"
                if pair.app_content is None:
                    done.notes.append(f"{label}: only in the files ({pair.file}), left")
                    continue
                done.notes += [
                    f"{label}: `{field_name}` is unknown, left out" for field_name in pair.unknown
                ]
                try:
                    content = self._merged(pair, overwrite=overwrite)
                    if not preview:
                        self._write_to_file(pair, content)
                except Refused as refused:
                    done.refused.append(f"{label}: {refused.message}")
                    continue
                done.differences += _difference(pair, pair.file_content, content)
                kept_fields = live.mask(pair.app_content, content, read.SHAPES[pair.kind])
                if kept_fields:
                    fields = words.listed(kept_fields)
                    done.notes.append(f"{label}: {fields} changed in {pair.file} only, kept")
        return done

    def push(
        self, *, preview: bool = False, no_relaxing: bool = False, overwrite: bool = False
    ) -> Done:
        """Write the content of the files to the app if it differs; resources of the app alone stay.

        `overwrite`: also replace changes in the app since the last pull. With `no_relaxing`, raises
        ConfigError if a change relaxes, and writes nothing."""
        done = Done()
        pairs = self._pairs()
        changed: list[tuple[Pair, Difference]] = []
        for pair in pairs:
            if pair.file_content is None:
                done.notes.append(f"{pair.kind} {pair.title}: only in the app, left")
                continue
            new_content = (
                {**(pair.app_content or {}), **pair.file_content}
                if pair.kind is Kind.APP
                else pair.file_content
            )
            changed += [
                (pair, difference)
                for difference in _difference(pair, pair.app_content, new_content)
            ]
        relaxing = [difference for _, difference in changed if difference.relaxed_reasons]
        if no_relaxing and relaxing:
            reasons = [
                f"{difference.kind} {difference.title}: {relaxation}"
                for difference in relaxing
                for relaxation in difference.relaxed_reasons
            ]
            raise ConfigError(
                f"nothing was pushed, because it may relax (`--no-relaxing`): {'; '.join(reasons)}"
            )
        with contextlib.nullcontext() if preview else self._files.lock():
            for pair, difference in changed:
                try:
                    if not preview:
                        self._write_to_app(pair, overwrite=overwrite)
                except Refused as refused:
                    done.refused.append(f"{pair.kind} {pair.title}: {refused.message}")
                else:
                    done.differences.append(difference)
        return done

    # --- reading ---------------------------------------------------------------------------------

    def _pairs(self) -> list[Pair]:
        """Every resource on either side, and the settings of the app. Raises ConfigError for an
        unreadable resource."""
        with _errors_explained():
            app_pairs = {
                kind: [_read(raw, kind) for raw in self._live.listed(self.app, COLLECTION_OF[kind])]
                for kind in WRITABLE
            }
            app = self._live.get(self.app)
            # the names for display names, which an export has instead of names
            for kind, of_kind in app_pairs.items():
                self._names |= {(COLLECTION_OF[kind], pair.title): pair.name for pair in of_kind}
            used_text = json.dumps([resource.content for resource in self._library.of(*WRITABLE)])
            self._names |= live.find_names(self._live, self.app, used_text)
        joined_pairs: list[Pair] = []
        for kind in WRITABLE:
            file_pairs = map(self._of_file, self._library.of(kind))
            joined_pairs += [
                _joined(in_app, in_files) for in_app, in_files in pairs(app_pairs[kind], file_pairs)
            ]
        return [*joined_pairs, *self._of_app(app)]

    def _of_file(self, resource: Resource) -> Pair:
        """A resource of the files in the form of the app."""
        content = live.move_to_app(resource.content, self.app, self._names)
        return Pair(
            kind=resource.kind,
            title=resource.title,
            file=resource.file,
            path=resource.path,
            name=content.pop("name", ""),
            file_content=content,
            my_etag=str(getattr(resource.message, "etag", "")),
        )

    def _of_app(self, raw: Json) -> list[Pair]:
        """The pair of app.json and the app's settings."""
        readings = {
            file: reading
            for file, reading in self._library.readings.items()
            if reading.kind is Kind.APP
        }
        if len(readings) > 1:
            raise ConfigError(
                f"more than one app: {words.listed(readings)}",
                hint="Name the folder of the one that is meant.",
            )
        file, reading = next(iter(readings.items()), ("", Reading(kind=Kind.APP, raw={})))
        # the other fields of an app are not ours
        fields = shapes.fields_of(AppEvaluation)
        settings = shapes.content_of(reading.app) if reading.app else {}
        app_pair = replace(
            _read({key: value for key, value in raw.items() if key in fields}, Kind.APP),
            title=str(raw.get("displayName") or self.app),
            name=self.app,
            etag=str(raw.get("etag", "")),
            file=file,
            file_content=live.move_to_app(settings, self.app, self._names) or None,
            my_etag=str(reading.raw.get("etag", "")),
        )
        return [app_pair] if app_pair.app_content or app_pair.file_content else []

    # --- writing ---------------------------------------------------------------------------------

    def _merged(self, pair: Pair, *, overwrite: bool) -> JsonObject:
        """The file's content with the app's changes since the last pull. Raises Refused if a field
        changed on both sides."""
        app_content = pair.app_content or {}
        if pair.file_content is None or overwrite:
            return app_content
        base = app_content if pair.my_etag and pair.my_etag == pair.etag else self._last_pull(pair)
        content = dict(pair.file_content)
        conflicts: list[str] = []
        for key in dict.fromkeys((*content, *app_content)):
            file_value, app_value, base_value = (
                {key: side[key]} if key in side else {} for side in (content, app_content, base)
            )
            if app_value in (file_value, base_value):
                continue
            if file_value == base_value:
                content = {**without(content, (key,)), **app_value}
            else:
                conflicts += live.mask(file_value, app_value, read.SHAPES[pair.kind])
        if conflicts:
            fields = words.listed(conflicts)
            reason = f"{fields} changed in the app and in {pair.file}"
            if not base:
                reason = f"{fields} differ in {pair.file}, and what was pulled is not known here"
            hint = "edit the file and `push --overwrite`, or `pull --overwrite` takes the app's"
            raise Refused("ABORTED", f"{reason}: {hint}")
        return content

    def _path_of_pull(self, name: str, etag: str) -> Path:
        return self._files.inside(f"{PULLED}/{digest_of(f'{name} {etag}', 24)}.json")

    def _last_pull(self, pair: Pair) -> JsonObject:
        """The file's content after the last pull or push; empty if unknown."""
        try:
            path = self._path_of_pull(pair.name, pair.my_etag)
            return dict(json.loads(path.read_text("utf-8"))["content"])
        except (OSError, ValueError, LookupError, TypeError):
            return {}

    def _note_base(self, name: str, etag: str, content: JsonObject) -> None:
        """Save the app's content under its etag."""
        record = {"name": name, "etag": etag, "content": content}
        path = self._path_of_pull(name, etag)
        output.make_folder(path.parent)
        output.write_file(path, [json.dumps(record) + "\n"])

    def _write_to_file(self, pair: Pair, content: JsonObject) -> None:
        """Write the content to the pair's file. Raises Refused."""
        new = {**content, "name": pair.name, "etag": pair.etag}
        if pair.file_content is None:
            file = "app.json"
            if pair.kind is not Kind.APP:
                file = self._files.new_file(self._files.library(), pair.kind, pair.title)
            elif (self._files.root / file).exists():
                raise Refused(
                    "ALREADY_EXISTS",
                    "app.json says nothing of evaluations: add `evaluationSettings: {}`",
                )
            first = ("name", "displayName", "etag", "description", "tags")
            ordered = {key: new[key] for key in first if key in new} | dict(sorted(new.items()))
            self._files.save(file, json.dumps(ordered, indent=2, ensure_ascii=False) + "\n")
        else:
            self._edit_file(pair, new)
        self._note_base(pair.name, pair.etag, pair.app_content or {})

    def _write_to_app(self, pair: Pair, *, overwrite: bool) -> None:
        """Write the file's content to the app: all of it if the app lacks the resource, otherwise
        the changes. Raises Refused."""
        content: JsonObject = live.move_to_app(pair.file_content, self.app, self._names)
        if pair.kind is Kind.APP:
            content = {**(pair.app_content or {}), **content}
        with _errors_explained():
            if pair.app_content is None:
                collection = COLLECTION_OF[pair.kind]
                own_id = pair.name.rpartition("/")[2]
                resource_id = own_id if ID.fullmatch(own_id) else ""
                resource = self._live.create(self.app, collection, content, resource_id=resource_id)
                self._names[collection, pair.title] = str(resource["name"])
            else:
                resource = self._update(pair, content, overwrite=overwrite)
        identity = {"name": resource["name"], "etag": resource.get("etag", "")}
        self._note_base(identity["name"], identity["etag"], content)
        self._edit_file(pair, {**(pair.file_content or {}), **identity}, names_only=True)

    def _update(self, pair: Pair, content: JsonObject, *, overwrite: bool) -> JsonObject:
        paths = live.mask(pair.app_content or {}, content, read.SHAPES[pair.kind])
        lost_fields = [
            field_name
            for field_name in pair.unknown
            if any(field_name.startswith(path) for path in paths)
        ]
        if lost_fields:
            raise Refused(
                "FAILED_PRECONDITION",
                f"{words.listed(lost_fields)}, which evalgate does not know, would be lost",
            )
        etag = pair.etag if overwrite else pair.my_etag or pair.etag
        tops = {path.partition(".")[0] for path in paths}
        body = {key: value for key, value in content.items() if key in tops}
        return self._live.update({**body, "name": pair.name, "etag": etag}, mask=",".join(paths))

    def _edit_file(self, pair: Pair, new: JsonObject, *, names_only: bool = False) -> None:
        """Change a file only where its new content differs. Raises Refused.

        `names_only`: the resource is inside another file and has no name to note."""
        assert pair.file_content is not None
        raw = self._library.readings[pair.file].raw
        if pair.path:
            if not names_only and pair.file_content != without(new, ("name", "etag")):
                raise Refused(
                    "FAILED_PRECONDITION", f"it is written out in {pair.file}: edit it there"
                )
            return
        identity = {key: raw[key] for key in ("name", "etag") if raw.get(key)}
        if "name" in identity and not names_only:
            identity["name"] = live.move_to_app(identity, self.app, {})["name"]
        old = {**pair.file_content, **identity}
        text = self._files.source(pair.file).text
        new_text = edit.edited(text, old, new, is_json=pair.file.endswith(".json"))
        reading = read.parse(new_text, file=pair.file, kind=pair.kind)
        if errors_in(reading.problems) or reading.raw.get("etag") != new["etag"]:
            raise Refused(
                "FAILED_PRECONDITION", f"{pair.file} cannot be changed in place: edit it by hand"
            )
        if new_text != text:
            self._files.save(pair.file, new_text)


def _read(raw: Json, kind: Kind) -> Pair:
    """A resource of the app, unchanged. Raises ConfigError if it cannot be read."""
    name = str(raw.get("name", ""))
    unknown: list[str] = []
    message, problems = read.parse_message(raw, kind, file=name, unknown=unknown)
    if message is None:
        raise ConfigError.collected(problems)
    content = shapes.content_of(message)
    content.pop("name", None)
    title = str(raw.get("displayName") or name)
    etag = str(raw.get("etag", ""))
    return Pair(
        kind=kind, title=title, app_content=content, name=name, etag=etag, unknown=tuple(unknown)
    )


def _joined(in_app: Pair | None, in_files: Pair | None) -> Pair:
    """Both sides of a resource, under the names of the files; the name, the etag and unknown fields
    are the app's."""
    if in_files is None:
        assert in_app is not None
        return in_app
    if in_app is None:
        return in_files
    return replace(
        in_files,
        app_content=in_app.app_content,
        name=in_app.name,
        etag=in_app.etag,
        unknown=in_app.unknown,
    )


def _difference(
    of: Pair | Resource, old: JsonObject | None, new: JsonObject | None
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


_REFUSALS = frozenset(
    {
        "ABORTED",
        "INVALID_ARGUMENT",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "FAILED_PRECONDITION",
        "PERMISSION_DENIED",
    }
)


@contextlib.contextmanager
def _errors_explained() -> Iterator[None]:
    """Turn errors of the API into errors with a hint: Refused for errors of one resource, otherwise
    UnavailableError."""
    try:
        yield
    except LiveFailed as failed:
        if failed.code == "ABORTED":
            message = (
                f"{failed}; it was changed in the app since it was pulled: `evalgate ces drift` shows how, `pull` "
                "takes it over, `push --overwrite` writes over it"
            )
            raise Refused("ABORTED", message) from failed
        if failed.code in _REFUSALS:
            raise Refused(failed.code, str(failed)) from failed
        hint = "GOOGLE_APPLICATION_CREDENTIALS names a file of credentials; or `gcloud auth application-default login`."
        is_credentials = failed.code == "UNAUTHENTICATED"
        raise UnavailableError(
            f"the CES API: {failed}", hint=hint if is_credentials else ""
        ) from failed
