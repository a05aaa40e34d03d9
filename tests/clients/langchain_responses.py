"""Scenes of tests/integration/responses_clients.rs with LangChain and `use_responses_api=True`: a loop with two tools.

Prints one JSON object: for each scene what the application saw.
"""

import json
from importlib.metadata import version

import openai
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from application import MODEL, SCENES, URL, Run


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


def chained(llm, messages, deltas):
    """With a model that leaves the history upstream."""
    return llm.invoke(messages)


def converse(run, llm, mode, ask):
    tools, deltas = tools_of(run), []
    llm = llm.bind_tools(list(tools.values()))
    messages = [SystemMessage("You know about cities."), HumanMessage(ask)]
    said, calls, results = [], [], []
    for _ in range(4):
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
    facts = {"deltas": "".join(deltas)} if mode is streamed else {}
    return run.seen(text=messages[-1].text, said=said, calls=calls, results=results, **facts)


def main():
    results = {"version": version("langchain-openai")}
    for scene, ask in SCENES.items():
        for mode in [whole, streamed, chained]:
            run = Run()
            with openai.DefaultHttpxClient(event_hooks={"request": [run.count]}) as http:
                more = {"use_previous_response_id": True} if mode is chained else {}
                llm = ChatOpenAI(model=MODEL, base_url=URL, use_responses_api=True, http_client=http, **more)
                results[f"{scene}_{mode.__name__}"] = converse(run, llm, mode, ask)
    print(json.dumps(results))


main()
