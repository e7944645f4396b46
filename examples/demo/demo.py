"""`make demo`: the gate on a bundled agent, as it stands and beside a change that makes it worse;
needs no account."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = Path(sys.argv[1]).resolve() if sys.argv[1:] else ROOT / "build" / "demo"
REPOSITORY = WORK / "repository"
GIT = (
    "git",
    "-c",
    "user.name=demo",
    "-c",
    "user.email=demo@localhost",
    "-c",
    "init.defaultBranch=main",
)


def main() -> int:
    """Show three gates; 0 where each ended as it must, for the reason that it must."""
    began = time.monotonic()
    make_repository()
    heading("evalgate demo")
    say(
        "The desk assistant of a library, written with Google's ADK: 5 tools, 8 test conversations.",
        "Its model is a script that follows the agent's instruction, so no account is needed.",
        "The first run installs google-adk for the agent (a minute or two; later runs use the cache).",
    )
    heading("1 of 3: the main branch, without a base")
    found = [run_gate("main-report")]
    heading(
        "2 of 3: a pull request that shortens the instruction, compared with main (2 runs per side)"
    )
    git("switch", "-qc", "shorter")
    shutil.copytree(HERE / "change", REPOSITORY, dirs_exist_ok=True)
    git("commit", "-qam", "Shorten the instruction")
    changes = [
        line
        for line in git("diff", "-U0", "main").splitlines()
        if re.match(r"[-+](?!--|\+\+)", line)
    ]
    print("\n".join(changes), "\n")
    found.append(run_gate("pull-request-report", "--base", "main", "--runs", "2"))
    heading("The comment that the pull request would get")
    comment = WORK / "pull-request-report" / "comment.md"
    print(
        comment.read_text(encoding="utf-8")
        if comment.exists()
        else "No comment: the gate did not run."
    )
    heading("3 of 3: the same pull request with a low pass rate: the comparison still fails it")
    lenient = ("--base", "main", "--runs", "2", "--pass-rate", "0.25")
    found.append(run_gate("lenient-report", *lenient))
    heading("Files")
    show_places()
    print(f"\n{time.monotonic() - began:.0f} s in all.")
    return check(found)


def make_repository() -> None:
    """A fresh git repository with the agent and its evaluation files."""
    if not sys.argv[1:]:  # a folder of somebody's own is never emptied
        shutil.rmtree(WORK, ignore_errors=True)
    shutil.copytree(
        HERE / "repository", REPOSITORY, ignore=shutil.ignore_patterns("__pycache__", ".adk")
    )
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "The desk assistant")


def git(*arguments: str) -> str:
    """Run git in the demo's repository; what it printed."""
    done = subprocess.run(
        [*GIT, *arguments], cwd=REPOSITORY, check=True, capture_output=True, text=True
    )
    return done.stdout


def run_gate(report: str, *options: str) -> int:
    """Run the gate as a person would; its exit code."""
    arguments = ["run", *options, "--output", f"../{report}"]
    print(f"$ evalgate {' '.join(arguments)}", flush=True)
    environ = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    }
    command = [sys.executable, "-m", "evalgate", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, env=environ, check=False).returncode


def show_places() -> None:
    """Where everything is."""
    for name, path in (
        ("main branch", WORK / "main-report"),
        ("lenient gate", WORK / "lenient-report"),
        ("the agent", HERE / "repository"),
        ("the change", HERE / "change"),
        ("pull request", WORK / "pull-request-report"),
    ):
        print(f"{name:>14}  {os.path.relpath(path)}")
    for path in sorted((WORK / "pull-request-report").glob("*")):
        print(f"{'':>14}    {path.name}")


EXPECTED = (
    ("main-report", 0, {"threshold": "pass"}),
    ("pull-request-report", 1, {"threshold": "fail", "regression": "fail"}),
    ("lenient-report", 1, {"threshold": "pass", "regression": "fail"}),
)
"""Report, exit code, and what each gate must have said."""


def check(exit_codes: list[int]) -> int:
    """0 where the main branch passed and the change was stopped: by exit code, and by what each
    gate said."""
    found = [
        (report, code, gates_of(WORK / report))
        for (report, _, _), code in zip(EXPECTED, exit_codes, strict=True)
    ]
    wrong = [(is_, must) for is_, must in zip(found, EXPECTED, strict=True) if is_ != must]
    for is_, must in wrong:
        print(f"Something is wrong: expected {must}, found {is_}.")
    if not wrong:
        print(
            "As expected: exit code 0 on main, 1 on the pull request, 1 with the low pass rate (by comparison)."
        )
    return 1 if wrong else 0


def gates_of(report: Path) -> dict[str, str]:
    """What each gate said, by results.json; nothing where there is none."""
    results = report / "results.json"
    if not results.exists():
        return {}
    verdict = json.loads(results.read_text(encoding="utf-8"))["verdict"]
    return {gate["gate"]: gate["kind"] for gate in verdict["gates"]}


def heading(text: str) -> None:
    """A line that divides."""
    print(f"\n=== {text} {'=' * max(3, 76 - len(text))}\n", flush=True)


def say(*lines: str) -> None:
    """Lines for people."""
    print("\n".join(lines), flush=True)


if __name__ == "__main__":
    sys.exit(main())
