"""Error codes of models: those that are an answer, and those that refuse."""

REFUSALS = frozenset({
    "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "JAILBREAK",
    "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION",
})  # fmt: skip
"""Error codes of a model's refusal."""
STOPS = REFUSALS | {"MAX_TOKENS", "LANGUAGE", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"}
"""Error codes of google.genai that are the model's own answer. Any other code is an outage."""
