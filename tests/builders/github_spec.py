"""GitHub's own description of its API (tests/data/github/openapi.json) as a judge of requests and
answers.

`openapi-core` validates; what OpenAPI lets pass although GitHub has no such thing (a misspelt
optional key, an unknown query parameter) is found here."""

from __future__ import annotations

import functools
import json
import re
import threading
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

DESCRIPTION = Path(__file__).parents[1] / "data" / "github" / "openapi.json"
HOST = "https://api.github.com"
TEXTS = {
    "date-time": "2026-11-21T12:00:00Z",
    "uri": f"{HOST}/x",
    "email": "a@b.example",
    "date": "2026-11-21",
}


class Description:
    """The description, loaded once; safe to use from many threads."""

    def __init__(self) -> None:
        from openapi_core import OpenAPI

        self.whole = json.loads(DESCRIPTION.read_text(encoding="utf-8"))
        _mend(self.whole)
        self._openapi = OpenAPI.from_dict(self.whole)
        self._lock = threading.Lock()
        self._patterns = [
            (re.compile(re.sub(r"\\\{[^}]*\\\}", "[^/]+", re.escape(path)) + r"\Z"), path)
            for path in sorted(self.whole["paths"], key=lambda each: each.count("{"))
        ]

    def find(self, method: str, target: str) -> tuple[str, str] | None:
        """(METHOD, path template) of a request; None: GitHub has no such call, or we do not make
        it."""
        path = urlsplit(target).path
        for pattern, template in self._patterns:
            if pattern.match(path) and method.lower() in self.whole["paths"][template]:
                return method.upper(), template
        return None

    def judge(self, sent: Mapping[str, Any], answered: Mapping[str, Any]) -> list[str]:
        """What is wrong with a request and with its answer. An error's status that is not described
        passes."""
        from openapi_core.testing import MockRequest, MockResponse

        call = self.find(sent["method"], sent["target"])
        if call is None:
            return [f"request: GitHub has no {sent['method']} {sent['target']}"]
        parts = urlsplit(sent["target"])
        query = parse_qsl(parts.query, keep_blank_values=True)
        request = MockRequest(
            HOST,
            sent["method"],
            parts.path,
            args=dict(query),
            headers=dict(sent["headers"]),
            data=sent["body"],
        )
        operation = self.whole["paths"][call[1]][call[0].lower()]
        problems = [
            f"request: {each}" for each in self._strange(operation, dict(query), sent["body"])
        ]
        with self._lock, warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # openapi-core's own
            problems += [
                f"request: {each}"
                for each in _found(lambda: self._openapi.validate_request(request))
            ]
            status = str(answered["status"])
            if status in operation["responses"] and status != "304":
                response = MockResponse(
                    answered["body"], answered["status"], headers=dict(answered["headers"])
                )
                checked = _found(lambda: self._openapi.validate_response(request, response))
                problems += [f"answer {status}: {each}" for each in checked]
            elif answered["status"] < 400 and status != "304":
                problems.append(f"answer: {call} never answers {status}")
        return problems

    def sample(self, call: tuple[str, str], status: int) -> Any:
        """A smallest answer of the described shape, to be filled with what a test is about."""
        answer = self.deref(self.whole["paths"][call[1]][call[0].lower()]["responses"][str(status)])
        return self.made(answer["content"]["application/json"]["schema"])

    def made(self, schema: Mapping[str, Any]) -> Any:
        """A smallest value of a schema."""
        schema = self.deref(schema)
        for word in ("allOf", "oneOf", "anyOf"):
            if word in schema:
                parts = schema[word] if word == "allOf" else schema[word][:1]
                values = [self.made(part) for part in parts]
                own = self.made({key: value for key, value in schema.items() if key != word})
                found = [value for value in values if isinstance(value, dict)]
                return (
                    {**(own or {}), **{k: v for each in found for k, v in each.items()}}
                    if found
                    else values[0]
                )
        if "enum" in schema:
            return schema["enum"][0]
        match schema.get("type", "object" if "properties" in schema else None):
            case "object":
                needed = schema.get("required", [])
                return {
                    name: self.made(schema.get("properties", {}).get(name, {})) for name in needed
                }
            case "array":
                return [self.made(schema["items"])] * schema.get("minItems", 0)
            case "string":
                return TEXTS.get(schema.get("format", ""), "x")
            case "integer" | "number":
                return max(1, schema.get("minimum", 1))
            case "boolean":
                return False
        return None

    def deref(self, part: Any) -> Any:
        """What a `$ref` points at."""
        while "$ref" in part:
            _, _, kind, name = part["$ref"].split("/", 3)
            part = self.whole["components"][kind][name]
        return part

    def _strange(
        self, operation: Mapping[str, Any], query: Mapping[str, str], body: bytes
    ) -> list[str]:
        known = {
            self.deref(each)["name"]
            for each in operation.get("parameters", [])
            if self.deref(each)["in"] == "query"
        }
        found = [f"GitHub knows no query parameter {name}" for name in query if name not in known]
        if "requestBody" not in operation:
            return found + (["a body where GitHub wants none"] if body else [])
        schema = self.deref(operation["requestBody"])["content"]["application/json"]["schema"]
        try:
            self._unknown(self.deref(schema), json.loads(body), "", found)
        except ValueError:
            found.append("the body is not JSON")
        return found

    def _unknown(self, schema: Mapping[str, Any], value: Any, where: str, found: list[str]) -> None:
        if isinstance(value, list):
            for each in value:
                self._unknown(self.deref(schema.get("items", {})), each, f"{where}[]", found)
        elif isinstance(value, dict) and "properties" in schema:
            for key, inner in value.items():
                if key not in schema["properties"]:
                    found.append(f"GitHub knows no key {where}.{key}")
                else:
                    self._unknown(
                        self.deref(schema["properties"][key]), inner, f"{where}.{key}", found
                    )


def _mend(whole: dict[str, Any]) -> None:
    """Allow null where GitHub answers it and the description forgets to: in enums that may be null
    (`conclusion` of a check run in progress), and for the repository of a pull request whose fork
    was deleted."""
    waiting: list[Any] = [whole]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if part.get("nullable") and "enum" in part and None not in part["enum"]:
                part["enum"] = [*part["enum"], None]
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    schemas = whole["components"]["schemas"]
    for name in ("pull-request", "pull-request-simple"):
        schemas[name]["properties"]["head"]["properties"]["repo"] = {
            **schemas["repository"],
            "nullable": True,
        }


@functools.cache
def load() -> Description:
    """The description; reading it takes a quarter of a second."""
    return Description()


def _found(validate: Any) -> list[str]:
    try:
        validate()
    except Exception as error:  # noqa: BLE001 - openapi-core's errors have no common root, and each is a finding
        reasons = [each.message[:200] for each in getattr(error.__cause__, "schema_errors", ())]
        return [
            f"{type(error).__name__}: {'; '.join(reasons) or str(error.__cause__ or error)[:300]}"
        ]
    return []
