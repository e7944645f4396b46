"""The cases of ADK evaluation sets in a repository, for an assistant to read and write.

A case has the etag of its content, an update has a mask, and the answer lists the relaxations. Only
the changed values of a file differ."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from evalgate.config import load, places
from evalgate.discovery import walk
from evalgate.errors import errors_in
from evalgate.formats import eval_set
from evalgate.formats.adk_shapes import EvalCaseWire, case_json
from evalgate.formats.json_source import Path as JsonPath
from evalgate.formats.kind import Dialect
from evalgate.gate.waiting import WaitingChange
from evalgate.model.json_match import MISSING
from evalgate.model.shapes import to_camel, to_snake
from evalgate.text import words
from evalgate.values import Json, JsonObject
from evalgate.wings.ces import compare, edit
from evalgate.wings.ces.compare import FieldChange
from evalgate.wings.ces.edit import EVERYTHING, Refused, refusal
from evalgate.wings.ces.resources import Done, Resources, check_etag, etag_of

FIELDS = tuple(
    name for name in EvalCaseWire.model_fields if name not in ("eval_id", "creation_timestamp")
)
"""The fields of a case that may change."""

_STATE = "final_session_state"
_NEW = (
    "rubrics",
    _STATE,
    "conversation.final_response",
    "conversation.intermediate_data",
    "conversation.rubrics",
)
"""Fields that expect more if they were absent before."""


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
                reading = eval_set.parse_eval_set(self._read(file), file=file)
            except Refused as refused:  # a broken file does not hide the others
                eval_sets.append({"file": file, "problem": refused.message, "evalIds": []})
                continue
            if reading.eval_set is not None:
                eval_sets.append(
                    {
                        "file": file,
                        "evalSetId": reading.eval_set.eval_set_id,
                        "evalIds": [case.case_id for case in reading.eval_set.cases],
                    }
                )
        return {"evalSets": eval_sets}

    def get(self, file: str, eval_id: str) -> JsonObject:
        """The raw case, and the etag of its content."""
        return _view(file, eval_id, self._find(file, eval_id)[2])

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
            self._resources.require_writable()
        fields = _mask(mask, body)
        with self._resources.lock():
            old_text, path, raw = self._find(file, eval_id)
            check_etag(etag, raw, "case")
            new_fields = {to_snake(key): value for key, value in body.items()}
            new = dict(raw)
            for name in fields:  # in the spelling of the file
                camel = to_camel(name)
                spelled = next((spelling for spelling in (name, camel) if spelling in raw), None)
                if new_fields.get(name) is not None:
                    new[spelled or (camel if "evalId" in raw else name)] = new_fields[name]
                elif spelled is not None:
                    del new[spelled]
            old_case = _as_read(raw)
            new_case = _as_read(new)
            changes = tuple(compare.changes(old_case, new_case))
            relaxed = relaxed_reasons(changes)
            text = old_text
            if changes:
                text = edit.edited(old_text, raw, new, is_json=True, path=path)
                _require_same_file(file, old_text, text, path, new_case)
            change = WaitingChange(
                name=f"{file}:{eval_id}", texts={file: (old_text, text)}, reasons=relaxed
            )
            if not preview:
                self._resources.make(change)
        view = _view(file, eval_id, new)
        return Done(resource=view, changes=changes, relaxations=relaxed, diff=change.diff)

    # --- how -------------------------------------------------------------------------------------

    def _read(self, file: str) -> str:
        reason = places.refusal_reason(self._root, file)
        if reason:
            raise Refused("PERMISSION_DENIED", f"{file[:200]!r} {reason}")
        if not self._resources.inside(file).is_file():
            raise Refused("NOT_FOUND", f"there is no file {file[:200]!r}")
        return self._resources.source(file).text

    def _find(self, file: str, eval_id: str) -> tuple[str, JsonPath, JsonObject]:
        """The text of a file, the path of a case in it, and the raw case."""
        text = self._read(file)
        reading = eval_set.parse_eval_set(text, file=file)
        if reading.eval_set is None:
            raise Refused("FAILED_PRECONDITION", str(errors_in(reading.problems)[0]))
        if reading.dialect is not Dialect.ADK:
            message = f"{file} is not in ADK's current format: `evalgate migrate` writes it"
            raise Refused("FAILED_PRECONDITION", message)
        document = json.loads(text.lstrip("\ufeff"))
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
        return text, (key, positions[0]), cases[positions[0]]


def _require_same_file(
    file: str, old_text: str, new_text: str, path: JsonPath, new_case: JsonObject
) -> None:
    """Raises Refused if more than the case at the path differs, or if it is not the new one."""
    key, at = path
    try:
        old_document, new_document = (
            json.loads(text.lstrip("\ufeff")) for text in (old_text, new_text)
        )
        is_wanted = _as_read(new_document[key][at]) == new_case
        old_document[key][at] = new_document[key][at] = None
        is_wanted &= old_document == new_document
    except (ValueError, LookupError, TypeError, Refused):
        is_wanted = False
    if not is_wanted:
        message = (
            f"{file} cannot be changed in place: write keys as the file does, or edit it by hand"
        )
        raise Refused("FAILED_PRECONDITION", message)


def _view(file: str, eval_id: str, raw: Json) -> JsonObject:
    return {"file": file, "evalId": eval_id, "evalCase": dict(raw), "etag": etag_of(raw)}


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
        raise refusal(*violations)
    return [name for name in dict.fromkeys(map(to_snake, paths)) if name in FIELDS]


def _as_read(raw: Any) -> JsonObject:
    """A case as ADK reads it. Raises Refused if invalid."""
    try:
        case: JsonObject = json.loads(
            json.dumps(case_json(EvalCaseWire.model_validate(raw).to_model()))
        )
    except ValidationError as error:
        violations = [
            (".".join(["evalCase", *map(str, detail["loc"])]), words.fault(detail))
            for detail in error.errors()[:20]
        ]
        raise refusal(*violations) from error
    return case


def relaxed_reasons(changes: Iterable[FieldChange]) -> tuple[str, ...]:
    """The changes of a case that may ask for or expect less: all removals, replacements and
    additions. A first expectation does not count."""
    reasons = []
    for change in changes:
        is_item = isinstance(change.path[-1], int)
        keys = [step for step in change.path if isinstance(step, str)]
        is_new = ".".join(keys) in _NEW or (len(keys) == 2 and keys[0] == _STATE)
        if change.old is not MISSING or is_item or not is_new:
            reasons.append(compare.reason_of(change))
    return tuple(reasons)
