"""langchain's agents on langgraph: tools, context editing by its middleware, JSON by provider and by tool; chat completions and Responses."""

import importlib.metadata

from application import play
from langchain.agents import create_agent
from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

LIMIT = {"recursion_limit": 80}


class Weather(BaseModel):
    """The weather in a city."""

    city: str
    degrees: int


def agent_of(run, responses=False, **options):
    chat = ChatOpenAI(model=run.model, base_url=run.url, api_key=run.key, default_headers=run.headers, use_responses_api=responses)
    return create_agent(chat, **{"tools": [tool(own) for own in run.tools()], **options})


def ask(run, **options):
    state = agent_of(run, **options).invoke({"messages": [("user", run.ask)]}, LIMIT)
    return state["structured_response"].model_dump() if "structured_response" in state else state["messages"][-1].text


def streamed(run, **options):
    for message, _ in agent_of(run, **options).stream({"messages": [("user", run.ask)]}, LIMIT, stream_mode="messages"):
        run.streamed += message.text if message.type == "AIMessageChunk" else ""
    return run.streamed


def editing(run):
    edit = ClearToolUsesEdit(trigger=10, keep=2, placeholder="[cleared]")
    return ask(run, middleware=[ContextEditingMiddleware(edits=[edit])])


def subagents(run):
    desk = agent_of(run)

    @tool
    def weather_desk(question: str) -> str:
        """Asks the weather desk."""
        return desk.invoke({"messages": [("user", question)]}, LIMIT)["messages"][-1].text

    return ask(run, tools=[weather_desk])


responses = lambda function, **options: lambda run: function(run, responses=True, **options)
scenes = {name: ask for name in ("weather", "poll", "rows", "parallel", "repair", "error")}
scenes |= {name: streamed for name in ("stream", "cut_text", "cut_call", "cut_quiet")}
scenes |= {"editing": editing, "subagents": subagents, "subagents_session": subagents}
scenes |= {"json": lambda run: ask(run, response_format=ProviderStrategy(Weather))}
scenes |= {"answer_tool": lambda run: ask(run, response_format=ToolStrategy(Weather))}
scenes |= {"weather_responses": responses(ask), "poll_responses": responses(ask), "json_responses": responses(ask, response_format=ProviderStrategy(Weather))}
scenes |= {f"{name}_responses": responses(streamed) for name in ("stream", "cut_text", "cut_call")}
play("langgraph", importlib.metadata.version("langgraph"), scenes)
