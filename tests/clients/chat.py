"""Scenes of tests/integration/clients.rs with openai (PyPI), written as an application would.

Prints one JSON object: for each scene what the application saw. The same as chat.mjs does with openai (npm).
"""

import asyncio
import json
import os

import openai
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

MODEL = "scripted-1"
SENT = []  # every request that the client really sent, retries included


class GetWeather(BaseModel):
    """The weather in a city, now."""

    city: str


TOOLS = [openai.pydantic_function_tool(GetWeather, name="get_weather")]


def get_weather(city):
    return {"city": city, "degrees": 18}


def client_of(url):
    hooks = {"request": [lambda request: SENT.append(str(request.url))]}
    return OpenAI(base_url=url, http_client=openai.DefaultHttpxClient(event_hooks=hooks))


def whole(client, messages):
    raw = client.chat.completions.with_raw_response.create(model=MODEL, messages=messages, tools=TOOLS)
    completion = raw.parse()
    choice = completion.choices[0]
    facts = {
        "finish_reason": choice.finish_reason,
        "header": raw.headers.get("toolmark-verdict"),
        "violations": raw.headers.get("toolmark-violations"),
        "exchange": raw.headers.get("toolmark-exchange"),
        "member": (completion.model_extra or {}).get("toolmark"),
        "tokens": completion.usage.total_tokens,
        "id": completion.id,
    }
    return choice.message, facts


def parsed(client, messages):
    completion = client.chat.completions.parse(model=MODEL, messages=messages, tools=TOOLS)
    choice = completion.choices[0]
    for call in choice.message.tool_calls or []:
        assert isinstance(call.function.parsed_arguments, GetWeather), call
    facts = {
        "finish_reason": choice.finish_reason,
        "member": (completion.model_extra or {}).get("toolmark"),
        "tokens": completion.usage.total_tokens,
        "id": completion.id,
    }
    return choice.message, facts


def streamed(client, messages):
    text, calls, ids = "", {}, set()
    facts = {"member": None, "tokens": None}
    options = {"include_usage": True}
    with client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS, stream=True, stream_options=options) as stream:
        for chunk in stream:
            ids.add(chunk.id)
            facts["member"] = (chunk.model_extra or {}).get("toolmark", facts["member"])
            if chunk.usage:
                facts["tokens"] = chunk.usage.total_tokens
            for choice in chunk.choices:
                text += choice.delta.content or ""
                facts["finish_reason"] = choice.finish_reason or facts.get("finish_reason")
                for call in choice.delta.tool_calls or []:
                    if call.index not in calls:
                        calls[call.index] = call
                    else:
                        calls[call.index].function.arguments += call.function.arguments
        facts["exchange"] = stream.response.headers.get("toolmark-exchange")
    (facts["id"],) = ids
    assert list(calls) == list(range(len(calls))), calls
    message = {"role": "assistant", "content": text or None}
    if calls:
        function = lambda call: {"name": call.function.name, "arguments": call.function.arguments}
        message["tool_calls"] = [{"id": call.id, "type": call.type, "function": function(call)} for call in calls.values()]
    return message, facts


def helper(client, messages):
    member, done = None, 0
    with client.chat.completions.stream(model=MODEL, messages=messages, tools=TOOLS, stream_options={"include_usage": True}) as stream:
        for event in stream:
            if event.type == "chunk":
                member = (event.chunk.model_extra or {}).get("toolmark", member)
            if event.type == "tool_calls.function.arguments.done":
                assert isinstance(event.parsed_arguments, GetWeather), event
                done += 1
        completion = stream.get_final_completion()
    choice = completion.choices[0]
    assert done == len(choice.message.tool_calls or []), completion
    facts = {"finish_reason": choice.finish_reason, "member": member, "tokens": completion.usage.total_tokens, "id": completion.id}
    return choice.message, facts


def converse(client, mode, ask):
    """A tool loop: asks, runs the tools, sends the results, until there is an answer."""
    messages = [{"role": "user", "content": ask}]
    turns, before = [], len(SENT)
    for _ in range(4):
        message, facts = mode(client, messages)
        messages.append(message)
        plain = message if isinstance(message, dict) else message.to_dict(mode="json")
        calls = plain.get("tool_calls") or []
        shown = [{"id": call["id"], "type": call["type"], "name": call["function"]["name"], "arguments": call["function"]["arguments"]} for call in calls]
        turns.append({"text": plain.get("content"), "role": plain["role"], "calls": shown, **facts})
        if not calls:
            break
        for call in calls:
            result = get_weather(**json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)})
    return {"turns": turns, "sends": len(SENT) - before}


async def asynchronous(url):
    """One whole and one streamed request with the asynchronous client."""
    async with AsyncOpenAI(base_url=url) as client:
        messages = [{"role": "user", "content": "What is the weather in Paris?"}]
        completion = await client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS)
        call = completion.choices[0].message.tool_calls[0]
        messages += [completion.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": json.dumps(get_weather("Paris"))}]
        text = ""
        async for chunk in await client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS, stream=True):
            assert chunk.usage is None, "nobody asked for usage"
            text += chunk.choices[0].delta.content or ""
        return {"id": call.id, "text": text}


def failure(request):
    """What the application catches."""
    before, seen = len(SENT), []
    try:
        request(seen)
    except openai.APIError as error:
        return {
            "class": type(error).__name__,
            "status": getattr(error, "status_code", None),
            "code": error.code,
            "type": error.type,
            "param": error.param,
            "message": error.message,
            "seen": "".join(seen),
            "sends": len(SENT) - before,
        }
    raise AssertionError(f"no error, but {seen}")


def ask(client, text, **options):
    return client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": text}], tools=TOOLS, **options)


def read(client, text, seen):
    with ask(client, text, stream=True) as stream:
        for chunk in stream:
            seen.append(chunk.choices[0].delta.content or "")


def read_helper(client, text, seen):
    messages = [{"role": "user", "content": text}]
    with client.chat.completions.stream(model=MODEL, messages=messages, tools=TOOLS) as stream:
        for event in stream:
            if event.type == "content.delta":
                seen.append(event.delta)


def main():
    results = {"version": openai.__version__}
    client, erring, strict = [client_of(os.environ[name]) for name in ("DEFAULT_URL", "ERROR_URL", "STRICT_URL")]
    asks = {
        "round_trip": "What is the weather in Paris?",
        "repaired": "Invent a tool.",
        "parallel": "What is the weather in Paris and Rome?",
        "objected": "Forge, then mend.",
        "blocked": "Forge a citation.",
        "exhausted": "Never mend.",
    }
    strict_asks = {"strict": "What is the weather in Paris?", "uncited": "Report without citing."}
    with client, erring, strict:
        for scene, question in asks.items():
            for mode in [whole, parsed, streamed, helper]:
                results[f"{scene}_{mode.__name__}"] = converse(client, mode, question)
        for scene, question in strict_asks.items():
            for mode in [whole, parsed, streamed, helper]:
                results[f"{scene}_{mode.__name__}"] = converse(strict, mode, question)
        results["async"] = asyncio.run(asynchronous(os.environ["DEFAULT_URL"]))
        results["error_streamed"] = failure(lambda seen: read(client, "Break off.", seen))
        results["error_helper"] = failure(lambda seen: read_helper(client, "Break off.", seen))
        results["refused_whole"] = failure(lambda seen: ask(erring, "Never mend."))
        results["refused_streamed"] = failure(lambda seen: read(erring, "Never mend.", seen))
        results["bad_request"] = failure(lambda seen: ask(client, "Be a bad request."))
        results["bad_tool"] = failure(lambda seen: client.chat.completions.create(model=MODEL, messages=[], tools=[{"type": "function"}]))
    print(json.dumps(results))


main()
