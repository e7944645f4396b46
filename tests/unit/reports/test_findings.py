"""Samples of a judge in a few words, and folded below the finding in the HTML report."""

import pytest

from evalgate.model import Finding, Opinion
from evalgate.reports import comment, page_data, turns


def finding(*labels: str, spared: int = 0, text: str = "because") -> Finding:
    said = tuple(
        Opinion(sample=number, label=label, text=f"<{number}>")
        for number, label in enumerate(labels)
    )
    return Finding(
        text=text,
        label=labels[0] if labels else "",
        subject="It is | polite.",
        opinions=said,
        spared=spared,
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (finding(), ""),
        (finding("yes"), "1 sample: 1 yes"),
        (finding("yes", "yes", "yes", spared=2), "3 samples: 3 yes; 2 not needed"),
        (finding("no", "", "yes", "no"), "4 samples: 2 no, 1 no verdict, 1 yes"),
    ],
)
def test_the_tally(given: Finding, expected: str) -> None:
    assert turns.tally(given) == expected


def test_the_comment_has_the_tally() -> None:
    line = comment._TEMPLATE.macros.finding_line("c", finding("yes", "no", "yes"))
    assert "because" in line
    assert "3 samples: 2 yes, 1 no" in line
    assert "polite" in line


def test_the_page_has_every_sample() -> None:
    found = page_data._finding("c", finding("yes", "no", text=""))
    assert [label for label, _ in found["samples"]] == ["yes", "no"]
    assert found["tally"] == "2 samples: 1 yes, 1 no"
