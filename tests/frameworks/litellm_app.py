"""litellm: an application's own loop over `litellm.completion`, whole and streamed, and over `litellm.responses`."""

import importlib.metadata
import json

import litellm
from application import PLACEHOLDER, play
from pydantic import BaseModel

litellm.suppress_debug_info = True


class Weather(BaseModel):
    city: str
    degrees: int


def schema_of(function):
    name = {"get_weather": "city", "job_status": "job", "read_row": "row"}[function.__name__]
    parameters = {"type": "object", "properties": {name: {"type": "integer" if name == "row" else "string"}}, "required": [name]}
    return {"name": function.__name__, "description": function.__doc__, "parameters": parameters}


def converse(run, say, edit=lambda messages: None, **options):
    tools = {own.__name__: own for own in run.tools()}
    messages = [{"role": "user", "content": run.ask}]
    for _ in range(40):
        edit(messages)
        message = say(run, messages, [{"type": "function", "function": schema_of(own)} for own in tools.values()], **options)
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return message.content
        for call in message.tool_calls:
            if call.function.name not in tools:
                raise LookupError(f"no tool {call.function.name}")
            result = tools[call.function.name](**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})


def where(run):
    return {"model": f"openai/{run.model}", "api_base": run.url, "api_key": run.key, "max_retries": 0}


def whole(run, messages, tools, **options):
    return litellm.completion(messages=messages, tools=tools, **where(run), **options).choices[0].message


def stream(run, messages, tools):
    chunks = []
    for chunk in litellm.completion(messages=messages, tools=tools, stream=True, **where(run)):
        chunks.append(chunk)
        run.streamed += (chunk.choices[0].delta.content or "") if chunk.choices else ""
    return litellm.stream_chunk_builder(chunks, messages=messages).choices[0].message


def clear(messages):
    for old in [message for message in messages if message["role"] == "tool"][:-2]:
        old["content"] = PLACEHOLDER


def kept(run):
    """The Responses API, with what the server keeps."""
    tools = {own.__name__: own for own in run.tools()}
    offered = [{"type": "function", "strict": False, **schema_of(own)} for own in tools.values()]
    given, before = run.ask, None
    for _ in range(40):
        response = litellm.responses(input=given, tools=offered, previous_response_id=before, **where(run))
        before, given = response.id, []
        for item in response.output:
            if item.type == "function_call":
                result = tools[item.name](**json.loads(item.arguments))
                given.append({"type": "function_call_output", "call_id": item.call_id, "output": json.dumps(result)})
        if not given:
            return "".join(part.text for item in response.output if item.type == "message" for part in item.content)


ask = lambda run, **options: converse(run, whole, **options)
streamed = lambda run: converse(run, stream)
scenes = {name: ask for name in ("weather", "poll", "rows", "parallel", "repair", "error")}
scenes |= {name: streamed for name in ("stream", "cut_text", "cut_call", "cut_quiet")}
scenes |= {"editing": lambda run: ask(run, edit=clear), "json": lambda run: ask(run, response_format=Weather)}
scenes |= {"weather_responses": kept, "poll_responses": kept}
play("litellm", importlib.metadata.version("litellm"), scenes)
