"""Scenes of tests/integration/messages_clients.rs with anthropic (PyPI), written as an application would: a loop with two tools.

Prints one JSON object: for each scene what the application saw. The same as messages.mjs does with @anthropic-ai/sdk (npm).
"""

import json
import os

import anthropic
from anthropic import Anthropic

from application import MODEL, SCENES, Run

URL = os.environ["ANTHROPIC_BASE_URL"]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
TOOLS = [
    {"name": "get_weather", "description": "The weather in a city, now.", "input_schema": SCHEMA},
    {"name": "get_time", "description": "The time in a city, now.", "input_schema": SCHEMA},
]


def whole(client, request, deltas):
    return client.messages.create(**request).content


def helper(client, request, deltas):
    with client.messages.stream(**request) as stream:
        for text in stream.text_stream:
            deltas.append(text)
        return stream.get_final_message().content


def raw(client, request, deltas):
    """The events as they come, folded by hand."""
    blocks, inputs, stopped = [], {}, []
    with client.messages.create(**request, stream=True) as stream:
        for event in stream:
            if event.type == "content_block_start":
                assert event.index == len(blocks), event
                blocks.append(event.content_block.to_dict())
            elif event.type == "content_block_delta" and event.delta.type == "text_delta":
                deltas.append(event.delta.text)
                blocks[event.index]["text"] += event.delta.text
            elif event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                inputs[event.index] = inputs.get(event.index, "") + event.delta.partial_json
            elif event.type == "content_block_delta" and event.delta.type == "thinking_delta":
                blocks[event.index]["thinking"] += event.delta.thinking
            elif event.type == "content_block_delta" and event.delta.type == "signature_delta":
                blocks[event.index]["signature"] = event.delta.signature
            elif event.type == "message_delta":
                stopped.append(event.delta.stop_reason)
                assert event.usage.output_tokens > 0, event
    for index, text in inputs.items():
        blocks[index]["input"] = json.loads(text)
    (reason,) = stopped
    assert (reason == "tool_use") == any(block["type"] == "tool_use" for block in blocks), (reason, blocks)
    return blocks


def converse(run, client, mode, ask, options):
    messages, deltas = [{"role": "user", "content": ask}], []
    said, calls, results = [], [], []
    for _ in range(4):
        request = {"model": MODEL, "max_tokens": 5000, "system": "You know about cities.", "messages": messages, "tools": TOOLS, **options}
        content = mode(client, request, deltas)
        messages.append({"role": "assistant", "content": content})
        plain = [block if isinstance(block, dict) else block.to_dict() for block in content]
        said += [block["text"] for block in plain if block["type"] == "text"]
        turn = [block for block in plain if block["type"] == "tool_use"]
        if not turn:
            break
        answers = []
        for call in turn:
            calls.append({"id": call["id"], "name": call["name"], "arguments": json.dumps(call["input"])})
            answers.append({"type": "tool_result", "tool_use_id": call["id"], "content": run.call(call["name"], call["input"])})
            results.append(call["id"])
        messages.append({"role": "user", "content": answers})
    facts = {} if mode is whole else {"deltas": "".join(deltas)}
    return run.seen(text=said[-1], said=said, calls=calls, results=results, **facts)


def failure(run, client, mode, ask):
    """What the application catches."""
    deltas = []
    request = {"model": MODEL, "max_tokens": 5000, "messages": [{"role": "user", "content": ask}], "tools": TOOLS}
    try:
        content = mode(client, request, deltas)
    except anthropic.APIError as error:
        body = error.body if isinstance(error.body, dict) else {}
        kind = (body.get("error") or {}).get("type")
        return run.seen(failed=type(error).__name__, status=getattr(error, "status_code", None), type=kind, message=error.message)
    except ValueError as error:  # an answer without an end
        return run.seen(failed=None, content=str(error))
    return run.seen(failed=None, content=str(content))


def client_of(run):
    http = anthropic.DefaultHttpxClient(event_hooks={"request": [run.count]})
    return Anthropic(base_url=URL, http_client=http, max_retries=0)


def main():
    results = {"version": anthropic.__version__}
    modes = [("whole", whole, {}), ("raw", raw, {}), ("helper", helper, {})]
    modes.append(("manual", raw, {"thinking": {"type": "enabled", "budget_tokens": 2000}}))
    modes += [("adaptive_" + mode.__name__, mode, {"thinking": {"type": "adaptive"}}) for mode in (whole, raw)]
    for scene, ask in SCENES.items():
        for name, mode, options in modes:
            run = Run()
            with client_of(run) as client:
                if scene.startswith("failing_"):
                    results[f"{scene}_{name}"] = failure(run, client, mode, ask)
                else:
                    results[f"{scene}_{name}"] = converse(run, client, mode, ask, options)
    print(json.dumps(results))


main()
