"""Scenes of tests/integration/responses_clients.rs with openai (PyPI) on the Responses API, written as an application would.

Prints one JSON object: for each scene what the application saw. The same as responses.mjs does with openai (npm).
"""

import asyncio
import json

import openai
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

from application import MODEL, SCENES, URL, Run

INSTRUCTIONS = "You know about cities."


class GetWeather(BaseModel):
    """The weather in a city, now."""

    city: str


class GetTime(BaseModel):
    """The time in a city, now."""

    city: str


def flat(tool):
    return {"type": "function", **tool["function"]}


TOOLS = [
    flat(openai.pydantic_function_tool(GetWeather, name="get_weather")),
    flat(openai.pydantic_function_tool(GetTime, name="get_time")),
]
PARSEABLE = [openai.pydantic_function_tool(GetWeather, name="get_weather"), openai.pydantic_function_tool(GetTime, name="get_time")]


def facts_of(response):
    return {"id": response.id, "status": response.status, "tokens": response.usage.total_tokens, "member": (response.model_extra or {}).get("toolmark")}


def whole(client, items, previous):
    raw = client.responses.with_raw_response.create(model=MODEL, instructions=INSTRUCTIONS, input=items, tools=TOOLS)
    response = raw.parse()
    header = {name: raw.headers.get(f"toolmark-{name}") for name in ("verdict", "violations", "exchange", "repairs")}
    return response, {**facts_of(response), "header": header}


def stateless(client, items, previous):
    """Nothing is kept upstream, and the items go back without the ids that they came with."""
    items = [{name: value for name, value in item.items() if name != "id"} for item in items]
    response = client.responses.create(model=MODEL, instructions=INSTRUCTIONS, input=items, tools=TOOLS, store=False)
    return response, facts_of(response)


def chained(client, items, previous):
    """The history stays upstream: only what is new goes there."""
    more = {"previous_response_id": previous} if previous else {}
    answered = max((at + 1 for at, item in enumerate(items) if item.get("role") == "assistant" or item.get("type") == "function_call"), default=0)
    response = client.responses.create(model=MODEL, instructions=INSTRUCTIONS, input=items[answered:], tools=TOOLS, **more)
    return response, facts_of(response)


def parsed(client, items, previous):
    response = client.responses.parse(model=MODEL, instructions=INSTRUCTIONS, input=items, tools=PARSEABLE)
    for item in response.output:
        if item.type == "function_call":
            assert isinstance(item.parsed_arguments, (GetWeather, GetTime)), item
    return response, facts_of(response)


def streamed(client, items, previous):
    """Reads the events as they come, and believes nothing that they don't all say."""
    deltas, texts, arguments, done, numbers, kinds, member = [], {}, {}, [], [], [], None
    with client.responses.create(model=MODEL, instructions=INSTRUCTIONS, input=items, tools=TOOLS, stream=True) as stream:
        for event in stream:
            numbers.append(event.sequence_number)
            kinds.append(event.type)
            member = (event.model_extra or {}).get("toolmark", member)
            if event.type == "response.output_text.delta":
                deltas.append(event.delta)
                place = (event.item_id, event.content_index)
                texts[place] = texts.get(place, "") + event.delta
            if event.type == "response.output_text.done":
                assert texts[event.item_id, event.content_index] == event.text, event
            if event.type == "response.content_part.done":
                assert texts[event.item_id, event.content_index] == event.part.text, event
            if event.type == "response.function_call_arguments.delta":
                arguments[event.item_id] = arguments.get(event.item_id, "") + event.delta
            if event.type == "response.function_call_arguments.done":
                assert arguments.get(event.item_id, event.arguments) == event.arguments, event
                arguments[event.item_id] = event.arguments
            if event.type == "response.output_item.added":
                assert event.output_index == len(done) and not (event.item.to_dict().get("content") or event.item.to_dict().get("arguments")), event
            if event.type == "response.output_item.done":
                assert event.output_index == len(done), event
                done.append(event.item)
            if event.type == "response.completed":
                response = event.response
    assert numbers == sorted(set(numbers)), numbers
    assert kinds[:2] == ["response.created", "response.in_progress"] and kinds[-1] == "response.completed", kinds
    plain = lambda items: [item.to_dict(mode="json") for item in items]
    assert plain(done) == plain(response.output), (done, response.output)
    parts = {(item.id, at): part.text for item in done if item.type == "message" for at, part in enumerate(item.content)}
    assert texts == parts, (texts, parts)
    assert arguments == {item.id: item.arguments for item in done if item.type == "function_call"}, (arguments, done)
    facts = facts_of(response)
    return response, {**facts, "member": member or facts["member"], "deltas": "".join(deltas)}


def helper(client, items, previous):
    deltas, member = [], None
    with client.responses.stream(model=MODEL, instructions=INSTRUCTIONS, input=items, tools=PARSEABLE) as stream:
        for event in stream:
            if event.type == "response.output_text.delta":
                deltas.append(event.delta)
            member = (event.model_extra or {}).get("toolmark", member)
        response = stream.get_final_response()
    facts = facts_of(response)
    return response, {**facts, "member": member or facts["member"], "deltas": "".join(deltas)}


def plain(item):
    """An item as it goes back."""
    item = item.to_dict(mode="json")
    item.pop("parsed_arguments", None)
    for part in item.get("content") or []:
        part.pop("parsed", None)
    return item


def converse(run, client, mode, ask):
    """A tool loop: asks, runs the tools, sends the results, until there is an answer."""
    items, turns, previous = [{"role": "user", "content": ask}], [], None
    said, calls, results = [], [], []
    for _ in range(4):
        response, facts = mode(client, items, previous)
        previous = response.id
        turns.append(facts)
        items += [plain(item) for item in response.output]
        said += [response.output_text] if response.output_text else []
        asked = [item for item in response.output if item.type == "function_call"]
        for call in asked:
            calls.append({"id": call.call_id, "name": call.name, "arguments": call.arguments})
            results.append(call.call_id)
            output = run.call(call.name, json.loads(call.arguments))
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": output})
        if not asked:
            break
    deltas = {"deltas": "".join(turn["deltas"] for turn in turns)} if "deltas" in turns[0] else {}
    return run.seen(text=response.output_text, said=said, calls=calls, results=results, turns=turns, **deltas)


async def asynchronous():
    """One request with the asynchronous client, whole and streamed; the input is a string."""
    async with AsyncOpenAI(base_url=URL) as client:
        request = {"model": MODEL, "input": "What is the weather in Paris?", "tools": TOOLS}
        response = await client.responses.create(**request)
        async for event in await client.responses.create(**request, stream=True):
            if event.type == "response.completed":
                streamed = event.response
        return [[item.name for item in answer.output if item.type == "function_call"] for answer in (response, streamed)]


def failures(client):
    """What the application catches, and what it reads of a stream that fails."""
    request, seen = {"model": MODEL, "instructions": INSTRUCTIONS, "tools": TOOLS}, []
    try:
        client.responses.create(input="Be a bad request.", **request)
        raise AssertionError("no error")
    except openai.APIStatusError as error:
        refused = {"class": type(error).__name__, "status": error.status_code, "type": error.type, "message": error.body["message"]}
    with client.responses.create(input="Break off.", stream=True, **request) as stream:
        for event in stream:
            if event.type == "response.output_text.delta":
                seen.append(event.delta)
    failed = {"seen": "".join(seen), "last": event.type, "status": event.response.status, "error": event.response.error.to_dict(mode="json")}
    return {"refused": refused, "failed": failed}


def main():
    results = {"version": openai.__version__}
    for scene, ask in SCENES.items():
        for mode in [whole, stateless, chained, parsed, streamed, helper]:
            run = Run()
            http = openai.DefaultHttpxClient(event_hooks={"request": [run.count]})
            with OpenAI(base_url=URL, http_client=http) as client:
                results[f"{scene}_{mode.__name__}"] = converse(run, client, mode, ask)
    with OpenAI(base_url=URL) as client:
        results["failures"] = failures(client)
    results["async"] = asyncio.run(asynchronous())
    print(json.dumps(results))


main()
