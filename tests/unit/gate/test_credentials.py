"""What `doctor` says of credentials for clouds, and of what the action's container lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalgate.gate import doctor


@pytest.mark.parametrize(
    ("variable", "message", "hint"),
    [
        ("", "no credentials of Google Cloud were found", "gcloud auth application-default login"),
        # gcloud would not change what the variable names
        ("/gone.json", "names a file that does not exist", "or unset GOOGLE_APPLICATION_"),
    ],
)
def test_missing_credentials(tmp_path: Path, variable: str, message: str, hint: str) -> None:
    environ = {"HOME": str(tmp_path), "GOOGLE_APPLICATION_CREDENTIALS": variable}
    problem = doctor.cloud_credentials(environ).problem
    assert problem is not None
    assert message in problem.message
    assert hint in problem.hint


@pytest.mark.parametrize(
    ("environ", "files", "source"),
    [
        ({}, [], ""),
        ({"AWS_ACCESS_KEY_ID": ""}, [], ""),  # an empty secret
        ({"AWS_ACCESS_KEY_ID": "A", "AWS_PROFILE": "p"}, ["config"], "AWS_ACCESS_KEY_ID"),
        ({"AWS_BEARER_TOKEN_BEDROCK": "t"}, [], "AWS_BEARER_TOKEN_BEDROCK"),
        ({}, ["config", "credentials"], "~/.aws/credentials"),
    ],
)
def test_credentials_of_aws(
    tmp_path: Path, environ: dict[str, str], files: list[str], source: str
) -> None:
    (tmp_path / ".aws").mkdir()
    for name in files:
        (tmp_path / ".aws" / name).touch()
    check = doctor.aws_credentials({"HOME": str(tmp_path), **environ})
    assert check.text == (source and f"of AWS: {source}")
    assert (check.problem is None) == bool(source)
