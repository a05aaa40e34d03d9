"""Stored responses and conversations with openai (PyPI), for tests/integration/stored.rs. Prints what the application saw."""

import json

import openai
from openai import OpenAI

MODEL = "m"
TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}

client = OpenAI(max_retries=0)
seen = {}

# A call, its result, and both kept in a conversation: as the sessions of agent frameworks do it.
conversation = client.conversations.create(items=[{"role": "user", "content": "What is the weather in Paris?"}], metadata={"topic": "weather"})
assert conversation.metadata == {"topic": "weather"}, conversation
history = [item.model_dump(exclude_none=True) for item in client.conversations.items.list(conversation.id, order="asc")]
response = client.responses.create(model=MODEL, input=history, tools=[TOOL], metadata={"call": "get_weather"}, store=True)
call = response.output[0]
seen["mark"] = call.call_id
result = {"type": "function_call_output", "call_id": call.call_id, "output": json.dumps({"degrees": 18})}
new = [call.model_dump(exclude_none=True, exclude={"id", "status"}), result, {"role": "assistant", "content": "It is 18 degrees."}]
client.conversations.items.create(conversation.id, items=new)
items = list(client.conversations.items.list(conversation.id, order="asc"))
seen["kinds"] = [item.type for item in items]
assert items[1].call_id == items[2].call_id == call.call_id, items

# Retrieved as it was given.
again = client.responses.retrieve(response.id)
seen["same"] = again.output == response.output
seen["input"] = [item.role for item in client.responses.input_items.list(response.id)]
seen["tokens"] = client.responses.input_tokens.count(model=MODEL, input="Hi").input_tokens

# In the background.
waiting = client.responses.create(model=MODEL, input="Hi", background=True, metadata={"say": "Hello."})
seen["background"] = [waiting.status]
while waiting.status in ("queued", "in_progress"):
    waiting = client.responses.retrieve(waiting.id)
    seen["background"].append(waiting.status)
seen["background"].append(waiting.output_text)
seen["cancelled"] = client.responses.cancel(client.responses.create(model=MODEL, input="Hi", background=True).id).status

# Deleted.
client.responses.delete(response.id)
try:
    client.responses.retrieve(response.id)
except openai.NotFoundError as error:
    seen["deleted"] = [client.conversations.delete(conversation.id).deleted, error.status_code]
print(json.dumps(seen))
