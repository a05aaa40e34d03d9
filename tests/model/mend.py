#!/usr/bin/env python3
"""How many bad calls a model mends, by the words in which they are rejected. See README.md beside it.

Each bad call is one that a small model makes: put behind its question, rejected, and asked again. Mended is a next answer whose
first call is the right one. `toolmark` words come from the program itself (--words FILE, from `cargo test words_of_rejections`).
"""
import argparse, json, os, sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from tasks import SCHEMAS, SYSTEM, TOOLS, fits
from upstream import Upstream, read_calls
from urllib.parse import urlsplit

C = "calculate"
BAD = [
    ("What do you get when you multiply 123 by 456?", "multiply", {"a": 123, "b": 456}, C, {"operation": "multiply", "a": 123, "b": 456}),
    ("Divide 7 by 8.", "divide", {"a": 7, "b": 8}, C, {"operation": "divide", "a": 7, "b": 8}),
    ("Add 4571 and 3892.", "add", {"x": 4571, "y": 3892}, C, {"operation": "add", "a": 4571, "b": 3892}),
    ("Subtract 977 from 2040.", "subtract_numbers", {"a": 2040, "b": 977}, C, {"operation": "subtract", "a": 2040, "b": 977}),
    ("What is 347 times 29?", C, {"operation": "times", "a": 347, "b": 29}, C, {"operation": "multiply", "a": 347, "b": 29}),
    ("Compute 99 * 101.", C, {"expression": "99 * 101"}, C, {"operation": "multiply", "a": 99, "b": 101}),
    ("Compute 3141 / 9.", C, {"operation": "divide", "a": "3141", "b": "9"}, C, {"operation": "divide", "a": 3141, "b": 9}),
    ("Convert 100 euros to US dollars.", "convert_currency", {"amount": 100, "from": "EUR", "to": "USD"}, "convert_currency",
     {"amount": 100, "from_currency": "EUR", "to_currency": "USD"}),
    ("How many yen are 20 euros?", "convert_currency", {"amount": 20, "from_currency": "euros", "to_currency": "yen"}, "convert_currency",
     {"amount": 20, "from_currency": "EUR", "to_currency": "JPY"}),
    ("How warm is it in Oslo right now?", "weather", {"city": "Oslo"}, "get_weather", {"city": "Oslo"}),
    ("How warm is it in Madrid right now?", "get_weather", {"location": "Madrid"}, "get_weather", {"city": "Madrid"}),
    ("What is the temperature in Boston in fahrenheit?", "get_weather", {"city": "Boston", "unit": "F"}, "get_weather",
     {"city": "Boston", "unit": "fahrenheit"}),
    ("What is Anna's phone number?", "search_contacts", {"query": "Anna"}, "find_contact", {"name": "Anna"}),
    ("What is the email address of Boris?", "find_contact", {"first_name": "Boris"}, "find_contact", {"name": "Boris"}),
    ("Remind me tomorrow to buy milk.", "set_reminder", {"text": "buy milk", "day": "tomorrow"}, "add_reminder", {"day": "tomorrow"}),
    ("Add a reminder for friday: call the bank.", "add_reminder", {"text": "call the bank", "date": "friday"}, "add_reminder", {"day": "friday"}),
]
LAST = "Nothing was run. Call again with a tool that exists and arguments that fit its schema, or answer without the tool and say what you could not do."
NAMES = ", ".join(f'"{name}"' for name in SCHEMAS)


def closest(name, arguments):
    """The tool that was probably meant, and what says so."""
    for tool, schema in SCHEMAS.items():
        for parameter, own in schema["properties"].items():
            for value in own.get("enum", []):
                if value in name.split("_") or value == name:
                    return tool, (parameter, value)
    words = set(name.rstrip("s").split("_"))
    return max(SCHEMAS, key=lambda tool: len(words & set(tool.split("_")))), None


def example(tool, arguments, known):
    """The call as it should be, with what the model gave where that fits, and names of what is missing else."""
    schema, out = SCHEMAS[tool], {}
    spare = [value for name, value in arguments.items() if name not in schema["properties"]]
    for name, own in schema["properties"].items():
        if known and known[0] == name:
            out[name] = known[1]
        elif name in arguments and fits(own, arguments[name]):
            out[name] = arguments[name]
        elif name in schema["required"]:
            fitting = [value for value in spare if fits(own, value) and own["type"] != "string" or (fits(own, value) and "enum" in own)]
            fitting = fitting or ([spare[0]] if len(spare) == 1 and fits(own, spare[0]) else [])
            if fitting:
                out[name] = fitting[0]
                spare.remove(fitting[0])
            elif "enum" in own:
                out[name] = "one of " + ", ".join(own["enum"])
            else:
                out[name] = f"<{own['type']}>"
    return json.dumps({"name": tool, "arguments": out})


def lines(name, arguments, hints):
    """The violations of a call, about as toolmark words them."""
    if name not in SCHEMAS:
        tool, known = closest(name, arguments)
        hint = f"the tools are {NAMES}"
        if hints and known:
            hint = f'"{known[1]}" is a value of "{known[0]}" of "{tool}"; {hint}'
        elif set(name.split("_")) & set(tool.split("_")):
            hint = f'did you mean "{tool}"? {hint}'
        return [f'- [unknown_tool] tool "{name}" does not exist ({hint})']
    schema, out = SCHEMAS[name], []
    missing = [own for own in schema["required"] if own not in arguments]
    if missing:
        types = ", ".join(f'"{own}" ({schema["properties"][own]["type"]})' for own in missing)
        out.append(f"- [missing_required] missing required parameter{'s' if len(missing) > 1 else ''}: {types} (call again with all required parameters; ask the user for what you don't know)")
    for own, value in arguments.items():
        if own not in schema["properties"]:
            known = ", ".join(f'"{name}"' for name in schema["properties"])
            out.append(f'- [unknown_parameter] there is no parameter "{own}" (the parameters are {known})')
        elif not fits(schema["properties"][own], value):
            rule = schema["properties"][own]
            wanted = "one of " + json.dumps(rule["enum"]) if "enum" in rule else rule["type"]
            code = "schema_violation" if "enum" in rule else "wrong_type"
            out.append(f'- [{code}] parameter "{own}" should be {wanted}, but is {json.dumps(value)} (change parameter "{own}" to fit)')
    return out


def variants(question, name, arguments):
    """Messages behind the question, and what else the request says, by the variant's name."""
    tool, known = (name, None) if name in SCHEMAS else closest(name, arguments)
    turn = {"role": "assistant", "content": None, "tool_calls": [
        {"id": "r01c00000", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}]}
    rejected = f"Tool call rejected: {name}\n"
    said = lambda text: {"role": "tool", "tool_call_id": "r01c00000", "content": text}
    plain, hinted = "\n".join(lines(name, arguments, False)), "\n".join(lines(name, arguments, True))
    shape = example(tool, arguments, known)
    filled = f"Call {tool} like this: {shape}"
    return {
        "as it was": ([turn, said(f"{rejected}{plain}\n{LAST}")], {}),
        "enum values": ([turn, said(f"{rejected}{hinted}\n{LAST}")], {}),
        "shorter": ([turn, said(f"{rejected}{hinted}\nNothing was run. Call again.")], {}),
        "filled-in example": ([turn, said(f"{rejected}{hinted}\n{LAST}\n{filled}")], {}),
        "shorter, example": ([turn, said(f"{rejected}{hinted}\nNothing was run. {filled}")], {}),
        "example, as user": ([turn, {"role": "user", "content": f"{rejected}{hinted}\nNothing was run. {filled}"}], {}),
        "example, turn left out": ([{"role": "user", "content": f"{question}\n{filled}"}], {}),
        "as it was, required": ([turn, said(f"{rejected}{plain}\n{LAST}")], {"tool_choice": "required"}),
        "shorter, example, required": ([turn, said(f"{rejected}{hinted}\nNothing was run. {filled}")], {"tool_choice": "required"}),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default=os.environ.get("TOOLMARK_MODEL_URL", "http://127.0.0.1:18080"))
    parser.add_argument("--store", required=True)
    parser.add_argument("--modes", default="native")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", help="of the variants, comma-separated parts of their names", default="")
    arguments = parser.parse_args()
    os.makedirs(arguments.store, exist_ok=True)
    server = urlsplit(arguments.server)
    names = [name for name in variants(*BAD[0][:3]) if any(part in name for part in arguments.only.split(","))]
    for mode in arguments.modes.split(","):
        upstream = Upstream((server.hostname, server.port), mode, os.path.join(arguments.store, f"mend-{mode}.jsonl"))
        for variant in names:
            def mends(bad):
                question, name, own, tool, right = bad
                more, choice = variants(question, name, own)[variant]
                before = [{"role": "system", "content": SYSTEM}]
                if "left out" not in variant:
                    before.append({"role": "user", "content": question})
                request = {"model": "model", "temperature": 0, "messages": before + more, "tools": TOOLS, **choice}
                status, body = upstream.answer("/v1/chat/completions", request)
                if status != 200:
                    return 0, 0, json.dumps(body)
                message = body["choices"][0]["message"]
                calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or []]
                calls = calls or read_calls(message.get("content") or "")
                try:
                    first = (calls[0][0], json.loads(calls[0][1])) if calls else (None, None)
                except ValueError:
                    first = (None, None)
                valid = first[0] in SCHEMAS and fits(SCHEMAS[first[0]], first[1])
                mended = valid and first[0] == tool and all(str(first[1].get(key)).lower() == str(value).lower() for key, value in right.items())
                return valid, mended, f"{name} -> {calls[:1] or (message.get('content') or '')[:100]!r}"
            with ThreadPoolExecutor(arguments.jobs) as pool:
                results = list(pool.map(mends, BAD))
            print(json.dumps({"mode": mode, "variant": variant, "valid": sum(r[0] for r in results), "mended": sum(r[1] for r in results), "of": len(BAD)}), flush=True)
            for result in results:
                if not result[1]:
                    print("   ", result[2], flush=True)


if __name__ == "__main__":
    main()
