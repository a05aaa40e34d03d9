"""llama-index: its function agent, its ReAct agent (a text protocol), agents as tools; chat completions and Responses."""

import importlib.metadata

from application import PLACEHOLDER, play
from llama_index.core.agent.workflow import AgentStream, FunctionAgent, ReActAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai import OpenAIResponses
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel


class Weather(BaseModel):
    """The weather in a city."""

    city: str
    degrees: int


def llm_of(run, responses=False):
    if responses:
        # Its own table of models is of OpenAI's only.
        class Scripted(OpenAIResponses):
            @property
            def metadata(self):
                return llm_of(run).metadata

        return Scripted(model=run.model, api_base=run.url, api_key=run.key, max_retries=0)
    return OpenAILike(model=run.model, api_base=run.url, api_key=run.key, is_chat_model=True, is_function_calling_model=True, max_retries=0)


def agent_of(run, kind=FunctionAgent, responses=False, streaming=False, **options):
    tools = [FunctionTool.from_defaults(own) for own in run.tools()]
    return kind(llm=llm_of(run, responses), streaming=streaming, **{"tools": tools, **options})


async def ask(run, **options):
    result = await agent_of(run, **options).run(run.ask, max_iterations=40)
    return str(result.response.content)


async def streamed(run, **options):
    handler = agent_of(run, streaming=True, **options).run(run.ask, max_iterations=40)
    async for event in handler.stream_events():
        if isinstance(event, AgentStream):
            run.streamed += event.delta
    return str((await handler).response.content)


class Editing(FunctionAgent):
    """Results older than the last two are replaced in what the model gets."""

    async def take_step(self, ctx, llm_input, tools, memory):
        return await super().take_step(ctx, edited(llm_input), tools, memory)

    async def _get_response(self, current_llm_input, tools):
        return await super()._get_response(edited(current_llm_input), tools)


def edited(messages):
    messages = list(messages)
    for at in [at for at, message in enumerate(messages) if message.role == "tool"][:-2]:
        messages[at] = ChatMessage(role="tool", content=PLACEHOLDER, additional_kwargs=messages[at].additional_kwargs)
    return messages


async def subagents(run):
    async def weather_desk(question: str) -> str:
        """Asks the weather desk."""
        return str((await agent_of(run).run(question)).response.content)

    return await ask(run, tools=[FunctionTool.from_defaults(async_fn=weather_desk)])


async def json_answer(run):
    """A structured answer of the model, without an agent."""
    question = [ChatMessage(role="user", content="It is 18 degrees in Paris. What is the weather in Paris?")]
    return (await llm_of(run).as_structured_llm(Weather).achat(question)).raw.model_dump()


responses = lambda function: lambda run: function(run, responses=True)
scenes = {name: ask for name in ("weather", "poll", "rows", "parallel", "repair", "error")}
scenes |= {name: streamed for name in ("stream", "cut_text", "cut_call", "cut_quiet")}
scenes |= {"editing": lambda run: ask(run, kind=Editing), "subagents": subagents, "answer_tool": json_answer}
scenes |= {"text_protocol": lambda run: ask(run, kind=ReActAgent)}
scenes |= {"weather_responses": responses(ask), "poll_responses": responses(ask)}
scenes |= {f"{name}_responses": responses(streamed) for name in ("stream", "cut_text", "cut_call")}
play("llama_index", importlib.metadata.version("llama-index-core"), scenes)
