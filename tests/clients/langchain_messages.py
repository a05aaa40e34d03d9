"""Scenes of tests/integration/messages_clients.rs with LangChain's ChatAnthropic: a loop with two tools.

Prints one JSON object: for each scene what the application saw.
"""

import json
import os
from importlib.metadata import version

import anthropic
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import tool

from application import MODEL, SCENES, Run

URL = os.environ["ANTHROPIC_BASE_URL"]


def tools_of(run):
    @tool
    def get_weather(city: str) -> dict:
        """The weather in a city, now."""
        return run.get_weather(city)

    @tool
    def get_time(city: str) -> str:
        """The time in a city, now."""
        return run.get_time(city)

    return {"get_weather": get_weather, "get_time": get_time}


def whole(llm, messages, deltas):
    return llm.invoke(messages)


def streamed(llm, messages, deltas):
    answer = None
    for chunk in llm.stream(messages):
        deltas.append(chunk.text)
        answer = chunk if answer is None else answer + chunk
    return answer


def converse(run, llm, mode, ask):
    tools, deltas = tools_of(run), []
    llm = llm.bind_tools(list(tools.values()))
    messages = [SystemMessage("You know about cities."), HumanMessage(ask)]
    said, calls, results = [], [], []
    for _ in range(4):
        run.sends += 1
        answer = mode(llm, messages, deltas)
        assert not answer.invalid_tool_calls, answer
        messages.append(answer)
        said += [answer.text] if answer.text else []
        if not answer.tool_calls:
            break
        for call in answer.tool_calls:
            calls.append({"id": call["id"], "name": call["name"], "arguments": json.dumps(call["args"])})
            messages.append(tools[call["name"]].invoke(call))
            results.append(messages[-1].tool_call_id)
    facts = {} if mode is whole else {"deltas": "".join(deltas)}
    return run.seen(text=messages[-1].text, said=said, calls=calls, results=results, **facts)


def main():
    results = {"version": version("langchain-anthropic")}
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    for scene, ask in SCENES.items():
        for name, mode, options in [("whole", whole, {}), ("streamed", streamed, {}), ("thinking", streamed, thinking)]:
            run = Run()
            llm = ChatAnthropic(model=MODEL, base_url=URL, max_tokens=5000, max_retries=0, **options)
            try:
                results[f"{scene}_{name}"] = converse(run, llm, mode, ask)
            except anthropic.APIError as error:
                if not scene.startswith("failing_"):
                    raise
                results[f"{scene}_{name}"] = run.seen(failed=type(error).__name__, status=getattr(error, "status_code", None), message=error.message)
    print(json.dumps(results))


main()
