"""A scripted model behind an OpenAI-compatible API: chat completions and Responses, whole and streamed.

It keeps nothing but what the Responses API keeps. What it says follows from the request alone: the model's name is `scripted-SCENE`, and how
far the scene got is read off the conversation, whatever form a framework gives it (tool messages, flattened text, edited history).
It cites an execution ID where the request asks for citations and one is there to be cited.
"""

import json
import re
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CITIES = ["Oslo", "Rome", "Bern", "Kyiv", "Lima", "Cairo", "Delhi", "Quito"]
ROWS = {"rows": 25, "editing": 12}
EXECUTION = re.compile(r"[A-Za-z0-9_-]+_\d{13}_[0-9a-f]{16}\b")
# Tools through which a framework has its final answer given.
ANSWERS = re.compile(r"^(final_?answer|submit|finish|return_\w+|(Partial)?Weather|set_model_response|mark_task_successful|final_result|respond)$")


class Say:
    def __init__(self, text):
        self.text, self.calls = text, []


class Call:
    def __init__(self, *calls, text=""):
        self.text, self.calls = text, list(calls)


class Conversation:
    """A request of either API, reduced to what a model reads."""

    def __init__(self, request, kept):
        self.scene = request.get("model", "").split("scripted-")[-1].split("_responses")[0].split("_session")[0]
        self.session = "_session" in request.get("model", "")
        self.messages = []  # (role, text)
        self.tools = {}  # name: schema of its parameters
        for tool in request.get("tools") or []:
            function = tool.get("function", tool)
            if "name" in function:
                self.tools[function["name"]] = function.get("parameters") or {}
        if request.get("instructions"):
            self.messages.append(("system", request["instructions"]))
        items = request.get("messages")
        if items is None:
            items = request.get("input") or []
            items = [{"role": "user", "content": items}] if isinstance(items, str) else items
            items = kept.get(request.get("previous_response_id"), []) + items
        self.items = items
        for item in items:
            role = item.get("role") or {"function_call": "assistant", "function_call_output": "tool"}.get(item.get("type"), "other")
            calls = [call["function"] for call in item.get("tool_calls") or []]
            calls += [item] if item.get("type") == "function_call" else []
            said = [text_of(item.get("content")), text_of(item.get("output"))]
            said += [f"{call['name']} {call['arguments']}" for call in calls]
            self.messages.append((role, "\n".join(filter(None, said))))
        self.said = "\n".join(text for _, text in self.messages)
        choice = request.get("tool_choice")
        self.demanded = (choice.get("function") or choice).get("name") if isinstance(choice, dict) else None
        wanted = request.get("response_format") or (request.get("text") or {}).get("format") or {}
        self.schema = wanted.get("json_schema", wanted).get("schema")
        self.json = self.schema is not None or wanted.get("type") == "json_object" or re.search("json_schema|JSON object in ", self.said) is not None

    def tool(self, name):
        """The tool of this name, with whatever a framework puts before it."""
        return next((own for own in self.tools if own == name or own.endswith(name)), None)

    def answer_tool(self):
        return next((name for name in self.tools if ANSWERS.match(name)), None)

    def cited(self, text):
        """The text, with the newest execution ID where citations are asked for."""
        asked = any(role in ("system", "developer") and "execution_id" in text for role, text in self.messages)
        asked = asked or "missing_citation" in self.said
        # The stamp stands in front; behind it a result may quote other ids.
        ids = [found[0] for role, said in self.messages if role == "tool" and (found := EXECUTION.findall(said))]
        return f"{text.rstrip('.')} (execution_id: {ids[-1]})." if asked and ids else text


def text_of(content):
    if isinstance(content, list):
        return "\n".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return content or ""


def filled(schema, text, root=None, name=""):
    """A value that fits a schema, from what the scene knows."""
    root = root or schema
    if "$ref" in schema:
        return filled(root.get("$defs", {})[schema["$ref"].split("/")[-1]], text, root, name)
    for union in ("anyOf", "oneOf", "allOf"):
        if union in schema:
            return filled(schema[union][0], text, root, name)
    kind = schema.get("type")
    if kind == "object" or "properties" in schema:
        return {key: filled(value, text, root, key) for key, value in schema.get("properties", {}).items()}
    if "enum" in schema or "const" in schema:
        return schema.get("const", (schema.get("enum") or [None])[0])
    if kind in ("integer", "number"):
        return 18
    if kind == "array":
        return [filled(schema["items"], text, root, name)] if schema.get("items") else []
    if kind == "boolean":
        return True
    return "Paris" if name == "city" else text


def next_turn(conversation):
    """What the model does next."""
    scene, said = conversation.scene, conversation.said
    if "Tool Results to Compress" in said:
        return Say("[cleared]")
    if conversation.demanded and conversation.demanded == conversation.answer_tool():
        before = [text for role, text in conversation.messages if role == "assistant"] or ["I can't say."]
        known = re.search(r"degrees\W{1,8}18|18 degrees", said)
        return answer(conversation, "It is 18 degrees in Paris." if known else before[-1])
    if scene == "poll":
        done = re.search(r"status\W{1,10}done", said)
        return answer(conversation, "Job j-17 is done: it has 4711 lines.") if done else call(conversation, "job_status", {"job": "j-17"})
    if scene in ROWS:
        row = max(map(int, re.findall(r"\brow\W{1,8}(\d+)", said)), default=0)
        if row < ROWS[scene]:
            return call(conversation, "read_row", {"row": row + 1})
        return answer(conversation, f"The last row has the amount {3 * row}.")
    if scene == "parallel":
        found = {city: degrees for city, degrees in re.findall(r"city\W{1,8}(\w+)\W{1,8}degrees\W{1,8}(\d+)", said)}
        if len(found) < len(CITIES):
            name = conversation.tool("get_weather")
            return Call(*[(name, {"city": city}) for city in CITIES]) if name else Say("I have no tool get_weather.")
        return answer(conversation, "It is " + ", ".join(f"{found[city]} degrees in {city}" for city in CITIES) + ".")
    if scene == "subagents" and not conversation.tool("get_weather"):
        told = re.findall(r"It is 18 degrees in Paris(?: \(execution_id: [^)]*\))?\.", said)
        if told:
            # Without a session nothing but the desk's own citation; with one, that of the desk's report too.
            return answer(conversation, f"The weather desk reports: {told[-1]}", cite=conversation.session)
        desk = next((name for name in conversation.tools if re.search("desk|delegate|transfer", name)), None)
        question = "What is the weather in Paris?"
        arguments = filled(conversation.tools.get(desk, {}), question)
        for key in arguments:
            if re.search("member|agent|recipient|coworker", key):
                arguments[key] = "weather_desk" if "member" not in key else "weather-desk"
        return Call((desk, arguments)) if desk else Say(question)
    if scene == "repair" and "get_wether" not in said:
        return Call(("get_wether", {"city": "Paris"}))
    if not re.search(r"degrees\W{1,8}18|18 degrees", said) and (conversation.tool("get_weather") or not conversation.json):
        return call(conversation, "get_weather", {"city": "Paris"})
    return answer(conversation, "It is 18 degrees in Paris.")


def call(conversation, tool, arguments):
    """The call of a tool: as one, or as the text protocol of the prompt has it."""
    name = conversation.tool(tool)
    if name:
        return Call((name, arguments))
    said = conversation.said
    if "Action Input:" in said:
        return Say(f"Thought: I need to use a tool.\nAction: {tool}\nAction Input: {json.dumps(arguments)}\n")
    if "[[ ## next_tool_name ## ]]" in said:
        fields = {"next_thought": "I need to use a tool.", "next_tool_name": tool, "next_tool_args": json.dumps(arguments)}
        return Say("\n\n".join(f"[[ ## {key} ## ]]\n{value}" for key, value in fields.items()) + "\n\n[[ ## completed ## ]]")
    if "<code>" in said:
        given = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        return Say(f"Thought: I need to use a tool.\n<code>\nprint({tool}({given}))\n</code>")
    return Say(f"I have no tool {tool}.")


def answer(conversation, text, cite=True):
    """The final answer: through the answer's tool, as JSON, as a text protocol has it, or plain."""
    said = conversation.said
    text = conversation.cited(text) if cite else text
    tool = conversation.answer_tool()
    if tool:
        return Call((tool, filled(conversation.tools[tool], text)))
    if conversation.json:
        fields = filled(conversation.schema, text) if conversation.schema else {"city": "Paris", "degrees": 18}
        return Say(json.dumps(fields))
    if "Action Input:" in said and not conversation.tools:
        return Say(f"Thought: I can answer without using any more tools.\nAnswer: {text}" if "Answer:" in said and "Final Answer:" not in said else f"Thought: I now know the final answer\nFinal Answer: {text}")
    if "[[ ## next_tool_name ## ]]" in said:
        fields = {"next_thought": "I can answer.", "next_tool_name": "finish", "next_tool_args": "{}"}
        return Say("\n\n".join(f"[[ ## {key} ## ]]\n{value}" for key, value in fields.items()) + "\n\n[[ ## completed ## ]]")
    if "[[ ## answer ## ]]" in said:
        return Say(f"[[ ## reasoning ## ]]\nThe results say so.\n\n[[ ## answer ## ]]\n{text}\n\n[[ ## completed ## ]]")
    if "<code>" in said and not conversation.tools:
        return Say(f"Thought: I know the answer.\n<code>\nfinal_answer({text!r})\n</code>")
    return Say(text)


def pieces(text):
    return [text[at : at + 7] for at in range(0, len(text), 7)]


USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
RESPONSES_USAGE = {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 15}


class Chat:
    """Bodies of chat completions."""

    def __init__(self, request, number):
        self.request, self.number = request, number

    def whole(self, turn):
        message = {"role": "assistant", "content": turn.text or None, "refusal": None, "annotations": []}
        if turn.calls:
            message["tool_calls"] = [self.call(index, name, json.dumps(arguments)) for index, (name, arguments) in enumerate(turn.calls)]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls" if turn.calls else "stop"}
        return {"id": f"chatcmpl-{self.number}", "object": "chat.completion", "created": 1700000000, "model": self.request["model"], "choices": [choice], "usage": USAGE}

    def call(self, index, name, arguments):
        return {"id": f"call_{self.number}_{index}", "type": "function", "function": {"name": name, "arguments": arguments}}

    def chunk(self, delta, finish=None):
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {"id": f"chatcmpl-{self.number}", "object": "chat.completion.chunk", "created": 1700000000, "model": self.request["model"], "choices": [choice]}

    def events(self, turn):
        yield self.chunk({"role": "assistant", "content": None if turn.calls else "", "refusal": None})
        for piece in pieces(turn.text):
            yield self.chunk({"content": piece})
        for index, (name, arguments) in enumerate(turn.calls):
            yield self.chunk({"tool_calls": [{"index": index, **self.call(index, name, "")}]})
            for piece in pieces(json.dumps(arguments)):
                yield self.chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield self.chunk({}, "tool_calls" if turn.calls else "stop")
        if (self.request.get("stream_options") or {}).get("include_usage"):
            yield {**self.chunk({}), "choices": [], "usage": USAGE}

    def encoded(self, event):
        return f"data: {json.dumps(event)}\n\n"

    end = "data: [DONE]\n\n"


class Responses:
    """Bodies of the Responses API."""

    end = ""

    def __init__(self, request, number):
        self.request, self.number = request, number

    def item(self, index, name, arguments):
        return {"id": f"fc_{self.number}_{index}", "type": "function_call", "status": "completed", "call_id": f"call_{self.number}_{index}", "name": name, "arguments": arguments}

    def message(self, text):
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        return {"id": f"msg_{self.number}", "type": "message", "role": "assistant", "status": "completed", "content": [part]}

    def output(self, turn):
        items = [self.message(turn.text)] if turn.text else []
        return items + [self.item(index, name, json.dumps(arguments)) for index, (name, arguments) in enumerate(turn.calls)]

    def response(self, status, output):
        request = self.request
        return {
            "id": f"resp_{self.number}", "object": "response", "created_at": 1700000000, "status": status, "error": None, "incomplete_details": None,
            "instructions": request.get("instructions"), "max_output_tokens": None, "model": request["model"], "output": output, "parallel_tool_calls": True,
            "previous_response_id": request.get("previous_response_id"), "reasoning": {"effort": None, "summary": None}, "store": request.get("store", True),
            "temperature": 1.0, "text": request.get("text") or {"format": {"type": "text"}}, "tool_choice": request.get("tool_choice") or "auto",
            "tools": request.get("tools") or [], "top_p": 1.0, "truncation": "disabled", "usage": RESPONSES_USAGE if status == "completed" else None,
            "user": None, "metadata": {},
        }  # fmt: skip

    def whole(self, turn):
        return self.response("completed", self.output(turn))

    def events(self, turn):
        sequence = iter(range(10_000))
        event = lambda kind, **fields: {"type": kind, "sequence_number": next(sequence), **fields}
        yield event("response.created", response=self.response("in_progress", []))
        yield event("response.in_progress", response=self.response("in_progress", []))
        for index, item in enumerate(self.output(turn)):
            at = {"item_id": item["id"], "output_index": index}
            if item["type"] == "message":
                part = item["content"][0]
                yield event("response.output_item.added", output_index=index, item={**item, "status": "in_progress", "content": []})
                yield event("response.content_part.added", **at, content_index=0, part={**part, "text": ""})
                for piece in pieces(part["text"]):
                    yield event("response.output_text.delta", **at, content_index=0, delta=piece, logprobs=[])
                yield event("response.output_text.done", **at, content_index=0, text=part["text"], logprobs=[])
                yield event("response.content_part.done", **at, content_index=0, part=part)
            else:
                yield event("response.output_item.added", output_index=index, item={**item, "status": "in_progress", "arguments": ""})
                for piece in pieces(item["arguments"]):
                    yield event("response.function_call_arguments.delta", **at, delta=piece)
                yield event("response.function_call_arguments.done", **at, arguments=item["arguments"], name=item["name"])
            yield event("response.output_item.done", output_index=index, item=item)
        yield event("response.completed", response=self.response("completed", self.output(turn)))

    def encoded(self, event):
        return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"


CUT = Say("It is 18 degrees in Paris, and the rest of this sentence never comes to its end.")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    lock, number, kept, log = threading.Lock(), 0, {}, None

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        self.reply(200, {"object": "list", "data": []})

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        with self.lock:
            Handler.number += 1
            number = Handler.number
        conversation = Conversation(request, self.kept)
        api = (Responses if self.path.endswith("/responses") else Chat)(request, number)
        if self.log:
            with self.lock, open(self.log, "a") as log:
                log.write(json.dumps({"path": self.path, "request": request}) + "\n")
        if conversation.scene == "error":
            error = {"message": "the script says no", "type": "invalid_request_error", "param": "messages", "code": "scripted"}
            return self.reply(400, {"error": error})
        cut = conversation.scene if conversation.scene.startswith("cut") and request.get("stream") else None
        turn = next_turn(conversation)
        if cut:
            turn = Call((next(iter(conversation.tools)), {"city": "Paris and all that is around it"})) if cut == "cut_call" else CUT
        if isinstance(api, Responses):
            with self.lock:
                self.kept[f"resp_{number}"] = conversation.items + api.output(turn)
        if request.get("stream"):
            self.stream(api, turn, cut)
        else:
            self.reply(200, api.whole(turn))

    def reply(self, status, body):
        body = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self, api, turn, cut):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        events = [api.encoded(event) for event in api.events(turn)] + ([api.end] if api.end else [])
        for event in events[: len(events) // 2] if cut else events:
            data = event.encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()
        if cut in (None, "cut_quiet"):
            self.wfile.write(b"0\r\n\r\n")
        else:
            # A reset, so that nobody takes it for the end.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True


def start(log=None):
    """Listens on a free port of loopback; gives back the base URL."""
    Handler.log = log
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"


if __name__ == "__main__":
    print(start(), flush=True)
    threading.Event().wait()
