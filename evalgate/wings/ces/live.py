"""The API of Customer Engagement Suite over REST: resources, operations and sessions of an app.

Every update has a mask and the etag that was read. A request that
fails only for the moment is repeated (`LiveFailed.may_retry`)."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from evalgate.system import http
from evalgate.system.http import Exchange, ExchangeFailed, GoogleToken, NoToken
from evalgate.values import Environ, Json, JsonObject, is_list_of, member
from . import shapes
from .read import APP_NAME
from .shapes import Proto

ENDPOINT = "https://ces.googleapis.com"
ENDPOINT_VARIABLE = "CES_API_ENDPOINT"
"""The variable with another address of the API; `cxas` reads it too."""

TIMEOUT_S = 60.0
OPERATION_S = 900.0
TRIES = 5
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
"""The longest wait, even if the API asks for a longer one."""
_MOST_BYTES = 64 * 1024 * 1024
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class LiveFailed(Exception):  # noqa: N818 - it says what happened
    """A request to the API failed. `code`: one of google.rpc, or UNREACHABLE; `status`: that of
    HTTP, 0 without a response; `retry_after_s`: the wait that the API asks for. No message contains
    a token."""

    def __init__(
        self, code: str, message: str, *, status: int = 200, retry_after_s: float | None = None
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.status = status
        self.retry_after_s = retry_after_s

    def may_retry(self, method: str) -> bool:
        """True if the same request may succeed, and is harmless if the first one took effect. 429
        and 503 mean that nothing happened; after other failures only reads and deletions are
        repeated."""
        is_lost = self.status in (0, 500, 502, 504) and method in ("GET", "DELETE")
        return is_lost or self.status in (429, 503)


def address(text: str) -> str:
    """The address of the API as requests begin with it. Raises ValueError for an address that must
    not get a token."""
    base = (text if "://" in text else f"https://{text}").rstrip("/")
    parts = urlsplit(base)
    is_loopback = parts.scheme == "http" and parts.hostname in _LOOPBACK
    if not parts.hostname or not (parts.scheme == "https" or is_loopback):
        raise ValueError(f"{base[:200]} is no https:// address: no token is sent to it")
    return base


class Live:
    """A connection to the API for one thread at a time; other threads need their own
    (`another`)."""

    def __init__(
        self, environment: Environ, *, endpoint: str, token: GoogleToken | None = None
    ) -> None:
        """`environment`: credentials and proxies. Raises LiveFailed for an address that must not
        get a token."""
        try:
            self.base = address(endpoint or environment.get(ENDPOINT_VARIABLE, "") or ENDPOINT)
        except ValueError as problem:
            raise LiveFailed("INVALID_ARGUMENT", str(problem)) from None
        self._environment = environment
        self._token = token or GoogleToken(environment)
        self._exchange = Exchange(environment=environment, headers={}, most_bytes=_MOST_BYTES)

    def another(self) -> Live:
        """One more connection, with the same token."""
        return Live(self._environment, endpoint=self.base, token=self._token)

    def close(self) -> None:
        """Close the connection."""
        self._exchange.close()

    # --- resources -------------------------------------------------------------------------------

    def get(self, name: str) -> JsonObject:
        """A resource by its name. Raises LiveFailed."""
        return self.call("GET", name)

    def listed(self, parent: str, collection: str, *, key: str = "") -> Iterator[JsonObject]:
        """All resources of a collection, page by page; `key`: the response's field for them. Raises
        LiveFailed."""
        query = {"pageSize": "100"}
        while True:
            page = self.call("GET", f"{parent}/{collection}", query=query)
            resources = page.get(key or collection, [])
            if not is_list_of(resources, dict):
                raise LiveFailed("UNKNOWN", f"no list of {key or collection} in the answer")
            yield from resources
            if not page.get("nextPageToken"):
                return
            query["pageToken"] = str(page["nextPageToken"])

    def create(
        self, parent: str, collection: str, body: Json, *, resource_id: str = ""
    ) -> JsonObject:
        """Create a resource. Raises LiveFailed."""
        query = {f"{collection.removesuffix('s')}Id": resource_id} if resource_id else {}
        return self.call("POST", f"{parent}/{collection}", query=query, body=body)

    def update(self, body: Json, *, mask: str) -> JsonObject:
        """Write the masked fields of the body, which has the name and the etag. Raises
        LiveFailed."""
        if not mask or not body.get("etag"):
            raise LiveFailed(
                "FAILED_PRECONDITION", "an update needs a mask and the etag that was read"
            )
        return self.call("PATCH", str(body["name"]), query={"updateMask": mask}, body=body)

    def delete(self, name: str) -> None:
        """Delete a resource, and wait if that takes time. Raises LiveFailed."""
        answer = self.call("DELETE", name)
        if answer.get("name"):
            self.wait(answer)

    def wait(self, operation: Json, *, timeout_s: float = OPERATION_S) -> JsonObject:
        """The response of a long operation at its end. Raises LiveFailed."""
        deadline = time.monotonic() + timeout_s
        pause = 0.05
        while not operation.get("done"):
            if time.monotonic() > deadline:
                raise LiveFailed(
                    "DEADLINE_EXCEEDED", f"{operation.get('name', 'the operation')} is not done yet"
                )
            time.sleep(pause)
            pause = min(pause * 2, 5.0)
            operation = self.get(str(operation["name"]))
        if "error" in operation:
            raise LiveFailed(
                str(operation["error"].get("code", "UNKNOWN")),
                str(operation["error"].get("message")),
            )
        return operation.get("response") or {}

    def call(
        self,
        method: str,
        name: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Json | None = None,
        timeout_s: float = TIMEOUT_S,
        tries: int = TRIES,
    ) -> JsonObject:
        """One request, made up to `tries` times; `name` may end in `:verb`. Raises LiveFailed."""
        url = f"{self.base}/v1beta/{quote(name, safe='/:')}" + (
            f"?{urlencode(query)}" if query else ""
        )
        number = 0
        while True:
            number += 1
            try:
                return self._ask(method, url, body, timeout_s)
            except LiveFailed as failed:
                if method == "DELETE" and number > 1 and failed.code == "NOT_FOUND":
                    return {}  # an earlier try deleted it, and its response was lost
                if number == tries or not failed.may_retry(method):
                    raise
                pause_s = failed.retry_after_s
                if pause_s is None:
                    pause_s = FIRST_PAUSE_S * 2 ** (number - 1) * random.uniform(0.5, 1.5)  # noqa: S311 - jitter
            time.sleep(min(pause_s, LONGEST_PAUSE_S))

    def _ask(self, method: str, url: str, body: Json | None, timeout_s: float) -> JsonObject:
        try:
            headers = self._token.headers()
            answer = self._exchange.request(
                method, url, body=body, timeout_s=timeout_s, headers=headers
            )
        except NoToken as problem:
            raise LiveFailed("UNAUTHENTICATED", f"no Google Cloud credentials: {problem}") from None
        except ExchangeFailed as failed:
            code = "DEADLINE_EXCEEDED" if failed.fault == "timeout" else "UNREACHABLE"
            status = 0 if failed.fault == "unreachable" else 200
            raise LiveFailed(code, f"{self.base}: {failed}", status=status) from None
        try:
            content = answer.json() if answer.body.strip() else {}
        except ValueError:
            content = None
        if not 200 <= answer.status < 300:
            error = member(content, "error")
            message = str(member(error, "message") or answer.excerpt(200))
            moment = datetime.now(UTC)
            raise LiveFailed(
                str(member(error, "status") or f"HTTP {answer.status}"),
                message[:1000],
                status=answer.status,
                retry_after_s=http.parse_retry_after(answer.headers, current_moment=moment),
            )
        if not isinstance(content, dict):
            raise LiveFailed(
                "UNKNOWN", f"status {answer.status}, and no JSON object: {answer.excerpt(200)}"
            )
        return content


# --- move resources from one app to another -------------------------------------------------------


def move_to_app(value: Any, app: str, names: Mapping[tuple[str, str], str], key: str = "") -> Any:
    """A resource in the form of the app. Names of any app's resources become the app's names, and
    display names in the place of names (`names`, by collection) become names."""
    if isinstance(value, dict):
        return {field: move_to_app(inner, app, names, field) for field, inner in value.items()}
    if isinstance(value, list):
        return [move_to_app(inner, app, names, key) for inner in value]
    if isinstance(value, str) and (key == "name" or key in _REFERENCES):
        match = APP_NAME.match(value)
        if match:
            below = value[match.end() :]
            return app + below if below[:1] in ("", "/") else value
        return names.get((_REFERENCES.get(key, ""), value), value)
    return value


_REFERENCES = {
    "tool": "tools",
    "toolset": "toolsets",
    "targetAgent": "agents",
    "evaluations": "evaluations",
    "evaluationExpectations": "evaluationExpectations",
}
"""The fields that name other resources, with the collection of these."""


def find_names(live: Live, app: str, text: str) -> dict[tuple[str, str], str]:
    """The names of the app's resources for the display names in resources written as JSON, by
    collection and display name. Raises LiveFailed."""
    return {
        (collection, str(raw.get("displayName", ""))): str(raw["name"])
        for key, collection in _REFERENCES.items()
        if re.search(rf'"{key}": (\[[^\]]*)?"(?!projects/)[^"]', text)
        for raw in live.listed(app, collection)
    }


def mask(old: Json, new: Json, shape: type[Proto], prefix: str = "") -> list[str]:
    """The fields in which two versions of a resource differ, as deep as a mask may name them.

    If a group has another field now, only that field is in the mask: it removes the first one."""
    paths = []
    for key in dict.fromkeys((*old, *new)):
        old_field = old.get(key)
        right = new.get(key)
        path = f"{prefix}{key}"
        field = shapes.fields_of(shape)[key]
        if old_field == right or (
            key not in new and not new.keys().isdisjoint(field.excluded_keys)
        ):
            continue
        if (
            field.message
            and isinstance(old_field, dict)
            and isinstance(right, dict)
            and not field.is_list
        ):
            paths += mask(old_field, right, field.message, f"{path}.")
        else:
            paths.append(path)
    return paths
