"""Scenes of tests/integration/responses_clients.rs with pydantic-ai and its prefix `openai:`, which is the Responses API.

Prints one JSON object: for each scene what the application saw.
"""

import asyncio
import json
from importlib.metadata import version

import openai
from openai import AsyncOpenAI
from pydantic_ai import Agent, PartDeltaEvent, PartStartEvent
from pydantic_ai.messages import ModelResponse, TextPart, TextPartDelta, ToolCallPart, ToolReturnPart
from pydantic_ai.models import infer_model
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

from application import MODEL, SCENES, URL, Run


def agent_of(run, client):
    model = infer_model(f"openai:{MODEL}", provider_factory=lambda name: OpenAIProvider(openai_client=client))
    assert isinstance(model, OpenAIResponsesModel), model
    agent = Agent(model, instructions="You know about cities.")

    @agent.tool_plain
    def get_weather(city: str) -> dict:
        """The weather in a city, now."""
        return run.get_weather(city)

    @agent.tool_plain
    def get_time(city: str) -> str:
        """The time in a city, now."""
        return run.get_time(city)

    return agent


def seen(run, result, **facts):
    messages = result.all_messages()
    parts = [part for message in messages if isinstance(message, ModelResponse) for part in message.parts]
    calls = [part for part in parts if isinstance(part, ToolCallPart)]
    returns = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    return run.seen(
        text=result.output,
        said=[part.content for part in parts if isinstance(part, TextPart)],
        calls=[{"id": call.tool_call_id, "name": call.tool_name, "arguments": call.args_as_json_str()} for call in calls],
        results=[part.tool_call_id for part in returns],
        **facts,
    )


async def whole(run, agent, ask):
    return seen(run, await agent.run(ask))


async def streamed(run, agent, ask):
    deltas = []
    async with agent.iter(ask) as steps:
        async for node in steps:
            if Agent.is_model_request_node(node):
                async with node.stream(steps.ctx) as events:
                    async for event in events:
                        if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                            deltas.append(event.part.content)
                        if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                            deltas.append(event.delta.content_delta)
    return seen(run, steps.result, deltas="".join(deltas))


async def main():
    results = {"version": version("pydantic-ai-slim")}
    for scene, ask in SCENES.items():
        for mode in [whole, streamed]:
            run = Run()
            http = openai.DefaultAsyncHttpxClient(event_hooks={"request": [run.count_async]})
            async with AsyncOpenAI(base_url=URL, http_client=http) as client:
                results[f"{scene}_{mode.__name__}"] = await mode(run, agent_of(run, client), ask)
    print(json.dumps(results))


asyncio.run(main())
