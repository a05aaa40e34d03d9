"""Runs applications of agent frameworks directly at a scripted model, behind toolmark's default policy and behind its strict one.

    python3 tests/frameworks/run.py --toolmark target/debug/toolmark --python VENV/bin/python smolagents agno …

For each scene: what differs behind toolmark. Exit code 1 where something differs that may not:
default changes nothing (answers, tool runs, exceptions; a call that nobody offered may be mended), strict stops nothing without
saying what to set, and a stream that breaks off raises where it raises directly.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import model  # noqa: E402

HERE = Path(__file__).parent
CITATION = re.compile(r"\s*[\[(]execution_id: [^)\]]*[)\]]")
# What a message names when it says what to set: a setting of a policy, or the session's header.
SETTING = re.compile(r"`?toolmark-session`?|`(?:calls|loops|citations|checks|results|tools|protocol|responses|stream|marks)\.\w+`")
# dspy drops an answer that isn't in its form, and asks anew without it: the safe reply says what to set, and nobody sees it.
UNSEEN = {("dspy", "parallel")}
SCRIPT_SECONDS = 900


class Toolmark:
    """`toolmark serve` on a free port; its log, exchange by exchange."""

    def __init__(self, binary, upstream, policy, directory):
        config = directory / f"{policy}.toml"
        config.write_text(
            f'listen = "127.0.0.1:0"\npolicy = "{policy}"\n[[upstreams]]\nname = "scripted"\nbase_url = "{upstream}"\n'
            f'[ledger]\nurl = "sqlite:{policy}.db"\n[admin]\nlisten = "off"\n[log]\nformat = "json"\n'
        )
        environment = {"PATH": os.environ.get("PATH", ""), "RUST_LOG": "info"}
        command = [binary, "serve", "--config", str(config)]
        self.process = subprocess.Popen(command, cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.lines, self.ready, self.url = [], threading.Event(), None
        threading.Thread(target=self.read, daemon=True).start()
        if not self.ready.wait(30) or not self.url:
            raise SystemExit(f"toolmark doesn't listen: {self.lines}")

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line)
            found = re.search(r"listening on (http://[\d.]+:\d+)", line)
            if found and not self.url:
                self.url = f"{found[1]}/v1"
                self.ready.set()
        self.ready.set()

    def exchanges(self, scene):
        """A scene's verdicts in their order, and the codes of all that was found."""
        verdicts, codes, mine, found = [], set(), set(), []
        for line in list(self.lines):
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if "code" in entry:
                found.append((entry.get("exchange"), entry["code"]))
            if entry.get("model") == f"scripted-{scene}" and "verdict" in entry:
                verdicts.append(entry["verdict"])
                mine.add(entry.get("exchange"))
        codes = {code for exchange, code in found if exchange in mine}
        return verdicts, sorted(codes)

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


def plain(answer):
    """An answer without its citations."""
    return None if answer is None else CITATION.sub("", answer).strip()


def compared(scene, direct, behind, strict):
    """How a run behind toolmark differs from the direct one: (may it?, in words)."""
    raised = behind["exception"] and behind["exception"]["class"]
    before = direct["exception"] and direct["exception"]["class"]
    if scene.startswith("cut"):
        if before and not raised:
            return False, f"directly it raises {before}, here it takes {behind['answer'] or behind['streamed']!r}"
        if raised and before and raised != before:
            return True, f"raises {raised}, directly {before}"
        return True, f"raises {raised}" if raised else "same"
    same = (plain if strict else str)(behind["answer"]) == (plain if strict else str)(direct["answer"]) and raised == before
    ran, ran_before = [sorted(run["tools"], key=json.dumps) for run in (behind, direct)]
    if same and ran == ran_before:
        cited = strict and behind["answer"] != direct["answer"]
        return True, "same, cited" if cited else f"raises {raised}" if raised else "same"
    if scene == "repair" and not raised and "18 degrees" in str(behind["answer"]) and behind["tools"] == [["get_weather", {"city": "Paris"}]]:
        return True, f"mended (directly: {before or direct['answer']!r})"
    shown = f"{raised}: {behind['exception']['message']}" if raised else repr(behind["answer"])
    named = SETTING.search(shown.replace("\\", ""))
    if strict and named:
        return True, f"stopped, says what to set: {named[0]}"
    tools = "" if ran == ran_before else f"; {len(behind['tools'])} tool runs, directly {len(direct['tools'])}"
    return False, f"{shown[:700]}{tools} (directly: {before or direct['answer']!r})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--toolmark", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--node-modules", help="a directory of node_modules, for applications in JavaScript")
    parser.add_argument("--scenes", default="")
    parser.add_argument("--log", help="a file for what the model is asked")
    parser.add_argument("--raw", action="store_true", help="print what each run saw")
    parser.add_argument("frameworks", nargs="+")
    options = parser.parse_args()
    bad = 0
    for name in options.frameworks:
        with tempfile.TemporaryDirectory() as directory:
            bad += play(options, name, Path(directory))
    print(f"{bad} differences that may not be" if bad else "all as it should be")
    sys.exit(1 if bad else 0)


def play(options, name, directory):
    direct = model.start(options.log)
    proxies = {policy: Toolmark(os.path.abspath(options.toolmark), direct, policy, directory) for policy in ("default", "strict")}
    runs = {"direct": direct, **{policy: proxy.url for policy, proxy in proxies.items()}}
    environment = {
        "PATH": os.environ.get("PATH", ""), "HOME": str(directory), "PYTHONDONTWRITEBYTECODE": "1", "RUNS": json.dumps(runs), "SCENES": options.scenes,
        "OPENAI_API_KEY": "sk-test", "TRACE": os.environ.get("TRACE", ""), "NO_COLOR": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false", "OTEL_SDK_DISABLED": "true", "HAYSTACK_TELEMETRY_ENABLED": "False",
        "AGNO_TELEMETRY": "false", "GENKIT_TELEMETRY_DISABLED": "true", "MASTRA_TELEMETRY_DISABLED": "1", "OPENAI_AGENTS_DISABLE_TRACING": "1",
    }  # fmt: skip
    script = next(HERE.glob(f"{name}_app.py"), None)
    command = [options.python, "-W", "ignore", str(script)]
    if not script:
        # Node looks for modules beside the script.
        os.symlink(os.path.abspath(options.node_modules), directory / "node_modules")
        for file in HERE.glob("*.mjs"):
            (directory / file.name).write_text(file.read_text())
        command = ["node", "--no-warnings", str(directory / f"{name}_app.mjs")]
    try:
        done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=SCRIPT_SECONDS)
    finally:
        for proxy in proxies.values():
            proxy.stop()
    found = re.search(r"^REPORT (.*)$", done.stdout, re.M)
    if not found:
        print(f"{name}: no report\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}")
        return 1
    if os.environ.get("TRACE"):
        print(done.stderr[-20000:])
    report = json.loads(found[1])
    bad = 0
    print(f"{name} {report['version']}")
    for scene, plainly in report["runs"]["direct"].items():
        shown = f"{plainly['exception']['class']}: {plainly['exception']['message'][:300]}" if plainly["exception"] else repr(plainly["answer"])
        words = [f"  {scene}: {shown if options.raw else ''} {len(plainly['tools'])} tool runs in {plainly['seconds']} s"]
        if plainly["exception"] and not scene.startswith(("cut", "error", "repair")):
            bad += 1
            words.append(f"❌ the scene doesn't run directly: {shown}")
        for mode, proxy in proxies.items():
            behind = report["runs"][mode][scene]
            fine, difference = compared(scene, plainly, behind, mode == "strict")
            verdicts, codes = proxy.exchanges(scene)
            # Where nothing was wrong, nothing may be objected to: a repair that nobody sees is one all the same.
            if mode == "default" and scene != "repair" and not scene.startswith("cut") and {"repaired", "blocked"} & set(verdicts):
                fine, difference = False, f"objected: {difference}"
            if mode == "strict" and (name, scene) in UNSEEN and "blocked" in verdicts:
                fine, difference = True, "stopped; the framework drops the words that say what to set"
            if not verdicts:
                fine, difference = False, f"it never came there: {difference}"
            bad += not fine
            counted = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts))
            mark = "✅" if fine else "\n    ❌"
            words.append(f"{mark} {mode}: {difference} [{counted}{': ' if codes else ''}{' '.join(codes)}]")
            if options.raw:
                words.append(f"\n      {json.dumps(behind)[:3000]}\n   ")
        print(" ".join(words), flush=True)
    return bad


if __name__ == "__main__":
    main()
