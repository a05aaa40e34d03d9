"""smolagents: an agent that calls tools and answers through one (`final_answer`); results go back as text."""

import importlib.metadata

from application import PLACEHOLDER, play
from smolagents import ActionStep, CodeAgent, OpenAIModel, ToolCallingAgent, tool


def model_of(run):
    return OpenAIModel(model_id=run.model, api_base=run.url, api_key=run.key)


def agent_of(run, kind=ToolCallingAgent, **options):
    options = {"max_steps": 30, "verbosity_level": -1, "tools": [tool(own) for own in run.tools()], **options}
    return kind(model=model_of(run), **options)


def ask(run, **options):
    return agent_of(run, **options).run(run.ask)


def streamed(run):
    """The user interface's loop: deltas as they come."""
    answer = None
    for step in agent_of(run, stream_outputs=True).run(run.ask, stream=True):
        run.streamed += getattr(step, "content", None) or ""
        answer = getattr(step, "output", answer)
    return answer


def editing(run):
    """Observations older than the last two are replaced in the agent's memory."""

    def clear(step, agent):
        for old in [step for step in agent.memory.steps if isinstance(step, ActionStep)][:-2]:
            old.observations = PLACEHOLDER

    return ask(run, step_callbacks=[clear])


def subagents(run):
    desk = agent_of(run, name="weather_desk", description="Says what the weather is.")
    return ask(run, tools=[], managed_agents=[desk])


scenes = {name: ask for name in ("weather", "poll", "rows", "parallel", "repair", "error")}
scenes |= {"stream": streamed, "cut_text": streamed, "cut_call": streamed, "cut_quiet": streamed, "editing": editing, "subagents": subagents}
# Code as text: no tools in the request.
scenes["text_protocol"] = lambda run: ask(run, kind=CodeAgent)
play("smolagents", importlib.metadata.version("smolagents"), scenes)
