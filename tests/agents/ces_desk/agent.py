"""The library desk of tests/data/ces on ADK: two agents, four tools, and a model that knows what to
do."""

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.tool_context import ToolContext
from google.genai import types


def find_loan(patron_id: str, title: str) -> dict:
    """Look a loan up."""
    return {"loan_id": "none of the mock"}


def renew_loan(loan_id: str, weeks: int, tool_context: ToolContext) -> dict:
    """Renew a loan."""
    return {"due": "2027-03-25"}


def note_renewal(callback_context):
    """Remember what was renewed, whoever answered for the tool."""
    for event in callback_context._invocation_context.session.events:
        for call in event.get_function_calls():
            if call.name == "renew_loan":
                callback_context.state["last_renewed_loan"] = call.args["loan_id"]


def block_card(patron_id: str, reason: str) -> dict:
    """Block a card."""
    return {"status": "NOT MOCKED"}


def call(name, **args):
    return types.Part(function_call=types.FunctionCall(name=name, args=args))


class Desk(BaseLlm):
    model: str = "desk"

    async def generate_content_async(self, llm_request, stream=False):
        said, answered, loan = "", [], "L-77"
        for content in llm_request.contents:
            for part in content.parts or []:
                response = part.function_response
                if response is not None:
                    answered.append((response.name, response.response))
                    found = (response.response or {}).get("output") or response.response or {}
                    loan = found.get("loan_id", loan) if isinstance(found, dict) else loan
                elif (
                    content.role == "user"
                    and part.text
                    and not part.text.startswith(("For context", "["))
                ):
                    said, answered = part.text, []
        part = self.next(said, dict(answered), loan, set(llm_request.tools_dict))
        yield LlmResponse(content=types.Content(role="model", parts=[part]))

    def next(self, said, answered, loan, tools):
        if "welcome" in said:
            return types.Part(text="Hello, this is the Riverside library desk. How can I help?")
        if "renew" in said and "find_loan" in tools:
            if "find_loan" not in answered:
                return call("find_loan", patron_id="P-2041", title="The Tidal Atlas")
            return types.Part(
                text=f"I found {answered['find_loan'].get('loan_id')}. Shall I renew it?"
            )
        if said.startswith("Yes") and "renew_loan" in tools:
            if "renew_loan" not in answered:
                return call("renew_loan", loan_id=loan, weeks=3)
            return types.Part(text="It is now due 25 March 2027.")
        if "P-2041" in said and "block_card" in tools:
            if "block_card" not in answered:
                return call("block_card", patron_id="P-2041", reason="lost")
            return types.Part(text="You can collect the replacement card at the Riverside branch.")
        if "find_loan" not in tools:
            return call("transfer_to_agent", agent_name="loans")
        return types.Part(text="What is your patron id?")


loans = LlmAgent(
    name="loans",
    description="Loans and cards.",
    model=Desk(),
    tools=[find_loan, renew_loan, block_card],
    after_agent_callback=note_renewal,
)
root_agent = LlmAgent(name="desk", description="The desk.", model=Desk(), sub_agents=[loans])
