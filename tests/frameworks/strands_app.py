"""strands: an agent that streams, agents as tools, results shortened by a hook, an answer as an object (through a tool)."""

import importlib.metadata

from application import PLACEHOLDER, play
from pydantic import BaseModel
from strands import Agent, tool
from strands.hooks import BeforeModelCallEvent
from strands.models.openai import OpenAIModel


class Weather(BaseModel):
    """The weather in a city."""

    city: str
    degrees: int


def agent_of(run, **options):
    chat = OpenAIModel(client_args={"base_url": run.url, "api_key": run.key, "default_headers": run.headers}, model_id=run.model)
    return Agent(model=chat, callback_handler=None, retry_strategy=None, **{"tools": [tool(own) for own in run.tools()], **options})


def text_of(result):
    return "".join(part.get("text", "") for part in result.message["content"])


def ask(run, **options):
    return text_of(agent_of(run, **options)(run.ask))


async def streamed(run):
    result = None
    async for event in agent_of(run).stream_async(run.ask):
        run.streamed += event.get("data", "")
        result = event.get("result", result)
    return text_of(result)


def editing(run):
    agent = agent_of(run)

    def clear(event: BeforeModelCallEvent):
        parts = [part for message in agent.messages for part in message["content"] if "toolResult" in part]
        for part in parts[:-2]:
            part["toolResult"]["content"] = [{"text": PLACEHOLDER}]

    agent.hooks.add_callback(BeforeModelCallEvent, clear)
    return text_of(agent(run.ask))


def subagents(run):
    desk = agent_of(run, name="weather_desk", description="Says what the weather is.")
    return ask(run, tools=[desk.as_tool()])


def answer_tool(run):
    return agent_of(run)(run.ask, structured_output_model=Weather).structured_output.model_dump()


scenes = {name: ask for name in ("weather", "poll", "rows", "parallel", "repair", "error")}
scenes |= {name: streamed for name in ("stream", "cut_text", "cut_call", "cut_quiet")}
scenes |= {"editing": editing, "subagents": subagents, "subagents_session": subagents, "answer_tool": answer_tool}
play("strands", importlib.metadata.version("strands-agents"), scenes)
