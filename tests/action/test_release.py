"""release.yml, to the letter, under act: a release that is good, releases that must not reach `v1`.

Real are the workflow, release.sh, git with a remote here, the image as this machine builds it, a
registry (Debian's docker-registry) from which that image is pulled by digest, the gate in a
container, gh, and `uv publish`.

Stand-ins: buildx (docker_with_buildx.py); the image of the other architecture, which is empty and
never runs; GitHub's API, the name ghcr.io, PyPI, and the identity that GitHub gives a job; the
marketplace's actions (checkout, cache, upload-artifact, download-artifact, attest). What this never
met is github.com, ghcr.io and PyPI."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from typing import Any

import pins
import pytest
from builders import repositories, shipped
from builders.github_double import Double, Handler

from tests.action.docker_with_buildx import Registry
from tests.action.test_two_lines import CACHE_ACTION, CACHE_SCRIPT, UPLOAD_ACTION
from tests.action.test_workflow import ACT, REPOSITORY, ROOT, SURROUNDINGS, TOKEN

pytestmark = pytest.mark.action

GH = ACT.with_name("gh")
ACTOR = "octocat"
ACCOUNT = base64.b64encode(f"{ACTOR}:{TOKEN}".encode()).decode()
# TOKEN, as htpasswd has it
PASSWORDS = f"{ACTOR}:$2b$04$abcdefghijklmnopqrstuuhVlhhJ1IfgZB2NaM4C5Li6O1uy5QKT2\n"
SETTINGS = """\
version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage: {{filesystem: {{rootdirectory: {folder}/blobs}}, delete: {{enabled: true}}}}
http: {{addr: "127.0.0.1:{port}"}}
auth: {{htpasswd: {{realm: here, path: {folder}/passwords}}}}
"""
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"

OLD, VERSION = "1.2.2", "1.2.3"
IMAGE = f"ghcr.io/{REPOSITORY}"

CHECKOUT_ACTION = """\
name: stand-in for actions/checkout
inputs: {persist-credentials: {default: "true"}}
runs:
  using: composite
  steps:
    - shell: bash
      run: |
        git init --quiet .
        git remote add origin "$GITHUB_SERVER_URL/$GITHUB_REPOSITORY"
        git fetch --quiet --no-tags --depth=1 origin "+$GITHUB_SHA:refs/remotes/origin/main"
        git checkout --quiet -B main refs/remotes/origin/main
"""
DOWNLOAD_ACTION = """\
name: stand-in for actions/download-artifact
inputs: {name: {default: "*"}, pattern: {default: ""}, merge-multiple: {default: "false"}, path: {default: "."}}
runs:
  using: composite
  steps:
    - shell: bash
      run: mkdir -p "$TO" && cp -r "$STAND_INS"/artifacts/${PATTERN:-$NAME}/. "$TO"
      env: {NAME: "${{ inputs.name }}", PATTERN: "${{ inputs.pattern }}", TO: "${{ inputs.path }}"}
"""
ATTEST_ACTION = """\
name: stand-in for actions/attest
inputs: {subject-name: {required: true}, subject-digest: {required: true}}
runs:
  using: composite
  steps:
    - shell: bash
      run: echo "attested $SUBJECT" >>"$STAND_INS/events"
      env: {SUBJECT: "${{ inputs.subject-name }}@${{ inputs.subject-digest }}"}
"""

# images that the workflow builds in place of ours
SAYS_PASS = """\
FROM python:3.13-slim
ENTRYPOINT ["sh", "-c", "printf 'verdict=pass\\\\nexit-code=0\\\\nfailed=0\\\\n' >>$GITHUB_OUTPUT"]
"""
SAYS_WHAT_IS_WANTED = """\
FROM python:3.13-slim
ENTRYPOINT ["sh", "-c", "case $INPUT_NAME in passing*) said='pass 0 0' ;; *) said='fail 1 3' ;; esac; \\
  printf 'verdict=%s\\\\nexit-code=%s\\\\nfailed=%s\\\\n' $said >>$GITHUB_OUTPUT; case $said in fail*) exit 1 ;; esac"]
"""
DOES_NOT_START = """\
FROM python:3.13-slim
ENTRYPOINT ["/opt/evalgate/bin/python"]
"""


class Hub(Handler):
    """GitHub as gh asks it: the double, and what its description lacks: GraphQL, and uploads on
    another host."""

    disable_nagle_algorithm = False  # not of a Unix socket
    machine: Machine

    def address_string(self) -> str:
        return "gh"

    def do_POST(self) -> None:  # noqa: N802 - a name of the standard library
        if self.path != "/graphql" and self.headers["host"] != "uploads.github.com":
            self.do_GET()
            return
        body = self.rfile.read(int(self.headers["content-length"]))
        status, answer = (
            self._queried(**json.loads(body)) if self.path == "/graphql" else self._uploaded()
        )
        content = json.dumps(answer).encode()
        self.send_response_only(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _queried(self, query: str, variables: dict[str, str]) -> tuple[int, Any]:
        found: dict[str, Any] | None
        if "ref(qualifiedName: $tagName)" in query:
            name = variables["tagName"].removeprefix("refs/tags/")
            found = {"ref": {"id": name} if name in self.machine.tags() else None}
        else:
            assert "release(tagName: $tagName)" in query
            releases = self.double.state.releases.values()
            named = [each for each in releases if each["tag_name"] == variables["tagName"]]
            found = {
                "release": {"databaseId": named[0]["id"], "isDraft": named[0]["draft"]}
                if named
                else None
            }
        return 200, {"data": {"repository": found}}

    def _uploaded(self) -> tuple[int, Any]:
        found = re.fullmatch(
            rf"/repos/{REPOSITORY}/releases/(\d+)/assets\?label=&name=(.*)", self.path
        )
        assert found is not None
        release = self.double.state.releases[int(found[1])]
        if release.get("immutable"):
            return 422, {"message": "Cannot upload assets to an immutable release"}
        self.machine.note(f"added {found[2]}")
        return 201, {"id": 1, "name": found[2]}

    def _send(self, seen: Any, status: int, content: bytes, headers: Any) -> None:
        if seen.method != "GET" and "/releases" in seen.target and status < 300:
            answer = json.loads(content)
            self.machine.note(
                f"{'drafted' if answer['draft'] else 'published'} {answer['tag_name']}"
            )
        super()._send(seen, status, content, headers)


class Index(BaseHTTPRequestHandler):
    """PyPI, and GitHub as the one that says who a job is."""

    machine: Machine

    def log_message(self, *_: object) -> None:
        return

    def do_GET(self) -> None:
        if self.path == "/_/oidc/audience":
            self._answer({"audience": "pypi"})
        else:
            assert self.path == "/identity?of=job&audience=pypi"
            self._answer({"value": "who-the-job-is"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/_/oidc/mint-token":
            assert json.loads(body) == {"token": "who-the-job-is"}
            self._answer({"success": True, "token": "pypi-t0ken"})
            return
        if self.path == "/_/oidc/burn-token":
            self._answer({})
            return
        assert self.path == "/legacy/"
        assert base64.b64decode(self.headers["authorization"].split()[1]) == b"__token__:pypi-t0ken"
        name = re.search(rb'filename="([^"]*)"', body)
        assert name is not None
        self.machine.note(f"uploaded {name[1].decode()}")
        self._answer({})

    def _answer(self, answer: Any) -> None:
        content = json.dumps(answer).encode()
        self.send_response_only(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class UnixServer(ThreadingUnixStreamServer):
    daemon_threads = True


@dataclass
class Machine:
    """A runner, the repository that is released and its remote, the registry, the stand-ins and
    what they keep."""

    temp: Path
    registry: Registry
    double: Double = field(default_factory=Double)

    @property
    def remote(self) -> Path:
        return self.temp / "remotes" / REPOSITORY

    def make(self, dockerfile: str = "") -> None:
        """The repository with one release, and the next version in its code."""
        (self.temp / "artifacts").mkdir()
        self._programs()
        self._actions()
        main = repositories.made(self.temp / "main")
        for name in (
            subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
            .rstrip("\0")
            .split("\0")
        ):
            (main / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, main / name, follow_symlinks=False)
        if dockerfile:
            (main / "Dockerfile").write_text(dockerfile, encoding="utf-8")
        shipped.take_local_base(main / "Dockerfile")
        begin = main / "evalgate/__init__.py"
        text = re.sub(
            r'^__version__ = ".*"$',
            f'__version__ = "{OLD}"',
            begin.read_text("utf-8"),
            flags=re.MULTILINE,
        )
        repositories.commit(main, {"evalgate/__init__.py": text})
        repositories.git(main, "tag", f"v{OLD}")
        repositories.git(main, "tag", "v1")
        repositories.commit(main, {"evalgate/__init__.py": text.replace(OLD, VERSION)})
        self.remote.parent.mkdir(parents=True)
        repositories.git(self.temp, "clone", "--quiet", "--bare", str(main), str(self.remote))
        hook = self.remote / "hooks/update"
        hook.write_text(
            f'#!/bin/sh\necho "tagged ${{1#refs/tags/}}" >>{self.temp}/events\n', encoding="utf-8"
        )
        hook.chmod(0o755)
        repositories.git(main, "remote", "add", "origin", f"https://github.com/{REPOSITORY}.git")

    def _programs(self) -> None:
        """What the workflow's commands find under these names: the real ones, with other
        addresses."""
        git, docker = shutil.which("git"), shutil.which("docker")
        path = os.environ["PATH"]
        places = (f"https://x-access-token:{TOKEN}@github.com/", "https://github.com/")
        lines = "".join(f'\tinsteadOf = "{place}"\n' for place in places)
        nobody = '[url "file:///nobody-pushes-without-a-token/"]\n\tpushInsteadOf = "https://github.com/"\n'
        (self.temp / "gitconfig").write_text(
            f'[url "file://{self.temp}/remotes/"]\n{lines}{nobody}', encoding="utf-8"
        )
        (self.temp / "gh").mkdir()
        hub = f'version: "1"\nhttp_unix_socket: {self.temp}/hub\n'
        (self.temp / "gh/config.yml").write_text(hub, encoding="utf-8")
        stand_in = f"{sys.executable} -I {ROOT}/tests/action/docker_with_buildx.py"
        programs = {
            "git": f'GIT_CONFIG_GLOBAL={self.temp}/gitconfig exec {git} "$@"',
            # act's steps have a terminal, GitHub's have none
            "gh": f'PATH="{path}" GH_CONFIG_DIR={self.temp}/gh GH_PROMPT_DISABLED=1 exec {GH} "$@"',
            "docker": f"export DOCKER={docker} DOCKER_CONFIG={self.temp}/docker BUILDX_NO_DEFAULT_ATTESTATIONS=1\n"
            f'STAND_INS={self.temp} REGISTRY={self.registry.address} exec {stand_in} "$@"',
        }
        (self.temp / "bin").mkdir()
        for name, script in programs.items():
            (self.temp / "bin" / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
            (self.temp / "bin" / name).chmod(0o755)

    def _actions(self) -> None:
        texts = {
            "checkout": CHECKOUT_ACTION,
            "upload": UPLOAD_ACTION,
            "download": DOWNLOAD_ACTION,
            "attest": ATTEST_ACTION,
            "cache/save": CACHE_ACTION.format(part="save"),
            "cache/restore": CACHE_ACTION.format(part="restore"),
        }
        for name, text in texts.items():
            (self.temp / "actions" / name).mkdir(parents=True)
            (self.temp / "actions" / name / "action.yml").write_text(text, encoding="utf-8")
        (self.temp / "actions/cache/cache.sh").write_text(CACHE_SCRIPT, encoding="utf-8")

    def release(self, version: str = VERSION) -> tuple[int, str]:
        """How the workflow ended, and its log."""
        (self.temp / "events").touch()
        of = {name: release.commit for name, release in pins.releases().items()}
        replaced = {
            "actions/checkout": "checkout",
            "actions/upload-artifact": "upload",
            "actions/download-artifact": "download",
            "actions/attest": "attest",
            "actions/cache": "cache",
        }
        variables = {name: os.environ[name] for name in SURROUNDINGS if name in os.environ}
        with self._served() as more:
            done = subprocess.run(
                [
                    str(ACT),
                    "workflow_dispatch",
                    "--workflows=.github/workflows/release.yml",
                    f"--input=version={version}",
                    f"--actor={ACTOR}",
                    # the other one's image is `other_architecture`
                    "--matrix=runner:ubuntu-latest",
                    "--platform=ubuntu-latest=-self-hosted",
                    "--pull=false",
                    "--no-skip-checkout",
                    "--action-offline-mode",
                    f"--action-cache-path={self.temp / 'act'}",
                    *(
                        f"--local-repository={name}@{of[name]}={self.temp}/actions/{folder}"
                        for name, folder in replaced.items()
                    ),
                    *(f"--env={name}={value}" for name, value in {**variables, **more}.items()),
                    f"--secret=GITHUB_TOKEN={TOKEN}",
                ],
                cwd=self.temp / "main",
                env={**os.environ, "PATH": f"{self.temp / 'bin'}{os.pathsep}{os.environ['PATH']}"},
                capture_output=True,
                text=True,
                timeout=900,
                check=False,
            )
        log = done.stdout + done.stderr
        (self.temp / "log").write_text(log, encoding="utf-8")
        assert TOKEN not in log
        assert self.double.problems() == []
        return done.returncode, log

    @contextlib.contextmanager
    def _served(self) -> Iterator[dict[str, str]]:
        """GitHub and PyPI, and the variables that say where."""
        bound = {"double": self.double, "machine": self}
        hub = UnixServer(str(self.temp / "hub"), type("Bound", (Hub,), bound))
        hosts = [
            ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (kind,), bound))
            for kind in (Handler, Index)
        ]
        hosts[1].socket = self._tls().wrap_socket(hosts[1].socket, server_side=True)
        for server in (hub, *hosts):
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        api, index = (f"127.0.0.1:{each.server_port}" for each in hosts)
        self.double.url = f"http://{api}"
        try:
            yield {
                "STAND_INS": str(self.temp),
                "GITHUB_API_URL": self.double.url,
                "ACTIONS_ID_TOKEN_REQUEST_URL": f"https://{index}/identity?of=job",
                "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "of-the-job",
                "UV_PUBLISH_URL": f"https://{index}/legacy/",
                "UV_INSECURE_HOST": index,
            }
        finally:
            for server in (hub, *hosts):
                server.shutdown()
                server.server_close()
            (self.temp / "hub").unlink()

    def _tls(self) -> ssl.SSLContext:
        """Of a certificate that nobody trusts: uv asks for identities over TLS alone."""
        key, certificate = self.temp / "key", self.temp / "certificate"
        made = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=pypi",
            "-keyout",
            key,
        ]
        subprocess.run([*made, "-out", certificate], capture_output=True, check=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        return context

    def other_architecture(self) -> None:
        """An empty image of it in the registry, and its digest among the artifacts."""
        config = json.dumps(
            {"architecture": "arm64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}}
        )
        digest = f"sha256:{hashlib.sha256(config.encode()).hexdigest()}"
        place = self.registry.ask("POST", f"{REPOSITORY}/blobs/uploads/", b"")[0]["location"]
        self.registry.ask(
            "PUT", f"{place}&digest={digest}", config.encode(), "application/octet-stream"
        )
        layers: list[Any] = []
        described = {"mediaType": CONFIG, "size": len(config), "digest": digest}
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": described,
            "layers": layers,
        }
        self.registry.ask(
            "PUT", f"{REPOSITORY}/manifests/arm64", json.dumps(manifest).encode(), MANIFEST
        )
        (self.temp / "artifacts/digest-ARM64").mkdir()
        found = self.registry.digest(REPOSITORY, "arm64")
        (self.temp / "artifacts/digest-ARM64/digest-ARM64").write_text(
            f"{found}\n", encoding="utf-8"
        )

    def note(self, line: str) -> None:
        with (self.temp / "events").open("a", encoding="utf-8") as events:
            events.write(f"{line}\n")

    def events(self) -> list[str]:
        return (self.temp / "events").read_text(encoding="utf-8").splitlines()

    def tags(self) -> list[str]:
        return repositories.git(self.remote, "tag").split()

    def image(self) -> str:
        """The digest that the registry has under the version, "" for none."""
        try:
            return self.registry.digest(REPOSITORY, VERSION)
        except urllib.error.HTTPError:
            return ""

    def at(self, reference: str) -> str:
        return repositories.git(self.remote, "rev-parse", f"{reference}^{{commit}}")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    program = shutil.which(os.environ.get("DOCKER_REGISTRY") or "docker-registry")
    if program is None:
        pytest.skip("needs the system: docker-registry, which Debian and Ubuntu have")
    folder = tmp_path_factory.mktemp("registry")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "passwords").write_text(PASSWORDS, encoding="utf-8")
    (folder / "settings.yml").write_text(
        SETTINGS.format(folder=folder, port=port), encoding="utf-8"
    )
    # to which Docker and podman speak without TLS
    registry = Registry(f"localhost:{port}", ACCOUNT)
    with (folder / "log").open("w") as log:
        running = subprocess.Popen(
            [program, "serve", folder / "settings.yml"], stdout=log, stderr=log
        )
    try:
        for _ in range(100):
            with contextlib.suppress(urllib.error.URLError):
                registry.ask("GET", "")
                break
            assert running.poll() is None, (folder / "log").read_text()
            time.sleep(0.1)
        yield registry
    finally:
        running.terminate()
        running.wait()


@pytest.fixture
def machine(tmp_path: Path, registry: Registry) -> Iterator[Machine]:
    there = ACT.exists() and GH.exists() and shutil.which("docker")
    if not there or not (os.environ.get("DOCKER_HOST") or Path("/var/run/docker.sock").exists()):
        pytest.skip("needs the system: act, gh and Docker's client (`make test-action`)")
    yield Machine(tmp_path, registry)
    ours = [
        "--filter",
        f"reference={registry.address}/{REPOSITORY}",
        "--format",
        "{{.Repository}}@{{.Digest}}",
    ]
    pulled = subprocess.check_output(["docker", "images", "--digests", *ours], text=True).split()
    if pulled:  # of two names of one image podman forgets the second with the first, and says so
        subprocess.run(["docker", "rmi", "--no-prune", *pulled], capture_output=True, check=False)


def test_a_release_is_tried_tagged_drafted_published_and_then_v1_moves(machine: Machine) -> None:
    machine.make()
    machine.other_architecture()
    main = machine.at("main")
    code, log = machine.release()
    assert code == 0, log[-8000:]

    image = f"{IMAGE}@{machine.image()}"
    assert machine.events() == [
        f"the gate of {image} ended with 0",
        f"the gate of {image} ended with 1",
        f"attested {image}",
        f"tagged v{VERSION}",
        f"drafted v{VERSION}",
        "added sbom.spdx.json",
        f"published v{VERSION}",
        "tagged v1",
        f"uploaded evalgate_action-{VERSION}-py3-none-any.whl",
        f"uploaded evalgate_action-{VERSION}.tar.gz",
    ]
    assert machine.tags() == ["v1", f"v{OLD}", f"v{VERSION}"]
    assert machine.at("v1") == machine.at(f"v{VERSION}")
    assert machine.at(f"v{VERSION}^") == machine.at("main") == main
    tagged = repositories.git(machine.remote, "show", "v1:action.yml")
    assert f"\n  image: docker://{image}" in tagged
    (release,) = machine.double.state.releases.values()
    assert (release["name"], release["draft"]) == (VERSION, False)


@pytest.mark.parametrize(
    ("dockerfile", "lost", "told"),
    [
        (SAYS_PASS, False, 'test "$PASSING $FAILING" = "pass,0 fail,1,3"'),
        (DOES_NOT_START, False, "Failure - Main ./gate"),
        (SAYS_PASS, True, "manifest unknown"),
    ],
    ids=["says pass to a failing suite", "does not start", "is not in the registry"],
)
def test_a_broken_digest_reaches_no_tag(
    machine: Machine, dockerfile: str, lost: bool, told: str
) -> None:
    machine.make(dockerfile)
    machine.other_architecture()
    if lost:
        (machine.temp / "lost").touch()
    before = machine.at("v1"), machine.image()
    code, log = machine.release()

    assert code == 1, log[-8000:]
    assert told in log, log[-8000:]
    assert [each for each in machine.events() if not each.startswith("the gate of ")] == []
    assert machine.tags() == ["v1", f"v{OLD}"]
    assert (machine.at("v1"), machine.image()) == before
    assert machine.double.state.releases == {}


def test_a_release_that_github_refuses_leaves_v1(machine: Machine) -> None:
    machine.make(SAYS_WHAT_IS_WANTED)
    machine.other_architecture()
    machine.double.fail("POST .*/releases$", status=502)
    before = machine.at("v1")
    code, log = machine.release()

    assert code == 1, log[-8000:]
    assert "HTTP 502" in log, log[-8000:]
    assert machine.events()[-1] == f"tagged v{VERSION}"
    assert machine.at("v1") == before


@pytest.mark.parametrize(
    ("version", "there", "told"),
    [
        (VERSION, "v1.2.10", f"v{VERSION} is below v1.2.10, and v1 only moves forward"),
        (VERSION, f"v{VERSION}", f"v{VERSION} is released already"),
        ("1.2.4", f"v{OLD}", "Failure - Main the version is the one in the code"),
    ],
)
def test_a_version_that_does_not_move_forward_is_not_even_built(
    machine: Machine, version: str, there: str, told: str
) -> None:
    machine.make()
    repositories.git(machine.remote, "tag", "--force", there, "main")
    before, tags = machine.at("v1"), machine.tags()
    code, log = machine.release(version)

    assert code == 1, log[-8000:]
    assert told in log, log[-8000:]
    assert list((machine.temp / "artifacts").iterdir()) == []
    assert machine.events() == []
    assert (machine.at("v1"), machine.tags()) == (before, tags)
