"""Programs that take a text from the person at their terminal, and print an answer."""

from __future__ import annotations

import argparse
import builtins
import sys
from pathlib import Path

import click
import pytest
import typer.core

from evalgate.worker import terminal

PARSER = "import argparse\np = argparse.ArgumentParser()\n"

CLICK = """
import click
@click.command()
@click.argument("text")
@click.option("--n", type=int, required=True)
@click.option("--how", type=click.Choice(["a", "b"]), required=True)
@click.option("--more")
def main(text, n, how, more):
    click.echo(f"{text} {n} {how}")
main()
"""
CLICK_GROUP = """
import click
@click.group()
def main(): ...
@main.command()
@click.argument("text")
def ask(text):
    print("heard", text)
@main.command()
def other(): ...
main()
"""
TYPER_APP = """
import typer
app = typer.Typer()
@app.command()
def say(text: str):
    print(text)
@app.command()
def other(): ...
app()
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["agent"])
    monkeypatch.setattr(builtins, "input", builtins.input)
    for command in (click.Command, typer.core.TyperCommand.__mro__[1]):
        monkeypatch.setattr(command, "make_context", command.make_context)
    parse = argparse.ArgumentParser.parse_known_args
    monkeypatch.setattr(argparse.ArgumentParser, "parse_known_args", parse)
    terminal.TYPIST.set(None)
    return tmp_path / f"talk_{abs(hash(tmp_path))}.py"


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        # a conversation ends where it asks again
        ("while True:\n    print('heard', input('You: '))", "heard hello"),
        ("import sys\nprint('heard', sys.argv[1])", "heard hello"),
        (f"{PARSER}p.add_argument('prompt')\nprint('heard', p.parse_args().prompt)", "heard hello"),
        (f"{PARSER}p.add_argument('--fast', action='store_true')\nprint(p.parse_args().fast, input())",
         "False hello"),
        # other required arguments have values
        (PARSER + "p.add_argument('-n', type=int, required=True)\np.add_argument('how', choices=['a', 'b'])\n" +
         "a = p.parse_args()\nprint(a.n, a.how, input())", "1 a hello"),
        (PARSER + "s = p.add_subparsers(required=True, dest='verb')\ns.add_parser('ask').add_argument('text')\n" +
         "a = p.parse_args()\nprint(a.verb, a.text)", "ask hello"),
        ("import sys\nprint(input())\nsys.exit()", "hello"),
        # Click, and Typer; the first command of a group
        (CLICK, "hello 1 a"),
        (CLICK_GROUP, "heard hello"),
        ("import typer\ndef main(text: str, n: int): print(text, n)\ntyper.run(main)", "hello 1"),
        (TYPER_APP, "hello"),
    ],
)  # fmt: skip
def test_what_is_typed_and_printed(module: Path, code: str, printed: str) -> None:
    module.write_text(code, encoding="utf-8")
    answer = terminal.answering(module.stem)
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
    ],
)
def test_programs_that_do_not_answer(module: Path, code: str, reason: str) -> None:
    module.write_text(code, encoding="utf-8")
    with pytest.raises(RuntimeError, match=reason):
        terminal.answering(module.stem)("hello")
