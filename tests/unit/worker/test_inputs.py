"""The questions of an agent's process are one line, which has to stay below any `max-output`."""

from __future__ import annotations

import pytest

from evalgate.worker import inputs, pipe


@pytest.mark.parametrize("character", ["a", "\u6f22", '"', "\x01"])
def test_many_questions_fit_into_a_line_of_the_least_max_output(character: str) -> None:
    tracer = inputs.Tracer("/nowhere")
    for number in range(inputs.MOST_QUESTIONS):
        tracer.ask(f"{inputs.FILE} {inputs.spelling(f'{number}{character * 34}')}")
    message = tracer.message()
    assert message is not None
    assert len(pipe.encode(message)) < 10**6
