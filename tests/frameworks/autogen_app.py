"""autogen: an assistant with tools, an agent as a tool of another, a model context that edits."""

import importlib.metadata

from application import PLACEHOLDER, play
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import ModelClientStreamingChunkEvent
from autogen_agentchat.tools import AgentTool
from autogen_core.model_context import UnboundedChatCompletionContext
from autogen_core.models import FunctionExecutionResult, FunctionExecutionResultMessage
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient
from pydantic import BaseModel

INFO = {"vision": False, "function_calling": True, "json_output": True, "structured_output": True, "family": "unknown"}


class Weather(BaseModel):
    city: str
    degrees: int


class Edited(UnboundedChatCompletionContext):
    """Results older than the last two are replaced in what the model gets."""

    async def get_messages(self):
        messages = list(await super().get_messages())
        for at in [at for at, message in enumerate(messages) if isinstance(message, FunctionExecutionResultMessage)][:-2]:
            cleared = [FunctionExecutionResult(content=PLACEHOLDER, call_id=old.call_id, name=old.name, is_error=False) for old in messages[at].content]
            messages[at] = FunctionExecutionResultMessage(content=cleared)
        return messages


def agent_of(run, name="assistant", **options):
    client = OpenAIChatCompletionClient(model=run.model, base_url=run.url, api_key=run.key, default_headers=run.headers, model_info=INFO)
    return AssistantAgent(name, model_client=client, **{"tools": run.tools(), "max_tool_iterations": 30, "reflect_on_tool_use": True, **options})


async def ask(run, **options):
    message = (await agent_of(run, **options).run(task=run.ask)).messages[-1]
    return message.content.model_dump() if isinstance(message.content, BaseModel) else message.content


async def streamed(run):
    answer = None
    async for event in agent_of(run, model_client_stream=True).run_stream(task=run.ask):
        if isinstance(event, ModelClientStreamingChunkEvent):
            run.streamed += event.content
        if hasattr(event, "messages"):
            answer = event.messages[-1].content
    return answer


async def subagents(run):
    desk = agent_of(run, name="weather_desk", description="Says what the weather is.")
    return await ask(run, tools=[AgentTool(agent=desk, return_value_as_last_message=True)])


scenes = {name: ask for name in ("weather", "poll", "rows", "parallel", "repair", "error")}
scenes |= {name: streamed for name in ("stream", "cut_text", "cut_call", "cut_quiet")}
scenes |= {"editing": lambda run: ask(run, model_context=Edited()), "subagents": subagents, "subagents_session": subagents}
scenes |= {"json": lambda run: ask(run, output_content_type=Weather, tools=[FunctionTool(own, own.__doc__, strict=True) for own in run.tools()])}
play("autogen", importlib.metadata.version("autogen-agentchat"), scenes)
