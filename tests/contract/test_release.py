"""A release: which version may be tagged, what its commit names, and that the major tag only moves
forward."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from builders import repositories

ROOT = Path(__file__).resolve().parents[2]
IMAGE = f"ghcr.io/o/evalgate@sha256:{'a' * 64}"
JOBS = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))["jobs"]


class Publisher:
    """A clone of main, and the remote that tags are pushed to."""

    def __init__(self, folder: Path) -> None:
        self.main, self.remote = folder / "main", folder / "remote"

    def begin(self) -> None:
        repositories.made(self.main)
        (self.main / ".github").mkdir()
        shutil.copy2(ROOT / ".github/release.sh", self.main / ".github/release.sh")
        shutil.copy2(ROOT / "action.yml", self.main / "action.yml")
        repositories.commit(self.main, {})
        repositories.cloned(self.main, self.remote, "--bare")

    def run(self, command: str, version: str, image: str = IMAGE) -> str:
        """What it says as it refuses, "" for done."""
        repositories.git(self.main, "checkout", "--quiet", "--detach", "main")
        done = subprocess.run(
            [".github/release.sh", command],
            cwd=self.main,
            env={**os.environ, "VERSION": version, "IMAGE": image, "REMOTE": str(self.remote)},
            capture_output=True,
            text=True,
            check=False,
        )
        repositories.git(self.main, "checkout", "--quiet", "--force", "main")
        assert done.returncode in (0, 1), done.stderr
        return done.stdout if done.returncode else ""

    def release(self, version: str) -> None:
        assert self.run("tag", version) == ""
        assert self.run("major", version) == ""

    def at(self, tag: str) -> str:
        return repositories.git(self.remote, "rev-parse", f"refs/tags/{tag}^{{commit}}")

    def tags(self) -> list[str]:
        return repositories.git(self.remote, "tag").split()


@pytest.fixture
def publisher(tmp_path: Path) -> Publisher:
    new = Publisher(tmp_path)
    new.begin()
    return new


@pytest.fixture(scope="module")
def two_releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a publisher that has released 1.2.3 and 1.10.0."""
    folder = tmp_path_factory.mktemp("releases")
    publisher = Publisher(folder)
    publisher.begin()
    publisher.release("1.2.3")
    publisher.release("1.10.0")
    return folder


def test_a_release_is_a_commit_that_names_the_image_under_both_tags(publisher: Publisher) -> None:
    publisher.release("1.0.0")
    assert publisher.tags() == ["v1", "v1.0.0"]
    assert publisher.at("v1") == publisher.at("v1.0.0")
    tagged = repositories.git(publisher.remote, "show", "v1:action.yml")
    assert tagged == (ROOT / "action.yml").read_text("utf-8").replace(
        "image: Dockerfile", f"image: docker://{IMAGE}"
    ).rstrip("\n")
    assert "image: Dockerfile" in (publisher.main / "action.yml").read_text("utf-8"), (
        "main builds from its Dockerfile"
    )


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ("1.10.0", "v1.10.0 is released already"),
        ("1.2.3", "v1.2.3 is below v1.10.0"),
        ("1.2.2", "v1.2.2 is below v1.10.0, and v1 only moves forward"),
        ("1.9.9", "v1.9.9 is below v1.10.0"),
        ("1.10", "1.10 is not a version"),
        ("01.11.0", "01.11.0 is not a version"),
        ("1.11.0-rc.1", "1.11.0-rc.1 is not a version"),
        ("1.11.0; touch pwned", "is not a version"),
        ("1.10.1", ""),
        ("2.0.0", ""),
        ("0.9.0", ""),
    ],
)
def test_a_major_tag_only_moves_forward(
    two_releases: Path, tmp_path: Path, version: str, told: str
) -> None:
    publisher = Publisher(shutil.copytree(two_releases, tmp_path / "copy"))
    before = publisher.at("v1")
    said = publisher.run("tag", version)
    assert told in said if told else not said
    assert publisher.at("v1") == before
    assert (f"v{version}" in publisher.tags()) is (not told or version in ("1.2.3", "1.10.0"))


def test_a_release_that_is_overtaken_leaves_the_major_tag(publisher: Publisher) -> None:
    assert publisher.run("tag", "1.0.0") == ""
    publisher.release("1.0.1")
    assert "v1.0.1 was released meanwhile" in publisher.run("major", "1.0.0")
    assert publisher.at("v1") == publisher.at("v1.0.1")


@pytest.mark.parametrize(
    "image", ["", "ghcr.io/o/evalgate:1", "ghcr.io/o/evalgate@sha256:abc", f"{IMAGE}|x"]
)
def test_what_is_no_digest_reaches_no_tag(publisher: Publisher, image: str) -> None:
    assert "is not an image by digest" in publisher.run("tag", "1.0.0", image)
    assert publisher.tags() == []


def test_nothing_is_tagged_before_the_digest_ran_on_both_architectures() -> None:
    tagging = [
        name
        for name, job in JOBS.items()
        if "release.sh tag" in str(job) or "release.sh major" in str(job)
    ]
    assert tagging == ["publish"]
    assert [name for name, job in JOBS.items() if ":$VERSION" in str(job)] == ["publish"], (
        "the image's tag"
    )
    assert JOBS["publish"]["needs"] == ["image", "try"]
    assert "if" not in JOBS["publish"]
    assert JOBS["try"]["strategy"]["matrix"] == JOBS["build"]["strategy"]["matrix"]
    gates = [step for step in JOBS["try"]["steps"] if step.get("uses") == "./gate"]
    assert [step["id"] for step in gates] == ["passing", "failing"]
    script = next(
        step["run"] for step in JOBS["publish"]["steps"] if "release.sh tag" in step.get("run", "")
    )
    order = ("release.sh tag", "--draft --verify-tag", "--draft=false", "release.sh major")
    assert [script.index(each) for each in order] == sorted(script.index(each) for each in order)
