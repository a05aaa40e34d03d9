"""What stands between toolmark (or the agent) and llama.cpp's server: memory of answers, and calls read from text.

Answers are kept by request, so that a second run asks the model only what is new: at temperature 0 it would say the same.
In mode `text` the server sees no tools: they are written into the system message as the model's template would, and calls
are read out of the answer leniently, without a grammar, as vLLM's parsers do.
"""
import hashlib, http.client, json, os, re, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# More than any call of the tasks takes; a small model that finds no end is cut here.
TOKENS_MAX = 128
IDS = re.compile(r"call_[0-9a-zA-Z]{6,}|\b[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*_[0-9]{13}_[0-9a-f]{16}\b|r\d\dc\d{5}")
HERMES = """

# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
%s
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>"""


def numbered(text):
    """The text with its ids numbered in their order, and the ids."""
    ids = []

    def name(match):
        if match[0] not in ids:
            ids.append(match[0])
        return f"%ID{ids.index(match[0])}%"

    return IDS.sub(name, text), ids


def plain(messages, tools):
    """The conversation without tools: what the template would write, as texts."""
    out = []
    for message in messages:
        role, content = message["role"], message.get("content") or ""
        if isinstance(content, list):
            content = "".join(part.get("text", "") for part in content)
        if role == "assistant":
            for call in message.get("tool_calls") or []:
                own = call["function"]
                content += '\n<tool_call>\n{"name": "%s", "arguments": %s}\n</tool_call>' % (own["name"], own["arguments"])
            content = content.strip("\n")
        if role == "tool":
            role, content = "user", f"<tool_response>\n{content}\n</tool_response>"
            if out and out[-1]["role"] == "user" and out[-1]["content"].endswith("</tool_response>"):
                out[-1]["content"] += "\n" + content
                continue
        out.append({"role": role, "content": content})
    if tools:
        text = HERMES % "\n".join(json.dumps(tool) for tool in tools)
        if out and out[0]["role"] == "system":
            out[0]["content"] += text
        else:
            out.insert(0, {"role": "system", "content": "You are a helpful assistant." + text})
    return out


def objects(text):
    """The JSON values that a text begins with, and what is left."""
    values, decoder = [], json.JSONDecoder()
    while text.lstrip(" \n\t,;").startswith(("{", "[")):
        text = text.lstrip(" \n\t,;")
        try:
            value, end = decoder.raw_decode(text)
        except ValueError:
            break
        values, text = values + (value if isinstance(value, list) else [value]), text[end:]
    return values, text


def read_calls(text):
    """The calls of a text: `<tool_call>` elements, a fence of JSON, or JSON alone."""
    elements = re.findall(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|$)", text, re.S)
    fences = re.findall(r"```(?:json)?\s*([{\[].*?)\s*(?:```|$)", text, re.S)
    values = []
    for part in elements or fences or [text.strip()]:
        values += objects(part)[0]
    calls = []
    for value in values:
        if isinstance(value, dict) and isinstance(value.get("name"), str) and ("arguments" in value or "parameters" in value):
            arguments = value.get("arguments", value.get("parameters"))
            calls.append((value["name"], arguments if isinstance(arguments, str) else json.dumps(arguments)))
    return calls


class Upstream:
    """`counts`: what the model was asked in all. `server`: host and port of llama.cpp's."""

    def __init__(self, server, mode, store, port=0):
        self.server, self.mode, self.store = server, mode, store
        self.counts = {"requests": 0, "prompt": 0, "completion": 0, "asked": 0}
        self.log, self.lock = [], threading.Lock()
        self.kept = {}
        if store and os.path.exists(store):
            for line in open(store):
                entry = json.loads(line)
                self.kept[entry["key"]] = entry["answer"]
        own = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                status, answer = own.answer(self.path, json.loads(body))
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self):
                self.send_response(404)
                self.send_header("content-length", "0")
                self.end_headers()

        self.http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.http.server_port}/v1"

    def ask(self, request):
        text, ids = numbered(json.dumps(request, sort_keys=True))
        key = hashlib.sha256(text.encode()).hexdigest()
        if key not in self.kept:
            connection = http.client.HTTPConnection(*self.server, timeout=900)
            connection.request("POST", "/v1/chat/completions", json.dumps(request), {"content-type": "application/json"})
            response = connection.getresponse()
            answer = json.loads(response.read())
            answer = {"status": response.status, "body": answer}
            kept, more = numbered(json.dumps(answer["body"]))
            # Ids of the answer's own calls go on where those of the request end.
            for at, own in enumerate(more):
                place = ids.index(own) if own in ids else len(ids) + at
                kept = kept.replace(f"%ID{at}%", f"%ID-{place}%")
            answer["body"] = kept.replace("%ID-", "%ID")
            with self.lock:
                self.counts["asked"] += 1
                self.kept[key] = answer
                if self.store:
                    with open(self.store, "a") as out:
                        out.write(json.dumps({"key": key, "answer": answer}) + "\n")
        answer = self.kept[key]
        body = re.sub(r"%ID(\d+)%", lambda match: ids[int(match[1])] if int(match[1]) < len(ids) else f"call_{key[:20]}{match[1]}", answer["body"])
        return answer["status"], json.loads(body), text

    def answer(self, path, request):
        if not path.endswith("/chat/completions"):
            return 404, {"error": {"message": "not here"}}
        tools = request.get("tools") if request.get("tool_choice") != "none" else None
        # What is read from text has no grammar, so nothing demands a call either.
        named = ("model", "temperature", "max_tokens") if self.mode == "text" else ("model", "temperature", "max_tokens", "tool_choice", "tools")
        sent = {name: request[name] for name in named if name in request}
        sent["messages"] = plain(request["messages"], tools) if self.mode == "text" else request["messages"]
        sent["max_tokens"] = TOKENS_MAX
        status, body, text = self.ask(sent)
        body.pop("timings", None)
        usage = body.get("usage") or {}
        with self.lock:
            self.counts["requests"] += 1
            self.counts["prompt"] += usage.get("prompt_tokens", 0)
            self.counts["completion"] += usage.get("completion_tokens", 0)
            self.log.append({"request": request, "answer": body})
        if self.mode == "text" and status == 200 and tools:
            choice = body["choices"][0]
            calls = read_calls(choice["message"].get("content") or "")
            if calls:
                made = [
                    {"id": f"call_{hashlib.sha256((text + str(at)).encode()).hexdigest()[:24]}", "type": "function",
                     "function": {"name": name, "arguments": arguments}}
                    for at, (name, arguments) in enumerate(calls)
                ]
                choice["message"] = {"role": "assistant", "content": None, "tool_calls": made}
                choice["finish_reason"] = "tool_calls"
        return status, body
