"""haystack: an agent of its own, as a tool of another, with a hook that prunes results; chat completions and Responses."""

import importlib.metadata

from application import PLACEHOLDER, play
from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator, OpenAIResponsesChatGenerator
from haystack.dataclasses import ChatMessage, ToolCallResult
from haystack.hooks import FunctionHook
from haystack.components.agents.state import State
from haystack.tools import AgentTool, create_tool_from_function
from haystack.utils import Secret

SCHEMA = {
    "type": "json_schema",
    "json_schema": {
        "name": "Weather",
        "schema": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
            "required": ["city", "degrees"],
            "additionalProperties": False,
        },
    },
}


def agent_of(run, kind=OpenAIChatGenerator, generation=None, **options):
    generator = kind(model=run.model, api_base_url=run.url, api_key=Secret.from_token(run.key), generation_kwargs=generation, tools_strict=bool(generation))
    return Agent(chat_generator=generator, **{"tools": [create_tool_from_function(own) for own in run.tools()], **options})


def ask(run, **options):
    return agent_of(run, **options).run(messages=[ChatMessage.from_user(run.ask)])["messages"][-1].text


def streamed(run, **options):
    def chunk(chunk):
        run.streamed += chunk.content

    return ask(run, streaming_callback=chunk, **options)


def prune(state: State) -> None:
    messages = state.data["messages"]
    for at in [at for at, message in enumerate(messages) if message.tool_call_result][:-2]:
        old = messages[at].tool_call_result
        messages[at] = ChatMessage.from_tool(PLACEHOLDER, origin=old.origin)
    state.set("messages", messages, handler_override=lambda _, new: new)


def subagents(run):
    desk = agent_of(run)
    tool = AgentTool(agent=desk, name="weather_desk", description="Says what the weather is.")
    return ask(run, tools=[tool])


responses = lambda function: lambda run: function(run, kind=OpenAIResponsesChatGenerator)
scenes = {name: ask for name in ("weather", "poll", "rows", "parallel", "repair", "error")}
scenes |= {name: streamed for name in ("stream", "cut_text", "cut_call", "cut_quiet")}
scenes |= {"editing": lambda run: ask(run, hooks={"before_llm": [FunctionHook(prune)]}), "subagents": subagents}
scenes |= {"json": lambda run: ask(run, generation={"response_format": SCHEMA})}
scenes |= {"weather_responses": responses(ask), "poll_responses": responses(ask)}
scenes |= {f"{name}_responses": responses(streamed) for name in ("stream", "cut_text", "cut_call")}
play("haystack", importlib.metadata.version("haystack-ai"), scenes)
