"""The first call of a newcomer's application: the environment alone says where toolmark is."""

import json

from openai import OpenAI

TOOL = {"type": "function", "function": {"name": "get_temperature", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
    "required": ["city", "unit"], "additionalProperties": False}}}

answer = OpenAI().chat.completions.with_raw_response.create(
    model="scripted", messages=[{"role": "user", "content": "How warm is it in Oslo, in Celsius?"}], tools=[TOOL])
call = answer.parse().choices[0].message.tool_calls[0]
print(json.dumps({"verdict": answer.headers["toolmark-verdict"], "id": call.id, "name": call.function.name, "arguments": json.loads(call.function.arguments)}))
