"""A chat with one tool, through toolmark.

    pip install openai
    OPENAI_BASE_URL=http://127.0.0.1:8787/v1 OPENAI_API_KEY=sk-… python chat.py What is the weather in Paris?
"""

import json
import os
import sys

from openai import OpenAI, pydantic_function_tool
from pydantic import BaseModel


class GetWeather(BaseModel):
    """The weather in a city, now."""

    city: str


def get_weather(city: str) -> dict:
    return {"city": city, "degrees": 18}  # ask a real service here


tools = [pydantic_function_tool(GetWeather, name="get_weather")]
functions = {"get_weather": get_weather}
messages = [{"role": "user", "content": " ".join(sys.argv[1:]) or "What is the weather in Paris?"}]

with OpenAI() as client:  # OPENAI_BASE_URL and OPENAI_API_KEY come from the environment
    while True:
        completion = client.chat.completions.create(
            model=os.environ.get("OPENAI_MODEL", "gpt-4o-mini"), messages=messages, tools=tools
        )
        message = completion.choices[0].message
        messages.append(message)
        if not message.tool_calls:
            break
        for call in message.tool_calls:
            # toolmark let it through: the tool is one of ours, and the arguments fit its schema.
            result = functions[call.function.name](**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})

print(message.content)

# Present where toolmark found something: what it did, and why.
if verdict := (completion.model_extra or {}).get("toolmark"):
    print(f"toolmark: {verdict['verdict']}, {', '.join(verdict['violations'])}")
