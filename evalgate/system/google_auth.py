"""A token of Google Cloud's, by google-auth, fetched when it is first needed and kept until it expires."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.auth.credentials import Credentials

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


class NoToken(Exception):  # noqa: N818 - it says what happened
    """Why there is none."""


class GoogleToken:
    """The token of the credentials that the environment names, else of the machine's own; for any thread."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._path = environment.get("GOOGLE_APPLICATION_CREDENTIALS", "")
        self._lock = threading.Lock()
        self._credentials: Credentials | None = None

    def headers(self) -> Mapping[str, str]:
        """What a request carries. Raises NoToken."""
        problem = ""
        with self._lock:
            try:
                if self._credentials is None:
                    self._credentials = _found(self._path)
                return {"authorization": f"Bearer {_fresh(self._credentials)}"}
            except Exception as error:  # noqa: BLE001 - google-auth and its transports share no class of errors
                problem = f"{type(error).__name__}: {error}"
        raise NoToken(problem)  # here, so that no foreign exception with a token in it hangs on it


def _found(path: str) -> Credentials:
    import google.auth  # noqa: PLC0415 - only where Google Cloud is asked

    scopes = [_SCOPE]
    if path:
        found, _ = google.auth.load_credentials_from_file(path, scopes=scopes)  # type: ignore[no-untyped-call]  # its own
    else:
        found, _ = google.auth.default(scopes=scopes)
    credentials: Credentials = found
    return credentials


def _fresh(credentials: Credentials) -> str:
    from google.auth.transport.requests import Request  # noqa: PLC0415 - as above

    if not credentials.valid:
        credentials.refresh(Request())  # type: ignore[no-untyped-call]  # its own
    return str(credentials.token)
