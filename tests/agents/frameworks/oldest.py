"""Agents in the oldest supported versions of their frameworks, with a model behind OpenAI's API."""

import os

KEYS = {"api_key": os.environ["OPENAI_API_KEY"]}
ADDRESS = os.environ["OPENAI_BASE_URL"]
MODEL = "gpt-4o"


def weather(city: str) -> str:
    """The weather in a city.

    Args:
        city: the city
    """
    return f"sunny in {city}"


def openai_agents():
    from agents import Agent, function_tool, set_default_openai_api

    set_default_openai_api("chat_completions")
    return Agent(name="desk", model=MODEL, tools=[function_tool(weather)])


def pydantic_ai():
    from pydantic_ai import Agent

    return Agent(f"openai:{MODEL}", system_prompt="Be kind.", tools=[weather])


def langgraph():
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from langgraph.prebuilt import create_react_agent

    return create_react_agent(ChatOpenAI(model=MODEL), [tool(weather)])


def autogen():
    from autogen_agentchat.agents import AssistantAgent
    from autogen_ext.models.openai import OpenAIChatCompletionClient

    client = OpenAIChatCompletionClient(model=MODEL, base_url=ADDRESS, **KEYS)
    return AssistantAgent("desk", client, tools=[weather])
