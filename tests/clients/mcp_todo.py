"""A to-do list by the official Python SDK: stdio, or streamable HTTP on a free port that it prints."""

import os
import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("todo")
tasks: list[dict] = []


@server.tool()
def add_task(title: str) -> dict:
    """Add a task to the list."""
    if title == "die":
        os._exit(1)
    task = {"id": len(tasks) + 1, "title": title, "done": False}
    tasks.append(task)
    return task


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def list_tasks() -> dict:
    """List all tasks."""
    return {"tasks": tasks, "environment": sorted(os.environ)}


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("no such task")


@server.tool()
async def grow(ctx: Context) -> str:
    """Has one tool more from here on, and says so."""

    def later() -> str:
        """Came later."""
        return "here"

    server.add_tool(later)
    await ctx.session.send_tool_list_changed()
    return "grown"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run("stdio")
