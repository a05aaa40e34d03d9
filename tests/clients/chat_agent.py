"""Scenes of tests/integration/messages_clients.rs with openai (PyPI) and chat completions: the same agent as messages.py.

Prints one JSON object: for each scene what the application saw.
"""

import json
import os

import openai
from openai import OpenAI

from application import MODEL, SCENES, Run

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "The weather in a city, now.", "parameters": PARAMETERS}},
    {"type": "function", "function": {"name": "get_time", "description": "The time in a city, now.", "parameters": PARAMETERS}},
]


def whole(client, messages, deltas):
    return client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS).choices[0].message


def helper(client, messages, deltas):
    with client.chat.completions.stream(model=MODEL, messages=messages, tools=TOOLS, stream_options={"include_usage": True}) as stream:
        for event in stream:
            if event.type == "content.delta":
                deltas.append(event.delta)
        completion = stream.get_final_completion()
    # A stream that was cut has neither end nor usage.
    assert completion.choices[0].finish_reason is None or completion.usage.total_tokens > 0, completion
    return completion.choices[0].message


def converse(run, client, mode, ask):
    messages, deltas = [{"role": "system", "content": "You know about cities."}, {"role": "user", "content": ask}], []
    said, calls, results = [], [], []
    for _ in range(4):
        message = mode(client, messages, deltas)
        messages.append(message)
        said += [message.content] if message.content else []
        if not message.tool_calls:
            break
        for call in message.tool_calls:
            calls.append({"id": call.id, "name": call.function.name, "arguments": call.function.arguments})
            result = run.call(call.function.name, json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
            results.append(call.id)
    facts = {} if mode is whole else {"deltas": "".join(deltas)}
    return run.seen(text=said[-1], said=said, calls=calls, results=results, **facts)


def main():
    results = {"version": openai.__version__}
    for scene, ask in SCENES.items():
        for mode in [whole, helper]:
            run = Run()
            http = openai.DefaultHttpxClient(event_hooks={"request": [run.count]})
            with OpenAI(base_url=os.environ["OPENAI_BASE_URL"], http_client=http, max_retries=0) as client:
                try:
                    results[f"{scene}_{mode.__name__}"] = converse(run, client, mode, ask)
                except openai.APIError as error:
                    if not scene.startswith("failing_"):
                        raise
                    results[f"{scene}_{mode.__name__}"] = run.seen(failed=type(error).__name__, status=getattr(error, "status_code", None), message=error.message)
    print(json.dumps(results))


main()
