"""What an agent may see of the environment."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping

HARMLESS = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
    "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "CI",
)  # fmt: skip
"""What every agent sees."""

INSTALLING = ("UV_*", "PIP_*", "NETRC", "XDG_CACHE_HOME")
"""What only installing children see besides."""

NEVER = (
    "GITHUB_TOKEN", "GH_TOKEN", "ACTIONS_*", "INPUT_*", "GITHUB_*", "RUNNER_*",
)  # fmt: skip
"""What no pattern passes on: it belongs to the workflow."""


def allowed(environ: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """The variables of `environ` that are harmless or match one of `names` (globs), the workflow's own excepted."""
    patterns = (*HARMLESS, *names)
    return {name: value for name, value in environ.items() if _matches(name, patterns) and not _matches(name, NEVER)}


def why_absent(name: str, environ: Mapping[str, str], names: Iterable[str]) -> str:
    """Why an agent does not see a variable, and what to do: it is not set, or not named."""
    if _matches(name, NEVER):
        return f"{name} is the workflow's own and is never passed to an agent; pass a narrower one under another name"
    if _matches(name, names):
        how = f"`{name}: ${{{{ secrets.{name} }}}}` below the step's own `env:`"
        return f"`env` names {name}, but it is not set here; a workflow sets it by {how}, a shell by `export`"
    if _matches(name, HARMLESS):
        return f"{name} is not set here"
    unset = "" if name in environ else ", and it is not set here either"
    return f"the setting `env` does not name {name}{unset}; agents get only what it lists (`env: {name}`)"


def for_installing(environ: Mapping[str, str], agent: Mapping[str, str]) -> dict[str, str]:
    """What children that install packages see."""
    return dict(agent) | {name: value for name, value in environ.items() if _matches(name, INSTALLING)}


def refused(names: Iterable[str]) -> list[str]:
    """Those of `names` that can never be passed on."""
    return [name for name in names if _matches(name, NEVER)]


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
