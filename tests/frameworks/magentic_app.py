"""magentic: a typed chat that runs calls with ids of its own making, and answers as objects through a tool."""

import importlib.metadata

from application import play
from magentic import AssistantMessage, Chat, FunctionCall, ParallelFunctionCall, StreamedStr, ToolResultMessage, UserMessage, prompt
from magentic.chat_model.openai_chat_model import OpenaiChatModel
from pydantic import BaseModel


class Weather(BaseModel):
    city: str
    degrees: int


def ask(run, kind=str):
    chat = Chat([UserMessage(run.ask)], functions=run.tools(), output_types=[kind, ParallelFunctionCall, FunctionCall], model=OpenaiChatModel(run.model, base_url=run.url, api_key=run.key))
    for _ in range(30):
        chat = chat.submit()
        content = chat.last_message.content
        if isinstance(content, FunctionCall):
            chat = chat.exec_function_call()
        elif isinstance(content, ParallelFunctionCall):
            chat = chat.exec_function_call()
        else:
            break
    if isinstance(content, StreamedStr):
        for piece in content:
            run.streamed += piece
        return run.streamed
    return content.model_dump() if isinstance(content, BaseModel) else content


streamed = lambda run: ask(run, kind=StreamedStr)
scenes = {name: ask for name in ("weather", "poll", "rows", "parallel", "repair", "error")}
scenes |= {name: streamed for name in ("stream", "cut_text", "cut_call", "cut_quiet")}
scenes |= {"answer_tool": lambda run: ask(run, kind=Weather)}
play("magentic", importlib.metadata.version("magentic"), scenes)
