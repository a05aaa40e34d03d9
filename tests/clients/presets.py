"""Scenes of tests/integration/upstreams/presets.rs with openai (PyPI): one tool loop per provider and way to ask for it.

The history keeps only what frameworks keep of a call: its id, name and arguments. Prints one JSON object.
"""

import json
import os

import openai

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "parameters": CITY, "strict": True}},
    {"type": "function", "function": {"name": "get_time", "parameters": CITY}},
]


def options_of(provider):
    options = {"logprobs": True, "top_logprobs": 2}
    if provider != "llamacpp":
        options["parallel_tool_calls"] = True
    return options


def whole(client, **request):
    raw = client.chat.completions.with_raw_response.create(**request)
    choice = raw.parse().choices[0]
    return choice.message, choice.finish_reason, raw.headers.get("toolmark-upstream")


def streamed(client, **request):
    text, calls, finish = "", {}, None
    with client.chat.completions.create(stream=True, **request) as stream:
        for chunk in stream:
            for choice in chunk.choices:
                text += choice.delta.content or ""
                finish = choice.finish_reason or finish
                for call in choice.delta.tool_calls or []:
                    if call.index in calls:
                        calls[call.index].function.arguments += call.function.arguments
                    else:
                        calls[call.index] = call
        upstream = stream.response.headers.get("toolmark-upstream")
    assert list(calls) == list(range(len(calls))), calls
    message = openai.types.chat.ChatCompletionMessage.model_construct(content=text, tool_calls=list(calls.values()))
    return message, finish, upstream


def helper(client, **request):
    # The helper takes strict tools only.
    request["tools"] = [request["tools"][0]]
    with client.chat.completions.stream(**request) as stream:
        for _ in stream:
            pass
        choice = stream.get_final_completion().choices[0]
        upstream = stream._response.headers.get("toolmark-upstream")
    return choice.message, choice.finish_reason, upstream


def converse(client, provider, mode):
    messages = [{"role": "user", "content": "What is the weather in Paris and Rome?", "name": "someone"}]
    request = {"model": f"{provider}-1", "tools": TOOLS, **options_of(provider)}
    message, finish, upstream = mode(client, messages=messages, tool_choice="required", **request)
    calls = [{"id": call.id, "name": call.function.name, "arguments": call.function.arguments} for call in message.tool_calls]
    functions = [{"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}} for call in calls]
    messages.append({"role": "assistant", "content": None, "tool_calls": functions})
    for call in calls:
        call["arguments"] = json.loads(call["arguments"])
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps({"city": call["arguments"]["city"], "degrees": 18})})
    answer, _, _ = mode(client, messages=messages, **request)
    assert not answer.tool_calls, answer
    return {"calls": calls, "finish": finish, "text": answer.content, "upstream": upstream}


def failure(client, model, **options):
    seen = []
    try:
        answer = client.chat.completions.create(model=model, messages=[{"role": "user", "content": "x"}], **options)
        for chunk in answer if options else []:
            seen.extend(choice.delta.content or "" for choice in chunk.choices)
    except openai.APIError as error:
        return {"status": getattr(error, "status_code", None), "message": error.message, "seen": "".join(seen)}
    raise AssertionError(f"{model}: no error, but {answer}")


def main():
    results = {}
    with openai.OpenAI() as client:
        for provider in os.environ["PROVIDERS"].split(","):
            results[provider] = {mode.__name__: converse(client, provider, mode) for mode in (whole, streamed, helper)}
            results[provider]["error"] = failure(client, f"{provider}-error")
            results[provider]["breaks"] = failure(client, f"{provider}-breaks", stream=True)
    print(json.dumps(results))


main()
