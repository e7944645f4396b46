"""What GitHub remembers, as far as a gate and its release meet it: comments, check runs, artifacts,
pull requests, releases.

Each handler takes a request that was found in GitHub's description and gives (status, JSON,
headers)."""

from __future__ import annotations

import hashlib
import io
import threading
import time
import zipfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from builders.github_spec import Description

REPO = "/repos/{owner}/{repo}"
Reply = tuple[int, Any, dict[str, str]]


def moment(seconds: float | None = None) -> str:
    return datetime.fromtimestamp(time.time() if seconds is None else seconds, tz=UTC).strftime(
        "%Y-%m-%dT%H:%M:%SZ"
    )


def zipped(files: Mapping[str, bytes | str]) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return held.getvalue()


class State:
    """One repository, `o/r` or whatever it is called in a request."""

    def __init__(self, description: Description) -> None:
        self.lock = threading.RLock()
        self.description = description
        self.permissions: dict[str, str] = {}  # of people; the others may read
        self.logins = {"ghs_": "github-actions[bot]", "": "octocat"}
        self.comments: dict[int, dict[str, Any]] = {}
        self.checks: dict[int, dict[str, Any]] = {}
        self.artifacts: dict[int, dict[str, Any]] = {}
        self.zips: dict[int, bytes] = {}
        self.pulls: dict[int, dict[str, Any]] = {}
        self.releases: dict[int, dict[str, Any]] = {}
        self.storage_url = ""
        self._last_id = 1000
        self.handlers: dict[tuple[str, str], Callable[..., Reply]] = {
            ("GET", f"{REPO}/issues/{{issue_number}}/comments"): self._list_comments,
            ("POST", f"{REPO}/issues/{{issue_number}}/comments"): self._create_comment,
            ("PATCH", f"{REPO}/issues/comments/{{comment_id}}"): self._update_comment,
            ("DELETE", f"{REPO}/issues/comments/{{comment_id}}"): self._delete_comment,
            ("POST", f"{REPO}/check-runs"): self._create_check,
            ("PATCH", f"{REPO}/check-runs/{{check_run_id}}"): self._update_check,
            ("GET", f"{REPO}/actions/runs/{{run_id}}/artifacts"): self._list_run_artifacts,
            ("GET", f"{REPO}/actions/artifacts"): self._list_artifacts,
            ("GET", f"{REPO}/actions/artifacts/{{artifact_id}}/{{archive_format}}"): self._download,
            ("GET", f"{REPO}/collaborators/{{username}}/permission"): self._permission,
            ("GET", f"{REPO}/pulls"): self._list_pulls,
            ("GET", f"{REPO}/pulls/{{pull_number}}"): self._pull,
            ("GET", f"{REPO}/pulls/{{pull_number}}/commits"): self._pull_commits,
            ("GET", f"{REPO}/commits/{{commit_sha}}/pulls"): self._commit_pulls,
            ("POST", f"{REPO}/releases"): self._create_release,
            ("GET", f"{REPO}/releases/tags/{{tag}}"): self._published,
            ("GET", f"{REPO}/releases/{{release_id}}"): self._release,
            ("PATCH", f"{REPO}/releases/{{release_id}}"): self._update_release,
            ("GET", "/user"): self._user,
        }

    # --- what a test puts there -------------------------------------------------------------------

    def add_comment(self, number: int, body: str, *, login: str = "octocat") -> int:
        with self.lock:
            made = self._sample("POST", f"{REPO}/issues/{{issue_number}}/comments", 201)
            comment_id = self._next()
            url = f"https://api.github.com/repos/o/r/issues/comments/{comment_id}"
            page = f"https://github.com/o/r/pull/{number}#issuecomment-{comment_id}"
            made.update(
                id=comment_id,
                body=body,
                user=self.account(login),
                html_url=page,
                url=url,
                number=number,
            )
            self.comments[comment_id] = made
            return comment_id

    def add_artifact(
        self,
        name: str,
        files: Mapping[str, bytes | str] | bytes,
        *,
        head_sha: str = "a" * 40,
        **more: Any,
    ) -> int:
        artifact_id = self._next()
        content = files if isinstance(files, bytes) else zipped(files)
        made = self.description.made({"$ref": "#/components/schemas/artifact"})
        run = {
            "id": more.pop("run_id", 7),
            "repository_id": 1,
            "head_repository_id": more.pop("head_repository_id", 1),
            "head_branch": more.pop("head_branch", "main"),
            "head_sha": head_sha,
        }
        made.update(
            id=artifact_id, name=name, size_in_bytes=len(content), expired=False, workflow_run=run
        )
        made.update(digest=f"sha256:{hashlib.sha256(content).hexdigest()}", created_at=moment())
        made.update(more)
        self.artifacts[artifact_id], self.zips[artifact_id] = made, content
        return artifact_id

    def add_pull(self, number: int, *, head_sha: str = "b" * 40, **more: Any) -> None:
        made = self._sample("GET", f"{REPO}/pulls/{{pull_number}}", 200)
        repo = {**made["base"]["repo"], "full_name": "o/r"}
        fork = more.pop("fork", "")
        made["base"].update(sha="c" * 40, ref="main", repo=repo)
        head_repo = {**repo, "full_name": fork} if fork else repo
        made["head"].update(sha=head_sha, ref=more.pop("head_ref", "topic"), repo=head_repo)
        made.update(number=number, state="open", draft=False)
        made["earlier"] = more.pop("earlier", [])  # its commits before the head
        made["linked"] = more.pop("linked", True)  # whether GitHub finds it by its commit
        made.update(more)
        self.pulls[number] = made

    def account(self, login: str) -> dict[str, Any]:
        made = self.description.made({"$ref": "#/components/schemas/simple-user"})
        return {**made, "login": login, "type": "Bot" if login.endswith("[bot]") else "User"}

    def login_of(self, token: str) -> str:
        return next(login for prefix, login in self.logins.items() if token.startswith(prefix))

    # --- what GitHub answers ----------------------------------------------------------------------

    def _list_comments(self, issue_number: str, **_: Any) -> Reply:
        found = [
            self._public(each)
            for each in self.comments.values()
            if each["number"] == int(issue_number)
        ]
        return 200, found, {}

    def _create_comment(self, issue_number: str, *, body: Any, login: str, **_: Any) -> Reply:
        if len(body["body"]) > 65_536:
            return _invalid("Body is too long (maximum is 65536 characters)")
        made = self.comments[self.add_comment(int(issue_number), body["body"], login=login)]
        return 201, self._public(made), {"location": made["url"]}

    def _update_comment(self, comment_id: str, *, body: Any, **_: Any) -> Reply:
        comment = self.comments.get(int(comment_id))
        if comment is None:
            return _missing()
        if len(body["body"]) > 65_536:
            return _invalid("Body is too long (maximum is 65536 characters)")
        comment["body"] = body["body"]
        return 200, self._public(comment), {}

    def _delete_comment(self, comment_id: str, **_: Any) -> Reply:
        return (204, None, {}) if self.comments.pop(int(comment_id), None) else _missing()

    def _create_check(self, *, body: Any, **_: Any) -> Reply:
        made = self._sample("POST", f"{REPO}/check-runs", 201)
        made.update(
            id=self._next(), status="queued", conclusion=None, completed_at=None, pull_requests=[]
        )
        made["html_url"] = f"https://github.com/o/r/runs/{made['id']}"
        made["annotations"] = []
        self.checks[made["id"]] = made
        return 201, self._checked(made, body), {}

    def _update_check(self, check_run_id: str, *, body: Any, **_: Any) -> Reply:
        made = self.checks.get(int(check_run_id))
        return _missing() if made is None else (200, self._checked(made, body), {})

    def _checked(self, made: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        output = dict(body.get("output") or {})
        made["annotations"] += output.pop("annotations", [])
        made["output"] = {"title": None, "summary": None, "text": None, **output}
        made["output"].update(
            annotations_count=len(made["annotations"]), annotations_url="https://api.github.com/x"
        )
        made.update({key: value for key, value in body.items() if key != "output"})
        if body.get("conclusion"):
            made["status"] = "completed"
        return self._public(made)

    def _list_run_artifacts(self, run_id: str, *, query: Mapping[str, str], **_: Any) -> Reply:
        named = [
            each for each in self.artifacts.values() if query.get("name") in (None, each["name"])
        ]
        rows = [
            each
            for each in named
            if each["workflow_run"] is None or each["workflow_run"]["id"] == int(run_id)
        ]
        return 200, {"total_count": len(rows), "artifacts": rows[::-1]}, {}

    def _list_artifacts(self, *, query: Mapping[str, str], **_: Any) -> Reply:
        rows = [
            each for each in self.artifacts.values() if query.get("name") in (None, each["name"])
        ]
        return 200, {"total_count": len(rows), "artifacts": rows[::-1]}, {}

    def _permission(self, username: str, **_: Any) -> Reply:
        permission = self.permissions.get(username, "read")
        made = self._sample("GET", f"{REPO}/collaborators/{{username}}/permission", 200)
        return 200, {**made, "permission": permission, "role_name": permission}, {}

    def _download(self, artifact_id: str, **_: Any) -> Reply:
        artifact = self.artifacts.get(int(artifact_id))
        if artifact is None:
            return _missing()
        if artifact["expired"]:
            return 410, {"message": "Artifact has expired"}, {}
        return 302, None, {"location": f"{self.storage_url}/{artifact_id}?sig=secret-signature"}

    def _list_pulls(self, *, query: Mapping[str, str], **_: Any) -> Reply:
        found = [
            self._simple(each)
            for each in self.pulls.values()
            if query.get("state", "open") in (each["state"], "all")
            and query.get("head", _head(each)) == _head(each)
        ]
        return 200, found, {}

    def _pull(self, pull_number: str, **_: Any) -> Reply:
        pull = self.pulls.get(int(pull_number))
        return (
            (
                200,
                {key: value for key, value in pull.items() if key not in ("linked", "earlier")},
                {},
            )
            if pull
            else _missing()
        )

    def _pull_commits(self, pull_number: str, **_: Any) -> Reply:
        pull = self.pulls.get(int(pull_number))
        if pull is None:
            return _missing()
        sample = self.description.made({"$ref": "#/components/schemas/commit"})
        return 200, [{**sample, "sha": sha} for sha in (*pull["earlier"], pull["head"]["sha"])], {}

    def _commit_pulls(self, commit_sha: str, **_: Any) -> Reply:
        found = [each for each in self.pulls.values() if each["head"]["sha"] == commit_sha]
        if not found:
            return _invalid(f"No commit found for SHA: {commit_sha}")
        return 200, [self._simple(each) for each in found if each["linked"]], {}

    def _create_release(self, *, body: Any, login: str, **_: Any) -> Reply:
        made = self._sample("POST", f"{REPO}/releases", 201)
        made.update(
            id=self._next(), draft=False, author=self.account(login), assets=[], published_at=None
        )
        url = f"https://api.github.com/repos/o/r/releases/{made['id']}"
        made.update(url=url, upload_url=f"{url.replace('api', 'uploads', 1)}/assets{{?name,label}}")
        self.releases[made["id"]] = made
        return 201, self._changed_release(made, body), {"location": url}

    def _published(self, tag: str, **_: Any) -> Reply:
        found = [
            each for each in self.releases.values() if each["tag_name"] == tag and not each["draft"]
        ]
        return (200, found[0], {}) if found else _missing()

    def _release(self, release_id: str, **_: Any) -> Reply:
        made = self.releases.get(int(release_id))
        return _missing() if made is None else (200, made, {})

    def _update_release(self, release_id: str, *, body: Any, **_: Any) -> Reply:
        made = self.releases.get(int(release_id))
        return _missing() if made is None else (200, self._changed_release(made, body), {})

    def _changed_release(self, made: dict[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
        made.update({key: value for key, value in body.items() if key != "generate_release_notes"})
        if not made["draft"]:
            # as the repository's settings have it
            made.update(published_at=moment(), immutable=True)
        return made

    def _user(self, *, login: str, **_: Any) -> Reply:
        if login.endswith("[bot]"):
            return 403, {"message": "Resource not accessible by integration"}, {}
        return (
            200,
            {
                **self._sample("GET", "/user", 200),
                "login": login,
                "type": "User",
                "user_view_type": "private",
            },
            {},
        )

    def _simple(self, pull: Mapping[str, Any]) -> dict[str, Any]:
        simple = self.description.made({"$ref": "#/components/schemas/pull-request-simple"})
        return {
            **simple,
            **{key: pull[key] for key in ("number", "state", "draft", "base", "head", "labels")},
        }

    def _sample(self, method: str, path: str, status: int) -> Any:
        return self.description.sample((method, path), status)

    def _public(self, kept: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in kept.items() if key not in ("number", "annotations")}

    def _next(self) -> int:
        with self.lock:
            self._last_id += 1
            return self._last_id


def _head(pull: Mapping[str, Any]) -> str:
    repo = pull["head"]["repo"]
    return f"{repo['full_name'].partition('/')[0] if repo else ''}:{pull['head']['ref']}"


def _missing() -> Reply:
    return (
        404,
        {
            "message": "Not Found",
            "documentation_url": "https://docs.github.com/rest",
            "status": "404",
        },
        {},
    )


def _invalid(message: str) -> Reply:
    errors = [{"resource": "X", "code": "unprocessable", "field": "data", "message": message}]
    return (
        422,
        {
            "message": "Validation Failed",
            "errors": errors,
            "documentation_url": "https://docs.github.com",
        },
        {},
    )
