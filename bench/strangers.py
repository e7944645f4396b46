"""Agents that others wrote, at the first try: each in a repository with nothing but the README's
workflow added.

    python bench/strangers.py agents.json [--checkouts FOLDER] [--only NAME,NAME] [--work FOLDER]
    [--alone] [--control]

`agents.json` lists checkouts on this machine, with paths relative to `--checkouts` or to itself:

    [{"agent": "customer-service", "path": "checkouts/customer-service", "commit": "c3d0770",
      "typed": ".env.example", "variables": {"PROJECT": "p"}, "inputs": {"paths": "eval"}}]

Without `path` it is the name of the agent. strangers.json beside this script lists agents of
google/adk-samples in several states and of other public repositories, with what their READMEs tell
people to set. To make its checkouts, for each of its lines: `git -C CLONE archive COMMIT FOLDER |
tar x`, with what lies in FOLDER as checkouts/AGENT.

Each is copied and committed, gets a pull request that adds the workflow, and then runs
entrypoint.py with a runner's variables, as the action does. First with GOOGLE_API_KEY alone; where
that is not enough, with what its own README tells people to set: `typed` names an example of its
variables, `variables` adds to it (`{url}` is the scripted model's address, for settings that are
not known here). Models are scripted (scripted_model.py), so nothing is spent. Prints a table in
Markdown; the logs are kept in the work folder. An agent works where every case was scored. With
`--control` those that do not are run once more without evalgate: the same environment, variables
and turns, by ADK's own runner (plain_run.py). What fails there too is the agent's own."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import scripted_model
from scripted_model import Script

from evalgate import formats
from evalgate.discovery import walk

ROOT = Path(__file__).resolve().parents[1]
ADDRESSES = (
    "GOOGLE_GEMINI_BASE_URL",
    "GOOGLE_VERTEX_BASE_URL",
    "OPENAI_BASE_URL",
    "OPENAI_API_BASE",
)
"""How the scripted model is reached: among the settings of models, which reach an agent without
being named."""

STAND_INS = ("BIGQUERY_EMULATOR_HOST", "STORAGE_EMULATOR_HOST")
"""For agents with cloud credentials: BigQuery and Cloud Storage of an empty project, which say at
once that nothing is there. Google's own cannot be reached with made-up credentials, and their
clients ask again for ten minutes."""

KEPT = (
    "PATH",
    "LANG",
    "LC_",
    "SSL_",
    "REQUESTS_CA",
    "CURL_CA",
    "PIP_",
    "UV_",
    "HTTP",
    "NO_PROXY",
    "NODE_EXTRA",
)
"""What a runner's machine has too: how names of its own variables begin."""

VARIABLE = re.compile(r"^\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*?)\s*$")
EXPECTED = ("not_applicable", "reference_missing")
"""Reasons for no score that are as they should be: the case has nothing that the criterion could
compare with."""

WHY = 200
"""So much of a reason is shown."""

PLAIN_S = 600.0
"""So long the run without evalgate may take: backends that are not there are asked again for
minutes."""

PLACEHOLDER = re.compile(
    r"^$|[<\[{]|YOUR|your|xxx|\.\.\.|REPLACE|CHANGE|TODO|PLACEHOLDER", re.IGNORECASE
)
WORKFLOW = """name: evalgate
on: pull_request
jobs:
  gate:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v5
      - uses: OWNER/evalgate/gate@v1
"""


@dataclass(frozen=True)
class Stranger:
    """An agent of the list."""

    agent: str
    path: Path
    commit: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Tried:
    """What one run gave: the exit code, cases with every criterion scored, all cases, and why
    others have none."""

    code: int | None
    scored: int
    total: int
    reasons: tuple[tuple[str, int], ...]
    seconds: float
    plain: str = ""
    """What becomes of the same turns without evalgate."""

    @property
    def works(self) -> bool:
        return 0 < self.total == self.scored

    def __str__(self) -> str:
        code = "stopped" if self.code is None else f"exit {self.code}"
        counts = f"{self.scored} of {self.total} scored, {code}, {self.seconds:.0f} s"
        why = "; ".join(f"{count} x {reason[:WHY]}" for reason, count in self.reasons[:4]).replace(
            "|", "\\|"
        )
        return f"works: {counts}" if self.works else f"{counts}: {why}"


def strangers(file: Path, checkouts: Path) -> Iterator[Stranger]:
    """The agents of a list."""
    for entry in json.loads(file.read_text(encoding="utf-8")):
        path = checkouts / entry.get("path", entry["agent"])
        typed = example_variables(path / entry["typed"]) if entry.get("typed") else {}
        if typed.get("GOOGLE_GENAI_USE_VERTEXAI", "").lower() in ("1", "true"):
            # `gcloud auth` in the README; here a made one
            typed.setdefault("GOOGLE_APPLICATION_CREDENTIALS", "")
        yield Stranger(
            agent=entry["agent"],
            path=path,
            commit=entry.get("commit", ""),
            variables={**typed, **entry.get("variables", {})},
            inputs=entry.get("inputs", {}),
        )


def example_variables(file: Path) -> dict[str, str]:
    """What an example of a .env says, with a made-up value where it says to put one's own."""
    found = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        if match := VARIABLE.match(line):
            value = match[2].split(" #")[0].strip().strip("'\"")
            found[match[1]] = "made-up" if PLACEHOLDER.search(value) else value
    return found


def needs_of(folder: Path) -> str:
    """How the checkout says what to install."""
    project = folder / "pyproject.toml"
    text = project.read_text(encoding="utf-8", errors="replace") if project.is_file() else ""
    python = re.search(r"^(?:requires-python|python)\s*=\s*[\"'](.+?)[\"']", text, re.MULTILINE)
    files = [
        name for name in ("uv.lock", "poetry.lock", "requirements.txt") if (folder / name).is_file()
    ]
    return ", ".join(
        [python[1] if python else "any", *(files or (["pyproject.toml"] if text else ["nothing"]))]
    )


# --- one run --------------------------------------------------------------------------------------


def git(folder: Path, *words: str) -> str:
    identity = [
        "-c",
        "user.name=stranger",
        "-c",
        "user.email=stranger@example.org",
        "-c",
        "commit.gpgsign=false",
    ]
    return subprocess.run(
        ["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def repository(stranger: Stranger, folder: Path, *, settings: Sequence[str]) -> tuple[str, str]:
    """A copy of the checkout as a repository with a pull request that adds the workflow; base and
    head."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(stranger.path, folder, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A", "-f")  # a checkout has committed files only
    git(folder, "commit", "-q", "-m", "as found")
    base = git(folder, "rev-parse", "HEAD")
    workflow = folder / ".github/workflows/evalgate.yml"
    workflow.parent.mkdir(parents=True, exist_ok=True)
    workflow.write_text(WORKFLOW, encoding="utf-8")
    if settings and not (folder / "evalgate.yml").exists():
        (folder / ".github/evalgate.yml").write_text("\n".join([*settings, ""]), encoding="utf-8")
    git(folder, "add", "-A", "-f", ".github")
    git(folder, "commit", "-q", "-m", "Add evalgate")
    return base, git(folder, "rev-parse", "HEAD")


def learn(folder: Path, script: Script) -> None:
    """Read the evaluation files, so that the model knows what it is expected to do."""
    for file in sorted(folder.rglob("*.json")):
        if (
            file.name.endswith(walk.EVALUATION_ENDINGS)
            or "eval" in file.relative_to(folder).as_posix()
        ):
            try:
                reading = formats.parse_eval_set(
                    file.read_text(encoding="utf-8-sig"), file=file.name
                )
            except (ValueError, OSError):
                continue
            for case in reading.eval_set.cases if reading.eval_set is not None else ():
                script.add(case)


def credentials(folder: Path, url: str) -> Path:
    """A service account's file whose tokens come from the scripted server."""
    file = folder / "credentials.json"
    key = subprocess.run(
        ["openssl", "genrsa", "2048"], check=True, capture_output=True, text=True
    ).stdout
    account = {
        "type": "service_account", "project_id": "made-up", "private_key_id": "1", "private_key": key,
        "client_email": "agent@made-up.iam.gserviceaccount.com", "client_id": "1", "token_uri": f"{url}/token",
    }  # fmt: skip
    file.write_text(json.dumps(account), encoding="utf-8")
    return file


def environment(
    work: Path,
    repo: Path,
    *,
    url: str,
    typed: Mapping[str, str],
    inputs: Mapping[str, str],
    sides: tuple[str, str],
) -> dict[str, str]:
    """A runner's, with the action's inputs; the agent gets its key and what was typed."""
    base, head = sides
    event = {
        "pull_request": {
            "number": 1,
            "base": {"sha": base, "ref": "main", "repo": {"full_name": "o/r"}},
            "head": {"sha": head, "ref": "adopt", "repo": {"full_name": "o/r", "fork": False}},
        },
        "repository": {"full_name": "o/r", "default_branch": "main"},
    }
    files = {f"GITHUB_{name.upper()}": work / name for name in ("output", "step_summary")}
    for file in files.values():
        file.write_text("", encoding="utf-8")
    (work / "event.json").write_text(json.dumps(event), encoding="utf-8")
    addresses = dict.fromkeys(ADDRESSES[:2], url) | dict.fromkeys(ADDRESSES[2:], f"{url}/v1")
    given = {"GOOGLE_API_KEY": "key-0001-of-nobody", **typed}
    settings = {"env": ", ".join(typed), "cache": str(work.parent / "cache"), **inputs}
    return {
        **{name: value for name, value in os.environ.items() if name.upper().startswith(KEPT)},
        **{f"INPUT_{name.upper()}": value for name, value in settings.items()},
        **{name: str(file) for name, file in files.items()},
        "HOME": str(work), "CI": "true", "GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(repo),
        "GITHUB_EVENT_NAME": "pull_request", "GITHUB_EVENT_PATH": str(work / "event.json"),
        "GITHUB_REPOSITORY": "o/r", "GITHUB_SHA": head, "GITHUB_RUN_ID": "1", "GITHUB_RUN_ATTEMPT": "1",
        "GITHUB_SERVER_URL": "https://github.com", **addresses, **given,
    }  # fmt: skip


def tried(
    stranger: Stranger,
    work: Path,
    *,
    typed: bool,
    compared: bool,
    timeout_s: float,
    settings: Sequence[str],
    plain: bool,
) -> Tried:
    """Run the gate on the agent, with the variables of its README or without."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    repo, script = work / "repository", Script()
    sides = repository(stranger, repo, settings=settings)
    learn(repo, script)
    inputs = {**stranger.inputs, **({} if compared else {"baseline": "none"})}
    with (
        scripted_model.serving(script) as url,
        (work / "log.txt").open("w", encoding="utf-8") as log,
    ):
        variables = {
            name: value.replace("{url}", url) for name, value in stranger.variables.items() if typed
        }
        if "GOOGLE_APPLICATION_CREDENTIALS" in variables:
            variables["GOOGLE_APPLICATION_CREDENTIALS"] = str(credentials(work, url))
            variables |= dict.fromkeys(STAND_INS, url)
        environ = environment(work, repo, url=url, typed=variables, inputs=inputs, sides=sides)
        began = time.monotonic()
        command = [sys.executable, "-I", "-u", str(ROOT / "entrypoint.py")]
        child = subprocess.Popen(
            command,
            cwd=repo,
            env=environ,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code: int | None = child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGTERM)
            child.wait()
            code = None
        print(f"asked: {dict(script.asked)}", file=log, flush=True)
        seconds = time.monotonic() - began
        scored, total, reasons = counted(repo / "evalgate-report/results.json", work / "log.txt")
        run = Tried(code=code, scored=scored, total=total, reasons=reasons, seconds=seconds)
        return replace(run, plain=plainly(work, repo, environ)) if plain and not run.works else run


def counted(results: Path, log: Path) -> tuple[int, int, tuple[tuple[str, int], ...]]:
    """Cases that were scored, all cases, and the reasons of the others, those of most cases
    first."""
    if not results.is_file():
        said = [
            line for line in log.read_text(encoding="utf-8").splitlines() if "error" in line.lower()
        ]
        return 0, 0, tuple((line, 1) for line in said[-3:])
    scored = total = 0
    reasons: Counter[str] = Counter()
    for suite in json.loads(results.read_text(encoding="utf-8"))["suites"]:
        deciding = {each["name"] for each in suite.get("criteria", ()) if "threshold" in each}
        if suite.get("problem"):
            total += 1
            reasons[f"{suite['suite']}: {said_of(suite['problem'])}"] += 1
        for case in suite.get("cases", ()):
            total += 1
            why = [
                reason for trial in case.get("trials", ()) for reason in not_scored(trial, deciding)
            ]
            if case.get("verdict") in ("pass", "fail") and not why:
                scored += 1
            else:
                reasons[why[0] if why else said_of(case.get("reason", "no trial"))] += 1
    return scored, total, tuple(reasons.most_common())


def plainly(work: Path, repo: Path, environ: Mapping[str, str]) -> str:
    """What becomes of the same turns without evalgate: how many cases ran to their end, and why
    others did not."""
    results = repo / "evalgate-report/results.json"
    suites = json.loads(results.read_text(encoding="utf-8"))["suites"] if results.is_file() else []
    cases: dict[str, list[dict[str, Any]]] = {}
    for suite in suites:
        if path := suite.get("agent", {}).get("options", {}).get("path"):
            cases.setdefault(path, []).extend(turns_of(case) for case in suite.get("cases", ()))
    if not cases:
        return "nothing to run"
    env = {
        name: value for name, value in environ.items() if not name.startswith(("INPUT_", "GITHUB_"))
    }
    # not where installing failed
    whole = (work.parent / "cache").glob("env-*/lib/python*/site-packages/google/adk")
    made = sorted(
        (each.parents[4] / "bin/python" for each in whole), key=lambda each: each.lstat().st_mtime
    )
    python = environ.get("INPUT_PYTHON") or (made[-1] if made else None)
    if python is None:
        command = [str(Path(sys.executable).with_name("uv")), "sync", "--frozen"]
        given = env | {"UV_PROJECT_ENVIRONMENT": str(work / "plain")}
        installed = subprocess.run(
            command, cwd=repo, env=given, check=False, capture_output=True, text=True
        )
        return "uv sync --frozen: " + (
            said_of(installed.stderr[-WHY:]) if installed.returncode else "no error"
        )
    said: list[str | None] = []
    for number, (path, turns) in enumerate(cases.items()):
        said += plain_run(python, work / f"turns-{number}.json", repo, path, turns, env)
    why = Counter(each[:WHY] for each in said if each)
    return "; ".join(
        [
            f"{said.count(None)} of {len(said)} ran",
            *(f"{n} x {each}" for each, n in why.most_common(4)),
        ]
    )


def plain_run(
    python: Path | str, file: Path, repo: Path, agent: str, turns: Any, env: Mapping[str, str]
) -> list[str | None]:
    """How each case of an agent failed, or None."""
    file.write_text(json.dumps(turns), encoding="utf-8")
    command = [str(each) for each in (python, ROOT / "bench/plain_run.py", agent, file)]
    with file.with_suffix(".err").open("w") as errors:
        try:
            ran = subprocess.run(
                command,
                cwd=repo,
                env=env,
                check=False,
                timeout=PLAIN_S,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
            lines, end = ran.stdout, f"exit {ran.returncode}"
        except subprocess.TimeoutExpired as late:
            lines, end = late.stdout or b"", f"not done after {PLAIN_S:.0f} s"
    told = [json.loads(line) for line in lines.splitlines() if line.startswith(b'{"id": ')]
    if told and told[0]["id"] == "import":
        return [f"import: {told[0]['error']}"] * len(turns)
    return [each["error"] for each in told] + [end] * (len(turns) - len(told))


def turns_of(case: Mapping[str, Any]) -> dict[str, Any]:
    """What the user says in a case, and its state."""
    given = case.get("eval_case", {})
    said = [turn["user_content"].get("parts", ()) for turn in given.get("conversation") or ()]
    turns = [" ".join(part["text"] for part in parts if part.get("text")) for parts in said]
    return {
        "id": case["case_id"],
        "turns": turns,
        "state": (given.get("session_input") or {}).get("state") or {},
    }


def not_scored(trial: Mapping[str, Any], deciding: Collection[str]) -> Iterator[str]:
    """Why a trial has no score: how its agent failed, or what the criteria that decide say."""
    outcome = trial.get("outcome", {})
    if "message" in outcome:
        yield said_of(outcome["message"])
        return
    for name, grade in trial.get("grades", {}).items():
        if name in deciding and "value" not in grade and grade.get("reason") not in EXPECTED:
            yield f"{name}: {said_of(grade.get('message') or grade.get('reason'))}"


def said_of(problem: Any) -> str:
    text = problem.get("message", "") if isinstance(problem, Mapping) else str(problem)
    return " ".join(text.split())[:300]


# --- the table ------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("list", type=Path)
    parser.add_argument(
        "--checkouts", type=Path, help="what paths are relative to; the list's folder without it"
    )
    parser.add_argument(
        "--control", action="store_true", help="run what does not work without evalgate as well"
    )
    parser.add_argument("--only", default="", help="names of agents, divided by commas")
    parser.add_argument(
        "--work", type=Path, default=Path(tempfile.gettempdir()) / "evalgate-strangers"
    )
    parser.add_argument("--alone", action="store_true", help="do not compare with the base")
    parser.add_argument("--timeout", type=float, default=900)
    parser.add_argument(
        "--setting", action="append", default=[], metavar="NAME: VALUE",
        help="a line for evalgate.yml: `start-timeout: 300`, where clients retry backends that are not there",
    )  # fmt: skip
    options = parser.parse_args()
    only = [name for name in options.only.split(",") if name]
    chosen = [
        each
        for each in strangers(options.list, options.checkouts or options.list.parent)
        if not only or each.agent in only
    ]
    print("| agent | commit | Python, requirements | first try | typed | then | without evalgate |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for stranger in chosen:
        runs = []
        for typed in (False, True) if stranger.variables else (False,):
            work = options.work.resolve() / stranger.agent / ("typed" if typed else "first")
            last = typed or not stranger.variables
            limits = {
                "timeout_s": options.timeout,
                "settings": options.setting,
                "plain": options.control and last,
            }
            run = tried(stranger, work, typed=typed, compared=not options.alone, **limits)
            (work / "tried.json").write_text(
                json.dumps({"said": str(run), "plain": run.plain, "reasons": run.reasons}, indent=1)
            )
            runs.append(run)
            if run.works:
                break
        then = str(runs[1]) if len(runs) > 1 else ""
        typed_names = ", ".join(f"`{name}`" for name in stranger.variables) if then else ""
        cells = [
            stranger.agent,
            stranger.commit,
            needs_of(stranger.path),
            str(runs[0]),
            typed_names,
            then,
            runs[-1].plain.replace("|", "\\|"),
        ]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
