"""An agent that records what google-adk tells OpenTelemetry, and answers with what was recorded."""

from __future__ import annotations

import json

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

SPANS = InMemorySpanExporter()


def record() -> str:
    """Record from now on."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(SPANS))
    trace.set_tracer_provider(provider)
    return "recording"


class Telling(BaseLlm):
    """Names the attributes of the last recorded model call; asked to `record`, it begins to."""

    model: str = "telling"

    async def generate_content_async(self, llm_request, stream=False):
        asked = llm_request.contents[-1].parts[0].text
        calls = [
            span for span in SPANS.get_finished_spans() if span.name.startswith("generate_content")
        ]
        text = (
            record()
            if asked == "record"
            else json.dumps(sorted(calls[-1].attributes) if calls else [])
        )
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))


root_agent = LlmAgent(name="recorded", model=Telling(), instruction="Tell.")
