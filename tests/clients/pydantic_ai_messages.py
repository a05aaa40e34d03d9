"""Scenes of tests/integration/messages_clients.rs with pydantic-ai and AnthropicModel.

Prints one JSON object: for each scene what the application saw.
"""

import asyncio
import json
import os
from importlib.metadata import version

import anthropic
from anthropic import AsyncAnthropic
from pydantic_ai import Agent, PartDeltaEvent, PartStartEvent
from pydantic_ai.exceptions import ModelAPIError, UnexpectedModelBehavior
from pydantic_ai.messages import ModelResponse, TextPart, TextPartDelta, ToolCallPart, ToolReturnPart
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from application import MODEL, SCENES, Run

URL = os.environ["ANTHROPIC_BASE_URL"]


def agent_of(run, client):
    agent = Agent(AnthropicModel(MODEL, provider=AnthropicProvider(anthropic_client=client)), instructions="You know about cities.")

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
            http = anthropic.DefaultAsyncHttpxClient(event_hooks={"request": [run.count_async]})
            async with AsyncAnthropic(base_url=URL, http_client=http, max_retries=0) as client:
                try:
                    results[f"{scene}_{mode.__name__}"] = await mode(run, agent_of(run, client), ask)
                except (ModelAPIError, UnexpectedModelBehavior, anthropic.APIError) as error:
                    if not scene.startswith("failing_"):
                        raise
                    results[f"{scene}_{mode.__name__}"] = run.seen(failed=type(error).__name__, status=getattr(error, "status_code", None), message=str(error))
    print(json.dumps(results))


asyncio.run(main())
