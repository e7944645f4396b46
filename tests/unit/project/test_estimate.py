"""How many model calls a run makes at the least."""

from evalgate.project import estimate


def test_a_call_a_turn_a_repeat(suite, case):
    made = suite("x", case("a", "one", "two"), case("b", "one"), case("c", scenario="hello"), case("d"))
    told = estimate.estimate(made, repeats=3)
    assert (told.cases, told.trials, told.turns, told.model_calls) == (4, 12, 12, 12)


def test_nothing_asked_is_nothing_called(suite):
    assert estimate.estimate(suite("x")).model_calls == 0
