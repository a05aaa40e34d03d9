"""crewai: a crew of one agent, its ReAct fallback (a text protocol), delegation to a coworker, JSON answers; chat completions and Responses."""

import importlib.metadata

from application import play
from crewai import LLM, Agent, Crew, Process, Task
from crewai.tools import tool
from pydantic import BaseModel


class Weather(BaseModel):
    city: str
    degrees: int


def llm_of(run, **options):
    return LLM(model=f"openai/{run.model}", base_url=run.url, api_key=run.key, max_retries=0, **options)


def agent_of(run, llm=None, role="assistant", **options):
    options = {"tools": [tool(own) for own in run.tools()], **options}
    return Agent(role=role, goal="Answer.", backstory="An assistant.", llm=llm or llm_of(run), max_iter=40, max_retry_limit=0, verbose=False, **options)


def ask(run, output=None, crew=(), **options):
    agent = agent_of(run, **options)
    task = Task(description=run.ask, expected_output="A sentence.", agent=agent, output_pydantic=output)
    result = Crew(agents=[agent, *crew], tasks=[task], process=Process.sequential, verbose=False).kickoff()
    return result.pydantic.model_dump() if result.pydantic else result.raw


def poll(run):
    """crewai itself ends a run at the fifth equal result."""
    run.polls = 5
    return ask(run)


def streamed(run, **options):
    return ask(run, llm=llm_of(run, stream=True, **options))


def text_protocol(run):
    """Where a model isn't known to call functions, crewai has it write its calls as text."""
    llm = llm_of(run)
    object.__setattr__(llm, "supports_function_calling", lambda: False)
    return ask(run, llm=llm)


def subagents(run):
    desk = agent_of(run, role="weather_desk")
    return ask(run, tools=[], allow_delegation=True, crew=[desk])


responses = lambda function: lambda run: ask(run, llm=llm_of(run, api="responses")) if function is ask else streamed(run, api="responses")
scenes = {name: ask for name in ("weather", "poll", "rows", "parallel", "repair", "error")}
scenes |= {name: streamed for name in ("stream", "cut_text", "cut_call", "cut_quiet")}
scenes |= {"poll": poll, "subagents": subagents, "json": lambda run: ask(run, output=Weather), "text_protocol": text_protocol}
scenes |= {"weather_responses": responses(ask), "cut_text_responses": responses(streamed)}
play("crewai", importlib.metadata.version("crewai"), scenes)
