"""Plain functions that notice in which thread they are."""

import asyncio
import sqlite3
import threading

from google.adk.agents import LlmAgent
from scripted_llm import ScriptedLlm

connection = sqlite3.connect(":memory:")
connection.execute("CREATE TABLE seats (name TEXT)")


def book(seat: str) -> dict:
    """Uses a connection that was made when the agent was imported."""
    connection.execute("INSERT INTO seats VALUES (?)", (seat,))
    return {"seats": [name for (name,) in connection.execute("SELECT name FROM seats")]}


def where(_: str = "") -> dict:
    """Which thread this is, and whether a loop runs there."""
    return {
        "main": threading.current_thread() is threading.main_thread(),
        "loop": asyncio.get_running_loop().is_running(),
    }


def run_a_loop(_: str = "") -> dict:
    """Fails under `adk eval`, whose loop runs already."""
    asyncio.run(asyncio.sleep(0))
    return {}


def first_seat(_: str = "") -> dict:
    """Lacks a default value for `next`."""
    return {"seat": next(iter(()))}


blocked = threading.Event()


def block(_: str = "") -> dict:
    """Never returns."""
    blocked.set()
    threading.Event().wait()
    return {}


def thread(_: str = "") -> dict:
    """The number of this thread, once another conversation is in `block`."""
    blocked.wait()
    return {"thread": threading.get_ident()}


root_agent = LlmAgent(
    name="threads",
    model=ScriptedLlm(),
    instruction="Do as you are told.",
    tools=[book, where, run_a_loop, first_seat, block, thread],
)
