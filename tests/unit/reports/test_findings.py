"""Samples of a judge in a few words, and folded below the finding in the HTML report."""

import pytest

from evalgate.model import Finding, Opinion
from evalgate.reports import comment, html_report, turns


def finding(*labels: str, spared: int = 0, text: str = "because") -> Finding:
    said = tuple(Opinion(sample=number, label=label, text=f"<{number}>") for number, label in enumerate(labels))
    return Finding(
        text=text, label=labels[0] if labels else "", subject="It is | polite.", opinions=said, spared=spared
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
    line = comment._macros("comment").finding_line("c", finding("yes", "no", "yes"))
    assert "because" in line
    assert "3 samples: 2 yes, 1 no" in line
    assert "polite" in line


def test_the_html_report_folds_every_sample() -> None:
    page = html_report._page().findings((("c", finding("yes", "no", text="")),))
    assert "<details" in page
    assert "&lt;0&gt;" in page
    assert "&lt;1&gt;" in page
    assert "It is | polite." in page
    assert html_report._page().findings((("c", Finding(text=" ")),)).strip() == ""
