"""The to-do scenario on the Responses API with openai (PyPI): toolmark runs the tools, the application only asks."""

import json
import os

from openai import OpenAI

client = OpenAI(base_url=os.environ["DEFAULT_URL"])
raw = client.responses.with_raw_response.create(model="gpt-4o", input="Add milk")
response = raw.parse()
kinds = [item.type for item in response.output]
whole = {"text": response.output_text, "items": kinds, "verdict": raw.headers.get("toolmark-verdict")}

with client.responses.stream(model="gpt-4o", input="Now tea", previous_response_id=response.id) as stream:
    deltas = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
    final = stream.get_final_response()
streamed = {"text": final.output_text, "same": deltas == final.output_text, "items": [item.type for item in final.output]}
print(json.dumps({"whole": whole, "streamed": streamed}))
