from google.adk.agents import LlmAgent
from google.adk.apps.app import App
from google.adk.plugins.base_plugin import BasePlugin
from google.genai import types
from scripted_llm import ScriptedLlm


class Prefix(BasePlugin):
    def __init__(self):
        super().__init__(name="prefix")

    async def on_user_message_callback(self, *, invocation_context, user_message):
        return types.Content(role="user", parts=[types.Part(text="say through the plugin")])


app = App(
    name="adk_app_only", root_agent=LlmAgent(name="in_app", model=ScriptedLlm()), plugins=[Prefix()]
)
