"""A chat with one tool, through toolmark.

    pip install anthropic
    ANTHROPIC_BASE_URL=http://127.0.0.1:8787 ANTHROPIC_API_KEY=sk-ant-… python chat.py What is the weather in Paris?
"""

import json
import os
import sys

from anthropic import Anthropic

tools = [
    {
        "name": "get_weather",
        "description": "The weather in a city, now.",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False},
    }
]


def get_weather(city: str) -> dict:
    return {"city": city, "degrees": 18}  # ask a real service here


functions = {"get_weather": get_weather}
messages = [{"role": "user", "content": " ".join(sys.argv[1:]) or "What is the weather in Paris?"}]

with Anthropic() as client:  # ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY come from the environment
    while True:
        message = client.messages.create(
            model=os.environ.get("ANTHROPIC_MODEL", "claude-sonnet-4-5"), max_tokens=4096, messages=messages, tools=tools
        )
        messages.append({"role": "assistant", "content": message.content})
        calls = [block for block in message.content if block.type == "tool_use"]
        if not calls:
            break
        results = []
        for call in calls:
            # toolmark let it through: the tool is one of ours, and the input fits its schema.
            result = functions[call.name](**call.input)
            results.append({"type": "tool_result", "tool_use_id": call.id, "content": json.dumps(result)})
        messages.append({"role": "user", "content": results})

print("".join(block.text for block in message.content if block.type == "text"))

# Present where toolmark found something: what it did, and why.
if verdict := (message.model_extra or {}).get("toolmark"):
    print(f"toolmark: {verdict['verdict']}, {', '.join(verdict['violations'])}")
