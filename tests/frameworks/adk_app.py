"""Google's Agent Development Kit on LiteLLM: agents, an agent as a tool, a callback that edits the context, a schema for the answer."""

import importlib.metadata

from application import PLACEHOLDER, play
from google.adk.agents import LlmAgent, RunConfig
from google.adk.agents.run_config import StreamingMode
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.adk.tools.agent_tool import AgentTool
from google.genai import types
from pydantic import BaseModel


class Weather(BaseModel):
    city: str
    degrees: int


def agent_of(run, name="assistant", **options):
    model = LiteLlm(model=f"openai/{run.model}", api_base=run.url, api_key=run.key, num_retries=0)
    return LlmAgent(name=name, model=model, instruction="Use your tools.", **{"tools": list(run.tools()), **options})


async def ask(run, mode=StreamingMode.NONE, **options):
    runner = InMemoryRunner(agent=agent_of(run, **options), app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id="user")
    question, answer = types.Content(role="user", parts=[types.Part(text=run.ask)]), None
    async for event in runner.run_async(user_id="user", session_id=session.id, new_message=question, run_config=RunConfig(streaming_mode=mode)):
        if event.error_code:
            raise RuntimeError(f"{event.error_code}: {event.error_message}")
        text = "".join(part.text or "" for part in event.content.parts or []) if event.content else ""
        if event.partial:
            run.streamed += text
        elif event.is_final_response():
            answer = text
    return answer


streamed = lambda run: ask(run, mode=StreamingMode.SSE)


def clear(callback_context, llm_request):
    parts = [part for content in llm_request.contents for part in content.parts or [] if part.function_response]
    for part in parts[:-2]:
        part.function_response = types.FunctionResponse(id=part.function_response.id, name=part.function_response.name, response={"result": PLACEHOLDER})


def subagents(run):
    desk = agent_of(run, name="weather_desk", description="Says what the weather is.")
    return ask(run, tools=[AgentTool(agent=desk)])


scenes = {name: ask for name in ("weather", "poll", "rows", "parallel", "repair", "error")}
scenes |= {name: streamed for name in ("stream", "cut_text", "cut_call", "cut_quiet")}
scenes |= {"editing": lambda run: ask(run, before_model_callback=clear), "subagents": subagents}
scenes |= {"answer_tool": lambda run: ask(run, output_schema=Weather)}
play("adk", importlib.metadata.version("google-adk"), scenes)
