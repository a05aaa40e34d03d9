"""Records with pytest-recording (vcrpy) what tests/integration/cassettes/tools.rs asks for, and shows what it wrote.

UPSTREAM is the server to talk to, CASSETTES the directory to record in. Run again with PLAY set to a cassette of toolmark's
own export, it is vcrpy that plays it, with no server.
"""

import base64
import json
import os
import pathlib
import sys
import urllib.request

import pytest
import vcr
import yaml


def ask(url, body, headers=None):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json", **(headers or {})})
    with urllib.request.urlopen(request) as response:
        return response.read()


def plain(value):
    """YAML as JSON."""
    if isinstance(value, bytes):
        return {"!!binary": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


BODY = {"model": "m", "messages": [{"role": "user", "content": "Grüße, \"quoted\"\nand \U0001f600"}]}


def play(path):
    """Every recorded request again, answered by vcrpy alone."""
    wanted = yaml.safe_load(pathlib.Path(path).read_text())["interactions"]
    with vcr.use_cassette(path, record_mode="none", match_on=["method", "uri", "raw_body"]) as cassette:
        answers = []
        for interaction in wanted:
            request = interaction["request"]
            sent = urllib.request.Request(request["uri"], request["body"].encode(), {name: values[0] for name, values in request["headers"].items()})
            with urllib.request.urlopen(sent) as response:
                answers.append(response.read().decode())
        assert cassette.all_played
    print(json.dumps(answers))


def record():
    directory = pathlib.Path(os.environ["CASSETTES"])
    test = directory / "test_recorded.py"
    test.write_text(
        "import os, sys\n"
        f"sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})\n"
        "import pytest\n"
        "from record_vcr import BODY, ask\n"
        "@pytest.mark.vcr\n"
        "def test_whole_streamed_and_packed():\n"
        "    url = os.environ['UPSTREAM'] + '/chat/completions'\n"
        "    ask(url, BODY, {'authorization': 'Bearer sk-of-nobody-in-particular'})\n"
        "    ask(url, {**BODY, 'stream': True})\n"
        "    ask(url, {**BODY, 'packed': True}, {'accept-encoding': 'gzip'})\n"
    )
    status = pytest.main(["-q", "-p", "no:cacheprovider", "--record-mode=once", "--rootdir", str(directory), str(test)])
    assert status == 0, status
    (path,) = directory.glob("cassettes/**/*.yaml")
    print("\n" + json.dumps({"path": str(path), "yaml": plain(yaml.safe_load(path.read_text()))}))


if __name__ == "__main__":
    play(os.environ["PLAY"]) if "PLAY" in os.environ else record()
    sys.stdout.flush()
