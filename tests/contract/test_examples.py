"""Properties are tried on the same few examples in `make test`, and on many others by night."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from builders import examples
from builders.nightly import BY_NIGHT
from hypothesis import given, settings, strategies as st


def tried(wanted: int | None) -> list[int]:
    """The examples of a property that asks for so many, None: for none in particular."""
    numbers: list[int] = []

    @given(st.integers())
    def test(number: int) -> None:
        numbers.append(number)

    property_: Any = test if wanted is None else settings(max_examples=wanted)(test)
    examples.give([SimpleNamespace(obj=property_)])  # type: ignore[list-item]
    property_()
    return numbers


@pytest.fixture
def profile(request: pytest.FixtureRequest) -> Any:
    name = settings.get_current_profile_name()
    settings.load_profile(request.param)
    yield
    settings.load_profile(name)


@pytest.mark.parametrize("profile", ["ci"], indirect=True)
@pytest.mark.parametrize(("wanted", "count"), [(None, 20), (300, 20), (5, 5)])
def test_few_and_the_same(profile: None, wanted: int | None, count: int) -> None:
    assert len(tried(wanted)) <= count
    assert tried(wanted) == tried(wanted)


@pytest.mark.parametrize("profile", ["nightly"], indirect=True)
@pytest.mark.parametrize(("wanted", "count"), [pytest.param(None, 1000, marks=BY_NIGHT), (30, 300)])
def test_many_and_others(profile: None, wanted: int | None, count: int) -> None:
    assert count // 2 < len(tried(wanted)) <= count
    assert tried(wanted) != tried(wanted)
