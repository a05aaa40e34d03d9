"""openai (PyPI) gives up on a tool that takes too long, and sends the request again by itself: nothing runs twice."""

import json
import os

from openai import OpenAI

client = OpenAI(base_url=os.environ["DEFAULT_URL"], max_retries=2, timeout=1.5)
completion = client.chat.completions.create(model="scripted-1", messages=[{"role": "user", "content": "milk"}])
print(json.dumps({"text": completion.choices[0].message.content}))
