"""What git says and is told: complaints, secrets, settings handed over in the environment."""

from __future__ import annotations

import pytest

from evalgate.system import git
from evalgate.system.git import Complaint, Git


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            "fatal: could not read Username for 'https://github.com': terminal prompts disabled",
            Complaint.CREDENTIALS,
        ),
        (
            "fatal: unable to access 'https://x/': The requested URL returned error: 403",
            Complaint.CREDENTIALS,
        ),
        ("remote: Permission to a/b.git denied to github-actions[bot].", Complaint.CREDENTIALS),
        ("git@github.com: Permission denied (publickey).", Complaint.CREDENTIALS),
        ("fatal: remote error: upload-pack: not our ref 1111", Complaint.MISSING),
        ("fatal: couldn't find remote ref refs/heads/nowhere", Complaint.MISSING),
        (
            "remote: Repository not found.\nfatal: repository 'https://x/' not found",
            Complaint.MISSING,
        ),
        ("fatal: '/gone' does not appear to be a git repository", Complaint.MISSING),
        ("fatal: unable to access 'https://x/': Could not resolve host: x", Complaint.NETWORK),
        (
            "fatal: unable to access 'https://x/': The requested URL returned error: 502",
            Complaint.NETWORK,
        ),
        ("fatal: the remote end hung up unexpectedly", Complaint.NETWORK),
        ("error: unable to write file a: No space left on device", Complaint.OTHER),
        ("", Complaint.OTHER),
    ],
)
def test_complaints(words: str, complaint: Complaint) -> None:
    assert git.parse_complaint(words) is complaint


def test_every_complaint_has_its_next_step() -> None:
    without_step = [complaint for complaint in Complaint if not complaint.value[1]]
    assert without_step == [Complaint.OTHER]


def test_no_secret_is_shown() -> None:
    runner = Git(environment={}, secrets=["ghs_0123456789"])
    said = (
        "fatal: https://ada:short@example.com/x refused ghs_0123456789; ada@example.com is a person"
    )
    assert (
        runner.redacted(said)
        == "fatal: https://***@example.com/x refused ***; ada@example.com is a person"
    )
    assert "ghs_" not in repr(runner)


def test_the_environment_is_an_allow_list() -> None:
    kept = git.git_environment(
        {
            "PATH": "/bin",
            "HOME": "/home/ada",
            "https_proxy": "http://proxy",
            "GIT_DIR": "/other",
            "GIT_INDEX_FILE": "/other/index",
            "GIT_TRACE_CURL": "1",
            "GIT_EXEC_PATH": "/evil",
            "GITHUB_TOKEN": "ghs_x",
            "INPUT_TOKEN": "ghs_x",
            "SSH_ASKPASS": "/evil",
            "LC_ALL": "de_DE.UTF-8",
        }
    )
    assert {name: kept[name] for name in kept if name not in git.FIXED_VARIABLES} == {
        "PATH": "/bin",
        "HOME": "/home/ada",
        "https_proxy": "http://proxy",
    }
    assert kept["LC_ALL"] == "C"


def test_settings_of_the_user_come_before_ours() -> None:
    environ = {
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "core.hooksPath",
        "GIT_CONFIG_VALUE_0": "/evil",
        "GIT_CONFIG_KEY_1": "http.proxy",
        "GIT_CONFIG_VALUE_1": "",
    }
    given = list(git.user_settings(environ))
    assert given == [("core.hooksPath", "/evil"), ("http.proxy", "")]
    full = git.with_settings({}, [*given, ("core.hooksPath", "/dev/null")])
    assert full["GIT_CONFIG_COUNT"] == "3"
    assert (full["GIT_CONFIG_KEY_2"], full["GIT_CONFIG_VALUE_2"]) == ("core.hooksPath", "/dev/null")


@pytest.mark.parametrize("count", ["", "x", "-1", "99999999", "²"])
def test_a_count_of_settings_that_is_none(count: str) -> None:
    assert list(git.user_settings({"GIT_CONFIG_COUNT": count})) == []


def test_a_token_replaces_headers_of_its_server() -> None:
    assert git.token_settings("t", server="https://github.example/") == [
        ("http.https://github.example/.extraheader", ""),
        (
            "http.https://github.example/.extraheader",
            "Authorization: Basic eC1hY2Nlc3MtdG9rZW46dA==",
        ),
    ]
