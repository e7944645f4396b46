"""What `doctor` says of credentials for Google Cloud."""

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
