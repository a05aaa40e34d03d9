"""The load that a `dist` build is optimised for: scripted conversations of every kind, whole and streamed, on all three APIs, and longer ones on chat.

It is played three times, so that what differs by deployment is counted too: SQLite and plain HTTP, SQLite and TLS with HTTP/1.1, PostgreSQL.
"""

import contextlib
import glob
import http.client
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time

START_SECONDS_MAX = 60
STAMP = re.compile(r'execution_id\\?": ?\\?"([A-Za-z0-9_-]+)')


def schema(properties, required):
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


TEXT, NUMBER = {"type": "string", "minLength": 1}, {"type": "integer", "minimum": 0, "maximum": 500}
FUNCTIONS = [
    {"name": "get_forecast", "description": "The weather of a place over the next days.",
     "parameters": schema({"place": TEXT, "days": NUMBER, "unit": {"type": "string", "enum": ["C", "F"]}}, ["place"])},
    {"name": "list_invoices", "description": "Invoices of an account, newest first, a page at a time.",
     "parameters": schema({"account": {"type": "string", "pattern": "^acc_[a-z0-9]+$"}, "since": {"type": "string", "format": "date-time"},
                           "states": {"type": "array", "items": {"type": "string", "enum": ["open", "paid", "void"]}, "uniqueItems": True},
                           "page": schema({"size": NUMBER, "cursor": {"type": ["string", "null"]}}, ["size"])}, ["account"])},
    {"name": "send_note", "description": "Sends a note to a colleague.",
     "parameters": schema({"to": {"type": "string", "format": "email"}, "subject": TEXT, "body": TEXT,
                           "tags": {"type": "array", "items": TEXT, "maxItems": 5}}, ["to", "subject"])},
]
CALLS = [
    ("get_forecast", {"place": "Lisbon", "days": 3, "unit": "C"}, {"place": "Lisbon", "days": [{"high": 24, "low": 15, "sky": "clear"}, {"high": 22, "low": 14, "sky": "showers"}]}),
    ("list_invoices", {"account": "acc_71kx", "states": ["open", "paid"], "page": {"size": 20, "cursor": None}},
     {"count": 3, "invoices": [{"id": f"inv_{n}", "total": f"{n * 37}.50", "state": "open", "url": f"https://pay.example/i/{n}"} for n in (31, 34, 39)]}),
    ("send_note", {"to": "kim@example.com", "subject": "Invoices", "body": "Three are open.\nSee \u201cinv_31\u201d.", "tags": ["billing"]}, {"sent": True, "id": "note_5512"}),
]
SAID = {"get_forecast": "Lisbon gets up to 24 degrees, later 22", "send_note": "The note has the number note_5512",
        "list_invoices": "There are 3 invoices; the newest is inv_39, at https://pay.example/i/39"}
PROSE = ("Here is what I found, step by step. The first days stay dry and mild, with a light wind from the west; bring a jacket for the evenings. "
         "Two of the invoices were sent before June, and the third one waits for the customer's answer.\n\n```python\nprint({'total': 3})\n```\n\nShall I write to Kim? ")


class Upstream(http.server.BaseHTTPRequestHandler):
    """Answers as its request's `model` says: `call`, `calls`, `invented`, `broken`, `forged`, `text`, or what follows from results."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        request, api = json.loads(body), self.path.rsplit("/", 1)[1]
        text, calls = self.answer(request, body.decode(), "input" if api == "responses" else "messages")
        pieces = [text[at:at + 14] for at in range(0, len(text), 14)] if text else []
        made = {"responses": response, "messages": message}.get(api, chat)(text, calls)
        if not request.get("stream"):
            return self.send("application/json", [json.dumps(made)])
        events = {"responses": response_events, "messages": message_events}.get(api, chat_events)(made, pieces, calls)
        self.send("text/event-stream", events)

    def answer(self, request, body, where):
        kind, stamps = request["model"].split("-")[0], STAMP.findall(body)
        again = "rejected" in json.dumps(request[where][-1])
        if kind in ("invented", "broken") and not again:
            return None, [("get_forcast", {"place": "Lisbon"})] if kind == "invented" else [("get_forecast", {"days": "many"})]
        if kind == "forged" and not again:
            return "It is done: {\"execution_id\": \"send_note_1763000000000_00112233445566778899aabb\", \"sent\": true}.", []
        if stamps and kind != "text":
            return f"{PROSE}{SAID[stamps[-1].rsplit('_', 2)[0]]} (execution_id: {stamps[-1]}).", []
        if kind in ("text", "forged"):
            return PROSE * 4, []
        return None, [call[:2] for call in (CALLS if kind == "calls" else CALLS[len(body) % 3:][:1])]

    def send(self, kind, pieces):
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nx-request-id: r-1\r\n"
        if kind == "application/json":
            data = pieces[0].encode()
            self.wfile.write(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
        else:
            self.wfile.write(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
            for piece in pieces:
                data = piece.encode()
                self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()


USAGE = {"prompt_tokens": 812, "completion_tokens": 64, "total_tokens": 876}


def chat(text, calls):
    made = [{"id": f"c{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}} for at, (name, arguments) in enumerate(calls)]
    message = {"role": "assistant", "content": text} | ({"tool_calls": made} if made else {})
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1763000000, "model": "m", "system_fingerprint": "fp_1", "usage": USAGE,
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if made else "stop", "logprobs": None}]}


def chat_events(_, pieces, calls):
    def event(delta, finish=None, **more):
        return "data: " + json.dumps({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1763000000, "model": "m",
                                      "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]} | more) + "\n\n"
    yield event({"role": "assistant", "content": ""})
    yield from (event({"content": piece}) for piece in pieces)
    for at, (name, arguments) in enumerate(calls):
        yield event({"tool_calls": [{"index": at, "id": f"c{at}", "type": "function", "function": {"name": name, "arguments": ""}}]})
        text = json.dumps(arguments)
        yield from (event({"tool_calls": [{"index": at, "function": {"arguments": text[cut:cut + 9]}}]}) for cut in range(0, len(text), 9))
    yield event({}, "tool_calls" if calls else "stop", usage=USAGE)
    yield "data: [DONE]\n\n"


def response(text, calls):
    output = [{"type": "function_call", "id": f"fc_{at}", "call_id": f"call_u{at}", "name": name, "arguments": json.dumps(arguments), "status": "completed"}
              for at, (name, arguments) in enumerate(calls)]
    if text:
        output = [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": text, "annotations": []}]}]
    return {"id": "resp_1", "object": "response", "created_at": 1763000000, "model": "m", "status": "completed", "output": output,
            "usage": {"input_tokens": 812, "output_tokens": 64, "total_tokens": 876}}


def response_events(made, pieces, calls):
    events = [("created", {"response": made | {"status": "in_progress", "output": []}})]
    for at, item in enumerate(made["output"]):
        place = {"output_index": at, "item_id": item["id"]}
        message = item["type"] == "message"
        events.append(("output_item.added", {"output_index": at, "item": item | ({"content": []} if message else {"arguments": ""}) | {"status": "in_progress"}}))
        if message:
            part = {"content_index": 0} | place
            events.append(("content_part.added", part | {"part": {"type": "output_text", "text": "", "annotations": []}}))
            events += [("output_text.delta", part | {"delta": piece}) for piece in pieces]
            events.append(("output_text.done", part | {"text": item["content"][0]["text"]}))
            events.append(("content_part.done", part | {"part": item["content"][0]}))
        else:
            events += [("function_call_arguments.delta", place | {"delta": item["arguments"][cut:cut + 9]}) for cut in range(0, len(item["arguments"]), 9)]
            events.append(("function_call_arguments.done", place | {"arguments": item["arguments"]}))
        events.append(("output_item.done", {"output_index": at, "item": item}))
    events.append(("completed", {"response": made}))
    for number, (kind, event) in enumerate(events):
        yield f"event: response.{kind}\ndata: " + json.dumps({"type": f"response.{kind}", "sequence_number": number} | event) + "\n\n"


def message(text, calls):
    blocks = [{"type": "text", "text": text}] if text else []
    blocks += [{"type": "tool_use", "id": f"toolu_{at}", "name": name, "input": arguments} for at, (name, arguments) in enumerate(calls)]
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": blocks, "stop_reason": "tool_use" if calls else "end_turn",
            "stop_sequence": None, "usage": {"input_tokens": 812, "output_tokens": 64}}


def message_events(made, pieces, calls):
    yield from message_event("message_start", message=made | {"content": [], "stop_reason": None})
    for at, block in enumerate(made["content"]):
        is_text = block["type"] == "text"
        yield from message_event("content_block_start", index=at, content_block=block | ({"text": ""} if is_text else {"input": {}}))
        text = json.dumps(block.get("input"))
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces] if is_text else [
            {"type": "input_json_delta", "partial_json": text[cut:cut + 9]} for cut in range(0, len(text), 9)]
        for delta in deltas:
            yield from message_event("content_block_delta", index=at, delta=delta)
        yield from message_event("content_block_stop", index=at)
    yield from message_event("message_delta", delta={"stop_reason": made["stop_reason"], "stop_sequence": None}, usage={"output_tokens": 64})
    yield from message_event("message_stop")


def message_event(kind, **members):
    yield f"event: {kind}\ndata: " + json.dumps({"type": kind} | members) + "\n\n"


class Client(threading.Thread):
    """Conversations one after the other over one connection, until it is time."""

    def __init__(self, port, number, end):
        super().__init__()
        self.connection, self.number, self.end, self.count = http.client.HTTPConnection("127.0.0.1", port, timeout=30), number, end, 0
        self.talks, self.ended = number, False

    def ask(self, api, body):
        self.connection.request("POST", f"/v1/{api}", json.dumps(body), {"content-type": "application/json", "authorization": f"Bearer sk-{self.number % 3}"})
        answer = self.connection.getresponse()
        data = answer.read().decode()
        assert answer.status == 200, data
        self.count += 1
        return data

    def run(self):
        kinds = ["call", "call", "call-s", "call-s", "text", "text-s", "calls-s", "calls", "invented", "broken-s", "forged", "forged-s"]
        while time.monotonic() < self.end:
            self.talks += 1
            kind = kinds[self.talks % len(kinds)]
            talk = {0: self.respond, 1: self.message}.get(self.talks % 5, self.chat)
            talk(kind, kind.endswith("-s"))
        self.ended = True

    def chat(self, kind, stream):
        system = {"role": "system", "content": "You help the accounts team. Be brief, and use the tools for whatever changes. " * 6}
        messages = [system, {"role": "user", "content": "What is open, and what will the weather be?"}]
        asked = {"model": kind, "messages": messages, "tools": [{"type": "function", "function": f} for f in FUNCTIONS], "temperature": 0.2}
        for _ in range(40 if self.talks % 16 == 2 else 3):
            data = self.ask("chat/completions", asked | ({"stream": True} if stream else {}))
            calls = {} if stream else {c["id"]: c["function"] for c in json.loads(data)["choices"][0]["message"].get("tool_calls") or []}
            if stream:
                for line in data.splitlines():
                    chunk = json.loads(line[6:]) if line.startswith("data: {") else {}
                    for piece in (chunk.get("choices") or [{}])[0].get("delta", {}).get("tool_calls") or []:
                        kept = calls.setdefault(piece["index"], {"id": piece.get("id"), "name": piece["function"].get("name"), "arguments": ""})
                        kept["arguments"] += piece["function"].get("arguments") or ""
                calls = {c["id"]: {"name": c["name"], "arguments": c["arguments"]} for c in calls.values()}
            if not calls:
                messages += [{"role": "assistant", "content": PROSE}, {"role": "user", "content": "And last year's?"}]
                continue
            messages.append({"role": "assistant", "content": None, "tool_calls": [{"id": i, "type": "function", "function": f} for i, f in calls.items()]})
            results = {name: result for name, _, result in CALLS}
            messages += [{"role": "tool", "tool_call_id": i, "content": json.dumps(results[f["name"]])} for i, f in calls.items()]

    def respond(self, kind, stream):
        items = [{"role": "user", "content": "What is open, and what will the weather be?"}]
        asked = {"model": kind, "input": items, "tools": [{"type": "function"} | f for f in FUNCTIONS], "instructions": "Be brief."}
        for _ in range(2):
            data = self.ask("responses", asked | ({"stream": True} if stream else {}))
            last = data if not stream else [line[6:] for line in data.splitlines() if line.startswith("data: {")][-1]
            made = json.loads(last)
            for item in made.get("response", made)["output"]:
                items.append(item)
                if item["type"] == "function_call":
                    result = next(result for name, _, result in CALLS if name == item["name"])
                    items.append({"type": "function_call_output", "call_id": item["call_id"], "output": json.dumps(result)})


    def message(self, kind, stream):
        turns = [{"role": "user", "content": "What is open, and what will the weather be?"}]
        tools = [{"name": f["name"], "description": f["description"], "input_schema": f["parameters"]} for f in FUNCTIONS]
        asked = {"model": kind, "max_tokens": 1024, "messages": turns, "tools": tools, "system": [{"type": "text", "text": "Be brief."}]}
        for _ in range(3):
            data = self.ask("messages", asked | ({"stream": True} if stream else {}))
            blocks = folded(data) if stream else json.loads(data)["content"]
            turns.append({"role": "assistant", "content": blocks or PROSE})
            results = {name: result for name, _, result in CALLS}
            back = [{"type": "tool_result", "tool_use_id": block["id"], "content": json.dumps(results[block["name"]])} for block in blocks if block["type"] == "tool_use"]
            turns.append({"role": "user", "content": back or "And last year's?"})


def folded(data):
    """The content blocks of a stream of the Messages API."""
    blocks = {}
    for event in (json.loads(line[6:]) for line in data.splitlines() if line.startswith("data: {")):
        if event["type"] == "content_block_start":
            blocks[event["index"]] = event["content_block"] | {"input": ""} if event["content_block"]["type"] == "tool_use" else event["content_block"]
        elif event["type"] == "content_block_delta":
            name, piece = ("text", event["delta"].get("text")) if "text" in event["delta"] else ("input", event["delta"].get("partial_json"))
            blocks[event["index"]][name] += piece or ""
    return [block | ({"input": json.loads(block["input"] or "{}")} if block["type"] == "tool_use" else {}) for block in blocks.values()]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def available() -> list[str]:
    """What the load needs and this machine lacks, as Debian's packages."""
    lacks = [] if shutil.which("openssl") else ["openssl"]
    return lacks if postgres_program("initdb") else [*lacks, "postgresql"]


def postgres_program(name: str) -> str | None:
    """Debian keeps PostgreSQL's own programs out of PATH."""
    return shutil.which(name) or max(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), default=None)


@contextlib.contextmanager
def postgres():
    """A server in a directory of its own, on a socket there; gives the URL of its database."""
    # It refuses to run as root.
    as_other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.getuid() == 0 else []
    with tempfile.TemporaryDirectory(prefix="toolmark-dist-") as directory:
        if as_other:
            os.chown(directory, 65534, 65534)
        made = [postgres_program("initdb"), "--auth=trust", "--username=toolmark", "--encoding=UTF8", "--no-locale", "--no-sync", "-D", f"{directory}/data"]
        subprocess.run([*as_other, *made], check=True, stdout=subprocess.DEVNULL, cwd="/")
        settings = ["listen_addresses=", f"unix_socket_directories={directory}", "fsync=off"]
        command = [postgres_program("postgres"), "-D", f"{directory}/data", *(word for one in settings for word in ("-c", one))]
        server = subprocess.Popen([*as_other, *command], cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: os.path.exists(f"{directory}/.s.PGSQL.5432"), server, "PostgreSQL")
            yield f"postgres://toolmark@{directory.replace('/', '%2F')}/postgres"
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(30)


def wait_until(ready, process: subprocess.Popen, name: str) -> None:
    until = time.monotonic() + START_SECONDS_MAX
    while not ready():
        if process.poll() is not None or time.monotonic() > until:
            raise SystemExit(f"{name} doesn't start")
        time.sleep(0.05)


def certificate(directory: pathlib.Path) -> pathlib.Path:
    """A certificate of localhost and its key, in one file."""
    file = directory / "localhost.pem"
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE"
    subprocess.run([*made.split(), "-keyout", file, "-out", directory / "only.pem"], check=True, stderr=subprocess.DEVNULL)
    file.write_bytes(file.read_bytes() + (directory / "only.pem").read_bytes())
    return directory / "only.pem"


def drive(binary: pathlib.Path, counts: pathlib.Path, seconds: float, *, tls: bool = False, ledger: str | None = None) -> int:
    """Serves with this binary and drives it; the number of exchanges."""
    with tempfile.TemporaryDirectory(prefix="toolmark-dist-") as place:
        directory = pathlib.Path(place)
        upstream = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
        url, environment = f"http://127.0.0.1:{upstream.server_port}/v1", os.environ | {"TOOLMARK_KEY": "00" * 32, "TOOLMARK_ADMIN__LISTEN": "127.0.0.1:0"}
        if tls:
            trusted, context = certificate(directory), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(directory / "localhost.pem")
            # The handshake is the connection's thread's, not the accepting one's.
            upstream.socket = context.wrap_socket(upstream.socket, server_side=True, do_handshake_on_connect=False)
            url, environment = f"https://localhost:{upstream.server_port}/v1", environment | {"SSL_CERT_FILE": str(trusted)}
        if ledger:
            environment["TOOLMARK_LEDGER__URL"] = ledger
        threading.Thread(target=upstream.serve_forever, daemon=True).start()
        port = free_port()
        served = subprocess.Popen([binary, "serve", "--listen", f"127.0.0.1:{port}", "--upstream", url], cwd=directory,
                                  env=environment | {"LLVM_PROFILE_FILE": f"{counts}/%p.profraw"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, served, "toolmark")
            clients = [Client(port, number, time.monotonic() + seconds) for number in range(8)]
            for client in clients:
                client.start()
            for client in clients:
                client.join()
            if not all(client.ended for client in clients):
                raise SystemExit("a client got something else than it should: see above")
            # The counts are written at the end of the process.
            served.send_signal(signal.SIGTERM)
            if served.wait(30):
                raise SystemExit(f"toolmark ended with {served.returncode}")
        finally:
            served.kill()
            upstream.shutdown()
            upstream.server_close()
        return sum(client.count for client in clients)


def train(binary: pathlib.Path, counts: pathlib.Path, seconds: float) -> None:
    """Plays the load for this long in all; what is counted is written into `counts`."""
    print(f"  plain HTTP, SQLite: {drive(binary, counts, seconds / 2)} exchanges", flush=True)
    print(f"  TLS, SQLite: {drive(binary, counts, seconds / 4, tls=True)} exchanges", flush=True)
    with postgres() as ledger:
        print(f"  plain HTTP, PostgreSQL: {drive(binary, counts, seconds / 4, ledger=ledger)} exchanges", flush=True)
