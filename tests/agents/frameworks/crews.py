"""Crews and agents of CrewAI."""

import json

import script
from crewai import Agent, BaseLLM, Crew, Task
from crewai.project import CrewBase, agent as made_agent, crew, task
from crewai.tools import tool


class Scripted(BaseLLM):
    def supports_function_calling(self):
        return True

    def call(self, messages, tools=None, **_):
        asked = [
            index
            for index, message in enumerate(messages)
            if message["role"] == "user" and "Analyze the tool result" not in message["content"]
        ]
        text = (
            messages[asked[-1]]["content"].split("Current Task: ")[-1].split("\n\nThis is the")[0]
        )
        answered = sum(message["role"] == "tool" for message in messages[asked[-1] :])
        verb, name, args = script.step(text.strip(), answered)
        name = f"turn {len(asked)}" if name == "(turns)" else name
        self._track_token_usage_internal({"prompt_tokens": 10, "completion_tokens": 2})
        if verb == "call":
            function = {"name": name, "arguments": json.dumps(args)}
            return [{"id": f"id-{len(messages)}", "type": "function", "function": function}]
        return name


def make():
    return Agent(
        role="desk",
        goal="Follow the script.",
        backstory="A clerk.",
        llm=Scripted(model="scripted-1"),
        tools=[tool(function) for function in script.TOOLS],
        max_retry_limit=0,
    )


def make_crew():
    clerk = make()
    order = Task(description="{request}", expected_output="what it says", agent=clerk)
    return Crew(agents=[clerk], tasks=[order])


@CrewBase
class Desk:
    @made_agent
    def clerk(self):
        return make()

    @task
    def order(self):
        return Task(description="{request}", expected_output="it", agent=self.clerk())

    @crew
    def crew(self):
        return Crew(agents=self.agents, tasks=self.tasks)


agent = make()
team = make_crew()
not_an_agent = 3
