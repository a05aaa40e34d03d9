"""Tests of an agent against recorded traffic: `TOOLMARK=target/release/toolmark pytest examples/pytest`."""

import json

import openai
import pytest

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather in a city, now.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False},
        },
    }
]


def agent(url, question):
    """The agent under test: asks, runs the tools that are called, and gives back the answer and what was run."""
    client = openai.OpenAI(base_url=url, api_key="any")
    messages, ran = [{"role": "user", "content": question}], []
    while True:
        message = client.chat.completions.create(model="gpt-4o", messages=messages, tools=TOOLS).choices[0].message
        if not message.tool_calls:
            return message.content, ran
        messages.append(message)
        for call in message.tool_calls:
            arguments = json.loads(call.function.arguments)
            ran.append((call.function.name, arguments))
            result = {"city": arguments["city"], "degrees": 18}
            messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})


def test_it_calls_the_tool_and_reports_its_result(toolmark):
    answer, ran = agent(toolmark, "What is the weather in Paris?")
    assert ran == [("get_weather", {"city": "Paris"})]
    assert answer == "It is 18 degrees in Paris."


def test_an_invented_tool_never_reaches_it(toolmark):
    answer, ran = agent(toolmark, "Invent a tool.")
    assert ran == [("get_weather", {"city": "Paris"})]
    assert answer == "It is 18 degrees in Paris."


def test_what_was_not_recorded_is_an_error_that_says_what_is_nearest(toolmark):
    with pytest.raises(openai.NotFoundError) as error:
        agent(toolmark, "What is the weather in Rome?")
    assert error.value.code == "cassette_miss"
    assert "nearest" in error.value.message and "Rome" in error.value.message
