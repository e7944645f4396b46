"""One of two jobs that write into the same comments at the same moments: `racer.py URL KEY ROUNDS HASTE`."""

from __future__ import annotations

import sys
import time

import requests

from evalgate.github import comments
from evalgate.github.client import Client
from evalgate.github.layout import Section
from evalgate.github.pacing import World
from evalgate.github.transport import Connection


def main(url: str, key: str, rounds: int, haste: int) -> None:
    # All waits are `haste` times as short as at GitHub: the double answers in milliseconds.
    world = World(sleep=lambda seconds: time.sleep(seconds / haste))
    client = Client(Connection(repository="o/r", token="ghs_racer", api_url=url), world)
    for number in range(1, rounds + 1):
        # All but every fifth time it is another pull request, so that there is no comment yet.
        pull = number if number % 5 else number - 1
        section = Section(key=key, title=key, headline=f"{key} in round {number}", run=number)
        requests.get(f"{url}/_double/barrier/{number}", timeout=60).raise_for_status()
        comments.post_section(client, pull, section, key="raced")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
