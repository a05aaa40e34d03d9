"""Scenes of tests/integration/claude_code.rs with claude-agent-sdk, which runs Claude Code's own binary with its own tools.

Prints one JSON object: what the application saw.
"""

import asyncio
import json
import os
from importlib.metadata import version

from claude_agent_sdk import AssistantMessage, ClaudeAgentOptions, ResultMessage, TextBlock, ToolResultBlock, ToolUseBlock, UserMessage, query

SCENES = json.loads(os.environ["SCENES"])  # by the scene's name: what the user asks
QUIET = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1"}


def text_of(content):
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or [])


async def play(ask, directory):
    noted = []
    options = ClaudeAgentOptions(
        model=os.environ["MODEL"],
        cwd=directory,
        allowed_tools=["Bash", "Read", "Write", "Edit", "Glob", "Grep"],
        permission_mode="acceptEdits",
        max_turns=60,
        setting_sources=[],
        env=QUIET,
        stderr=noted.append,
    )
    seen = {"said": [], "calls": [], "results": [], "result": None}
    async for message in query(prompt=ask, options=options):
        if isinstance(message, AssistantMessage):
            for block in message.content:
                if isinstance(block, TextBlock):
                    seen["said"].append(block.text)
                elif isinstance(block, ToolUseBlock):
                    seen["calls"].append({"id": block.id, "name": block.name, "input": block.input})
        elif isinstance(message, UserMessage) and not isinstance(message.content, str):
            for block in message.content:
                if isinstance(block, ToolResultBlock):
                    seen["results"].append({"id": block.tool_use_id, "is_error": bool(block.is_error), "text": text_of(block.content)})
        elif isinstance(message, ResultMessage):
            seen["result"] = {"subtype": message.subtype, "is_error": message.is_error, "text": message.result, "turns": message.num_turns}
    return {**seen, "stderr": noted}


async def main():
    results = {"version": version("claude-agent-sdk")}
    for scene, ask in SCENES.items():
        directory = os.path.join(os.getcwd(), scene)
        os.makedirs(directory)
        try:
            results[scene] = await play(ask, directory)
        except Exception as error:  # what the command-line program ends with
            results[scene] = {"failed": type(error).__name__, "message": str(error)}
    print(json.dumps(results))


asyncio.run(main())
