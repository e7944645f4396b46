"""Which values are secrets, and that none of them is left in a text."""

import json
import time
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from evalgate.system import redact
from evalgate.text import markdown


@pytest.mark.parametrize(
    ("name", "value", "hidden"),
    [
        ("GOOGLE_API_KEY", "abcdefgh", True),
        ("my_token", "abcdefgh", True),  # case does not matter
        ("DB_PASSWORD", "hunter2", False),  # so short that it would hide innocent words
        ("APPLICATION_CREDENTIALS", "/keys/service.json", True),
        ("CLIENT_SECRET", " abcdefgh\n", True),  # written without its blanks
        ("HOME", "/home/somebody", False),
    ],
)
def test_values_of_variables_that_are_named_like_secrets_are_hidden(
    name: str, value: str, hidden: bool
) -> None:
    hide = redact.redactor({name: value})
    assert hide(f"<{value.strip()}>") == ("<***>" if hidden else f"<{value.strip()}>")


@pytest.mark.parametrize(
    ("address", "said", "shown"),
    [
        (
            "postgres://desk:s3cret-pass@db/desk",
            "cannot reach s3cret-pass@db",
            "cannot reach ***@db",
        ),
        (
            "redis://:s3cret-pass@cache amqp://u:0ther-pass@mq",
            "0ther-pass, s3cret-pass",
            "***, ***",
        ),
        ("postgres://postgres:postgres@db/desk", "postgres is down", "postgres is down"),  # a word
        ("https://proxy:8080/a@b", "8080/a", "8080/a"),  # a port
    ],
)
def test_passwords_in_addresses_are_hidden(address: str, said: str, shown: str) -> None:
    assert redact.redactor({"DATABASE_URL": address})(said) == shown
    assert redact.redactor_of_files({"DATABASE_URL": address})(said) == shown


def test_a_secret_that_contains_another_is_hidden_whole() -> None:
    hide = redact.redactor({"A_KEY": "abcdefgh", "B_KEY": "abcdefgh-and-more"})
    assert hide("abcdefgh-and-more abcdefgh") == "*** ***"


def test_each_long_line_of_a_secret_is_hidden() -> None:
    hide = redact.redactor({"PEM_KEY": "-----BEGIN\nMIIEvQIBADANBg\n-----END---"})
    assert hide("key: MIIEvQIBADANBg") == "key: ***"


@given(
    st.text(min_size=8).filter(lambda value: len(value.strip()) >= 8 and "*" not in value),
    st.text(),
)
def test_no_secret_is_left(secret: str, around: str) -> None:
    hide = redact.redactor({"SOME_SECRET": secret})
    assert secret.strip() not in hide(around + secret.strip() + around)


KEY = "sk-live-0123456789abcdefghij"
PLACE = "/github/workspace/gha-creds.json"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            f"asked with {KEY[:20]} ... 900 more characters",
            "asked with *** ... 900 more characters",
        ),
        (f"asked with {KEY[:20]}", "asked with ***"),  # at the end
        (
            f"{KEY[:20]} [... 9 characters left out ...] {KEY[8:]} today",
            "*** [... 9 characters left out ...] *** today",
        ),
        (f"{KEY[8:]} was asked with", "*** was asked with"),  # at the beginning
        (f'{{"key": "{KEY[:20]}"}}', '{"key": "***"}'),
        (f"{KEY[:20]} is no key", f"{KEY[:20]} is no key"),  # nothing was cut
        (f"begins with {KEY[:8]}...", f"begins with {KEY[:8]}..."),  # as every key does
        (f"no file '{PLACE[:17]}'", f"no file '{PLACE[:17]}'"),  # a folder
    ],
)
def test_what_a_cut_left_of_a_secret_is_hidden(said: str, shown: str) -> None:
    assert redact.redactor({"A_KEY": KEY, "SOME_CREDENTIALS": PLACE})(said) == shown


def test_keys_in_a_service_accounts_file_are_hidden_line_by_line() -> None:
    account = json.dumps(
        {
            "client_email": "desk@example.com",
            "private_key": "-----BEGIN\nMIIEvQIBADANBg\n-----END---",
        }
    )
    hide = redact.redactor({"GOOGLE_CREDENTIALS": account})
    assert hide("MIIEvQIBADANBg of desk@example.com") == "*** of desk@example.com"


@pytest.mark.parametrize(
    "spelled", ['a/b+c&d"e=f', 'a/b+c&d\\"e=f', "a/b+c&amp;d&quot;e=f", "a/b%2Bc%26d%22e%3Df"]
)
def test_a_secret_is_hidden_as_json_html_and_addresses_spell_it(spelled: str) -> None:
    assert redact.redactor_of_files({"A_KEY": 'a/b+c&d"e=f'})(f"<{spelled}>") == "<***>"


def test_a_secret_is_hidden_as_json_in_ascii_spells_it() -> None:
    hide = redact.redactor_of_files({"A_KEY": "schl\u00fcssel-9"})
    assert hide('"schl\\u00fcssel-9 of schl\u00fcssel-9"') == '"*** of ***"'


def test_many_parts_of_a_secret_take_no_time() -> None:
    hide = redact.redactor({"A_KEY": KEY})
    started = time.process_time()
    assert hide(f"{KEY[:20]} ...{KEY[8:]} " * 50_000) == "*** ...*** " * 50_000
    assert hide(KEY[:20] + " " * 100_000 + "x").endswith("x")
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    "secret",
    [
        "sk_live_a*b_c!d",
        "deadbeefcafe0123456789abcdef",
        "-a$b&c<d>e|f~g",
        "ghp_0123456789abcdef@x:y",
        "back\\slash_key",
    ],
)
@pytest.mark.parametrize(
    "spelled", [markdown.prose, markdown.raw_prose, markdown.code, markdown.cell_code]
)
def test_our_markdown_hides_no_secret_from_us(secret: str, spelled: Callable[[str], str]) -> None:
    written = spelled(f"the key is {secret}, abc{secret} too")
    shown = redact.redactor_of_files({"API_KEY": secret})(written)
    assert shown.count("***") == 2
    assert not [part for part in (secret[:4], secret[-4:]) if part in shown]
    assert redact.redactor_of_files({"API_KEY": secret})(spelled("the key is abc")) == spelled(
        "the key is abc"
    )
