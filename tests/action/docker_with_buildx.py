"""Stand-in for `docker` with buildx, for test_release.py: what release.yml asks of ghcr.io, a
registry here answers.

Not buildx's own: `buildx build` is Docker's own builder, for the architecture of this machine
alone, and makes neither provenance nor an SBOM; `buildx imagetools` joins what the registry has,
and says an SBOM that is made up. The rest is docker's. It writes down how each container ended."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HOST = "ghcr.io"
INDEX = "application/vnd.oci.image.index.v1+json"
KINDS = (
    INDEX,
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
"""A registry answers with what was pushed only where it is asked for by name."""
MADE_UP = {"SPDX": {"packages": [{"name": "made-up"}] * 11}}


@dataclass(frozen=True)
class Registry:
    """One that speaks the distribution protocol; `account` is as HTTP's basic authentication sends
    it."""

    address: str
    account: str

    def ask(
        self, method: str, path: str, body: bytes | None = None, kind: str = ""
    ) -> tuple[Mapping[str, str], bytes]:
        """Headers and body of the answer; an error of HTTP is raised."""
        url = path if path.startswith("http") else f"http://{self.address}/v2/{path}"
        headers = {"Authorization": f"Basic {self.account}", "Accept": ", ".join(KINDS)}
        if kind:
            headers["Content-Type"] = kind
        request = urllib.request.Request(url, data=body, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return {name.lower(): value for name, value in answer.headers.items()}, answer.read()

    def digest(self, repository: str, reference: str) -> str:
        return self.ask("HEAD", f"{repository}/manifests/{reference}")[0]["docker-content-digest"]

    def described(self, repository: str, digest: str) -> dict[str, Any]:
        """What an index says of an image."""
        headers, content = self.ask("GET", f"{repository}/manifests/{digest}")
        config = json.loads(
            self.ask("GET", f"{repository}/blobs/{json.loads(content)['config']['digest']}")[1]
        )
        platform = {name: config[name] for name in ("architecture", "os")}
        return {
            "mediaType": headers["content-type"],
            "digest": digest,
            "size": len(content),
            "platform": platform,
        }


class Docker:
    """docker's client, with what it lacks."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.program = environment["DOCKER"]
        self.address = environment["REGISTRY"]
        self.stand_ins = Path(environment["STAND_INS"])
        self.config = Path(environment["DOCKER_CONFIG"]) / "config.json"

    def run(self, arguments: list[str]) -> int:
        match arguments:
            case ["buildx", "create", "--use"]:
                return 0
            case ["buildx", "build", *options, folder]:
                self.build(options, folder)
            case ["buildx", "imagetools", "create", "--tag", tag, *parts]:
                self.join(tag, parts)
            case ["buildx", "imagetools", "inspect", image, "--format", what]:
                print(self.inspected(image, what))
            case ["buildx", *_]:
                sys.exit(f"there is no stand-in for docker {' '.join(arguments)}")
            # kept: of one that is removed podman 4 forgets how it ended
            case ["run", "--rm", *rest]:
                code = self.docker("run", "--network", "host", *rest)
                self.note(f"the gate of {rest[-1]} ended with {code}")
                return code
            case ["pull", *_, image] if (self.stand_ins / "lost").exists():
                repository, digest = split(image, "@")
                self.registry().ask("DELETE", f"{repository}/manifests/{digest}")
                return self.docker(*arguments)
            case _:
                return self.docker(*arguments)
        return 0

    def build(self, options: list[str], folder: str) -> None:
        parser = argparse.ArgumentParser()
        for name in ("--output", "--provenance", "--sbom", "--metadata-file"):
            parser.add_argument(name, required=True)
        parser.add_argument("--label", action="append")
        given = parser.parse_args(options)
        output = dict(each.split("=", 1) for each in given.output.split(","))
        assert output.pop("type") == "image"
        name = output.pop("name")
        assert output == {"push-by-digest": "true", "push": "true"}
        labels = [word for label in given.label for word in ("--label", label)]
        self.sure(
            "build", "--quiet", "--network", "host", "--tag", f"{name}:built", *labels, folder
        )
        self.sure("push", "--quiet", f"{name}:built")
        # so that what is pulled comes from the registry
        self.sure("rmi", "--no-prune", f"{name}:built")
        digest = self.registry().digest(*split(f"{name}:built", ":"))
        Path(given.metadata_file).write_text(
            json.dumps({"containerimage.digest": digest}), encoding="utf-8"
        )

    def join(self, tag: str, parts: list[str]) -> None:
        registry = self.registry()
        repository, reference = split(tag, ":")
        if len(parts) == 1:
            headers, content = registry.ask("GET", "{}/manifests/{}".format(*split(parts[0], "@")))
            kind = headers["content-type"]
        else:
            manifests = [registry.described(*split(each, "@")) for each in parts]
            content = json.dumps(
                {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}
            ).encode()
            kind = INDEX
        registry.ask("PUT", f"{repository}/manifests/{reference}", content, kind)

    def inspected(self, image: str, what: str) -> str:
        repository, reference = split(image, "@" if "@" in image else ":")
        headers, content = self.registry().ask("GET", f"{repository}/manifests/{reference}")
        index = json.loads(content)
        if what == "{{ json .Manifest }}":
            return json.dumps({**index, "digest": headers["docker-content-digest"]})
        assert what == "{{ json .SBOM }}"
        platforms = (each["platform"] for each in index["manifests"])
        return json.dumps({f"{each['os']}/{each['architecture']}": MADE_UP for each in platforms})

    def registry(self) -> Registry:
        """With the account of `docker login`, as buildx has it; after `docker logout` there is
        none."""
        accounts = json.loads(self.config.read_text(encoding="utf-8"))["auths"]
        return Registry(self.address, accounts[self.address]["auth"])

    def docker(self, *arguments: str) -> int:
        here = [re_hosted(each, self.address) for each in arguments]
        return subprocess.run([self.program, *here], check=False).returncode

    def sure(self, *arguments: str) -> None:
        code = self.docker(*arguments)
        if code:
            sys.exit(code)

    def note(self, line: str) -> None:
        with (self.stand_ins / "events").open("a", encoding="utf-8") as events:
            events.write(f"{line}\n")


def re_hosted(argument: str, address: str) -> str:
    """An image's name, or the name of the registry, with the registry that is here."""
    return (
        address + argument[len(HOST) :]
        if argument == HOST or argument.startswith(f"{HOST}/")
        else argument
    )


def split(image: str, sign: str) -> tuple[str, str]:
    """The repository in the registry, and the tag or digest."""
    name, _, reference = image.removeprefix(f"{HOST}/").rpartition(sign)
    return name, reference


if __name__ == "__main__":
    sys.exit(Docker(os.environ).run(sys.argv[1:]))
