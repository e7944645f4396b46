"""A GitHub that remembers: a local server judged by GitHub's own description, for tests and for
workflows under act.

`python tests/builders/github_double.py --port 8900 --log requests.jsonl [--pull 12 --head SHA
--fork a/b --read-only]` speaks until it is interrupted; each line of the log is one request with
what the description finds wrong with it."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import re
import signal
import socket
import struct
import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from builders.github_record import Double, Fault, Seen

LISTS = ("artifacts",)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    double: Double

    def log_message(self, *_: object) -> None:
        return

    def do_GET(self) -> None:
        double = self.double
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        if self.path.startswith("/_double/"):
            self._control(body)
            return
        # Asked as a proxy it gets whole addresses; GitHub Enterprise Server has its API under a
        # folder.
        target = re.sub(r"^https?://[^/]*", "", self.path).removeprefix("/api/v3")
        seen = Seen(self.command, target, headers, body)
        fault = double.fault_for(seen.method, seen.target)
        if fault is not None and not fault.done:
            self._go_wrong(fault, seen)
            return
        with double.state.lock:
            status, answer, more = self._answer(seen)
        content = b"" if answer is None else json.dumps(answer).encode()
        answered = {"status": status, "headers": more, "body": content}
        if double.most_judged is None or len(double.seen) < double.most_judged:
            seen.problems = double.description.judge(_asked(seen), answered)
        if fault is not None:
            self._go_wrong(fault, seen)
            return
        if seen.problems and status < 400:
            print(*seen.problems, sep="\n", file=sys.stderr)
        self._send(seen, status, content, more)

    do_POST = do_PATCH = do_DELETE = do_PUT = do_GET  # noqa: N815 - names of the standard library

    def _answer(self, seen: Seen) -> tuple[int, Any, dict[str, str]]:
        double = self.double
        seen.call = double.description.find(seen.method, seen.target)
        token = seen.headers.get("authorization", "").removeprefix("Bearer ").removeprefix("token ")
        if not token or token == "wrong":
            return 401, {"message": "Bad credentials", "status": "401"}, {}
        if double.denied and re.search(
            double.denied, f"{seen.method} {urlsplit(seen.target).path}"
        ):
            return 403, {"message": "Resource not accessible by integration", "status": "403"}, {}
        if seen.call is None:
            return 404, {"message": "Not Found"}, {}
        parts = urlsplit(seen.target)
        names = re.findall(r"\{([^}]*)\}", seen.call[1])
        pattern = re.sub(r"\\\{[^}]*\\\}", "([^/]+)", re.escape(seen.call[1]))
        values = dict(
            zip(
                names,
                (unquote(each) for each in re.match(pattern, parts.path).groups()),
                strict=True,
            )
        )
        query = dict(parse_qsl(parts.query))
        login = double.state.login_of(token)
        handler = double.state.handlers[seen.call]
        status, answer, more = handler(**values, query=query, body=seen.json, login=login)
        if seen.method == "GET" and status == 200:
            answer, more = self._page(seen, answer, query, more)
            etag = f'W/"{hashlib.sha256(json.dumps(answer).encode()).hexdigest()[:32]}"'
            more["etag"] = etag
            if seen.headers.get("if-none-match") == etag:
                return 304, None, more
        return status, answer, more

    def _page(
        self, seen: Seen, answer: Any, query: Mapping[str, str], more: dict[str, str]
    ) -> tuple[Any, dict]:
        key = next((key for key in LISTS if isinstance(answer, dict) and key in answer), None)
        rows = answer[key] if key else answer
        if not isinstance(rows, list):
            return answer, dict(more)
        size, page = int(query.get("per_page", 30)), int(query.get("page", 1))
        shown = rows[(page - 1) * size : page * size]
        if page * size < len(rows):
            base = f"{self.double.url}{urlsplit(self.path).path}?{_query({**query, 'page': str(page + 1)})}"
            last = f"{self.double.url}{urlsplit(self.path).path}?{_query({**query, 'page': str(-(-len(rows) // size))})}"
            more = {**more, "link": f'<{base}>; rel="next", <{last}>; rel="last"'}
        return ({**answer, key: shown} if key else shown), dict(more)

    def _go_wrong(self, fault: Fault, seen: Seen) -> None:
        seen.call = seen.call or self.double.description.find(seen.method, seen.target)
        match fault.how:
            case "status":
                answer = {"message": "It went wrong"} if fault.body is None else fault.body
                content = (
                    answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
                )
                self._send(seen, fault.status, content, dict(fault.headers))
            case "html":
                page = b"<!doctype html><title>Sign in</title><p>@everyone"
                self._send(seen, fault.status, page, {"content-type": "text/html"})
            case "garbage":
                self._send(seen, 200, b'[{"id": "no number"}]', {})
            case "hang":
                self.double.remember(seen)
                self.double.stopped.wait(30)
                self._reset()
            case "reset":
                self.double.remember(seen)
                self._reset()
            case "cut":
                self.double.remember(seen)
                self.send_response(200)
                self.send_header("content-length", "1000")
                self.end_headers()
                self.wfile.write(b'[{"id": 1')
                self.wfile.flush()
                self._reset()

    def _reset(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def _send(self, seen: Seen, status: int, content: bytes, headers: Mapping[str, str]) -> None:
        seen.status = status
        self.double.remember(seen)
        sent = {"content-type": "application/json; charset=utf-8", "date": self.date_time_string()}
        sent |= {"x-ratelimit-limit": "5000", "x-ratelimit-remaining": "4999", **headers}
        self.send_response_only(status)
        for name, value in sent.items():
            self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("content-length", str(len(content)))
        self.end_headers()
        if status not in (204, 304):
            self.wfile.write(content)

    def _control(self, body: bytes) -> None:
        """For other processes: plan faults, look at the state."""
        double, (_, _, what, *_) = self.double, self.path.split("/")
        state: dict[str, Any] = {}
        match what:
            case "faults":
                double.fail(**json.loads(body))
            case "state":
                kept = double.state
                state = {
                    "comments": list(kept.comments.values()),
                    "checks": list(kept.checks.values()),
                }
                state |= {"problems": double.problems()}
        content = json.dumps(state).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class Storage(Handler):
    """Another host, where artifacts are kept: whoever has the signature may read, and no token
    belongs here."""

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.double.stored.append(headers)
        fault = self.double.fault_for("GET", f"/storage{self.path}")
        seen = Seen("GET", "/storage", headers, b"", call=("GET", "storage"))
        content = self.double.state.zips[int(urlsplit(self.path).path.strip("/"))]
        if fault is not None and fault.how == "truncated":
            content = content[: len(content) // 2]
        elif fault is not None:
            self._go_wrong(fault, seen)
            return
        self.send_response(200)
        self.send_header("content-type", "zip")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(content)


class Quiet(ThreadingHTTPServer):
    request_queue_size = 64

    def handle_error(self, *_: object) -> None:
        return


@contextlib.contextmanager
def served(double: Double, *, host: str = "127.0.0.1", port: int = 0) -> Iterator[Double]:
    """`double` on loopback, and its storage beside it."""
    servers = [
        Quiet((host, port), type("Bound", (Handler,), {"double": double})),
        Quiet((host, 0), type("Bound", (Storage,), {"double": double})),
    ]
    double.url = f"http://{host}:{servers[0].server_port}"
    double.state.storage_url = f"http://{host}:{servers[1].server_port}"
    for server in servers:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield double
    finally:
        double.stopped.set()
        for server in servers:
            server.shutdown()
            server.server_close()


def _asked(seen: Seen) -> dict[str, Any]:
    return {
        "method": seen.method,
        "target": seen.target,
        "headers": seen.headers,
        "body": seen.body,
    }


def _query(values: Mapping[str, str]) -> str:
    return "&".join(f"{name}={value}" for name, value in values.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8900)
    parser.add_argument("--log", type=Path)
    parser.add_argument(
        "--pull", type=int, default=1, help="the number of a pull request that is there"
    )
    parser.add_argument("--head", default="b" * 40, help="the commit at its head")
    parser.add_argument(
        "--fork", default="", help="the repository its head is in, where that is a fork"
    )
    parser.add_argument(
        "--read-only", action="store_true", help="a fork's token: nothing may be written"
    )
    given = parser.parse_args()
    double = Double(log=given.log)
    double.denied = r"^(POST|PATCH|PUT|DELETE) " if given.read_only else ""
    double.state.add_pull(given.pull, head_sha=given.head, fork=given.fork)
    with served(double, host=given.host, port=given.port):
        print(double.url, flush=True)
        ended = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ended.set())
        ended.wait()


if __name__ == "__main__":
    main()
