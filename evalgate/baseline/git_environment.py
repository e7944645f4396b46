"""The environment of git: what it keeps of ours, what it must not do, and settings that are handed to it in it."""

from __future__ import annotations

import base64
import fnmatch
from collections.abc import Iterator, Mapping, Sequence

KEPT = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",  # where credential helpers of a desk live
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSL_*",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "*_proxy",
    "*_PROXY",
)
"""The user's own, and trusted as such. GIT_DIR, GIT_INDEX_FILE and their like (set in hooks) must not get through."""

FIXED = {
    "LC_ALL": "C",  # git's words are read
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",  # empty, not absent: then neither core.askPass nor SSH_ASKPASS is asked
    "GCM_INTERACTIVE": "never",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_ALLOW_PROTOCOL": "https:http:ssh:git:file",  # never ext::, which is a command
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_DEFAULT_REF_FORMAT": "files",
}

HARDENED: Sequence[tuple[str, str]] = (
    ("safe.directory", "*"),
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.alternateRefsCommand", "true"),  # else git asks the user's repository for its refs, under its config
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("submodule.recurse", "false"),
    ("push.recurseSubmodules", "no"),
    ("push.followTags", "false"),
    ("push.gpgSign", "false"),
    ("commit.gpgSign", "false"),
    ("log.showSignature", "false"),
    ("filter.lfs.process", ""),
    ("filter.lfs.smudge", ""),
    ("filter.lfs.clean", ""),
    ("filter.lfs.required", "false"),
    ("http.lowSpeedLimit", "1000"),
    ("http.lowSpeedTime", "60"),
    ("advice.detachedHead", "false"),
)


def kept_of(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment that git gets, settings apart (`with_settings`)."""
    kept = {name: value for name, value in environ.items() if any(fnmatch.fnmatchcase(name, each) for each in KEPT)}
    return {**kept, **FIXED}


def given_settings(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The settings that a user hands to every git by GIT_CONFIG_COUNT."""
    count = environ.get("GIT_CONFIG_COUNT", "")
    for number in range(int(count) if count.isdecimal() and len(count) < 4 else 0):
        key, value = environ.get(f"GIT_CONFIG_KEY_{number}"), environ.get(f"GIT_CONFIG_VALUE_{number}")
        if key and value is not None:
            yield key, value


def with_settings(environment: Mapping[str, str], settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """`environment` with settings that git (2.31 and newer) reads from it; the last of a key wins."""
    numbered = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings):
        numbered[f"GIT_CONFIG_KEY_{number}"] = key
        numbered[f"GIT_CONFIG_VALUE_{number}"] = value
    return {**environment, **numbered}


def token_settings(token: str, *, server: str) -> list[tuple[str, str]]:
    """The header that shows `token` to `server` (`https://github.com`) alone, in place of headers set before."""
    key = f"http.{server.rstrip('/')}/.extraheader"
    return [(key, ""), (key, f"Authorization: Basic {basic(token)}")]


def basic(token: str) -> str:
    """A token as GitHub takes it for git over HTTP."""
    return base64.b64encode(f"x-access-token:{token}".encode()).decode()
