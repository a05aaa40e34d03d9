"""A LangChain chat with one tool, through toolmark.

    pip install langchain-openai
    OPENAI_BASE_URL=http://127.0.0.1:8787/v1 OPENAI_API_KEY=sk-… python chat.py What is the weather in Paris?
"""

import os
import sys

from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


@tool
def get_weather(city: str) -> dict:
    """The weather in a city, now."""
    return {"city": city, "degrees": 18}  # ask a real service here


# Either API is enforced: leave `use_responses_api` out, and LangChain chooses the Responses API for some models.
# OPENAI_BASE_URL and OPENAI_API_KEY come from the environment; OPENAI_API_BASE would win over the former.
llm = ChatOpenAI(model=os.environ.get("OPENAI_MODEL", "gpt-4o-mini"), use_responses_api=False)
llm = llm.bind_tools([get_weather])
tools = {"get_weather": get_weather}
messages = [HumanMessage(" ".join(sys.argv[1:]) or "What is the weather in Paris?")]

while True:
    answer = llm.invoke(messages)
    messages.append(answer)
    if not answer.tool_calls:
        break
    for call in answer.tool_calls:
        # toolmark let it through: the tool is one of ours, and the arguments fit its schema.
        messages.append(tools[call["name"]].invoke(call))

print(answer.text)
