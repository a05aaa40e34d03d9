"""agno: agents, a team, JSON answers and compressed results; chat completions and Responses."""

import importlib.metadata

from agno.agent import Agent
from agno.compression.manager import CompressionManager
from agno.models.openai import OpenAIChat, OpenAIResponses
from agno.team import Team
from application import play
from pydantic import BaseModel


class Weather(BaseModel):
    city: str
    degrees: int


def model_of(run, kind=OpenAIChat):
    return kind(id=run.model, base_url=run.url, api_key=run.key, default_headers=run.headers)


def agent_of(run, kind=OpenAIChat, **options):
    return Agent(model=model_of(run, kind), tools=run.tools(), telemetry=False, **options)


def told(output):
    """What an application does with a run: agno reports errors as a status."""
    if output.status == "ERROR":
        raise RuntimeError(output.content)
    return output.content.model_dump() if isinstance(output.content, BaseModel) else output.content


def ask(run, **options):
    return told(agent_of(run, **options).run(run.ask))


def streamed(run, kind=OpenAIChat):
    for event in agent_of(run, kind).run(run.ask, stream=True):
        if event.event == "RunError":
            raise RuntimeError(event.content)
        if event.event == "RunContent":
            run.streamed += event.content or ""
    return run.streamed


def editing(run):
    manager = CompressionManager(model=model_of(run), compress_tool_results=True, compress_tool_results_limit=3)
    return ask(run, compression_manager=manager, compress_tool_results=True)


def subagents(run):
    desk = agent_of(run, name="Weather Desk", role="Says what the weather is.")
    return told(Team(members=[desk], model=model_of(run), telemetry=False).run(run.ask))


responses = lambda function: lambda run: function(run, kind=OpenAIResponses)
scenes = {name: ask for name in ("weather", "poll", "rows", "parallel", "repair", "error")}
scenes |= {name: streamed for name in ("stream", "cut_text", "cut_call", "cut_quiet")}
scenes |= {"editing": editing, "subagents": subagents, "subagents_session": subagents, "json": lambda run: ask(run, output_schema=Weather)}
scenes |= {"weather_responses": responses(ask), "poll_responses": responses(ask)}
scenes |= {f"{name}_responses": responses(streamed) for name in ("stream", "cut_text", "cut_call")}
play("agno", importlib.metadata.version("agno"), scenes)
