"""instructor: every answer is an object, through a tool that is demanded, or as JSON."""

import importlib.metadata
import json

import instructor
import openai
from application import play
from pydantic import BaseModel


class Weather(BaseModel):
    """The weather in a city."""

    city: str
    degrees: int


def ask(run, mode=instructor.Mode.TOOLS, **options):
    """The application's own tool loop first; then its answer as an object."""
    client = openai.OpenAI(base_url=run.url, api_key=run.key)
    weather = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tools = [{"type": "function", "function": {"name": "get_weather", "description": "The weather in a city, now.", "parameters": weather}}]
    messages = [{"role": "user", "content": run.ask}]
    message = client.chat.completions.create(model=run.model, messages=messages, tools=tools).choices[0].message
    messages.append({"role": "assistant", "content": message.content, "tool_calls": [call.model_dump() for call in message.tool_calls]})
    for call in message.tool_calls or []:
        result = run.get_weather(**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})
    answers = instructor.from_openai(client, mode=mode)
    return answers.chat.completions.create(model=run.model, messages=messages, response_model=Weather, max_retries=2, **options).model_dump()


def streamed(run):
    client = instructor.from_openai(openai.OpenAI(base_url=run.url, api_key=run.key))
    last = None
    question = [{"role": "user", "content": "It is 18 degrees in Paris: degrees 18. What is the weather in Paris?"}]
    for partial in client.chat.completions.create_partial(model=run.model, messages=question, response_model=Weather, max_retries=1):
        last = partial
        run.streamed = last.model_dump_json()
    return last.model_dump()


scenes = {"answer_tool": ask, "json": lambda run: ask(run, mode=instructor.Mode.JSON_SCHEMA), "json_prompt": lambda run: ask(run, mode=instructor.Mode.MD_JSON)}
scenes |= {"stream": streamed, "cut_text": streamed, "cut_call": streamed, "error": ask}
play("instructor", importlib.metadata.version("instructor"), scenes)
