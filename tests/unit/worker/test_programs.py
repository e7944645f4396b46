"""Programs that take a text from the person at their terminal, and print an answer."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path

import pytest

from evalgate.worker import python

PARSER = "import argparse\np = argparse.ArgumentParser()\n"

CLICK = """
import click
@click.command()
@click.argument("text")
@click.option("--more")
def main(text, more):
    click.echo(text)
main()
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["agent"])
    monkeypatch.setattr(builtins, "input", builtins.input)
    python.TYPIST.set(None)
    return tmp_path / f"talk_{abs(hash(tmp_path))}.py"


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        # a conversation ends where it asks again
        ("while True:\n    print('heard', input('You: '))", "heard hello"),
        ("import sys\nprint('heard', sys.argv[1])", "heard hello"),
        (f"{PARSER}p.add_argument('prompt')\nprint('heard', p.parse_args().prompt)", "heard hello"),
        # an argument that may be absent is no question
        (f"{PARSER}p.add_argument('mode', nargs='?', type=int)\nprint(p.parse_args().mode, input())",
         "None hello"),
        (f"{PARSER}p.add_argument('prompt', nargs='*')\nprint(*p.parse_args().prompt)", "hello"),
        (f"{PARSER}p.add_argument('--fast', action='store_true')\nprint(p.parse_args().fast, input())",
         "False hello"),
        ("import sys\nprint(input())\nsys.exit()", "hello"),
        (CLICK, "hello"),
        ("import typer\ndef main(text: str = typer.Argument()): print(text)\ntyper.run(main)", "hello"),
    ],
)  # fmt: skip
def test_what_is_typed_and_printed(module: Path, code: str, printed: str) -> None:
    module.write_text(code, encoding="utf-8")
    answer = python.answering(module.stem)
    assert [answer("hello"), answer("hello")] == [printed, printed]  # each turn is a new run


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("print('no question')", "asked for no text"),
        ("import sys\ninput()\nprint('no key')\nsys.exit(3)", "ended with 3: no key"),
        (
            f"{PARSER}p.add_argument('n', type=lambda text: int('x'))\np.parse_args()",
            "ended with 2",
        ),
        # nobody gives it the options that it requires
        (f"{PARSER}p.add_argument('--n', required=True)\np.parse_args()\ninput()", "ended with 2"),
    ],
)
def test_programs_that_do_not_answer(module: Path, code: str, reason: str) -> None:
    module.write_text(code, encoding="utf-8")
    with pytest.raises(RuntimeError, match=reason):
        python.answering(module.stem)("hello")


def test_a_program_that_is_not_there(module: Path) -> None:
    with pytest.raises(ModuleNotFoundError) as caught:
        python.answering(module.stem)
    assert caught.value.name == module.stem
