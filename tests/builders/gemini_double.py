"""A server on loopback that answers as the Gemini API does."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar


class GeminiDouble(ThreadingHTTPServer):
    """Says what `reply` gives; counts what it was asked. `status`: an HTTP status that it answers
    with instead."""

    def __init__(self) -> None:
        self.asked = 0
        self.status = 200
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1beta"

    def reply(self, body: dict[str, Any]) -> str:
        """What the model says."""
        raise NotImplementedError

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and body of a response."""
        if self.status != 200:
            return failed(self.status)
        content = {"role": "model", "parts": [{"text": self.reply(body)}]}
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        return 200, {
            "candidates": [{"content": content, "finishReason": "STOP"}],
            "usageMetadata": usage,
        }


def failed(status: int) -> tuple[int, dict[str, Any]]:
    name = "PERMISSION_DENIED" if status == 403 else "UNAVAILABLE"
    return status, {"error": {"code": status, "message": "no", "status": name}}


class _Handler(BaseHTTPRequestHandler):
    server: GeminiDouble

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked += 1
        status, said = self.server.answer(self.path, body)
        data = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


Double = TypeVar("Double", bound=GeminiDouble)


@contextlib.contextmanager
def served(server: Double) -> Iterator[Double]:
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()
