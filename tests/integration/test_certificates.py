"""Behind a proxy that opens TLS: its certificate is only in the system's bundle."""

from __future__ import annotations

import http.server
import json
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import packages

from evalgate.system import http as system_http

pytestmark = pytest.mark.integration

CHILD = """\
import json, sys
from pathlib import Path
from evalgate import judges
from evalgate.judges.base import Asker, JudgeFailed, JudgeRequest, JudgeSetting
from evalgate.system import http, python_env
from evalgate.system.python_env import EnvironmentRequest, InstallSetup

url, folder = sys.argv[1:]
environment = {"PATH": "/usr/bin:/bin", "HOME": folder, "UV_DEFAULT_INDEX": f"{url}/simple",
               "UV_CACHE_DIR": f"{folder}/uv"}
exchange = http.Exchange(environment=environment, headers={}, most_bytes=10_000)
print(exchange.request("GET", f"{url}/simple/sunshine/", timeout_s=30).status)
world = InstallSetup(environment={"PATH": environment["PATH"], "HOME": folder}, cache=f"{folder}/cache",
              install_environment=environment)
request = EnvironmentRequest(folder=Path(folder), root=Path(folder), python=sys.executable,
                             requirements=("sunshine==1.0",))
python = python_env.provide(request, world).python
print(len([*Path(python).parent.parent.rglob("sunshine*.pyc")]))
for client in ("gemini", "openai"):
    judge = judges.JUDGES[client].open(
        JudgeSetting(model="a-model", base_url=f"{url}/v1", api_key="key", timeout_s=30)
    )
    try:
        judge.ask(JudgeRequest(model="a-model", prompt="Well?", asker=Asker(criterion="c", version="1")))
    except JudgeFailed as error:  # the server takes no POST
        print(error.failure.kind.value, end=" ")
"""


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The address of a package index over TLS, and the bundle that has its authority."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on this system")
    folder = tmp_path / "index"
    simple = folder / "simple" / "sunshine"
    simple.mkdir(parents=True)
    packages.wheel(simple, "sunshine", "1.0")
    (wheel,) = simple.glob("*.whl")
    (simple / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')
    subject = ("-subj", "/CN=proxy")
    openssl(tmp_path, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject,
            "-keyout", "ca.key", "-out", "ca.pem", "-addext", "basicConstraints=critical,CA:TRUE")  # fmt: skip
    openssl(tmp_path, "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost",
            "-keyout", "server.key", "-out", "server.csr")  # fmt: skip
    (tmp_path / "names").write_text("subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n")
    openssl(tmp_path, "x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", "server.pem")  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments, directory=str(folder))  # type: ignore[arg-type]

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("localhost", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"https://localhost:{server.server_address[1]}", tmp_path / "ca.pem"
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_systems_certificates_count(index: tuple[str, Path], tmp_path: Path) -> None:
    url, authority = index
    bundle = system_http.system_certificates()
    # a mount of this process alone: what an administrator adds to the system
    mounted = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"']
    there = [*mounted, str(authority), bundle]
    if not bundle or subprocess.run([*there, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system has no bundle, or lets nobody mount one")
    home = tmp_path / "home"
    home.mkdir()
    command = [sys.executable, "-c", CHILD, url, str(home)]
    root = str(Path(__file__).resolve().parents[2])
    environment = {"PATH": "/usr/bin:/bin:/usr/sbin", "HOME": str(home), "PYTHONPATH": root}
    done = subprocess.run(
        [*there, *command], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split()
    assert lines[0] == "200"
    # 0: nothing is compiled as it is installed; both judges get as far as the server's answer
    assert lines[-3:] == ["0", "server_error", "server_error"], json.dumps(done.stdout)
    # and without that authority nobody is trusted
    alone = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert alone.returncode != 0
    assert "certificate" in alone.stderr
