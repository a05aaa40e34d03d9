"""Scenes of tests/integration/messages_threads.rs with anthropic's (PyPI) own threads: an agent with two tools that sends only what is new.

Prints one JSON object: for each scene, whole and streamed, what the application saw.
"""

import json
import os

import anthropic
from anthropic import Anthropic

from application import MODEL, SCENES, Run

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
TOOLS = [
    {"name": "get_weather", "description": "The weather in a city, now.", "input_schema": SCHEMA},
    {"name": "get_time", "description": "The time in a city, now.", "input_schema": SCHEMA},
]


def whole(thread, message):
    return thread.send(message)


def streamed(thread, message):
    with thread.stream(message) as stream:
        return stream.get_final_message()


def converse(run, thread, send, asks):
    said, calls = [], []
    for ask in asks:
        message = {"role": "user", "content": ask}
        for _ in range(4):
            reply = send(thread, message)
            said += [block.text for block in reply.content if block.type == "text"]
            turn = [block for block in reply.content if block.type == "tool_use"]
            if not turn:
                break
            calls += [call.name for call in turn]
            results = [{"type": "tool_result", "tool_use_id": call.id, "content": run.call(call.name, call.input)} for call in turn]
            message = {"role": "user", "content": results}
    return run.seen(said=said, calls=calls, threaded=thread.previous_message_id is not None)


def main():
    results = {"version": anthropic.__version__}
    for scene, asks in SCENES.items():
        for send in (whole, streamed):
            run = Run()
            http = anthropic.DefaultHttpxClient(event_hooks={"request": [run.count]})
            with Anthropic(base_url=os.environ["ANTHROPIC_BASE_URL"], http_client=http, max_retries=0) as client:
                thread = client.beta.messages.thread(
                    model=MODEL,
                    max_tokens=5000,
                    system="You know about cities.",
                    tools=TOOLS,
                    thinking={"type": "adaptive"},
                    unsupported_request_behavior="continue_unthreaded",
                )
                results[f"{scene}_{send.__name__}"] = converse(run, thread, send, asks)
    print(json.dumps(results))


main()
