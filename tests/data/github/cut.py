"""Cuts the calls of evalgate, its release and its recipes out of GitHub's own OpenAPI description:
`python cut.py api.github.com.json`.

The description is the npm package `@octokit/openapi` (MIT, see LICENSE beside this file), its file
`generated/api.github.com.json`. Prose and examples are left out; what constrains a request
or a response stays as it is.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
CALLS = """
get post /repos/{owner}/{repo}/issues/{issue_number}/comments
patch delete /repos/{owner}/{repo}/issues/comments/{comment_id}
post /repos/{owner}/{repo}/check-runs
patch /repos/{owner}/{repo}/check-runs/{check_run_id}
get /repos/{owner}/{repo}/actions/artifacts
get /repos/{owner}/{repo}/actions/artifacts/{artifact_id}/{archive_format}
get /repos/{owner}/{repo}/collaborators/{username}/permission
get /repos/{owner}/{repo}/actions/runs/{run_id}/artifacts
get /repos/{owner}/{repo}/pulls
get /repos/{owner}/{repo}/pulls/{pull_number}
get /repos/{owner}/{repo}/pulls/{pull_number}/commits
get /repos/{owner}/{repo}/commits/{commit_sha}/pulls
post /repos/{owner}/{repo}/releases
get patch /repos/{owner}/{repo}/releases/{release_id}
get /repos/{owner}/{repo}/releases/tags/{tag}
get /user
"""
PROSE = {"description", "summary", "example", "examples", "externalDocs", "tags"}


def main(source: Path) -> None:
    whole = json.loads(source.read_text(encoding="utf-8"))
    paths = {}
    for line in CALLS.split("\n"):
        if line:
            *methods, path = line.split()
            found = whole["paths"][path]
            paths[path] = {method: found[method] for method in methods}
    components: dict[str, dict] = {}
    waiting = [paths]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            reference = part.get("$ref")
            if isinstance(reference, str):
                _, _, kind, name = reference.split("/", 3)
                if kind != "examples" and name not in components.setdefault(kind, {}):
                    components[kind][name] = whole["components"][kind][name]
                    waiting.append(components[kind][name])
            waiting += [value for key, value in part.items() if key != "examples"]
        elif isinstance(part, list):
            waiting += part
    cut = {
        "openapi": whole["openapi"],
        "info": {**{key: whole["info"][key] for key in ("title", "version", "license")}},
        "servers": whole["servers"],
        "paths": bare(paths),
        "components": bare(components),
    }
    text = json.dumps(cut, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    (HERE / "openapi.json").write_text(text + "\n", encoding="utf-8")


def bare(part, *, names=False):
    """Without prose; below `properties` the keys are names, and stay."""
    if isinstance(part, list):
        return [bare(each) for each in part]
    if not isinstance(part, dict):
        return part
    kept = {}
    for key, value in part.items():
        if (
            not names
            and (key.startswith("x-") or key in PROSE)
            and not (key == "description" and "content" in part)
        ):
            continue
        kept[key] = bare(
            value, names=key in ("properties", "schemas", "parameters", "responses", "headers")
        )
    if not names and "responses" in part:
        for answer in kept["responses"].values():
            answer.setdefault("description", "") if "$ref" not in answer else None
    return kept


if __name__ == "__main__":
    main(Path(sys.argv[1]))
