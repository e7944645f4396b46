"""The meaning of an agent's exception: its kind in the protocol, a sentence for people, the user's
own frames."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from .pipe import Message

RATE_LIMITED = "rate_limited"
"""The kind of status 429: the provider asks for a pause."""
UNREACHABLE = "unreachable"
"""The kind of lost connections, timeouts and services that are down."""
MODEL_ERROR = "model_error"
"""The kind of other errors that a model's provider answers, such as an invalid request."""
UNAUTHORIZED = "unauthorized"
"""The kind of a missing or refused key."""
RAISED = "raised"
"""The kind of all other exceptions, which are the agent's own."""

MODEL_MODULES = re.compile(r"(anthropic|botocore|google\.(adk|genai)|litellm|openai)\b")
"""Beginnings of the module names of libraries that call models."""
NETWORK_MODULES = re.compile(
    r"(aiohttp|anthropic|anyio|botocore|google|grpc|httpcore2?|httpx2?|litellm|openai|requests|urllib3?|websockets)\b"
)
"""Beginnings of the module names of all libraries that ask a service."""
NETWORK_NAMES = re.compile(
    r"Connect|Timeout|RemoteProtocol|ReadError|WriteError|NetworkError|ProtocolError|ServerDisconnected|"
    r"ServiceUnavailable|InternalServerError|ProxyError|ChunkedEncoding|RetryError|DeadlineExceeded|NameResolution"
)
"""Parts of the class names of exceptions after which no answer came."""
STATUS_WORDS = {
    "RESOURCE_EXHAUSTED": 429, "RATE_LIMIT": 429, "UNAVAILABLE": 503, "DEADLINE_EXCEEDED": 504, "INTERNAL": 500,
    "OVERLOADED": 503,
}  # fmt: skip
"""The HTTP status by a word in an error code that has no number; the first word found counts."""
SECONDS = re.compile(r"\d{1,6}(\.\d+)?")
"""A `Retry-After` in seconds; one with a date is ignored."""
RETRY_DELAY = re.compile(r"""retryDelay['"]?\s*:\s*['"](\d{1,6}(?:\.\d+)?)s""")
"""The delay of Google's RetryInfo, in the details of an error as text."""
NOISE = re.compile(
    r" \[type=\w+, input_value=[^\n]*|For further information visit \S+| at 0x[0-9a-fA-F]+"
)
"""What pydantic adds to its messages: parts of the input, which may be those of a secret. Addresses
in memory: reports group cases by message."""
FRAMES_KEPT = 12
"""The innermost frames of a traceback that are shown."""

REFUSALS = frozenset({
    "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "JAILBREAK",
    "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION",
})  # fmt: skip
"""Error codes of a model's refusal."""
STOPS = REFUSALS | {"MAX_TOKENS", "LANGUAGE", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"}
"""Error codes of google.genai that are the model's own answer. Any other code is an outage."""


class LoadFailed(Exception):  # noqa: N818 - it says what happened
    """The agent cannot be loaded. `description` has the kind, the message and the detail."""

    def __init__(self, message: str, detail: str = "") -> None:
        """`detail`: the user's own frames, if there are any."""
        super().__init__(message)
        self.description = {"kind": "start", "message": message, "detail": detail}

    @classmethod
    def of(cls, error: BaseException, subject: str) -> LoadFailed:
        """A LoadFailed after `subject` (the user's name for the agent) raised `error` while it was
        loaded."""
        missing = (
            cause
            for cause in errors_of(error)
            if isinstance(cause, ModuleNotFoundError) and cause.name
        )
        cause = next(missing, None)
        reason = sentence(error)
        if isinstance(error, SystemExit):
            reason = f"it called sys.exit({error.code!r}) while it was imported"
        elif cause is not None:
            reason = (
                f"there is no module named {cause.name!r} for {sys.executable}. {_advice(cause)}"
            )
        return cls(f"{subject} cannot be loaded: {reason}", user_traceback(error))


class ModelAnsweredError(Exception):
    """A model answered with an error code and no content. `description` has the fields of
    `turn_failed`."""

    def __init__(self, error_code: Any, error_message: Any) -> None:
        """The fields of an event of google-adk; `error_code`: a text, a number or an enum."""
        super().__init__(str(error_message or error_code))
        name = name_of_code(error_code)
        text = f"the model answered with error {name}" + (
            f": {error_message}" if error_message else ""
        )
        code = _status(name)
        self.description: Message = {
            "kind": kind_of_status(code) or MODEL_ERROR,
            "message": text,
            "detail": "",
            "code": code,
        }


def name_of_code(error_code: Any) -> str:
    """The name of a model's error code: a text, a number or an enum of google.genai."""
    return str(getattr(error_code, "value", error_code))


class ServiceDown(BaseException):
    """A part of the agent cannot be reached: a server of tools, or another agent. `description` has
    the fields of `turn_failed`.

    It is no Exception, because google-adk catches these and lets the agent answer without its
    tools."""

    def __init__(self, service_name: str, missing_part: str, error: BaseException | str) -> None:
        """`missing_part`: what the agent would have to do without; `error`: may be a sentence."""
        reason = error if isinstance(error, str) else sentence(error)
        message = f"{service_name} cannot be reached, so the agent lacks {missing_part}: {reason}"
        # user names and queries of URLs may be secret
        message = re.sub(r"(?<=://)[^/\s@]+@", "", message)
        message = re.sub(r"(://[^\s?#]*)(?:[?#][^\s'\")]*)?", r"\1", message)
        super().__init__(message)
        # no frame of it is the user's; why a server ended is the end of standard error
        self.description = {"kind": UNREACHABLE, "message": message, "detail": ""}


def address_of(service: Any) -> str:
    """The address of a tool server or another agent, without secrets: host and port, or the
    command; "" if it is unknown."""
    parameters = getattr(service, "_connection_params", None) or service
    command = getattr(getattr(parameters, "server_params", parameters), "command", None)
    addresses = (
        getattr(parameters, name, None)
        for name in ("url", "_agent_card_source", "_server_url", "server_url", "_url")
    )
    host = next(
        (
            urlsplit(address).netloc.rpartition("@")[2]
            for address in addresses
            if isinstance(address, str) and "://" in address
        ),
        "",
    )
    return host or (str(command) if command else "")


def describe(error: BaseException) -> Message:
    """The fields of `turn_failed` for an exception: `kind`, `message`, `detail` and, if known, the
    HTTP `code` and the `retry_after_s` from the provider."""
    if isinstance(error, (ModelAnsweredError, ServiceDown, LoadFailed)):
        return error.description
    kind = RAISED
    code = None
    retry_after_s = None
    for cause in errors_of(error):
        if getattr(cause, "simulated_tool_error", False):
            break
        kind, code = _kind_of(cause)
        if kind != RAISED:
            retry_after_s = _wait_of(cause)
            break
    description: Message = {
        "kind": kind,
        "message": sentence(error),
        "detail": user_traceback(error),
        "code": code,
        "retry_after_s": retry_after_s,
    }
    if isinstance(error, SystemExit):
        description.update(kind="exited", message=f"the agent called sys.exit({error.code!r})")
    return description


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """The function's result. Its StopIteration becomes a RuntimeError, as in a coroutine: before
    Python 3.12.2, a future that gets one never ends."""
    try:
        return function(*arguments)
    except StopIteration as error:
        raise RuntimeError("a function raised StopIteration") from error


def errors_of(error: BaseException) -> Iterator[BaseException]:
    """The exception, its causes and its group's members, each once."""
    queue: list[BaseException | None] = [error]
    visited_ids: set[int] = set()
    while queue:
        current_error = queue.pop(0)
        if current_error is None or id(current_error) in visited_ids:
            continue
        visited_ids.add(id(current_error))
        yield current_error
        queue.extend(getattr(current_error, "exceptions", ()) or ())
        queue.append(
            current_error.__cause__
            or (None if current_error.__suppress_context__ else current_error.__context__)
        )


def sentence(error: BaseException) -> str:
    """`ValueError: its message`, on one line of at most about 1,000 characters. A group has no
    message of its own, so its first error stands for it."""
    grouped = getattr(error, "exceptions", None)
    if isinstance(grouped, (tuple, list)) and grouped and isinstance(grouped[0], BaseException):
        return sentence(grouped[0]) + (
            f" (and {len(grouped) - 1} more)" if len(grouped) > 1 else ""
        )
    try:
        text = " ".join(NOISE.sub("", str(error)).split())
    except Exception:
        text = ""
    if len(text) > 1000:
        text = text[:1000] + " ..."
    if server := _mcp_server(error):
        return f"no session with the MCP server {server} ({type(error).__name__})"
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    look_up = type(os.environ).__getitem__.__code__
    if isinstance(error, KeyError) and frames and frames[-1].f_code is look_up:
        text += " (not in os.environ)"
    if text.endswith(":") and error.__cause__:  # it quotes an error without a message
        text += f" {sentence(error.__cause__)}"
    return f"{type(error).__name__}: {text}".removesuffix(": ")


def _mcp_server(error: BaseException) -> str:
    """The MCP server of the google-adk toolset that raised the exception, without secrets of its
    address; "" for other exceptions.

    If a server cannot be reached, anyio cancels its waiters without a message."""
    if type(error).__name__ != "CancelledError":
        return ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_name == "create_session" and frame.f_code.co_filename.endswith(
            "mcp_session_manager.py"
        ):
            return address_of(frame.f_locals.get("self")) or "of a toolset"
    return ""


def user_traceback(error: BaseException) -> str:
    """The traceback without frames of installed packages and of this worker, then the error.

    If no frame is the user's, the last frames stay."""
    frames = traceback.extract_tb(error.__traceback__)
    user_frames = [frame for frame in frames if is_users(frame.filename)]
    last_frames = (user_frames or list(frames))[-FRAMES_KEPT:]
    lines = (
        ["Traceback (frames of installed packages left out):\n"]
        if user_frames and len(user_frames) < len(frames)
        else []
    )
    lines += traceback.format_list(last_frames)
    lines += traceback.format_exception_only(type(error), error)
    text = "".join(lines).rstrip()
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if getattr(error, "exceptions", None):
        text += f"\nof which {sentence(error)}"
    elif cause is not None and cause is not error:
        text += f"\ncaused by {sentence(cause)}"
    return text[-8000:]


def is_users(file: str) -> bool:
    """True if a source file belongs to neither an installed package, nor Python, nor this
    worker."""
    if file.startswith("<"):
        return False
    path = os.path.abspath(file)
    if re.search(r"[\\/](site|dist)-packages[\\/]", path):
        return False
    return not path.startswith(
        (os.path.dirname(__file__) + os.sep, os.path.dirname(os.__file__) + os.sep)
    )


def _advice(error: ModuleNotFoundError) -> str:
    """What to do about a missing module."""
    name = str(error.name)
    frames = traceback.extract_tb(error.__traceback__)
    line = (frames[-1].line or "") if frames else ""
    match = re.search(rf"(?:from|import) ({re.escape(name)}\.\w+)", line)
    if match and "." not in name:
        name = match[1]  # `google.adk`, although it is `google` that cannot be found
    top = name.partition(".")[0]
    if top != name and getattr(sys.modules.get(top), "__file__", None):
        return f"The installed version of {top!r} does not have it."
    if package := _package_of(name):
        return f"Add `{package}` to the agent's requirements, or name a Python that has it (option python)."
    return (
        f"If {top!r} is a package, add it to the agent's requirements; "
        "if it is a file of the repository, check the agent's path."
    )


PACKAGES = {
    "autogen_ext": "autogen-ext[openai]", "bs4": "beautifulsoup4", "cv2": "opencv-python",
    "dateutil": "python-dateutil", "dotenv": "python-dotenv",
    "google": "google-adk", "google.adk": "google-adk", "google.genai": "google-genai", "google.protobuf": "protobuf",
    "PIL": "pillow", "sklearn": "scikit-learn", "vertexai": "google-cloud-aiplatform", "yaml": "pyyaml",
}  # fmt: skip
"""Packages that are named otherwise than their modules."""


def _package_of(module: str) -> str:
    """The package of a missing module; "" if unknown. No name is guessed: an installed package
    lists it among its own requirements, also as an optional one."""
    top = module.partition(".")[0]
    if package := PACKAGES.get(module):
        return package
    import importlib.metadata

    normal = top.lower().replace("_", "-")
    dashed = module.lower().replace("_", "-").replace(".", "-")
    spellings = {normal, f"python-{normal}", f"{normal}-python", f"py{normal}", dashed}
    requirements = (
        requirement
        for distribution in importlib.metadata.distributions()
        for requirement in distribution.requires or ()
    )
    names = (re.split(r"[^\w.-]", requirement, maxsplit=1)[0] for requirement in requirements)
    return next((name for name in names if name.lower().replace("_", "-") in spellings), "")


def _kind_of(error: BaseException) -> tuple[str, int | None]:
    """The kind of an exception by itself, and its HTTP status, if it has one."""
    code = status_of(error)
    kind = kind_of_status(code)
    if kind is not None:
        return kind, code
    name = type(error).__name__
    if (
        (NETWORK_NAMES.search(name) and _is_from(NETWORK_MODULES, error))
        or isinstance(error, ConnectionError)
        or name == "gaierror"
        or _mcp_server(error)
    ):
        return UNREACHABLE, code
    # what another service answers to a tool is the tool's exception
    if code is not None and _is_from(MODEL_MODULES, error):
        # the Gemini API answers 400 to a wrong key
        return UNAUTHORIZED if "API_KEY_INVALID" in str(error) else MODEL_ERROR, code
    return RAISED, None


def _is_from(modules: re.Pattern[str], error: BaseException | None) -> bool:
    """True if a base class of the error belongs to such a library: google-adk wraps google-genai's
    errors in its own classes."""
    return any(modules.match(base.__module__) for base in type(error).__mro__)


def status_of(error: BaseException | None) -> int | None:
    """The HTTP status of an error; None if it has none."""
    if not _is_from(NETWORK_MODULES, error):
        return None
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "code", "status"):
            code = _status(getattr(holder, name, None))
            if code is not None:
                return code
    return None


def _wait_of(error: BaseException) -> float | None:
    """Seconds that the provider asks to wait, from a header of its answer or Google's RetryInfo in
    the body."""
    for holder in (getattr(error, "response", None), error):
        get_header = getattr(getattr(holder, "headers", None), "get", None)
        header = (
            str(get_header("retry-after") or get_header("Retry-After") or "").strip()
            if callable(get_header)
            else ""
        )
        if SECONDS.fullmatch(header):
            return float(header)
    match = RETRY_DELAY.search(str(getattr(error, "details", None) or ""))
    return float(match[1]) if match else None


def _status(value: Any) -> int | None:
    """An HTTP status of 400 or more, as a number or in a text; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if 400 <= value <= 599 else None
    if isinstance(value, str):
        number = re.match(r"\s*([45]\d\d)\b", value)
        if number:
            return int(number.group(1))
        return next((code for word, code in STATUS_WORDS.items() if word in value.upper()), None)
    return None


def kind_of_status(code: int | None) -> str | None:
    """The kind of an error with this HTTP status; None if the status does not say it."""
    if code == 429:
        return RATE_LIMITED
    if code in (401, 402, 403, 407):
        return UNAUTHORIZED
    if code == 408 or (code is not None and code >= 500):
        return UNREACHABLE
    return None
