"""What the agent must not ask in a test."""

import os
from contextvars import ContextVar

SHELF = ContextVar("shelf", default="")
DOOR = None


def copies(title):
    return "no"


def city():
    return SHELF.get() or os.environ.get("SHOP_CITY", "Nowhere")


async def opened():
    if DOOR is not None:
        await DOOR.wait()
