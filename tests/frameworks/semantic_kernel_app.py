"""semantic-kernel: a chat agent with a plugin, an agent as another's plugin, a history that is edited, JSON answers; chat completions and Responses."""

import importlib.metadata

import openai
from application import PLACEHOLDER, play
from pydantic import BaseModel
from semantic_kernel.agents import ChatCompletionAgent, ChatHistoryAgentThread, OpenAIResponsesAgent
from semantic_kernel.connectors.ai import FunctionChoiceBehavior
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion, OpenAIChatPromptExecutionSettings
from semantic_kernel.contents import FunctionResultContent
from semantic_kernel.functions import KernelArguments, kernel_function


class Weather(BaseModel):
    city: str
    degrees: int


def client_of(run):
    return openai.AsyncOpenAI(base_url=run.url, api_key=run.key, default_headers=run.headers)


def plugin_of(run):
    plugin = type("Tools", (), {})()
    for own in run.tools():
        setattr(plugin, own.__name__, kernel_function(name=own.__name__, description=own.__doc__)(own))
    return plugin




def agent_of(run, name="assistant", plugins=None, output=None):
    service = OpenAIChatCompletion(ai_model_id=run.model, async_client=client_of(run))
    settings = OpenAIChatPromptExecutionSettings(response_format=output) if output else None
    choice = FunctionChoiceBehavior.Auto(maximum_auto_invoke_attempts=40)
    arguments = KernelArguments(settings=settings) if settings else None
    return ChatCompletionAgent(service=service, name=name, description="Says what the weather is.", plugins=plugins or [plugin_of(run)], function_choice_behavior=choice, arguments=arguments)


async def ask(run, **options):
    return str((await agent_of(run, **options).get_response(messages=run.ask)).message.content)


async def streamed(run):
    async for update in agent_of(run).invoke_stream(messages=run.ask):
        run.streamed += str(update.message.content)
    return run.streamed


async def editing(run):
    """A history that the application keeps and edits itself, a call at a time."""
    from semantic_kernel import Kernel
    from semantic_kernel.contents import ChatHistory

    kernel = Kernel()
    service = OpenAIChatCompletion(ai_model_id=run.model, async_client=client_of(run))
    kernel.add_service(service)
    kernel.add_plugin(plugin_of(run), plugin_name="tools")
    settings = OpenAIChatPromptExecutionSettings(function_choice_behavior=FunctionChoiceBehavior.Auto(auto_invoke=False))
    history = ChatHistory()
    history.add_user_message(run.ask)
    for _ in range(40):
        results = [item for message in history.messages for item in message.items if isinstance(item, FunctionResultContent)]
        for old in results[:-2]:
            old.result = PLACEHOLDER
        message = await service.get_chat_message_content(history, settings, kernel=kernel)
        calls = [item for item in message.items if item.content_type == "function_call"]
        if not calls:
            return str(message.content)
        history.add_message(message)
        for call in calls:
            await kernel.invoke_function_call(call, history)


async def subagents(run):
    return await ask(run, plugins=[agent_of(run, name="weather_desk")])


async def responses(run):
    agent = OpenAIResponsesAgent(ai_model_id=run.model, client=client_of(run), name="assistant", plugins=[plugin_of(run)])
    return str((await agent.get_response(messages=run.ask)).message.content)


async def streamed_responses(run):
    agent = OpenAIResponsesAgent(ai_model_id=run.model, client=client_of(run), name="assistant", plugins=[plugin_of(run)])
    async for update in agent.invoke_stream(messages=run.ask):
        run.streamed += str(update.message.content)
    return run.streamed


scenes = {name: ask for name in ("weather", "poll", "rows", "parallel", "repair", "error")}
scenes |= {name: streamed for name in ("stream", "cut_text", "cut_call", "cut_quiet")}
scenes |= {"editing": editing, "subagents": subagents, "subagents_session": subagents, "json": lambda run: ask(run, output=Weather)}
scenes |= {"weather_responses": responses, "stream_responses": streamed_responses, "cut_text_responses": streamed_responses}
play("semantic_kernel", importlib.metadata.version("semantic-kernel"), scenes)
