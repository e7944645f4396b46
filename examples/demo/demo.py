"""`make demo`: the gate on a bundled agent, as it stands and with a change that breaks it; needs no account."""

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
GIT = ("git", "-c", "user.name=demo", "-c", "user.email=demo@localhost", "-c", "init.defaultBranch=main")


def main() -> int:
    """Show both gates; 0 where both ended as they must."""
    began = time.monotonic()
    make_repository()
    heading("evalgate demo")
    say(
        "The assistant at a library's desk, written with Google's ADK: five tools, 8 test conversations.",
        "Its model is scripted and obeys the instruction that it is sent, so no account is needed.",
        "The first gate installs google-adk for the agent (a minute or two, once; later runs use the cache).",
    )
    heading("1 of 2: the main branch")
    first = run_gate("main-report")
    heading("2 of 2: a pull request makes the instruction shorter")
    shutil.copytree(HERE / "change", REPOSITORY, dirs_exist_ok=True)
    git("commit", "-qam", "Shorten the instruction")
    changes = [line for line in git("diff", "-U0", "HEAD~1").splitlines() if re.match(r"[-+](?!--|\+\+)", line)]
    print("\n".join(changes), "\n")
    second = run_gate("pull-request-report")
    heading("The comment that the pull request would get")
    comment = WORK / "pull-request-report" / "comment.md"
    print(comment.read_text(encoding="utf-8") if comment.exists() else "There is none: the gate did not run.")
    heading("Where to look")
    show_places()
    print(f"\n{time.monotonic() - began:.0f} s in all.")
    return check(first, second)


def make_repository() -> None:
    """A fresh git repository with the agent and its evaluation files."""
    if not sys.argv[1:]:  # a folder of somebody's own is never emptied
        shutil.rmtree(WORK, ignore_errors=True)
    shutil.copytree(HERE / "repository", REPOSITORY, ignore=shutil.ignore_patterns("__pycache__", ".adk"))
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "The desk assistant")


def git(*arguments: str) -> str:
    """Run git in the demo's repository; what it printed."""
    done = subprocess.run([*GIT, *arguments], cwd=REPOSITORY, check=True, capture_output=True, text=True)
    return done.stdout


def run_gate(report: str) -> int:
    """Run the gate as a person would; its exit code."""
    print(f"$ evalgate run --output ../{report}", flush=True)
    environ = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, "-m", "evalgate", "run", "--output", f"../{report}"]
    return subprocess.run(command, cwd=REPOSITORY, env=environ, check=False).returncode


def show_places() -> None:
    """Where everything is."""
    for name, path in (
        ("main branch", WORK / "main-report"),
        ("pull request", WORK / "pull-request-report"),
        ("the agent", HERE / "repository"),
        ("the change", HERE / "change"),
    ):
        print(f"{name:>14}  {os.path.relpath(path)}")
    for path in sorted((WORK / "pull-request-report").glob("*")):
        print(f"{'':>14}    {path.name}")


def check(first: int, second: int) -> int:
    """0 where the main branch passed and the change was stopped: by exit code and by verdict."""
    found = [(first, verdict_of(WORK / "main-report")), (second, verdict_of(WORK / "pull-request-report"))]
    if found != [(0, "pass"), (1, "fail")]:
        print(f"Something is wrong: expected exit code 0 (pass), then 1 (fail); found {found}.")
        return 1
    print("Exit code 0 on the main branch, 1 on the pull request: the gate did its work.")
    return 0


def verdict_of(report: Path) -> str:
    """The verdict in results.json; "" where there is none."""
    results = report / "results.json"
    return str(json.loads(results.read_text(encoding="utf-8"))["verdict"]["kind"]) if results.exists() else ""


def heading(text: str) -> None:
    """A line that divides."""
    print(f"\n=== {text} {'=' * max(3, 76 - len(text))}\n", flush=True)


def say(*lines: str) -> None:
    """Lines for people."""
    print("\n".join(lines), flush=True)


if __name__ == "__main__":
    sys.exit(main())
