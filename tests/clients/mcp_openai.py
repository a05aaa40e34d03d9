"""The to-do scenario with openai (PyPI): toolmark runs the tools, the application only asks."""

import json
import os

from openai import OpenAI

client = OpenAI(base_url=os.environ["DEFAULT_URL"])
messages = [{"role": "user", "content": "Add milk"}]
raw = client.chat.completions.with_raw_response.create(model="scripted-1", messages=messages)
message = raw.parse().choices[0].message
whole = {"text": message.content, "calls": len(message.tool_calls or []), "verdict": raw.headers.get("toolmark-verdict")}

messages += [{"role": "assistant", "content": message.content}, {"role": "user", "content": "Now tea"}]
streamed = {"text": "", "calls": 0}
for chunk in client.chat.completions.create(model="scripted-1", messages=messages, stream=True):
    for choice in chunk.choices:
        streamed["text"] += choice.delta.content or ""
        streamed["calls"] += len(choice.delta.tool_calls or [])
print(json.dumps({"whole": whole, "streamed": streamed}))
