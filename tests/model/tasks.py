"""The agent tasks: five tools, what each call returns, and what a right run looks like.

Everything is deterministic. A task is a question, the tools of a right run in order, and the texts that the last answer
must contain: one of each group. Numbers are compared without thousands separators.
"""

def _object(properties, required=None):
    return {"type": "object", "properties": properties, "required": required or list(properties), "additionalProperties": False}


def _tool(name, description, properties, required=None):
    parameters = _object(properties, required)
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


OPERATIONS = ["add", "subtract", "multiply", "divide"]
CURRENCIES = ["EUR", "USD", "GBP", "JPY", "CHF"]
TOOLS = [
    _tool(
        "calculate",
        "Calculates with two numbers.",
        {"operation": {"type": "string", "enum": OPERATIONS}, "a": {"type": "number"}, "b": {"type": "number"}},
    ),
    _tool(
        "get_weather",
        "Returns the current weather of a city.",
        {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
        ["city"],
    ),
    _tool(
        "convert_currency",
        "Converts an amount of money from one currency into another.",
        {
            "amount": {"type": "number"},
            "from_currency": {"type": "string", "enum": CURRENCIES},
            "to_currency": {"type": "string", "enum": CURRENCIES},
        },
    ),
    _tool("find_contact", "Looks a person up in the address book, by first name.", {"name": {"type": "string", "minLength": 1}}),
    _tool(
        "add_reminder",
        "Adds a reminder.",
        {"text": {"type": "string"}, "day": {"type": "string", "enum": ["today", "tomorrow", "monday", "friday"]}},
    ),
]
# "Use the tools to answer" made the 0.5B model repeat its call after each result.
SYSTEM = "You are a helpful assistant. Call a tool where you need one. When you have its result, answer the user with it."

WEATHER = {"paris": (18, "cloudy"), "oslo": (4, "snow"), "madrid": (31, "sunny"), "tokyo": (22, "rain"), "lima": (19, "fog"),
           "cairo": (36, "sunny"), "boston": (11, "windy"), "sydney": (25, "clear")}
RATES = {"EUR": 1.0, "USD": 1.25, "GBP": 0.8, "JPY": 160.0, "CHF": 0.95}
CONTACTS = {"anna": ("anna.berg@example.net", "555-0142"), "boris": ("boris.novak@example.net", "555-0177"),
            "clara": ("clara.diaz@example.net", "555-0119"), "david": ("david.stone@example.net", "555-0163"),
            "emma": ("emma.frost@example.net", "555-0108")}


def number(value):
    return int(value) if float(value).is_integer() else round(float(value), 4)


def run(name, arguments):
    """Runs a tool: the text of its result. The caller has checked the arguments."""
    if name == "calculate":
        a, b, operation = arguments["a"], arguments["b"], arguments["operation"]
        if operation == "divide" and b == 0:
            return {"error": "division by zero"}
        results = {"add": a + b, "subtract": a - b, "multiply": a * b, "divide": a / b if b else 0}
        return {"result": number(results[operation])}
    if name == "get_weather":
        found = WEATHER.get(arguments["city"].split(",")[0].strip().lower())
        if not found:
            return {"error": "unknown city"}
        degrees, sky = found
        if arguments.get("unit") == "fahrenheit":
            return {"city": arguments["city"], "temperature": number(degrees * 9 / 5 + 32), "unit": "fahrenheit", "sky": sky}
        return {"city": arguments["city"], "temperature": degrees, "unit": "celsius", "sky": sky}
    if name == "convert_currency":
        amount = arguments["amount"] / RATES[arguments["from_currency"]] * RATES[arguments["to_currency"]]
        return {"amount": number(round(amount, 2)), "currency": arguments["to_currency"]}
    if name == "find_contact":
        found = CONTACTS.get(arguments["name"].split(" ")[0].strip().lower())
        return {"email": found[0], "phone": found[1]} if found else {"error": "no such contact"}
    return {"added": True, "text": arguments["text"], "day": arguments["day"]}


def _tasks():
    for question, answer in [
        ("What is 347 times 29?", "10063"), ("What is 1288 divided by 56?", "23"), ("Add 4571 and 3892.", "8463"),
        ("Subtract 977 from 2040.", "1063"), ("How much is 15.5 plus 4.25?", "19.75"), ("Divide 7 by 8.", "0.875"),
        ("What do you get when you multiply 123 by 456?", "56088"), ("What is 90000 minus 12345?", "77655"),
        ("A box holds 48 bottles. How many bottles are in 37 boxes?", "1776"),
        ("I have 1530 euros and split them between 6 people. How much does each get?", "255"),
        ("The bill is 84.60 and I add a tip of 12.40. What is the total?", "97"),
        ("Compute 99 * 101.", "9999"), ("Compute 3141 / 9.", "349"), ("What is the quotient of 1001 and 13?", "77"),
        ("What is the product of 250 and 16?", "4000"), ("What is the sum of 1999 and 2026?", "4025"),
    ]:
        yield question, ["calculate"], [[answer]]
    for city, degrees in [("Paris", "18"), ("Oslo", "4"), ("Madrid", "31"), ("Tokyo", "22"), ("Lima", "19"), ("Cairo", "36")]:
        yield f"How warm is it in {city} right now?", ["get_weather"], [[degrees]]
    yield "What is the temperature in Boston in fahrenheit?", ["get_weather"], [["51.8"]]
    yield "What is the temperature in Sydney in fahrenheit?", ["get_weather"], [["77"]]
    yield "Is it raining in Tokyo?", ["get_weather"], [["rain", "yes"]]
    yield "Do I need sunglasses in Cairo today? Look at the weather.", ["get_weather"], [["sunny", "yes"]]
    yield "What does the sky look like in Lima?", ["get_weather"], [["fog"]]
    yield "Is there snow in Oslo?", ["get_weather"], [["snow", "yes"]]
    yield "Weather in Boston, please.", ["get_weather"], [["11", "windy"]]
    yield "Tell me the weather in Sydney.", ["get_weather"], [["25", "clear"]]
    for question, answer in [
        ("Convert 100 euros to US dollars.", "125"), ("How many pounds (GBP) are 50 EUR?", "40"),
        ("How many yen are 20 euros?", "3200"), ("Convert 250 USD to EUR.", "200"), ("What are 80 GBP in EUR?", "100"),
        ("Change 200 EUR into Swiss francs (CHF).", "190"), ("Convert 1600 JPY to EUR.", "10"), ("How much is 12.5 USD in EUR?", "10"),
        ("I have 75 USD. How many yen is that?", "9600"), ("What is 1000 EUR in GBP?", "800"),
        ("Convert 95 CHF to EUR.", "100"), ("Convert 4 GBP to USD.", "6.25"),
    ]:
        yield question, ["convert_currency"], [[answer]]
    for name in ["Anna", "Boris", "Clara", "David", "Emma"]:
        yield f"What is {name}'s phone number?", ["find_contact"], [[CONTACTS[name.lower()][1]]]
    for name in ["Anna", "Boris", "Clara", "Emma"]:
        yield f"What is the email address of {name}?", ["find_contact"], [[CONTACTS[name.lower()][0]]]
    yield "How can I reach David? Give me his email.", ["find_contact"], [[CONTACTS["david"][0]]]
    for question, word in [
        ("Remind me tomorrow to buy milk.", "milk"), ("Add a reminder for friday: call the bank.", "bank"),
        ("Remind me today to water the plants.", "plants"), ("Set a reminder on monday to send the report.", "report"),
        ("Please remind me on friday to pay the rent.", "rent"), ("Remind me tomorrow to charge the bike.", "bike"),
        ("I must not forget to book the train on monday. Add a reminder.", "train"), ("Reminder for today: take out the trash.", "trash"),
    ]:
        yield question, ["add_reminder"], [[word]]
    # Two calls, one behind the other or side by side.
    yield "What is the temperature in Paris and in Oslo?", ["get_weather", "get_weather"], [["18"], ["4"]]
    yield "What are the phone numbers of Anna and Emma?", ["find_contact", "find_contact"], [["555-0142"], ["555-0108"]]
    yield "Convert 100 EUR to USD and 100 EUR to GBP.", ["convert_currency", "convert_currency"], [["125"], ["80"]]
    yield "What is 12 times 12, and what is 144 divided by 9?", ["calculate", "calculate"], [["144"], ["16"]]
    yield "How warm is it in Madrid, and what is Boris's phone number?", ["get_weather", "find_contact"], [["31"], ["555-0177"]]
    # No tool is needed.
    yield "Say hello.", [], [["hello", "hi"]]
    yield "What is the capital of France?", [], [["paris"]]
    yield "Show me an example of a JSON object with a name and an age. Don't call a tool.", [], [["{"]]


TASKS = [{"id": at, "question": question, "tools": tools, "answer": answer} for at, (question, tools, answer) in enumerate(_tasks(), 1)]


def fits(schema, value):
    """Does a value fit this schema, as far as the five tools need it?"""
    kind = schema.get("type")
    if kind == "object":
        if not isinstance(value, dict) or any(name not in value for name in schema["required"]):
            return False
        return all(name in schema["properties"] and fits(schema["properties"][name], own) for name, own in value.items())
    if kind == "string":
        known = "enum" not in schema or value in schema["enum"]
        return isinstance(value, str) and known and len(value) >= schema.get("minLength", 0)
    return isinstance(value, (int, float)) and not isinstance(value, bool)


SCHEMAS = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}
