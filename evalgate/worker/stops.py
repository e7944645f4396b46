"""Error codes of models: which are an answer, and which of these refuse."""

REFUSALS = frozenset({
    "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "JAILBREAK",
    "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION",
})  # fmt: skip
"""Error codes by which a model says that it will not answer."""
STOPS = REFUSALS | {
    "MAX_TOKENS",
    "LANGUAGE",
    "MALFORMED_FUNCTION_CALL",
    "UNEXPECTED_TOOL_CALL",
}
"""Error codes of google.genai that are the model's own answer. Any other code is an outage."""
