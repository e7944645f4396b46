"""The CES resources and the ADK evaluation cases of a repository, for an assistant to read and
write.

Every resource has a name and an etag, an update has a mask, and the answer lists the relaxations.
Only the changed values of a file differ."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import filelock
import platformdirs
from pydantic import ValidationError

from evalgate.config import load, places
from evalgate.discovery import walk
from evalgate.errors import EvalgateError, Problem, errors_in
from evalgate.formats import eval_set, rewrite
from evalgate.formats.adk_shapes import EvalCaseWire, case_json
from evalgate.formats.json_source import Path as JsonPath
from evalgate.formats.kind import Dialect
from evalgate.gate import waiting
from evalgate.gate.waiting import WaitingChange
from evalgate.model.shapes import to_camel, to_snake
from evalgate.text import words
from evalgate.values import Json, JsonObject, frozen_dataclass
from evalgate.wings.ces import compare, edit, read, shapes
from evalgate.wings.ces.compare import LONGEST_SHOWN, MISSING, FieldChange, Relaxation
from evalgate.wings.ces.edit import EVERYTHING, Refused, invalid
from evalgate.wings.ces.mcp.library import StoredFiles, metrics_of, results_of
from evalgate.wings.ces.read import COLLECTION_OF, Kind, Library, Resource
from evalgate.wings.ces.shapes import EvaluationResult, ExecutionState, Outcome, Proto

WRITABLE: Final = frozenset({Kind.EVALUATION, Kind.EXPECTATION, Kind.DATASET})
PAGE = 50
MOST_PAGE = 1000
LOCK_SECONDS: Final = 30.0
ID: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]{4,35}")
_APP: Final = re.compile(r"projects/[^/]+/locations/[^/]+/apps/[^/]+")
Texts: TypeAlias = dict[str, tuple[str, str | None]]
_PAGE_TOKEN = re.compile(r"[0-9]{1,9}")


@frozen_dataclass
class Done:
    """A change that was made or previewed: the new resource (None: deleted), the differences, the
    relaxations, and the difference of the file."""

    resource: JsonObject | None
    changes: tuple[compare.FieldChange, ...] = ()
    relaxations: tuple[Relaxation, ...] = ()
    diff: str = ""


class Resources:
    """The resources below a root. Every method raises Refused with a code of google.rpc for a
    rejected request."""

    def __init__(
        self,
        root: Path,
        *,
        app: str = read.LOCAL_APP,
        read_only: bool = False,
        no_relaxing: bool = False,
    ) -> None:
        """`app`: the app of resources without a name."""
        self.root = root.resolve()
        self._app = app
        self._read_only = read_only
        self._no_relaxing = no_relaxing
        digest = hashlib.sha256(str(self.root).encode()).hexdigest()[:16]
        folder = Path(platformdirs.user_cache_dir("evalgate")) / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        self._files = StoredFiles(self.root)
        self._lock = filelock.FileLock(folder / f"{digest}.lock", timeout=LOCK_SECONDS)

    # --- reading ---------------------------------------------------------------------------------

    def listed(
        self,
        kind: Kind,
        *,
        parent: str = "",
        page_size: int = 0,
        page_token: str = "",
        order_by: str = "name",
        view: str = "BASIC",
        failing: bool = False,
        **chosen: Any,
    ) -> JsonObject:
        """One page of the resources of a kind, by name, and the token of the next page; each
        resource has the fields of a list, or all fields (FULL). `failing`: only evaluations whose
        last result is not a pass; `chosen`: see `selected`."""
        if order_by not in ("", "name", "name asc"):
            message = "`orderBy`: files are ordered by name"
            raise Refused("UNIMPLEMENTED", message, [("orderBy", "not supported")])
        if page_size < 0 or (page_token and not _PAGE_TOKEN.fullmatch(page_token)):
            raise invalid(("pageSize" if page_size < 0 else "pageToken", "not a page of this list"))
        start = int(page_token or 0)
        size = min(page_size or PAGE, MOST_PAGE)
        library = self._files.library()
        results = results_of(library)
        prefix = self._prefix(library, kind, parent) if parent else ""
        resources = [
            resource
            for resource in (
                self.selected(library, **chosen) if any(chosen.values()) else library.of(kind)
            )
            if self.name_of(resource).startswith(prefix)
            and (not failing or self._fails(resource, results))
        ]
        resources.sort(key=self.name_of)
        page = {
            COLLECTION_OF[kind]: [
                self._with_results(resource, library, results, is_full=view == "FULL")
                for resource in resources[start : start + size]
            ]
        }
        more = {"nextPageToken": str(start + size)} if start + size < len(resources) else {}
        return {**page, **more}

    def get(self, kind: Kind, name: str) -> JsonObject:
        """A resource by its name; an evaluation or a dataset has the results of its runs here."""
        library = self._files.library()
        resource = self._find(library, kind, name)
        return self._with_results(resource, library, results_of(library), is_full=True)

    def selected(
        self,
        library: Library,
        *,
        names: Sequence[str] = (),
        dataset: str = "",
        tags: Collection[str] = (),
    ) -> list[Resource]:
        """The evaluations with these names, those of a dataset, and those with one of the tags."""
        evaluations = library.of(Kind.EVALUATION)
        selection = [self._find(library, Kind.EVALUATION, name) for name in names]
        if dataset:
            message = self._find(library, Kind.DATASET, dataset).message
            for evaluation in self._referred(library, message):
                if isinstance(evaluation, str):
                    raise Refused("NOT_FOUND", evaluation)
                selection.append(evaluation)
        of_tags = {
            tag: [evaluation for evaluation in evaluations if tag in _tags(evaluation)]
            for tag in tags
        }
        for tag, tagged in of_tags.items():
            if not tagged:
                known_tags = {known for evaluation in evaluations for known in _tags(evaluation)}
                hint = words.suggest(tag[:100], known_tags, prefix="; ")
                raise Refused("NOT_FOUND", f"no evaluation has the tag {tag[:100]!r}{hint}")
            selection += tagged
        return list({(resource.file, resource.path): resource for resource in selection}.values())

    def selections(self, **chosen: Any) -> dict[str, str]:
        """Evaluations as a run names them (file and title) by their names; `chosen`: see
        `selected`."""
        return {
            self.name_of(resource): f"{resource.file}:{resource.title}"
            for resource in self.selected(self._files.library(), **chosen)
        }

    def name_of(self, resource: Resource) -> str:
        """The name of a resource; without one, a name from its title."""
        return (
            resource.name
            if "/" in resource.name
            else f"{self._app}/{COLLECTION_OF[resource.kind]}/{resource.id}"
        )

    def view(self, resource: Resource) -> JsonObject:
        """A resource as the API shows it; its etag is one of the content."""
        has_etag = "etag" in type(resource.message).model_fields  # results and runs have none
        etag = {"etag": etag_of(resource.message)} if has_etag else {}
        return {**resource.message.json(), "name": self.name_of(resource), **etag}

    def keep(self, document: Json) -> Json:
        """Keep what a run gave, a `ces-results.json`; returns it with the names that it has
        here."""
        return self._files.keep(document, app=self._app)

    def _fails(self, resource: Resource, results: Mapping[str, list[EvaluationResult]]) -> bool:
        """True if an evaluation did not pass in its last run."""
        last_result = results.get(self.name_of(resource), [])[-1:]
        return bool(last_result) and last_result[0].evaluation_status is not Outcome.PASS

    def _with_results(
        self,
        resource: Resource,
        library: Library,
        results: Mapping[str, list[EvaluationResult]],
        *,
        is_full: bool,
    ) -> JsonObject:
        """The shown fields of a resource, all or those of a list, with the results of its runs."""
        view = self.view(resource)
        names = [self.name_of(resource)]
        if resource.kind is Kind.DATASET:
            evaluations = self._referred(library, resource.message)
            names = [
                self.name_of(evaluation)
                for evaluation in evaluations
                if not isinstance(evaluation, str)
            ]
        completed = [
            result
            for name in names
            for result in results.get(name, ())
            if result.execution_state is ExecutionState.COMPLETED
        ]
        if completed and resource.kind in (Kind.EVALUATION, Kind.DATASET):
            view["aggregatedMetrics"] = metrics_of(completed).json()
        if completed and resource.kind is Kind.EVALUATION:
            view["lastCompletedResult"] = completed[-1].json()
        return view if is_full else _summary(view)

    # --- writing ---------------------------------------------------------------------------------

    def create(self, kind: Kind, body: Any, *, parent: str = "", resource_id: str = "") -> Done:
        """Write a new resource to a file of its own."""
        self.insist_writable()
        content = self._body(body, kind)
        with self.locked():
            library = self._files.library()
            title = str(content.get("displayName", ""))
            name = self._new_name(library, kind, parent, resource_id or _made_id(title))
            content["name"] = name
            self._checked(content, kind, library, besides=None)
            file = self.new_file(library, kind, title)
            text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
            self.save(file, text)
        return Done(resource=self.view(_parsed(text, file, kind)))

    def update(self, kind: Kind, body: Any, *, mask: Any = None, preview: bool = False) -> Done:
        """Write the masked fields of the body; with `preview` only report the change."""
        if not preview:
            self.insist_writable()
        if not isinstance(body, dict) or not isinstance(body.get("name"), str):
            raise invalid(("name", "the name of the resource is missing"))
        request = dict(body)
        name = body["name"]
        etag = body.get("etag")
        shape = read.RESOURCES[kind]
        content = self._body(request, kind, is_partial=True)
        paths = edit.mask_of(mask, request, shape)
        with self.locked():
            library = self._files.library()
            resource = self._find(library, kind, name)
            old = shapes.comparable(resource.message)
            _check_etag(etag, old, "resource")
            if resource.path:
                raise Refused(
                    "FAILED_PRECONDITION",
                    f"it is written out in {resource.file}: edit that evaluation",
                )
            new = edit.updated(old, content, paths, shape)
            message = self._checked(new, kind, library, besides=resource)
            new = shapes.comparable(message)
            changes = tuple(compare.changes(old, new))
            relaxations = tuple(compare.relaxations(changes))
            old_text = self.source(resource.file).text
            text = self._spliced(resource, old_text, old, new) if changes else old_text
            change = self._change(resource, {resource.file: (old_text, text)}, relaxations)
            if not preview:
                self.make(change)
                resource = _parsed(text, resource.file, kind)
        view = (
            self.view(resource)
            if not preview
            else {**message.json(), "name": name, "etag": etag_of(message)}
        )
        return Done(resource=view, changes=changes, relaxations=relaxations, diff=change.diff)

    def delete(self, kind: Kind, name: str, *, etag: str = "", force: bool = False) -> Done:
        """Delete a resource's file; with `force` also the references of datasets to it."""
        self.insist_writable()
        with self.locked():
            library = self._files.library()
            resource = self._find(library, kind, name)
            _check_etag(etag, shapes.comparable(resource.message), "resource")
            if resource.path:
                raise Refused(
                    "FAILED_PRECONDITION", f"it is written out in {resource.file}: edit that file"
                )
            users = [
                user
                for user in library.of(Kind.DATASET, Kind.EVALUATION)
                if self._refers(user, resource)
            ]
            if users and not force:
                names = words.listed([self.name_of(user) for user in users])
                raise Refused(
                    "FAILED_PRECONDITION", f"{names} refers to it; `force` drops the references"
                )
            relaxations = (compare.removed(str(kind)),) if kind in WRITABLE else ()
            texts: Texts = {user.file: self._without_reference(user, resource) for user in users}
            texts[resource.file] = (self.source(resource.file).text, None)
            self.make(self._change(resource, texts, relaxations))
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
                f"`evalgate accept {shlex.quote(change.name)}`",
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
        """All files with all of their problems, including those between files."""
        library = self._files.library()
        folders = partial(walk.folder_names, self.root)
        return replace(library, problems=(*library.problems, *read.across(library, folders)))

    def _names(self, resource: Resource) -> set[str]:
        """All names that a reference may use for it."""
        return {self.name_of(resource), resource.id, resource.title}

    def _referred(self, library: Library, message: Proto) -> list[Resource | str]:
        """What the references of a message name: by name, the last part of it, or title; for those
        that lead nowhere a text that says so."""
        kind, names, _ = read.references_of(message)
        by_name = {
            name: resource for resource in library.of(kind) for name in self._names(resource)
        }
        return [
            by_name.get(name)
            or by_name.get(name.rpartition("/")[2])
            or f"no {kind} {name[-200:]!r}"
            + words.suggest(name.rpartition("/")[2][:100], by_name, prefix="; ")
            for name in names
        ]

    def _prefix(self, library: Library, kind: Kind, parent: str) -> str:
        """The prefix of the names of a collection. Results are below an evaluation, or below any
        (`-`). Raises Refused if there is no such app."""
        app, _, below = parent.partition("/evaluations/")
        is_shaped = bool(below) == (kind is Kind.RESULT) and "/" not in below
        if not _APP.fullmatch(app) or not is_shaped:
            shape = "projects/P/locations/L/apps/A"
            more = "/evaluations/E" if kind is Kind.RESULT else ""
            raise invalid(("parent", f"expected {shape}{more}, got {parent[:200]!r}"))
        apps = self._apps(library)
        if apps and app not in {*apps, self._app}:
            hint = words.suggest(app[:200], apps, prefix="; ")
            raise Refused("NOT_FOUND", f"parent: nothing here is of the app {app[:200]!r}{hint}")
        if kind is not Kind.RESULT:
            return f"{app}/{COLLECTION_OF[kind]}/"
        return f"{app}/evaluations/" if below == "-" else f"{parent}/results/"

    def _apps(self, library: Library) -> set[str]:
        """The apps of the resources that have names."""
        matches = (_APP.match(resource.name) for resource in library.of(*WRITABLE))
        return {match[0] for match in matches if match}

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
        near = words.nearest(name[:300], names)
        hint = f"; did you mean {near}?" if near else ""
        broken = errors_in(library.problems)
        more = (
            f" ({words.counted(len(broken), 'error')} in CES files: `evalgate validate`)"
            if broken
            else ""
        )
        raise Refused("NOT_FOUND", f"no {kind} {name[:300]!r}{hint}{more}")

    def _body(self, body: Any, kind: Kind, *, is_partial: bool = False) -> JsonObject:
        """The fields of a body that the caller may write, in protobuf's JSON."""
        message, problems = read.parse_message(body, kind, file="", is_partial=is_partial)
        if message is None:
            raise _refused(problems, str(kind))
        return shapes.comparable(message)

    def _checked(
        self, content: Json, kind: Kind, library: Library, *, besides: Resource | None
    ) -> Proto:
        """The resource to be written, valid alone and among the others."""
        message, problems = read.parse_message(dict(content), kind, file="")
        if message is None:
            raise _refused(problems, str(kind))
        title = content.get("displayName")
        for resource in library.of(kind):
            if (
                resource is not besides
                and (besides is None or resource.file != besides.file)
                and resource.title == title
            ):
                raise Refused(
                    "ALREADY_EXISTS",
                    f"the displayName {title!r} is used by {self.name_of(resource)}",
                )
        known_names = read.references_of(besides.message)[1] if besides is not None else ()
        self._insist_references(message, kind, library, known_names)
        return message

    def _insist_references(
        self, message: Proto, kind: Kind, library: Library, known_names: Collection[str]
    ) -> None:
        """Raises Refused if a new reference leads nowhere."""
        _, names, keys = read.references_of(message)
        field = ".".join((str(kind), *keys))
        violations = [
            (f"{field}[{number}]", reason)
            for number, reason in enumerate(self._referred(library, message))
            if isinstance(reason, str) and names[number] not in known_names
        ]
        if violations:
            raise invalid(*violations)

    def _new_name(self, library: Library, kind: Kind, parent: str, resource_id: str) -> str:
        if not ID.fullmatch(resource_id):
            message = "expected 5 to 36 letters, digits, `-` or `_`, a letter or digit first"
            raise invalid((f"{kind}Id", message))
        apps = self._apps(library)
        only_app = apps.pop() if self._app == read.LOCAL_APP and len(apps) == 1 else self._app
        name = self._prefix(library, kind, parent or only_app) + resource_id
        if any(
            self.name_of(resource) == name or resource.id == resource_id
            for resource in library.of(kind)
        ):
            raise Refused("ALREADY_EXISTS", f"{name!r} is already there")
        return name

    def new_file(self, library: Library, kind: Kind, title: str) -> str:
        """The file of a new resource: beside the others, as in an export."""
        siblings = library.of(*WRITABLE)
        app = read.app_folder(siblings[0].file) if siblings else ""
        name = read.file_name(title)
        file = "/".join(part for part in (app, COLLECTION_OF[kind], name, f"{name}.json") if part)
        if (self.root / file).exists():
            raise Refused("ALREADY_EXISTS", f"the file {file} is already there")
        return file

    def _spliced(self, resource: Resource, text: str, old: Any, new: Any) -> str:
        new_text = edit.spliced(
            text, old, new, is_json=resource.file.endswith(".json"), path=resource.path
        )
        reading = read.parse(new_text, file=resource.file, kind=resource.kind)
        again = [
            shapes.comparable(candidate.message)
            for candidate in reading.resources
            if candidate.path == resource.path
        ]
        if again != [new]:
            raise Refused(
                "FAILED_PRECONDITION",
                f"{resource.file} cannot be changed in place: edit it by hand",
            )
        return new_text

    def _refers(self, user: Resource, resource: Resource) -> bool:
        kind, names, _ = read.references_of(user.message)
        return kind is resource.kind and any(self._is_called(resource, name) for name in names)

    def _is_called(self, resource: Resource, reference: str) -> bool:
        last_part = reference.rpartition("/")[2]
        return not {reference, last_part}.isdisjoint(self._names(resource))

    def _change(
        self, resource: Resource, texts: Texts, relaxations: Sequence[Relaxation]
    ) -> WaitingChange:
        is_evaluation = resource.kind is Kind.EVALUATION
        name = resource.id if is_evaluation else f"{resource.kind}:{resource.id}"
        return WaitingChange(name=name, texts=texts, reasons=tuple(map(str, relaxations)))

    def _without_reference(self, user: Resource, resource: Resource) -> tuple[str, str]:
        """The text of a file, before and after the references to a resource are removed."""
        old = shapes.comparable(user.message)
        new = json.loads(json.dumps(old))
        *within, key = read.references_of(user.message)[2]
        holder = new[within[0]] if within else new
        holder[key] = [name for name in holder[key] if not self._is_called(resource, name)]
        if not holder[key]:
            del holder[key]
        text = self.source(user.file).text
        return text, self._spliced(user, text, old, new)

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
    def locked(self) -> Iterator[None]:
        """Keep other writers out. Raises Refused if one takes too long."""
        try:
            with self._lock:
                yield
        except filelock.Timeout:
            raise Refused("ABORTED", "another process is writing; try again") from None

    def insist_writable(self) -> None:
        """Raises Refused under `--read-only`."""
        if self._read_only:
            raise Refused("PERMISSION_DENIED", "the server was started with --read-only")


_LISTED: Final = (
    *("name", "displayName", "description", "tags", "etag", "state", "progress"),
    *("evaluationStatus", "executionState", "createTime", "errorInfo", "evaluations"),
    *("llmCriteria",),
)
_OF_RESULT: Final = ("name", "evaluationStatus", "createTime")
_OF_VERSION: Final = ("appVersionId", "passCount", "failCount")
"""The fields in a list: of a resource, of its last result and of a version's metrics."""


def _summary(view: Json) -> JsonObject:
    """A resource in a list, as a message of the API: its main fields and its last result."""
    summary = {key: view[key] for key in _LISTED if key in view}
    if "golden" in view:
        summary["golden"] = {}  # that it is one
    elif "scenario" in view:
        summary["scenario"] = {"task": str(view["scenario"].get("task", ""))[:LONGEST_SHOWN]}
    if "lastCompletedResult" in view:
        result = view["lastCompletedResult"]
        summary["lastCompletedResult"] = {key: result[key] for key in _OF_RESULT if key in result}
    if "aggregatedMetrics" in view:
        versions = [
            {key: version[key] for key in _OF_VERSION if key in version}
            for version in view["aggregatedMetrics"]["metricsByAppVersion"]
        ]
        summary["aggregatedMetrics"] = {"metricsByAppVersion": versions}
    return summary


def etag_of(message: Proto) -> str:
    """A hash of the fields that a caller can write."""
    return _hash(shapes.comparable(message))


def _hash(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _check_etag(etag: Any, content: Any, noun: str) -> None:
    if etag and etag != _hash(content):
        raise Refused(
            "ABORTED", f"the etag is stale: the {noun} was changed since it was read; get it again"
        )


def _parsed(text: str, file: str, kind: Kind) -> Resource:
    """The resource in a text."""
    resources = read.parse(text, file=file, kind=kind).resources
    return next(resource for resource in resources if not resource.path)


def _tags(resource: Resource) -> tuple[str, ...]:
    return getattr(resource.message, "tags", ())


def _made_id(title: str) -> str:
    slug = re.sub(r"[^a-zA-Z0-9]+", "-", title).strip("-")[:36].rstrip("-")
    return (
        slug
        if len(slug) > 4
        else f"{slug or 'new'}-{hashlib.sha256(title.encode()).hexdigest()[:8]}"
    )


def _refused(problems: Sequence[Problem], prefix: str) -> Refused:
    """The refusal of a body, with each of its errors."""
    violations = []
    for problem in errors_in(problems):
        path = problem.place.json_path if problem.place else ""
        hint = f" ({problem.hint})" if problem.hint else ""
        violations.append((f"{prefix}.{path}" if path else prefix, f"{problem.message}{hint}"))
    return invalid(*violations)


# --- cases of ADK evaluation sets -----------------------------------------------------------------


FIELDS: Final = tuple(
    name for name in EvalCaseWire.model_fields if name not in ("eval_id", "creation_timestamp")
)
"""The fields of a case that may change."""

_WHAT: Final[Mapping[str, str]] = {
    "conversation": "turn",
    "user_content": "user input",
    "final_response": "expected answer",
    "intermediate_data": "expected tool calls",
    "tool_uses": "expected tool call",
    "invocation_events": "expected tool call",
    "rubrics": "rubric",
    "final_session_state": "expected state",
    "session_input": "session",
    "conversation_scenario": "scenario",
}
_FREE: Final = frozenset(
    {
        "conversation.invocation_id",
        "conversation.creation_timestamp",
        "conversation.user_content.parts.function_call.id",
        "conversation.user_content.parts.function_response.id",
        "conversation.final_response.parts.function_call.id",
        "conversation.final_response.parts.function_response.id",
        "conversation.intermediate_data.tool_uses.id",
        "conversation.intermediate_data.tool_responses.id",
        "conversation.intermediate_data.invocation_events.content.parts.function_call.id",
        "conversation.intermediate_data.invocation_events.content.parts.function_response.id",
    }
)
"""Fields that neither ask nor expect anything, by their keys: an argument may have the same
name."""
_STATE: Final = "final_session_state"
_NEW: Final = frozenset(
    {
        "rubrics",
        _STATE,
        "conversation.final_response",
        "conversation.intermediate_data",
        "conversation.rubrics",
    }
)
"""Fields that expect more if they were absent before."""


@frozen_dataclass
class _CaseSource:
    """A case in its file: the file's source, the raw case, and its path."""

    file: str
    source: rewrite.Source
    raw: JsonObject
    path: JsonPath


class EvalCases:
    """The cases below a root. Every method raises Refused for a rejected request."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._root = resources.root

    def listed(self) -> JsonObject:
        """Every evaluation set with its cases."""
        settings = load.load_settings({"root": str(self._root)})
        tree = walk.Tree(self._root, exclude=settings.gate_file.exclude)
        eval_sets = []
        for file in tree.evaluation_files:
            try:
                reading = eval_set.parse_eval_set(self._read(file).text, file=file)
            except Refused as refused:  # a broken file does not hide the others
                eval_sets.append({"file": file, "problem": refused.message, "evalIds": []})
                continue
            if reading.eval_set is not None:
                evaluation_set = reading.eval_set
                eval_sets.append(
                    {
                        "file": file,
                        "evalSetId": evaluation_set.eval_set_id,
                        "evalIds": [case.case_id for case in evaluation_set.cases],
                    }
                )
        return {"evalSets": eval_sets}

    def get(self, file: str, eval_id: str) -> JsonObject:
        """The raw case, and the etag of its content."""
        return _view(file, eval_id, self._find(file, eval_id).raw)

    def update(
        self,
        file: str,
        eval_id: str,
        body: Json,
        *,
        mask: Any = None,
        etag: str = "",
        preview: bool = False,
    ) -> Done:
        """Write the masked fields of the body; with `preview` only report the change."""
        if not preview:
            self._resources.insist_writable()
        fields = _mask(mask, body)
        with self._resources.locked():
            stored_case = self._find(file, eval_id)
            _check_etag(etag, stored_case.raw, "case")
            new = _updated(stored_case.raw, body, fields)
            old_case = _canonical(stored_case.raw)
            new_case = _canonical(new)
            changes = tuple(compare.changes(old_case, new_case))
            relaxed = tuple(case_relaxations(changes))
            text = self._spliced(stored_case, new, new_case) if changes else stored_case.source.text
            change = WaitingChange(
                name=f"{file}:{eval_id}",
                texts={file: (stored_case.source.text, text)},
                reasons=tuple(map(str, relaxed)),
            )
            if not preview:
                self._resources.make(change)
        view = _view(file, eval_id, new)
        return Done(resource=view, changes=changes, relaxations=relaxed, diff=change.diff)

    # --- how -------------------------------------------------------------------------------------

    def _read(self, file: str) -> rewrite.Source:
        reason = places.refusal_reason(self._root, file)
        if reason:
            raise Refused("PERMISSION_DENIED", f"{file[:200]!r} {reason}")
        if not self._resources.inside(file).is_file():
            raise Refused("NOT_FOUND", f"there is no file {file[:200]!r}")
        return self._resources.source(file)

    def _find(self, file: str, eval_id: str) -> _CaseSource:
        source = self._read(file)
        reading = eval_set.parse_eval_set(source.text, file=file)
        if reading.eval_set is None:
            raise Refused("FAILED_PRECONDITION", str(errors_in(reading.problems)[0]))
        if reading.dialect not in (Dialect.ADK, Dialect.ADK_CAMEL):
            message = f"{file} is not in ADK's current format: `evalgate migrate` writes it"
            raise Refused("FAILED_PRECONDITION", message)
        document = json.loads(source.text.lstrip("\ufeff"))
        key = next(spelling for spelling in ("eval_cases", "evalCases") if spelling in document)
        cases = document[key]
        positions = [
            at
            for at, case in enumerate(cases)
            if eval_id in (case.get("eval_id"), case.get("evalId"))
        ]
        if len(positions) > 1:
            raise Refused("FAILED_PRECONDITION", f"{file} has {len(positions)} cases {eval_id!r}")
        if not positions:
            hint = words.suggest(
                eval_id[:200], [case.case_id for case in reading.eval_set.cases], prefix="; "
            )
            raise Refused("NOT_FOUND", f"{file} has no case {eval_id[:200]!r}{hint}")
        return _CaseSource(
            file=file, source=source, raw=cases[positions[0]], path=(key, positions[0])
        )

    def _spliced(self, stored_case: _CaseSource, new: Json, canonical_case: Any) -> str:
        """The file's text with the new version of the case. Raises Refused if other text would
        change."""
        new_text = edit.spliced(
            stored_case.source.text, stored_case.raw, new, is_json=True, path=stored_case.path
        )
        key, at = stored_case.path
        try:
            old_document, new_document = (
                json.loads(text.lstrip("\ufeff")) for text in (stored_case.source.text, new_text)
            )
            is_wanted = _canonical(new_document[key][at]) == canonical_case
            old_document[key][at] = new_document[key][at] = None
        except (ValueError, LookupError, TypeError, Refused):
            is_wanted = False
            old_document = 0
            new_document = 1
        if not is_wanted or old_document != new_document:
            message = f"{stored_case.file} cannot be changed in place: write keys as the file does, or edit it by hand"
            raise Refused("FAILED_PRECONDITION", message)
        return new_text


def _view(file: str, eval_id: str, raw: Json) -> JsonObject:
    return {"file": file, "evalId": eval_id, "evalCase": dict(raw), "etag": _hash(raw)}


def _mask(mask: Any, body: Json) -> list[str]:
    """The fields that an update names, in ADK's spelling."""
    paths = edit.paths_of(mask) or list(body)
    if paths == [EVERYTHING]:
        return list(FIELDS)
    violations = []
    for path in paths:
        if to_snake(path) not in EvalCaseWire.model_fields:
            hint = words.suggest(to_snake(path)[:100], FIELDS, prefix="; ")
            violations.append(("updateMask", f"`{path[:100]}` is not a field of a case{hint}"))
    if violations:
        raise invalid(*violations)
    return [name for name in dict.fromkeys(map(to_snake, paths)) if name in FIELDS]


def _updated(raw: Json, body: Json, fields: Sequence[str]) -> JsonObject:
    """The case with the fields of the body, in the spelling of the file."""
    new_fields = {to_snake(key): value for key, value in body.items()}
    case = dict(raw)
    for name in fields:
        spelled = next((spelling for spelling in (name, to_camel(name)) if spelling in case), None)
        if new_fields.get(name) is not None:
            is_camel = "evalId" in raw
            case[spelled or (to_camel(name) if is_camel else name)] = new_fields[name]
        elif spelled is not None:
            del case[spelled]
    return case


def _canonical(raw: Any) -> JsonObject:
    """A case as ADK reads it. Raises Refused if invalid."""
    try:
        case: JsonObject = json.loads(
            json.dumps(case_json(EvalCaseWire.model_validate(raw).noun()))
        )
    except ValidationError as error:
        violations = []
        for detail in error.errors()[:20]:
            field = ".".join(str(step) for step in detail["loc"])
            violations.append((f"evalCase.{field}" if field else "evalCase", words.fault(detail)))
        raise invalid(*violations) from error
    return case


def case_relaxations(changes: Sequence[FieldChange]) -> Iterator[Relaxation]:
    """The changes of a case that may ask for or expect less: all removals, replacements and
    additions. A first expectation does not count."""
    for change in changes:
        keys = [step for step in change.path if isinstance(step, str)]
        is_item = isinstance(change.path[-1], int)
        field_path = ".".join(keys)
        is_new = (
            change.old is MISSING
            and not is_item
            and (field_path in _NEW or (len(keys) == 2 and keys[0] == _STATE))
        )
        if field_path in _FREE or is_new:
            continue
        noun = next((_WHAT[key] for key in reversed(keys) if key in _WHAT), "expectation")
        how = "removed" if change.new is MISSING else "replaced by another"
        if change.old is MISSING and is_item:
            how = "added beside others"  # an easy turn raises a mean; a call may be made anyway
        yield Relaxation(path=change.path, reason=f"the {noun} is {how}")
