"""What an agent read of its checkout is told, however it read it, and nothing else is.

A C extension that opens a file by itself (lxml, pandas) raises no audit event: it is not in this
table."""

from __future__ import annotations

import py_compile
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from evalgate.system.inputs import Snapshot
from tests.integration.agents.line_client import Worker, adk_python, texts

pytestmark = pytest.mark.integration

Change = Callable[[Path], None]


def write(name: str, text: str = "changed\n") -> Change:
    def change(top: Path) -> None:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)

    return change


def link(name: str, target: str) -> Change:
    def change(top: Path) -> None:
        (top / name).unlink()
        (top / name).symlink_to(target)

    return change


def remove(name: str) -> Change:
    return lambda top: (top / name).unlink()


def run_bytecode(top: Path) -> None:
    """Commit bytecode that says something else than its source, and is not checked against it."""
    source = top / "compiled/inner.py"
    text = source.read_text()
    source.write_text("WORD = 'other'\n")
    made = py_compile.compile(
        str(source), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
    )
    assert made
    source.write_text(text)
    for other in (top / "compiled/__pycache__").glob("*.pyc"):  # of the agent's Python
        other.write_bytes(Path(made).read_bytes())


def zip_module(top: Path, word: str = "zipped") -> None:
    with zipfile.ZipFile(top / "archive/code.zip", "w") as file:
        file.writestr("zipped_tool.py", f"WORD = {word!r}\n")


@dataclass(frozen=True)
class Row:
    """`code`: the body of the function that reads; `files` that it takes; `change`: exactly what it
    reads changes. `stands`: its answers are the same where other files change."""

    code: str
    change: Change
    files: dict[str, str] = field(default_factory=dict)
    stands: bool = True


ROWS = {
    "open": Row("return open('plain/a.txt').read()", write("plain/a.txt"), {"plain/a.txt": "a"}),
    "open in a thread": Row(
        "import threading\nt = threading.Thread(target=lambda: open('thread/a.txt').read()); t.start(); t.join()",
        write("thread/a.txt"),
        {"thread/a.txt": "a"},
    ),
    "a descriptor of a folder": Row(
        "fd = os.open('at', os.O_RDONLY)\nf = os.open('a.txt', os.O_RDONLY, dir_fd=fd)\nreturn os.read(f, 9)",
        write("at/a.txt"),
        {"at/a.txt": "a"},
    ),
    "another working directory": Row(
        "os.chdir('moved')\ntry: return open('a.txt').read()\nfinally: os.chdir('..')",
        write("moved/a.txt"),
        {"moved/a.txt": "a"},
    ),
    "iterdir": Row(
        "return sorted(p.name for p in Path('listed').iterdir())",
        write("listed/b.txt"),
        {"listed/a.txt": "a"},
    ),
    "glob": Row(
        "import glob\nreturn glob.glob('globbed/*.md')",
        write("globbed/b.md"),
        {"globbed/a.md": "a"},
    ),
    "walk": Row(
        "return list(os.walk('walked'))", write("walked/deep/b.txt"), {"walked/deep/a.txt": "a"}
    ),
    "sizes of a listing": Row(
        "return [e.stat().st_size for e in os.scandir('sizes')]",
        write("sizes/a.txt", "more"),
        {"sizes/a.txt": "a"},
    ),
    "pathlib": Row("return Path('lib/a.txt').read_text()", write("lib/a.txt"), {"lib/a.txt": "a"}),
    "the size alone": Row(
        "return os.path.getsize('size/a.txt')", write("size/a.txt"), {"size/a.txt": "a"}
    ),
    "resources": Row(
        "import importlib.resources\nreturn importlib.resources.files('resourced').joinpath('a.txt').read_text()",
        write("resourced/a.txt"),
        {"resourced/__init__.py": "", "resourced/a.txt": "a"},
    ),
    "pkgutil": Row(
        "import pkgutil\nreturn pkgutil.get_data('packaged', 'a.txt')",
        write("packaged/a.txt"),
        {"packaged/__init__.py": "", "packaged/a.txt": "a"},
    ),
    "beside a module": Row(
        "import beside.code as m\nreturn m.load()",
        write("beside/data.json", "{}"),
        {
            "beside/code.py": "import json, os\ndef load():\n    here = os.path.dirname(__file__)\n"
            "    return json.load(open(os.path.join(here, 'data.json')))\n",
            "beside/data.json": "[]",
        },
    ),
    "sqlite": Row(
        "import sqlite3\nreturn sqlite3.connect('file:base/a.db?mode=ro', uri=True)",
        write("base/a.db"),
        {"base/a.db": ""},
    ),
    "mmap": Row(
        "import mmap\nwith open('mapped/a.txt', 'rb') as f:\n"
        "    return mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)[:]",
        write("mapped/a.txt"),
        {"mapped/a.txt": "a"},
    ),
    "a name that is put together": Row(
        "stem = 'mail'\nreturn open('prompts/' + stem + '.yaml').read() + open(f'prompts/{stem}.txt').read()",
        write("prompts/mail.txt"),
        {"prompts/mail.yaml": "a: 1", "prompts/mail.txt": "a", "prompts/other.yaml": "b: 1"},
    ),
    "a link": Row(
        "return open('linked').read()", link("linked", "targets/b.txt"), {"targets/b.txt": "b"}
    ),
    "through a link": Row(
        "return open('folder/c.txt').read()", write("targets/c.txt"), {"targets/c.txt": "c"}
    ),
    "a link of its own": Row(
        "if not os.path.lexists(LINK): os.symlink(os.path.abspath('pointed/a.txt'), LINK)\nreturn open(LINK).read()",
        write("pointed/a.txt"),
        {"pointed/a.txt": "a"},
    ),
    "renamed": Row(
        "os.rename('renamed/a.txt', 'renamed/b.txt')\ntext = open('renamed/b.txt').read()\n"
        "os.rename('renamed/b.txt', 'renamed/a.txt')\nreturn text",
        write("renamed/a.txt"),
        {"renamed/a.txt": "a"},
        stands=False,
    ),
    "dotenv": Row(
        "return open(os.path.join(os.getcwd(), '.env')).read()",
        write(".env", "A=2"),
        {".env": "A=1"},
    ),
    "jinja2": Row(
        "from jinja2 import Environment, FileSystemLoader\n"
        "return Environment(loader=FileSystemLoader('templates')).get_template('a.j2').render()",
        write("templates/a.j2"),
        {"templates/a.j2": "a"},
    ),
    "zipimport": Row(
        "import sys\nsys.path.append(os.path.abspath('archive/code.zip'))\nimport zipped_tool\nreturn zipped_tool.WORD",
        lambda top: zip_module(top, "changed"),
    ),
    "runpy": Row(
        "import runpy\nreturn runpy.run_path('scripts/a.py')['A']",
        write("scripts/a.py", ""),
        {"scripts/a.py": "A = 1"},
    ),
    "a pointer of LFS": Row(
        "return open('large/model.bin').read()",
        write("large/model.bin", "the content"),
        {"large/model.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"},
    ),
    "a submodule": Row(
        "return os.listdir('module')", write("module/filled.py"), {"module/.git": "gitdir: ../x"}
    ),
    "a file that is looked for in vain": Row(
        "return os.path.exists('maybe/a.txt')", write("maybe/a.txt")
    ),
    "pathlib looks in vain": Row("return Path('maybe/b.txt').exists()", write("maybe/b.txt")),
    "an import in vain": Row(
        "try:\n    import optional_tools\nexcept ImportError: return 'none'",
        write("optional_tools.py", ""),
    ),
    "an import": Row(
        "import helper\nreturn helper.WORD",
        write("helper.py", "WORD = 2"),
        {"helper.py": "WORD = 1"},
    ),
    "a module before another": Row(
        "import json.tool, shadowed\nreturn shadowed.WORD",
        write("shadowed/__init__.py", ""),
        {"shadowed.py": "WORD = 1"},
    ),
    "a folder without code becomes a package": Row(
        "import spaced.inner\nreturn spaced.inner.WORD",
        write("spaced/__init__.py", ""),
        {"spaced/inner.py": "WORD = 1"},
    ),
    "bytecode without a source": Row(
        "try:\n    import bare\nexcept ImportError: return 'none'",
        write("bare.pyc", "no code"),
        {"bare_.py": ""},
    ),
    "bytecode in place of a source": Row(
        "import compiled.inner\nreturn compiled.inner.WORD",
        run_bytecode,
        {"compiled/inner.py": "WORD = 'source'\n"},
    ),
    "the executable bit": Row(
        "return os.access('tool/run', os.X_OK)",
        lambda top: (top / "tool/run").chmod(0o755),
        {"tool/run": "a"},
    ),
    "the repository": Row(
        "return open('.git/HEAD').read()",
        write(".git/HEAD", "ref: b"),
        {".git/HEAD": "ref: a"},
        stands=False,
    ),
    "cat": Row(
        "import subprocess\nreturn subprocess.check_output(['cat', 'shown/a.txt'])",
        write("shown/b.txt"),
        {"shown/a.txt": "a"},
        stands=False,
    ),
}

UNREAD = {
    "README.md": "changed",
    "docs/guide.md": "changed",
    "docs/new.md": "new",
    "tests/test_bot.py": "changed",
    "Makefile": "changed",
    ".editorconfig": "new",
    "plain/b.txt": "new",
    "beside/__init__.pyi": "new",
}

BOT = """
import reads

def reply(text):
    return reads.run(text)
"""
DESK = """
import reads
from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.genai import types


class Reads(BaseLlm):
    model: str = "reads"

    async def generate_content_async(self, llm_request, stream=False):
        text = reads.run(llm_request.contents[-1].parts[0].text)
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))


root_agent = LlmAgent(name="desk", model=Reads(), instruction="Read.")
"""


def checkout(top: Path) -> Path:
    """A checkout with what all rows read, and an agent of each kind that reads it."""
    functions = [
        f"def row_{number}():\n" + indented(row.code) for number, row in enumerate(ROWS.values())
    ]
    names = ", ".join(f"{name!r}: row_{number}" for number, name in enumerate(ROWS))
    code = f"import os\nfrom pathlib import Path\nLINK = {str(top.parent / 'link')!r}\n{''.join(functions)}"
    code += f"ROWS = {{{names}}}\ndef run(text):\n    return 'read ' + str(ROWS[text]()) if text in ROWS else 'no row'\n"
    files = {
        "reads.py": code,
        "bot.py": BOT,
        "desk/agent.py": DESK,
        "desk/__init__.py": "from . import agent\n",
    }
    files |= {
        "README.md": "a",
        "docs/guide.md": "a",
        "tests/test_bot.py": "",
        "Makefile": "",
        "targets/a.txt": "a",
    }
    for row in ROWS.values():
        files |= row.files
    for name, text in files.items():
        write(name, text)(top)
    (top / "linked").symlink_to("targets/a.txt")
    (top / "folder").symlink_to("targets")
    (top / "archive").mkdir()
    zip_module(top)
    return top


def indented(code: str) -> str:
    return "".join(f"    {line}\n" for line in code.splitlines())


@dataclass(frozen=True)
class Reading:
    """A checkout, what its agent asked before the first turn, and how its worker is spoken to."""

    top: Path
    worker: Worker
    questions: frozenset[str]
    tree: Snapshot


@pytest.fixture(scope="module", params=["python", "adk"])
def reading(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Reading]:
    top = checkout(tmp_path_factory.mktemp("asked") / "check out")
    options = {"python": {"call": "bot:reply"}, "adk": {"path": "desk"}}[request.param]
    python = adk_python("new") if request.param == "adk" else sys.executable
    tree = Snapshot(top)
    worker = Worker(python, request.param, options, top, {}, inputs=str(top))
    assert worker.greeting["type"] == "ready", worker.greeting
    worker.ask("nothing")
    yield Reading(top, worker, frozenset(asked(worker)), tree)
    worker.close()


def asked(worker: Worker) -> set[str]:
    """The questions that came since the last time."""
    return {question for message in worker.heard("inputs") for question in message["questions"]}


def test_a_start_asks_for_little(reading: Reading) -> None:
    assert not {"names", "everything", "folder .", "entries ."} & reading.questions
    assert {"file reads.py", "module reads"} <= reading.questions
    assert len(reading.questions) < 1500


@pytest.mark.parametrize("name", ROWS)
def test_what_is_read_is_asked_and_nothing_else(
    reading: Reading, name: str, tmp_path: Path
) -> None:
    row = ROWS[name]
    events, ended = reading.worker.ask(name)
    assert ended["type"] == "turn_end", ended
    assert texts(events)[0].startswith("read ")
    before = reading.tree.answers(reading.questions | asked(reading.worker))
    assert "everything" not in before

    assert (
        Snapshot(changed(reading.top, tmp_path / "read", row.change)).first_difference(before)
        is not None
    )
    unread = [write(path, text) for path, text in UNREAD.items()]
    other = Snapshot(changed(reading.top, tmp_path / "unread", *unread))
    if row.stands:
        assert other.first_difference(before) is None


def changed(top: Path, copy: Path, *changes: Change) -> Path:
    """A copy of the checkout with changes."""
    shutil.copytree(top, copy, symlinks=True)
    for change in changes:
        change(copy)
    return copy


@pytest.mark.parametrize(
    ("code", "is_opaque"),
    [
        ("import subprocess; subprocess.run(['true'])", True),
        ("os.system('true')", True),
        ("os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)", True),
        ("pid = os.fork()\n    os._exit(0) if not pid else os.waitpid(pid, 0)", True),
        ("import multiprocessing.util as u; u.spawnv_passfds(b'/bin/true', [b'true'], [])", True),
        ("import ctypes; ctypes.CDLL(None)", True),
        # these start and load nothing
        ("import subprocess, multiprocessing, ctypes", False),
        ("import asyncio; asyncio.run(asyncio.sleep(0))", False),
    ],
)
def test_what_starts_a_child_is_opaque(tmp_path: Path, code: str, is_opaque: bool) -> None:
    (tmp_path / "bot.py").write_text(
        f"import os\ndef reply(text):\n    {code}\n    return 'done'\n"
    )
    worker = Worker(
        sys.executable, "python", {"call": "bot:reply"}, tmp_path, {}, inputs=str(tmp_path)
    )
    try:
        worker.ask("go")
        told = worker.heard("inputs")
        assert told[-1]["opaque"] is is_opaque
        assert (
            "names" in {question for each in told for question in each["questions"]}
        ) is is_opaque
    finally:
        worker.close()


@pytest.mark.parametrize(
    ("environment", "question"),
    [
        # what a variable puts before the standard library, and what Python runs by itself
        ({"PYTHONPATH": "early"}, "module early/asyncio"),
        ({"PYTHONPATH": "early"}, "module early/sitecustomize"),
        # code of the checkout ran before anybody could listen
        ({"PYTHONPATH": "early:custom"}, "everything"),
    ],
)
def test_what_was_imported_before_is_asked(
    tmp_path: Path, environment: dict[str, str], question: str
) -> None:
    write("bot.py", "def reply(text):\n    return text\n")(tmp_path)
    write("custom/sitecustomize.py", "")(tmp_path)
    (tmp_path / "early").mkdir()
    worker = Worker(
        sys.executable, "python", {"call": "bot:reply"}, tmp_path, environment, inputs=str(tmp_path)
    )
    try:
        assert question in asked(worker)
    finally:
        worker.close()


def test_a_failed_start_and_a_failed_turn_tell_what_they_asked(tmp_path: Path) -> None:
    write("bot.py", "open('absent.json')\n")(tmp_path)
    write("late.py", "def reply(text):\n    return open('absent.txt').read()\n")(tmp_path)
    early = Worker(
        sys.executable, "python", {"call": "bot:reply"}, tmp_path, {}, inputs=str(tmp_path)
    )
    late = Worker(
        sys.executable, "python", {"call": "late:reply"}, tmp_path, {}, inputs=str(tmp_path)
    )
    try:
        assert early.greeting["type"] == "fatal"
        assert "file absent.json" in asked(early)
        assert late.ask("go")[1]["type"] == "turn_failed"
        assert "file absent.txt" in asked(late)
    finally:
        early.close()
        late.close()


def test_too_many_questions_are_everything_and_fit_in_lines(tmp_path: Path) -> None:
    code = "[os.path.exists('long' * 40 + str(n)) for n in range(30_000)]"
    write("bot.py", f"import os\ndef reply(text):\n    {code}\n    return 'done'\n")(tmp_path)
    worker = Worker(
        sys.executable, "python", {"call": "bot:reply"}, tmp_path, {}, inputs=str(tmp_path)
    )
    try:
        worker.ask("go")
        told = worker.heard("inputs")
        assert told[-1]["questions"][-1] == "everything"
        assert max(len(str(each)) for each in told) < 1_000_000
    finally:
        worker.close()


def test_nothing_is_told_where_nobody_asks(spawn) -> None:
    worker = spawn({"call": "bots:echo", "path": "python_kinds"}, kind="python")
    worker.ask("hello")
    assert worker.heard("inputs") == []


def test_an_agent_knows_what_its_workers_asked(opened) -> None:
    agent = opened(
        "python", {"call": "bots:echo", "path": "python_kinds", "python": sys.executable}
    )
    assert agent.inputs() is None
    agent.start()
    told = agent.inputs()
    assert "file tests/agents/python_kinds/bots.py" in told
    assert "names" not in told
