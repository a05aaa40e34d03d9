"""A fixture that starts toolmark on a cassette: the agent under test talks to it as to a model, with no network.

Record a cassette once, with the real model behind it:

    toolmark serve --upstream https://api.openai.com/v1 --record session.jsonl
    OPENAI_BASE_URL=http://127.0.0.1:8787/v1 python agent.py
"""

import os
import pathlib
import subprocess

import pytest

TOOLMARK = os.environ.get("TOOLMARK", "toolmark")


@pytest.fixture(scope="session")
def toolmark(tmp_path_factory):
    """What to set as OPENAI_BASE_URL."""
    cassette = pathlib.Path(__file__).parent.parent / "cassettes" / "weather.jsonl"
    command = [TOOLMARK, "serve", "--replay", cassette, "--listen", "127.0.0.1:0"]
    environment = {**os.environ, "TOOLMARK_LEDGER__URL": "memory:"}
    with subprocess.Popen(command, cwd=tmp_path_factory.mktemp("toolmark"), env=environment, stdout=subprocess.PIPE, text=True) as serving:
        # The line that says where it listens; without one it has ended, and said why.
        url = next((line.split("OPENAI_BASE_URL=")[1].split()[0] for line in serving.stdout if "OPENAI_BASE_URL=" in line), None)
        assert url, "toolmark did not start"
        yield url
        serving.terminate()
