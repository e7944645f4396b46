"""One family for long: python tests/fuzz/run.py FAMILY [--seconds 600] [--seed 1]; what it finds is
kept in seeds/."""

import argparse
import hashlib
import itertools
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from fuzz import engine, families  # noqa: E402 - after the path


def main(options: argparse.Namespace) -> None:
    """Print each kind of fault with its input, and keep the input."""
    family = families.FAMILIES[options.family]

    def keep(found: engine.Found) -> None:
        folder = families.SEEDS / family.name
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / hashlib.sha256(found.data).hexdigest()[:10]
        path.write_bytes(found.data)
        print(f"{family.name}: {found.what}: {path.name}: {found.data[:100]!r}", flush=True)

    count = itertools.count()

    def read(data: bytes) -> object:
        next(count)
        return family.read(data)

    engine.run(read, family.all_seeds(), seconds=options.seconds, seed=options.seed, on_found=keep)
    print(f"{family.name}: {next(count):,} inputs read", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", choices=list(families.FAMILIES))
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    main(parser.parse_args())
