"""Which values are secrets, and that none of them is left in a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.system import redact


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
def test_values_of_variables_that_are_named_like_secrets_are_hidden(name: str, value: str, hidden: bool) -> None:
    hide = redact.redactor({name: value})
    assert hide(f"<{value.strip()}>") == ("<***>" if hidden else f"<{value.strip()}>")


@pytest.mark.parametrize(
    ("address", "said", "shown"),
    [
        ("postgres://desk:s3cret-pass@db/desk", "cannot reach s3cret-pass@db", "cannot reach ***@db"),
        ("redis://:s3cret-pass@cache amqp://u:0ther-pass@mq", "0ther-pass, s3cret-pass", "***, ***"),
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


@given(st.text(min_size=8).filter(lambda value: len(value.strip()) >= 8 and "*" not in value), st.text())
def test_no_secret_is_left(secret: str, around: str) -> None:
    hide = redact.redactor({"SOME_SECRET": secret})
    assert secret.strip() not in hide(around + secret.strip() + around)
