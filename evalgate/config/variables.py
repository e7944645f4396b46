"""The environment variables that an agent and its installer get, and why an agent lacks one."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from evalgate.system import redact
from evalgate.values import Environ, frozen_dataclass, matches_any
from .context import Context
from .settings import Settings

HARMLESS = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
    "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "CI",
)  # fmt: skip
"""The variables that every agent gets."""


@dataclass(frozen=True, slots=True)
class Provider:
    """The variables that clients of a model provider read."""

    keys: tuple[str, ...]
    settings: tuple[str, ...] = ()
    endpoints: tuple[str, ...] = ()
    """Alternative addresses."""


PROVIDERS: Mapping[str, Provider] = {
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
    "Anthropic": Provider(("ANTHROPIC_API_KEY",), (), ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE")),
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
"""The variables that agents get by default. Credentials of a cloud, which open more than models,
are not among them."""

KEYS = frozenset(key for provider in PROVIDERS.values() for key in provider.keys)
OF_MODELS = frozenset(
    name
    for provider in PROVIDERS.values()
    for name in (*provider.keys, *provider.settings, *provider.endpoints)
)

INSTALLING = ("UV_*", "PIP_*", "NETRC", "XDG_CACHE_HOME")
"""The variables that only installing children get in addition, if they hold no credentials or `env`
names them."""

OF_INSTALLERS = ("UV_*", "PIP_*")
"""Variables that never reach an agent, even if `env` names them: they are for the installer."""

STORE_KEY = "EVALGATE_STORE_KEY"
JOB_VARIABLES = (
    "GITHUB_TOKEN", "GH_TOKEN", "GH_ENTERPRISE_TOKEN", "ACTIONS_*", "INPUT_*", "GITHUB_*", "RUNNER_*",
    STORE_KEY,
    "CI_JOB_TOKEN", "CI_JOB_JWT*", "CI_REPOSITORY_URL", "CI_REGISTRY_PASSWORD", "CI_DEPLOY_PASSWORD",
    "CI_DEPENDENCY_PROXY_PASSWORD", "SYSTEM_ACCESSTOKEN", "BUILDKITE_AGENT_ACCESS_TOKEN", "CIRCLE_OIDC_TOKEN*",
    "BITBUCKET_STEP_OIDC_TOKEN",
)  # fmt: skip
"""Variables that belong to the job and are never passed on in a workflow or another CI. At a
terminal there is no job: the user exported them."""

USER_VARIABLES = frozenset({"GITHUB_PERSONAL_ACCESS_TOKEN"})
"""A variable that is named like the workflow's own but never is: GitHub's MCP server asks users for
it."""

PROCESS_VARIABLES = (
    "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONEXECUTABLE", "VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT",
    "__PYVENV_LAUNCHER__", "PWD", "OLDPWD", "SHLVL", "_",
)  # fmt: skip
"""Variables about evalgate's own process. They would lead the agent's Python, or the base, to wrong
files."""

CI_VARIABLES = (
    "GITHUB_ACTIONS", "GITHUB_EVENT_NAME", "GITHUB_RUN_ID", "CI", "TF_BUILD", "CODEBUILD_BUILD_ID", "TEAMCITY_VERSION",
    "JENKINS_URL", "BITBUCKET_BUILD_NUMBER", "BUILDKITE",
)  # fmt: skip
"""Variables of workflows and other CIs; not all CIs set CI."""

CLOUD_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
CLOUD_LOGIN = "google-github-actions/auth"
"""The action that sets that variable in a workflow."""

USER_INFO = re.compile(r"://[^/\s@]+@")


def is_terminal(environ: Environ) -> bool:
    """True if this runs on a user's own machine, not in a workflow or another CI."""
    return not any(environ.get(name) for name in CI_VARIABLES)


def secret_name(name: str) -> str:
    """The secret from which a workflow sets a variable. GitHub does not allow secret names that
    begin with GITHUB_, except its own token."""
    is_refused = name.upper().startswith("GITHUB_") and name != "GITHUB_TOKEN"
    return f"GH_{name[len('GITHUB_') :]}" if is_refused else name


def secret(name: str) -> str:
    """The expression for that secret in a workflow."""
    return f"${{{{ secrets.{secret_name(name)} }}}}"


def is_of_job(name: str, *, at_home: bool) -> bool:
    """True if a variable belongs to the workflow or the job, and never reaches an agent. `at_home`:
    at a terminal, where only evalgate's own keys do."""
    if name == STORE_KEY:
        return True
    return not at_home and matches_any(name, JOB_VARIABLES) and name not in USER_VARIABLES


@frozen_dataclass
class AgentVariables:
    """The variables of `environ` that agents get."""

    environ: Environ
    names: Sequence[str] = ()
    """The names and globs in `env`."""
    judge_keys: Collection[str] = ()
    """Variables with keys of judges."""
    own_key: bool = False
    """Judges have their own key (`judge: api_key_env`); an agent gets it only if `names` has its
    full name."""
    everything: bool = False
    """Agents get the user's own environment."""
    at_home: bool = False
    """No variable belongs to a job."""

    @classmethod
    def of(
        cls, settings: Settings, context: Context, judge_keys: Collection[str] = ()
    ) -> AgentVariables:
        """At a terminal everything, unless `env` names variables or agents are isolated."""
        return cls(
            environ=context.environ,
            names=settings.env,
            judge_keys=judge_keys,
            own_key=bool(settings.gate_file.judge.api_key_env),
            everything=is_terminal(context.environ)
            and not settings.env
            and not context.opening.isolate,
            at_home=is_terminal(context.environ),
        )

    def passes(self, name: str) -> bool:
        """True if agents get the variable if it is set."""
        if is_of_job(name, at_home=self.at_home) or matches_any(name, OF_INSTALLERS):
            return False
        if name in self.names:
            return True
        is_default = name in OF_MODELS or self.everything
        if name in self.judge_keys:
            return is_default and not self.own_key
        if self.everything:
            return not matches_any(name, PROCESS_VARIABLES)
        return is_default or matches_any(name, (*HARMLESS, *self.names))

    def environment(self) -> dict[str, str]:
        """The agent's environment."""
        return {name: value for name, value in self.environ.items() if self.passes(name)}

    def installer_environment(self) -> dict[str, str]:
        """The environment of children that install packages: the agent's variables, settings of
        installers, and named variables with credentials. Build hooks of packages see them too."""
        withheld_names = self.withheld()
        return self.environment() | {
            name: value
            for name, value in self.environ.items()
            if matches_any(name, INSTALLING) and name not in withheld_names
        }

    def withheld(self) -> tuple[str, ...]:
        """Variables with credentials for installers that `env` does not name: no child gets
        them."""
        if self.everything:
            return ()
        words = (*redact.SECRET_WORDS, "USERNAME", "NETRC", "CLIENT_CERT")
        names = [
            name
            for name, value in self.environ.items()
            if matches_any(name, INSTALLING)
            and not matches_any(name, self.names)
            and (any(word in name.upper() for word in words) or USER_INFO.search(value))
        ]
        return tuple(sorted(names))

    # --- reasons
    # -----------------------------------------------------------------------------------

    def why_absent(self, name: str) -> str:
        """Why an agent has no value of a variable, and what to do; "" if it has one."""
        value = self._value(name)
        if self.passes(name):
            return self._why_unset([name]) if not value else ""
        if is_of_job(name, at_home=self.at_home):
            return (
                f"{name} belongs to the workflow and is never passed to an agent; pass a narrower one under another "
                "name"
            )
        if matches_any(name, OF_INSTALLERS):
            return f"{name} is a setting of uv or pip and reaches only the installer; pass the value under another name"
        if name in self.judge_keys:
            return f"{name} is a judge's key, which an agent gets only if `env` names it in full (`env: {name}`)"
        if value:
            return f"{name} is set here but not passed to the agent; name it: {self._naming(name)}"
        return self._why_unset([name])

    def why_lacking(self, names: Sequence[str]) -> str:
        """The reason if any one of the variables would be enough; "" if one has a value."""
        reasons = {name: self.why_absent(name) for name in names}
        if not names or "" in reasons.values():
            return ""
        # one that is set but withheld, else one that is empty, else the first
        name = max(names, key=lambda name: (bool(self._value(name)), name in self.environ))
        if name in self.environ or is_of_job(name, at_home=self.at_home):
            return reasons[name]
        return self._why_unset(names)

    def _value(self, name: str) -> str:
        return self.environ.get(name, "").strip()

    def _why_unset(self, names: Sequence[str]) -> str:
        """The reason for variables that are all empty or not set."""
        first_name = names[0]
        naming = "" if self.passes(first_name) else f", and name it: {self._naming(first_name)}"
        terminal = is_terminal(self.environ)
        if first_name in self.environ:
            cause = (
                ", as secrets are in a fork's or Dependabot's pull request, or if they do not exist"
            )
            return f"{first_name} is set here but empty{'' if terminal else cause}{naming}"
        unset_text = (
            f"{first_name} is not set here"
            if len(names) == 1
            else f"neither {' nor '.join(names)} is set here"
        )
        if first_name == CLOUD_FILE:
            login = "run `gcloud auth application-default login`"
            advice = login if terminal else f"before the step use {CLOUD_LOGIN}"
        elif terminal:
            advice = f"use `export {first_name}=...`, or the agent's `.env`"
        else:
            advice = f"set `{first_name}: {secret(first_name)}` under the step's `env:`"
        return f"{unset_text}; {advice}{naming}"

    def _naming(self, name: str) -> str:
        """How to name the variable so that it also works in a pull request."""
        place = "" if is_terminal(self.environ) else " under the step's `with:`"
        return f"`env: {name}`{place}"
