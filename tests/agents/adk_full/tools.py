import asyncio
import os
import subprocess
import sys
import time

from google.adk.tools.tool_context import ToolContext
from google.genai import types


def add(a: int, b: int) -> dict:
    """Adds."""
    return {"sum": a + b}


def remember(key: str, value: str, tool_context: ToolContext) -> dict:
    """Keeps something in the session's state."""
    tool_context.state[key] = value
    return {"kept": key}


def recall(key: str, tool_context: ToolContext) -> dict:
    """What is kept under a key."""
    return {"value": tool_context.state.get(key)}


async def save_file(name: str, text: str, tool_context: ToolContext) -> dict:
    """Saves an artifact."""
    version = await tool_context.save_artifact(
        name, types.Part.from_bytes(data=text.encode(), mime_type="text/plain")
    )
    return {"version": version}


async def list_files(tool_context: ToolContext) -> dict:
    """Names of the artifacts."""
    return {"files": await tool_context.list_artifacts()}


def shout(text: str) -> dict:
    """Writes to standard output in every way there is."""
    print(text)
    print(text, file=sys.__stdout__, flush=True)
    os.write(1, f"{text}\n".encode())
    subprocess.run(["echo", text], check=True)
    return {"read": sys.stdin.read()}


def leave(code: int) -> dict:
    """Exits."""
    sys.exit(code)


def kill(by: int) -> dict:
    """Ends the process by a signal."""
    os.kill(os.getpid(), by)
    return {}


def boom() -> dict:
    """Raises."""
    raise ValueError("the tool broke")


def odd() -> dict:
    """Answers with what JSON cannot say."""
    return {"nan": float("nan"), "half": "\ud83d", "thing": {1, 2}.__iter__, "tuple": (1, 2)}


def block(seconds: float) -> dict:
    """Sleeps, and nobody else in its thread does anything meanwhile."""
    time.sleep(seconds)
    return {"slept": seconds}


async def nap(seconds: float) -> dict:
    """Sleeps."""
    await asyncio.sleep(seconds)
    return {"slept": seconds}
