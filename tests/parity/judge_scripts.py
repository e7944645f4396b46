"""Made judge replies in ADK's formats: good ones, and the ways in which models miss them."""

import random
from typing import Any

Reply = Any  # a list of [text, is_thought], "raise" or "nothing"


def spoilt(rng: random.Random, text: str) -> Reply:
    """The text as a judge would send it: mostly whole, sometimes in parts, thought aloud, cut, or not at all."""
    kind = rng.random()
    if kind < 0.04:
        return "raise"
    if kind < 0.07:
        return "nothing"
    if kind < 0.09:
        return [["", False]]
    if kind < 0.13:
        return [["Let me think. Verdict: yes", True], [text, False]]
    if kind < 0.17:
        cut = rng.randrange(len(text) + 1)
        return [[text[:cut], False], [text[cut:], False]]
    if kind < 0.22:
        return [[text[: rng.randrange(len(text) + 1)], False]]
    if kind < 0.27:
        return [[f"```json\n{text}\n```\nHope this helps.", False]]
    return [[text, False]]


# --- final_response_match_v2 ----------------------------------------------------------------------

LABELS = [
    "valid",
    "valid",
    "valid",
    "invalid",
    "invalid",
    "true",
    "false",
    "almost",
    "partially",
    "partially_valid",
    "Valid",
    "INVALID",
    "True",
    "no",
    "maybe",
    "unknown",
    "valid.",
    "valid}",
    "**valid**",
    "invalid]",
    "partially valid",
    "",
    "not valid",
    "valid ",
    "^valid",
]


def match(rng: random.Random, lean: str) -> Reply:
    label = lean if rng.random() < 0.6 else rng.choice(LABELS)
    key = rng.choice(["is_the_agent_response_valid"] * 8 + ["is_the_agent_response_invalid", "verdict"])
    value = rng.choice(
        [f'"{label}"'] * 6 + [f"[{label}]", f'["{label}"]', label, f"'{label}'", f'"{label}" ', f'[ "{label}" ]']
    )
    colon = rng.choice([":"] * 8 + [": "] * 8 + [" :", ":\n"])
    end = rng.choice(["\n}"] * 6 + ["}", ",\n}", "", " }", "\n"])
    quote = rng.choice(['"'] * 12 + ["'"])
    head = rng.choice(
        ['{\n  "reasoning": "it says so",\n  '] * 5 + ["{", 'the "is_the_agent_response_valid": maybe, so {']
    )
    return spoilt(rng, f"{head}{quote}{key}{quote}{colon}{value}{end}")


# --- per_turn_user_simulator_quality_v1 -----------------------------------------------------------

BOOLEANS = [
    "true",
    "false",
    "True",
    "FALSE",
    '"true"',
    '"partially_valid"',
    '"partially valid"',
    "almost",
    '"Valid"',
    "yes",
]


def simulated(rng: random.Random, lean: str) -> Reply:
    label = lean if rng.random() < 0.6 else rng.choice(BOOLEANS + LABELS)
    key = rng.choice(["is_valid"] * 10 + ["verdict", "is valid"])
    value = rng.choice([label] * 6 + [f'"{label}"', f"[{label}]", f'["{label}"]', f"'{label}'", f'"{label}" '])
    head = rng.choice(['{\n  "criteria": [{"name": "PLAN", "reasoning": "ok", "passes": true}],\n  '] * 5 + ["{", ""])
    colon = rng.choice([":"] * 8 + [": "] * 8 + [" :", ":\n"])
    end = rng.choice(["\n}"] * 6 + ["}", ",\n}", "", " }", "\n", ", }"])
    return spoilt(rng, f'{head}"{key}"{colon}{value}{end}')


# --- rubrics --------------------------------------------------------------------------------------

VERDICTS = [
    "yes",
    "yes",
    "yes",
    "no",
    "no",
    "no",
    "Yes",
    "NO",
    "N/A",
    "maybe",
    "unknown",
    "n/a",
    "**yes**",
    "`no`",
    "yes.",
    "nope",
    "none",
    "yes and no",
    "not applicable",
    "",
]


def rubrics(rng: random.Random, given: list[dict[str, Any]], lean: dict[str, str]) -> Reply:
    """One reply on all rubrics, some left out, some twice, some paraphrased, some of nobody's."""
    order = list(given)
    if rng.random() < 0.3:
        rng.shuffle(order)
    if rng.random() < 0.15:
        order.append(rng.choice(given))
    blocks = [block(rng, each, lean) for each in order if rng.random() > 0.08]
    if rng.random() < 0.05:
        blocks.append("ID: stranger\nProperty: Something else.\nRationale: none\nVerdict: yes")
    return spoilt(rng, "\n\n".join(blocks))


def block(rng: random.Random, rubric: dict[str, Any], lean: dict[str, str]) -> str:
    name, text = rubric["rubric_id"], rubric["rubric_content"]["text_property"]
    verdict = lean[name] if rng.random() < 0.65 else rng.choice(VERDICTS)
    lines = [
        rng.choice([f"ID: {name}"] * 8 + ["", f"ID:{name}", f"  ID: {name} ", "ID: ", f"**ID:** {name}", "ID: nobody"]),
        f"Property: {shown_text(rng, text)}",
        rng.choice(["Evidence: step 0", "Evidence: Rationale: none", ""]),
        rng.choice(
            ["Rationale: because."] * 8 + ["Rationale: the Verdict: is clear", "Rationale:", "**Rationale:** so"]
        ),
        rng.choice(
            [f"Verdict: {verdict}"] * 14
            + [f"Verdict:{verdict}", f"**Verdict:** {verdict}", f" - Verdict: {verdict}", f"verdict: {verdict}"]
        ),
    ]
    return "\n".join(line for line in lines if line)


def shown_text(rng: random.Random, text: str) -> str:
    return rng.choice(
        [text] * 6
        + [
            f"**{text}**",
            text.upper(),
            f"“{text}”",
            text.replace(" ", "  "),
            f"{text} ",
            "It was polite.",
            text[:-2],
            f"`{text}`",
        ]
    )


# --- hallucinations_v1 ----------------------------------------------------------------------------

SENTENCE_LABELS = [
    "supported",
    "supported",
    "supported",
    "unsupported",
    "contradictory",
    "disputed",
    "not_applicable",
    "not_applicable",
    "Supported",
    "UNSUPPORTED",
    "`supported`",
    "**supported**",
    "unknown",
    "partially_supported",
    "not applicable",
    "",
    "supported.",
]


def segmentation(rng: random.Random, mark: str) -> tuple[Reply, int]:
    """Sentences that hold the mark, by which the next question is known, and how many."""
    count = rng.choice((0, 1, 1, 2, 3, 4))
    tags = [
        f"<sentence>{rng.choice(('Fact', '* item', '一句話'))} {number} {mark}</sentence>" for number in range(count)
    ]
    kind = rng.random()
    if kind < 0.05:
        return "raise", 0
    if kind < 0.1:
        return "nothing", 0
    return [[rng.choice(("\n", " ", "\n\n")).join(tags) + rng.choice(("", "\nDone.", "<sentence>open")), False]], count


def validation(rng: random.Random, mark: str, count: int) -> Reply:
    blocks = []
    for number in range(count):
        if rng.random() < 0.07:
            continue
        label = rng.choice(SENTENCE_LABELS)
        fields = ["sentence", "label", "rationale", "supporting_excerpt", "contradicting_excerpt"]
        values = [
            f" Fact {number} {mark}",
            f" {label}",
            " because\nof that",
            rng.choice((" null", " it says", "")),
            " null",
        ]
        kind = rng.random()
        if kind < 0.05:
            del fields[3], values[3]
        elif kind < 0.1:
            fields = [field.title() for field in fields]
        elif kind < 0.13:
            fields, values = fields[::-1], values[::-1]
        elif kind < 0.16:
            values[1] = f" {label}  "
        blocks.append("\n".join(f"{field}:{value}" for field, value in zip(fields, values, strict=True)))
    return spoilt(rng, rng.choice(("\n\n", "\n")).join(blocks))
