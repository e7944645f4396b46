"""STUB."""

from __future__ import annotations
import hashlib, os, secrets
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path


class Tree:
    def __init__(self, top: Path, apart: Collection[str] = ()) -> None:
        self.top, self.apart = top, frozenset(apart)
        self.kinds: dict[str, str] = {".": "folder"}
        for where, folders, files in os.walk(top):
            at = os.path.relpath(where, top)
            pre = "" if at == "." else f"{at}/"
            folders[:] = [f for f in folders if f != ".git" and f"{pre}{f}" not in self.apart]
            for f in folders:
                self.kinds[pre + f] = "folder"
            for f in files:
                if f != ".git" and pre + f not in self.apart:
                    self.kinds[pre + f] = "file"
        self.known: dict[str, str] = {}

    def answer(self, question: str) -> str:
        if question not in self.known:
            self.known[question] = self._answer(question)
        return self.known[question]

    def _answer(self, question: str) -> str:
        kind, _, path = question.partition(" ")
        if kind == "names":
            return hashlib.sha256("\0".join(sorted(self.kinds)).encode()).hexdigest()[:32]
        if kind == "everything":
            return hashlib.sha256("\0".join(f"{p} {self._file(p)}" for p in sorted(self.kinds)).encode()).hexdigest()[
                :32
            ]
        if kind == "name":
            return self.kinds.get(path, "absent")
        if kind == "file":
            return self._file(path)
        if kind == "folder":
            pre = "" if path == "." else path + "/"
            return hashlib.sha256(
                "\0".join(sorted(p for p in self.kinds if p.startswith(pre) and "/" not in p[len(pre) :])).encode()
            ).hexdigest()
        return secrets.token_hex(16)

    def _file(self, path: str) -> str:
        if self.kinds.get(path) != "file":
            return self.kinds.get(path, "absent")
        try:
            return hashlib.sha256((self.top / path).read_bytes()).hexdigest()[:32]
        except OSError:
            return "unreadable"

    def first_difference(self, answers: Mapping[str, str]) -> str | None:
        return next((q for q in sorted(answers) if self.answer(q) != answers[q]), None)
