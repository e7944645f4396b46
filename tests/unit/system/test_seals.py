"""What is found in an environment that is not as it was installed, and which seals are believed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from evalgate.system import isolation, seals

KEY = b"a key that no agent sees"
SITE = "lib/python3.12/site-packages"
PYC = f"{SITE}/shelf/__pycache__/desk.cpython-312.pyc"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small environment, sealed with KEY."""
    folder = tmp_path / "cache" / "env-1"
    for path, text in {
        "pyvenv.cfg": "home = /usr/bin\n",
        "bin/shelf": "#!/bin/sh\n",
        f"{SITE}/shelf/desk.py": "LAMP = 1\n",
        f"{SITE}/shelf/large.bin": "x" * (seals.BLOCK_BYTES + 1),
        f"{SITE}/shelf/empty.py": "",
        PYC: "bytecode",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    (folder / "bin/shelf").chmod(0o755)
    (folder / "bin/python").symlink_to("/usr/bin/python3")
    (folder / "bin/python3").symlink_to("python")
    (folder / "lib64").symlink_to("lib")
    os.mkfifo(folder / "pipe")
    seals.write(folder, key=KEY, note="warning: without dev")
    return folder


def seal_of(folder: Path) -> Path:
    return folder.parent / "sealed" / "env-1.json"


def test_what_nobody_changed_is_used_with_the_note_of_its_installation(folder: Path) -> None:
    assert seals.compare(folder, key=KEY) == ("", "warning: without dev")
    assert [path.name for path in seal_of(folder).parent.iterdir()] == ["env-1.json"]


def relink(path: Path, to: str) -> None:
    path.unlink()
    path.symlink_to(to)


def edit(path: Path, text: str) -> None:
    """In place, with the times that it had."""
    status = path.stat()
    path.write_text(text)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


LEAVINGS: tuple[tuple[Callable[[Path], object], str], ...] = (
    # code that Python runs as it starts
    (lambda env: (env / SITE / "sitecustomize.py").write_text("x"), f"{SITE}/sitecustomize.py was added"),
    (lambda env: (env / SITE / "evil.pth").write_text("import os"), f"{SITE}/evil.pth was added"),
    # a module: edited with the size and the times that it had, replaced by a link, removed
    (lambda env: edit(env / SITE / "shelf/desk.py", "LAMP = 2\n"), f"{SITE}/shelf/desk.py was changed"),
    (lambda env: relink(env / SITE / "shelf/desk.py", "empty.py"), f"{SITE}/shelf/desk.py was changed"),
    (lambda env: (env / SITE / "shelf/empty.py").unlink(), f"{SITE}/shelf/empty.py was removed"),
    # the last byte of what is read in two blocks
    (lambda env: edit(env / SITE / "shelf/large.bin", "x" * seals.BLOCK_BYTES + "y"),
     f"{SITE}/shelf/large.bin was changed"),
    # a file that shadows a module, by its place; a folder that is a package without a file
    (lambda env: (env / SITE / "json.py").write_text("x"), f"{SITE}/json.py was added"),
    (lambda env: (env / SITE / "more").mkdir(), f"{SITE}/more was added"),
    # bytecode with the name and the size that it had
    (lambda env: edit(env / PYC, "8ytecode"), f"{PYC} was changed"),
    # a folder of bytecode that is a link to one
    (lambda env: (env / SITE / "__pycache__").symlink_to("/tmp"), f"{SITE}/__pycache__ was added"),
    # the interpreter, a console script, a program, the settings
    (lambda env: relink(env / "bin/python", "/tmp/python3"), "bin/python was changed"),
    (lambda env: edit(env / "bin/shelf", "#!/bin/no\n"), "bin/shelf was changed"),
    (lambda env: (env / "bin/git").symlink_to("/tmp/git"), "bin/git was added"),
    (lambda env: (env / "bin/shelf").chmod(0o644), "bin/shelf was changed"),
    (lambda env: (env / SITE / "shelf/desk.py").chmod(0o755), f"{SITE}/shelf/desk.py was changed"),
    (lambda env: (env / "pyvenv.cfg").write_text("home = /tmp\n"), "pyvenv.cfg was changed"),
    # names that are no text, and several lines
    (lambda env: Path(os.fsdecode(os.fsencode(env) + b"/bin/\xff")).touch(), "bin/\udcff was added"),
    (lambda env: (env / "a\nb").touch(), "a\nb was added"),
    # a pipe in place of a file
    (lambda env: ((env / "pyvenv.cfg").unlink(), os.mkfifo(env / "pyvenv.cfg")), "pyvenv.cfg was changed"),
    # several: the first
    (lambda env: ((env / "b").touch(), (env / "a").touch()), "a was added"),
    # all of it elsewhere
    (lambda env: (env.rename(env.with_name("x")), env.symlink_to("x")), "bin was removed"),
)  # fmt: skip


@pytest.mark.parametrize(("leave", "difference"), LEAVINGS)
def test_what_an_earlier_commit_left_is_found(
    folder: Path, leave: Callable[[Path], object], difference: str
) -> None:
    leave(folder)
    assert seals.compare(folder, key=KEY)[0] == f"differs from what was installed ({difference})"
    assert seals.compare(folder, key=b"")[0] == f"differs from what was installed ({difference})"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs the system: root")
def test_what_foreign_code_could_change_later_is_found(folder: Path) -> None:
    module = folder / SITE / "shelf/desk.py"
    for change in (lambda: module.chmod(0o666), lambda: os.chown(module, isolation.FIRST_UID, 0)):
        change()
        assert seals.compare(folder, key=KEY)[0].endswith("shelf/desk.py was changed)")
        module.chmod(0o644)
        os.chown(module, 0, 0)
        assert seals.compare(folder, key=KEY)[0] == ""


def test_bytecode_that_python_wrote_is_removed_and_no_difference(folder: Path) -> None:
    written = [
        folder / SITE / "shelf/__pycache__/empty.cpython-312.pyc",
        folder / SITE / "__pycache__/six.pyc",
    ]
    for path in written:
        path.parent.mkdir(exist_ok=True)
        path.write_text("which may be anybody's")
    (folder / SITE / "__pycache__/more/deep").mkdir(parents=True)
    (folder / SITE / "__pycache__/more/link").symlink_to(folder)
    assert seals.compare(folder, key=KEY)[0] == ""
    assert not any(path.exists() for path in written)
    assert not (folder / SITE / "__pycache__").exists()
    assert (folder / PYC).read_text() == "bytecode"


def forged(folder: Path, text: str, *, line: int) -> None:
    """The seal with another line."""
    lines = seal_of(folder).read_text().split("\n", 2)
    lines[line] = text
    seal_of(folder).write_text("\n".join(lines))


def seal_anew(folder: Path, key: bytes) -> None:
    """As who has another key, or none, and left something."""
    (folder / SITE / "sitecustomize.py").write_text("evil")
    seals.write(folder, key=key, note="")


def transplant(folder: Path) -> None:
    """A true seal of another environment, with what it seals."""
    other = folder.with_name("env-2")
    other.mkdir()
    seals.write(other, key=KEY, note="")
    folder.rename(folder.with_name("env-3"))
    other.rename(folder)
    (seal_of(folder).parent / "env-2.json").replace(seal_of(folder))


def claim(folder: Path) -> None:
    """A list that leaves a file out, with its digest."""
    (folder / SITE / "sitecustomize.py").write_text("evil")
    *_, body = seal_of(folder).read_text().split("\n", 2)
    sealed = json.loads(body)
    sealed["entries"][f"{SITE}/sitecustomize.py"] = (
        f"file 4 {hashlib.blake2b(b'evil', digest_size=32).hexdigest()}"
    )
    forged(folder, json.dumps(sealed), line=2)
    forged(folder, hashlib.sha256(json.dumps(sealed).encode()).hexdigest(), line=0)


SEALS: tuple[tuple[Callable[[Path], object], bool, bool], ...] = (
    # what is done to the seal, whether it is believed with the key, and without one
    (lambda _: None, True, True),
    # by who has another key, or none: without a key of our own nobody could tell
    (lambda env: seal_anew(env, b"another key"), False, True),
    (lambda env: seal_anew(env, b""), False, True),
    (claim, False, True),
    # by who has no idea
    (lambda env: forged(env, '{"folder": "", "note": "", "entries": {}}', line=2), False, False),
    (lambda env: forged(env, "0" * 64, line=0), False, False),
    (lambda env: forged(env, "0" * 64, line=1), False, True),
    (lambda env: forged(env, "\N{LATIN SMALL LETTER E WITH ACUTE}", line=1), False, True),
    (transplant, False, False),
    # half-written, none, no file
    (lambda env: os.truncate(seal_of(env), seal_of(env).stat().st_size // 2), False, False),
    (lambda env: os.truncate(seal_of(env), 10), False, False),
    (lambda env: os.truncate(seal_of(env), 0), False, False),
    (seals.remove, False, False),
    (lambda env: (seal_of(env).unlink(), os.mkfifo(seal_of(env))), False, False),
    (lambda env: (seal_of(env).unlink(), seal_of(env).mkdir()), False, False),
)


@pytest.mark.parametrize(("change", "with_key", "without"), SEALS)
def test_which_seal_is_believed(
    folder: Path, change: Callable[[Path], object], *, with_key: bool, without: bool
) -> None:
    change(folder)
    assert (seals.compare(folder, key=KEY)[0] == "") is with_key
    assert (seals.compare(folder, key=b"")[0] == "") is without


@pytest.mark.parametrize(
    "body",
    ["[]", '{"folder": FOLDER}', '{"folder": FOLDER, "note": 1, "entries": {}}', "[" * 99999],
)
def test_a_list_of_another_shape_is_none(folder: Path, body: str) -> None:
    body = body.replace("FOLDER", json.dumps(str(folder)))
    forged(folder, body, line=2)
    forged(folder, hashlib.sha256(body.encode()).hexdigest(), line=0)
    assert seals.compare(folder, key=b"")[0] == seals.NO_SEAL


def test_nothing_is_written_where_a_link_leads(folder: Path, tmp_path: Path) -> None:
    seal_of(folder).unlink()
    seal_of(folder).parent.rmdir()
    (tmp_path / "elsewhere").mkdir()
    seal_of(folder).parent.symlink_to(tmp_path / "elsewhere")
    seals.write(folder, key=KEY, note="")
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert seals.compare(folder, key=KEY)[0] == ""


def test_a_seal_that_cannot_be_written_leaves_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seals.remove(folder)

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "chmod", refuse)
    with pytest.raises(OSError, match="No space left"):
        seals.write(folder, key=KEY, note="")
    assert list(seal_of(folder).parent.iterdir()) == []
