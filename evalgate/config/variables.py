"""Which environment variables an agent and its installer get, and why an agent lacks one."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.system import redact
from evalgate.values import Environ, frozen_dataclass

HARMLESS = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
    "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "CI",
)  # fmt: skip
"""What every agent sees."""


@dataclass(frozen=True, slots=True)
class Provider:
    """The variables that clients of a model provider read: its keys, settings, and addresses to ask
    instead."""

    keys: tuple[str, ...]
    settings: tuple[str, ...] = ()
    endpoints: tuple[str, ...] = ()

    @property
    def keys_and_settings(self) -> tuple[str, ...]:
        """All but the addresses."""
        return (*self.keys, *self.settings)


PROVIDERS: Final[Mapping[str, Provider]] = MappingProxyType(
    {
        "Google": Provider(
            ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
            (
                "GOOGLE_GENAI_USE_VERTEXAI",
                "GOOGLE_GENAI_USE_ENTERPRISE",
                "GOOGLE_GENAI_API_VERSION",
                "GOOGLE_CLOUD_PROJECT",
                "GOOGLE_CLOUD_LOCATION",
                "VERTEXAI_PROJECT",
                "VERTEXAI_LOCATION",
            ),
            ("GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL"),
        ),
        "OpenAI": Provider(
            ("OPENAI_API_KEY",),
            ("OPENAI_ORGANIZATION", "OPENAI_ORG_ID", "OPENAI_PROJECT", "OPENAI_PROJECT_ID"),
            ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
        ),
        "Anthropic": Provider(
            ("ANTHROPIC_API_KEY",), (), ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE")
        ),
        "Groq": Provider(("GROQ_API_KEY",)),
        "Mistral": Provider(("MISTRAL_API_KEY",)),
        "DeepSeek": Provider(("DEEPSEEK_API_KEY",)),
        "OpenRouter": Provider(("OPENROUTER_API_KEY",)),
        "Together AI": Provider(("TOGETHERAI_API_KEY", "TOGETHER_API_KEY")),
        "xAI": Provider(("XAI_API_KEY",)),
        "Perplexity": Provider(("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY")),
        "Cohere": Provider(("COHERE_API_KEY", "CO_API_KEY")),
        "Fireworks": Provider(("FIREWORKS_API_KEY",)),
        "Ollama": Provider((), (), ("OLLAMA_API_BASE", "OLLAMA_HOST")),
        "LM Studio": Provider(("LM_STUDIO_API_KEY",), (), ("LM_STUDIO_API_BASE",)),
        "vLLM": Provider(("HOSTED_VLLM_API_KEY",), (), ("HOSTED_VLLM_API_BASE",)),
    }
)
"""What agents get without naming it; credentials of a cloud, which open more than models, are not
among it."""

KEYS: Final = frozenset(key for provider in PROVIDERS.values() for key in provider.keys)
OF_MODELS = frozenset(
    name
    for provider in PROVIDERS.values()
    for name in (*provider.keys_and_settings, *provider.endpoints)
)

INSTALLING = ("UV_*", "PIP_*", "NETRC", "XDG_CACHE_HOME")
"""What only installing children see besides: all that holds no credentials, and what `env`
names."""

OF_INSTALLERS = ("UV_*", "PIP_*")
"""What never reaches an agent, even where `env` names it: it is for the installer."""

STORE_KEY = "EVALGATE_STORE_KEY"
NEVER = (
    "GITHUB_TOKEN", "GH_TOKEN", "GH_ENTERPRISE_TOKEN", "ACTIONS_*", "INPUT_*", "GITHUB_*", "RUNNER_*",
    STORE_KEY,
    "CI_JOB_TOKEN", "CI_JOB_JWT*", "CI_REPOSITORY_URL", "CI_REGISTRY_PASSWORD", "CI_DEPLOY_PASSWORD",
    "CI_DEPENDENCY_PROXY_PASSWORD", "SYSTEM_ACCESSTOKEN", "BUILDKITE_AGENT_ACCESS_TOKEN", "CIRCLE_OIDC_TOKEN*",
    "BITBUCKET_STEP_OIDC_TOKEN",
)  # fmt: skip
"""What nobody can pass on in a workflow or another CI's job, as it belongs to the job. At home
there is no job: a person exported it."""

OF_PEOPLE = frozenset({"GITHUB_PERSONAL_ACCESS_TOKEN"})
"""What is named like the workflow's own, and never is: GitHub's MCP server asks people for it."""

OF_OUR_PROCESS = (
    "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONEXECUTABLE", "VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT",
    "__PYVENV_LAUNCHER__", "PWD", "OLDPWD", "SHLVL", "_",
)  # fmt: skip
"""What says where evalgate itself runs: it would lead the agent's Python, or the base, to files
that are not theirs."""

OF_CIS = (
    "GITHUB_ACTIONS", "GITHUB_EVENT_NAME", "GITHUB_RUN_ID", "CI", "TF_BUILD", "CODEBUILD_BUILD_ID", "TEAMCITY_VERSION",
    "JENKINS_URL", "BITBUCKET_BUILD_NUMBER", "BUILDKITE",
)  # fmt: skip
"""Variables of workflows and other CIs; not all CIs set CI."""

CLOUD_FILE: Final = "GOOGLE_APPLICATION_CREDENTIALS"
CLOUD_LOGIN: Final = "google-github-actions/auth"
"""What sets that variable in a workflow."""

USER_INFO = re.compile(r"://[^/\s@]+@")


def is_terminal(environ: Environ) -> bool:
    """True if a user's own machine runs this, not a workflow or another CI."""
    return not any(environ.get(name) for name in OF_CIS)


def secret_name(name: str) -> str:
    """The secret that a workflow sets a variable from. GitHub refuses to make one whose name begins
    with GITHUB_; the token of that name is its own."""
    is_refused = name.upper().startswith("GITHUB_") and name != "GITHUB_TOKEN"
    return f"GH_{name[len('GITHUB_') :]}" if is_refused else name


def secret(name: str) -> str:
    """How a workflow writes that secret's value."""
    return f"${{{{ secrets.{secret_name(name)} }}}}"


def matches(name: str, patterns: Iterable[str]) -> bool:
    """True if a variable's name matches one of the globs."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def is_of_ci(name: str) -> bool:
    """True if a variable belongs to the workflow or the job, and reaches no agent."""
    return matches(name, NEVER) and name not in OF_PEOPLE


@frozen_dataclass
class AgentVariables:
    """What agents get of `environ`.

    `names`: what `env` names, globs or in full. `judge_keys`: what judges use;
    `own_key`: they are given one of their own (`judge: api_key_env`), which an agent gets only
    where `names` has it in full. `everything`: whether agents get the user's own environment.
    `at_home`: nothing of it belongs to a job."""

    environ: Environ
    names: Sequence[str] = ()
    judge_keys: Collection[str] = ()
    own_key: bool = False
    everything: bool = False
    at_home: bool = False

    @classmethod
    def of(
        cls, settings: Settings, context: Context, judge_keys: Collection[str] = ()
    ) -> AgentVariables:
        """At a terminal everything, unless `env` names something or agents are kept apart."""
        return cls(
            environ=context.environ,
            names=settings.env,
            judge_keys=judge_keys,
            own_key=bool(settings.gate_file.judge.api_key_env),
            everything=is_terminal(context.environ) and not settings.env and not context.isolate,
            at_home=is_terminal(context.environ),
        )

    def passes(self, name: str) -> bool:
        """True if agents get the variable when it is set."""
        if self._is_of_job(name) or matches(name, OF_INSTALLERS):
            return False
        if name in self.names:
            return True
        unnamed = name in OF_MODELS or self.everything
        if name in self.judge_keys:
            return unnamed and not self.own_key
        if self.everything:
            return not matches(name, OF_OUR_PROCESS)
        return unnamed or matches(name, (*HARMLESS, *self.names))

    def _is_of_job(self, name: str) -> bool:
        return name == STORE_KEY or (is_of_ci(name) and not self.at_home)

    def environment(self) -> dict[str, str]:
        """The agent's."""
        return {name: value for name, value in self.environ.items() if self.passes(name)}

    def installer_environment(self) -> dict[str, str]:
        """What children that install packages see: the agent's variables, settings of installers,
        and of those that hold credentials the ones that are named. Hooks of packages that are built
        see them as well."""
        kept_back = self.withheld()
        return self.environment() | {
            name: value
            for name, value in self.environ.items()
            if matches(name, INSTALLING) and name not in kept_back
        }

    def withheld(self) -> tuple[str, ...]:
        """Variables that hold credentials for installers and that nobody named: nobody sees
        them."""
        if self.everything:
            return ()
        candidates = (
            name
            for name in self.environ
            if matches(name, INSTALLING) and not matches(name, self.names)
        )
        return tuple(
            sorted(name for name in candidates if _is_credential(name, self.environ[name]))
        )

    # --- why not ----------------------------------------------------------------------------------

    def why_absent(self, name: str) -> str:
        """Why an agent has no value of a variable, and what to do; "" if it has one."""
        value = self.environ.get(name, "").strip()
        if self.passes(name):
            return self._why_unset([name]) if not value else ""
        if self._is_of_job(name):
            return (
                f"{name} belongs to the workflow and is never passed to an agent; pass a narrower one under another "
                "name"
            )
        if matches(name, OF_INSTALLERS):
            return f"{name} is a setting of uv or pip and reaches only the installer; pass the value under another name"
        if name in self.judge_keys:
            return f"{name} is a judge's key, which an agent gets only where `env` names it in full (`env: {name}`)"
        if value:
            return f"{name} is set here but not passed to the agent; name it: {self._naming(name)}"
        return self._why_unset([name])

    def why_lacking(self, names: Sequence[str]) -> str:
        """The same where any one of the variables would do."""
        whys = {name: self.why_absent(name) for name in names}
        if not names or "" in whys.values():
            return ""
        is_set = [name for name in names if self.environ.get(name, "").strip()]
        present_names = [name for name in names if name in self.environ]
        if is_set or present_names:
            return whys[(is_set or present_names)[0]]
        return whys[names[0]] if self._is_of_job(names[0]) else self._why_unset(names)

    def _why_unset(self, names: Sequence[str]) -> str:
        """Of variables that are all empty or not set."""
        first = names[0]
        name_it = "" if self.passes(first) else f", and name it: {self._naming(first)}"
        if first in self.environ:
            empty = f"{first} is set here but empty"
            if is_terminal(self.environ):
                return f"{empty}{name_it}"
            return f"{empty}, as secrets are in a fork's pull request, or if they do not exist{name_it}"
        unset = (
            f"{first} is not set here"
            if len(names) == 1
            else f"neither {' nor '.join(names)} is set here"
        )
        if first == CLOUD_FILE:
            terminal = is_terminal(self.environ)
            how = (
                "run `gcloud auth application-default login`"
                if terminal
                else f"before the step use {CLOUD_LOGIN}"
            )
            return f"{unset}; {how}{name_it}"
        if is_terminal(self.environ):
            return f"{unset}; use `export {first}=...`, or the agent's `.env`{name_it}"
        return f"{unset}; set `{first}: {secret(first)}` under the step's `env:`{name_it}"

    def _naming(self, name: str) -> str:
        """How to name it so that it counts, even in a pull request."""
        return (
            f"`env: {name}`"
            if is_terminal(self.environ)
            else f"`env: {name}` under the step's `with:`"
        )


def _is_credential(name: str, value: str) -> bool:
    is_named_so = any(
        word in name.upper() for word in (*redact.SECRET_WORDS, "USERNAME", "NETRC", "CLIENT_CERT")
    )
    return is_named_so or USER_INFO.search(value) is not None
