"""What the Python scenes of tests/integration/responses_clients.rs share: the tools, and who counts their runs."""

import json
import os

MODEL = "scripted-1"
URL = os.environ["OPENAI_BASE_URL"]
SCENES = json.loads(os.environ["SCENES"])  # by the scene's name: what the user asks


class Run:
    """What one run of an application did."""

    def __init__(self):
        self.runs = {"get_weather": 0, "get_time": 0}
        self.sends = 0  # requests that the client really sent, retries included

    def get_weather(self, city):
        self.runs["get_weather"] += 1
        return {"city": city, "degrees": 18}

    def get_time(self, city):
        self.runs["get_time"] += 1
        return f"12:30 in {city}"

    def call(self, name, arguments):
        """A result as text; what is no tool of ours is an error of the application's."""
        result = {"get_weather": self.get_weather, "get_time": self.get_time}[name](**arguments)
        return result if isinstance(result, str) else json.dumps(result)

    def count(self, request):
        self.sends += 1

    async def count_async(self, request):
        self.sends += 1

    def seen(self, **facts):
        return {"runs": self.runs, "sends": self.sends, **facts}
