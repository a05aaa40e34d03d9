#!/usr/bin/env python3
"""Agent tasks with a real model: how many a small model solves alone, and behind toolmark. See README.md beside it."""
import argparse, http.client, json, os, re, subprocess, sys, tempfile, time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from tasks import SCHEMAS, SYSTEM, TASKS, TOOLS, fits, run as run_tool
from upstream import Upstream

TURNS_MAX = 6
POLICIES = {
    "alone": None,
    "default": "",
    "off": '[calls]\npromote_textual = "off"\n',
    "exact": '[calls]\npromote_textual = "exact"\n',
    "on": '[calls]\npromote_textual = "on"\n',
    "inject": "[protocol]\ninject = true\n",
    "unstamped": '[results]\nstamp = "off"\n',
}


def ask(url, body):
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=900)
    connection.request("POST", parts.path + "/chat/completions", json.dumps(body), {"content-type": "application/json", "authorization": "Bearer x"})
    response = connection.getresponse()
    return response.status, json.loads(response.read() or b"{}"), dict(response.getheaders())


def normal(text):
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text or "").lower()
    return text


def solve(url, task):
    """One agent run: what was called, what was said in the end."""
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task["question"]}]
    seen = {"calls": [], "invalid": 0, "answer": "", "codes": [], "repairs": 0, "exchanges": 0, "status": 200}
    for _ in range(TURNS_MAX):
        status, body, headers = ask(url, {"model": "model", "temperature": 0, "messages": messages, "tools": TOOLS})
        headers = {name.lower(): value for name, value in headers.items()}
        seen["exchanges"] += 1
        seen["codes"] += [code for code in headers.get("toolmark-violations", "").split(",") if code]
        seen["repairs"] += int(headers.get("toolmark-repairs") or 0)
        if status != 200:
            seen["status"], seen["answer"] = status, json.dumps(body)
            break
        message = body["choices"][0]["message"]
        calls = message.get("tool_calls") or []
        if not calls:
            seen["answer"] = message.get("content") or ""
            break
        messages.append({"role": "assistant", "content": message.get("content"), "tool_calls": calls})
        for call in calls:
            name, arguments = call["function"]["name"], call["function"]["arguments"]
            try:
                read = json.loads(arguments)
            except ValueError:
                read = None
            valid = name in SCHEMAS and fits(SCHEMAS[name], read)
            seen["invalid"] += not valid
            seen["calls"].append((name, arguments, valid))
            result = run_tool(name, read) if valid else {"error": "invalid call"}
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)})
    said = normal(seen["answer"])
    called = [name for name, _, valid in seen["calls"] if valid]
    wanted = task["tools"]
    seen["right_tool"] = not called if not wanted else all(called.count(tool) >= wanted.count(tool) for tool in wanted)
    # A bare call, shown to the user, is no answer, whatever it holds.
    bare = bool(re.match(r'^(```(json)?)?\s*\{\s*"(name|tool|function|action)"', said.strip())) and wanted != []
    seen["right_answer"] = not bare and all(any(option in said for option in group) for group in task["answer"]) and (called != [] or wanted == [])
    return seen


class Toolmark:
    def __init__(self, binary, upstream, policy):
        self.folder = tempfile.TemporaryDirectory()
        path = lambda name: os.path.join(self.folder.name, name)
        open(path("policy.toml"), "w").write(policy)
        port = free_port()
        settings = f'listen = "127.0.0.1:{port}"\npolicy = "{path("policy.toml")}"\n\n[[upstreams]]\nname = "model"\nbase_url = "{upstream}"\nprobe = "off"\n'
        open(path("toolmark.toml"), "w").write(settings)
        self.log = open(path("log"), "w")
        self.process = subprocess.Popen([binary, "serve", "--config", path("toolmark.toml")], stdout=self.log, stderr=subprocess.STDOUT, cwd=self.folder.name)
        self.url = f"http://127.0.0.1:{port}/v1"
        for _ in range(100):
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
                connection.request("GET", "/healthz")
                connection.getresponse().read()
                return
            except OSError:
                time.sleep(0.1)
        raise SystemExit("toolmark didn't start:\n" + open(path("log")).read())

    def stop(self):
        self.process.terminate()
        self.process.wait()


def free_port():
    import socket
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return own.getsockname()[1]


def measure(arguments, mode, behind, tasks):
    server = urlsplit(arguments.server)
    store = os.path.join(arguments.store, f"{mode}.jsonl") if arguments.store else None
    upstream = Upstream((server.hostname, server.port), mode, store)
    policy = open(behind).read() if os.path.exists(behind) else POLICIES[behind]
    toolmark = None if policy is None else Toolmark(arguments.toolmark, upstream.url, policy)
    url = upstream.url if toolmark is None else toolmark.url
    try:
        with ThreadPoolExecutor(arguments.jobs) as pool:
            runs = list(pool.map(lambda task: solve(url, task), tasks))
    finally:
        if toolmark:
            toolmark.stop()
    upstream.http.shutdown()
    row = {
        "mode": mode, "behind": os.path.basename(behind), "tasks": len(runs),
        "right_tool": sum(run["right_tool"] for run in runs), "right_answer": sum(run["right_answer"] for run in runs),
        "calls": sum(len(run["calls"]) for run in runs), "invalid": sum(run["invalid"] for run in runs),
        "repairs": sum(run["repairs"] for run in runs), "exchanges": sum(run["exchanges"] for run in runs), **upstream.counts,
    }
    if arguments.details:
        name = os.path.join(arguments.details, f"{mode}-{row['behind']}.json")
        json.dump([{"task": task, **run} for task, run in zip(tasks, runs)], open(name, "w"), indent=1)
        json.dump(upstream.log, open(name.replace(".json", ".log.json"), "w"), indent=1)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default=os.environ.get("TOOLMARK_MODEL_URL", "http://127.0.0.1:18080"), help="llama.cpp's server")
    parser.add_argument("--toolmark", default="target/debug/toolmark")
    parser.add_argument("--modes", default="native,text")
    parser.add_argument("--behind", default="alone,default", help=f"of {', '.join(POLICIES)}, or a policy file")
    parser.add_argument("--every", type=int, default=1, help="takes only each n-th task")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--store", help="folder for the model's answers; kept ones aren't asked again")
    parser.add_argument("--details", help="folder for what was said")
    parser.add_argument("--check", action="store_true", help="fails where toolmark does harm")
    arguments = parser.parse_args()
    for folder in filter(None, [arguments.store, arguments.details]):
        os.makedirs(folder, exist_ok=True)
    tasks = TASKS[:: arguments.every]
    failed = False
    for mode in arguments.modes.split(","):
        rows = []
        for behind in arguments.behind.split(","):
            rows.append(measure(arguments, mode, behind, tasks))
            print(json.dumps(rows[-1]), flush=True)
        if arguments.check:
            alone = next((row for row in rows if row["behind"] == "alone"), None)
            for row in rows:
                harmed = row is not alone and alone and row["right_answer"] < alone["right_answer"]
                passed = row is not alone and row["invalid"] > 0
                if harmed or passed:
                    failed = True
                    print(f"{mode}: behind `{row['behind']}`: {'fewer right answers' if harmed else 'an invalid call passed'}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
