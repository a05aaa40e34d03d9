"""Scenes of tests/integration/responses_clients.rs with openai-agents: an agent with two tools, run to its end.

Prints one JSON object: for each scene what the application saw.
"""

import asyncio
import json
from importlib.metadata import version

import openai
from agents import Agent, ItemHelpers, MessageOutputItem, Runner, ToolCallItem, ToolCallOutputItem, function_tool, set_default_openai_client
from openai import AsyncOpenAI

from application import MODEL, SCENES, URL, Run


def agent_of(run):
    @function_tool
    def get_weather(city: str) -> str:
        """The weather in a city, now."""
        return run.call("get_weather", {"city": city})

    @function_tool
    def get_time(city: str) -> str:
        """The time in a city, now."""
        return run.call("get_time", {"city": city})

    return Agent(name="Guide", instructions="You know about cities.", tools=[get_weather, get_time], model=MODEL)


def seen(run, result, **facts):
    calls = [item.raw_item for item in result.new_items if isinstance(item, ToolCallItem)]
    return run.seen(
        text=result.final_output,
        said=[ItemHelpers.text_message_output(item) for item in result.new_items if isinstance(item, MessageOutputItem)],
        calls=[{"id": call.call_id, "name": call.name, "arguments": call.arguments} for call in calls],
        results=[item.raw_item["call_id"] for item in result.new_items if isinstance(item, ToolCallOutputItem)],
        **facts,
    )


async def whole(run, ask):
    return seen(run, await Runner.run(agent_of(run), ask))


async def streamed(run, ask):
    result, deltas, arguments = Runner.run_streamed(agent_of(run), ask), [], []
    async for event in result.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            deltas.append(event.data.delta)
        if event.type == "raw_response_event" and event.data.type == "response.function_call_arguments.done":
            arguments.append(event.data.arguments)
    return seen(run, result, deltas="".join(deltas), arguments=arguments)


async def main():
    results = {"version": version("openai-agents")}
    for scene, ask in SCENES.items():
        for mode in [whole, streamed]:
            run = Run()
            http = openai.DefaultAsyncHttpxClient(event_hooks={"request": [run.count_async]})
            async with AsyncOpenAI(base_url=URL, http_client=http) as client:
                set_default_openai_client(client, use_for_tracing=False)
                results[f"{scene}_{mode.__name__}"] = await mode(run, ask)
    print(json.dumps(results))


asyncio.run(main())
