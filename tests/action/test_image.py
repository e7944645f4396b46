"""What the image weighs, and what is not in it."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

import pytest
from builders import shipped

from tests.action.conftest import docker

pytestmark = pytest.mark.action

BASE = shipped.base()
MOST_BYTES = 200_000_000
"""Of our layers, as a machine that has the base downloads them."""
PLACE = "/opt/evalgate/lib/python3.13/site-packages"


def layers(name: str) -> list[str]:
    found: list[str] = json.loads(
        docker("image", "inspect", "--format", "{{json .RootFS.Layers}}", name)
    )
    return found


def compressed(stream: IO[bytes]) -> int:
    """The most that it may weigh: registries take the time for a level above the first."""
    deflate = zlib.compressobj(1)
    return sum(len(part) for part in parts(stream, deflate))


def parts(stream: IO[bytes], deflate: zlib._Compress) -> Iterator[bytes]:
    while chunk := stream.read(1 << 20):
        yield deflate.compress(chunk)
    yield deflate.flush()


# a mark, which is read before the image is built
@pytest.mark.skipif(shutil.which("docker") is None, reason="needs the system: Docker's client")
def test_our_layers_are_small(image: str, tmp_path: Path) -> None:
    common = len(layers(BASE))
    assert layers(image)[:common] == layers(BASE)
    archive = tmp_path / "image.tar"
    docker("save", "--output", str(archive), image)
    with tarfile.open(archive) as saved:
        manifest = saved.extractfile("manifest.json")
        assert manifest is not None
        (described,) = json.load(manifest)
        sizes = []
        for name in described["Layers"][common:]:
            layer = saved.extractfile(name)
            assert layer is not None
            sizes.append(compressed(layer))
    print(f"layers: {sizes}")
    assert sum(sizes) <= MOST_BYTES


def test_there_is_no_compiler_and_everything_is_compiled(image: str) -> None:
    script = f"""
        for name in cc gcc c++ clang make ld; do command -v $name && exit 1; done
        cd {PLACE} && find . -name '*.py' -o -name '*.cpython-313.pyc'
    """
    network = ("--network", "host") if os.environ.get("DOCKER_HOST") else ()
    names = docker("run", "--rm", *network, "--entrypoint", "sh", image, "-c", script).split("\n")
    files = {PurePosixPath(name) for name in names}
    modules = {path for path in files if path.suffix == ".py"}
    assert len(modules) > 1000
    left = [
        path
        for path in modules
        if path.parent / "__pycache__" / f"{path.stem}.cpython-313.pyc" not in files
    ]
    assert len(left) < 20, left
