"""What `doctor` says of credentials for clouds, and of what the action's container lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalgate.errors import Place
from evalgate.gate import doctor
from evalgate.github.workflows import GateStep
from evalgate.model import AgentUse, ConfigOrigin, CriteriaSource, EvalSet, Suite


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


@pytest.mark.parametrize(
    ("options", "inputs", "absent"),
    [
        ({"command": "node agent.mjs"}, {}, "`node`"),
        ({"command": ["java", "-jar", "desk.jar"]}, {}, "`java`"),
        ({"url": "http://127.0.0.1:8000/chat"}, {}, "server at 127.0.0.1"),
        # there, of the repository, or at another address
        ({"command": "python3.13 agent.py"}, {}, ""),
        ({"command": ["sh", "-c", "node agent.mjs"]}, {}, ""),
        ({"command": "./agent"}, {}, ""),
        ({"url": "http://desk:8000"}, {}, ""),
        ({"path": "agents/desk"}, {}, ""),
        # the step runs no agent, or perhaps another one
        ({"command": "node agent.mjs"}, {"mode": "merge"}, ""),
        ({"command": "node agent.mjs"}, {"paths": "evals/b"}, ""),
    ],
)
def test_what_the_container_lacks(
    options: dict[str, object], inputs: dict[str, str], absent: str
) -> None:
    step = GateStep(place=Place("gate.yml", 7), uses="OWNER/evalgate/gate@v1", inputs=inputs)
    suite = Suite(
        key="a.json",
        eval_set=EvalSet(eval_set_id="a", cases=()),
        criteria=(),
        criteria_source=CriteriaSource(origin=ConfigOrigin.DEFAULTS),
        agent=AgentUse(driver="any", options=options),
    )
    messages = [problem.message for problem in doctor.absent_in_container(step, [suite])]
    assert messages == ([f"the action's container has no {absent}"] if absent else [])
