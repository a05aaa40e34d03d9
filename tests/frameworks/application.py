"""What the applications of tests/frameworks share: the tools, who counts their runs, and how a run is reported.

An application calls `play(name, version, scenes)`; a scene is a function of a `Run`. It is run once for each of the base URLs of RUNS, and what it
returned, raised, streamed, and which tools it ran is printed as JSON.
"""

import asyncio
import inspect
import json
import os
import signal
import sys
import time
import traceback
import warnings

SCENE_SECONDS = 60
DEGREES = {city: 11 + index for index, city in enumerate(["Oslo", "Rome", "Bern", "Kyiv", "Lima", "Cairo", "Delhi", "Quito"])}

# What the user says, scene by scene. The scripted model goes by its name, the framework by this.
ASKS = {
    "poll": "Wait until job j-17 is done, then say how many lines it has.",
    "rows": "Read the table from its first line to its 25th, one at a time, and report the last amount.",
    "editing": "Read the table from its first line to its 12th, one at a time, and report the last amount.",
    "parallel": "What is the weather in Oslo, Rome, Bern, Kyiv, Lima, Cairo, Delhi and Quito?",
    "subagents": "Have the weather desk say what the weather in Paris is, and pass it on.",
}
ASK = "What is the weather in Paris?"
PLACEHOLDER = "[cleared]"


class Run:
    """One run of a scene: where it goes, its tools, and what it did."""

    def __init__(self, scene, url):
        self.url, self.model, self.key = url, f"scripted-{scene}", "sk-test"
        # The same scene over another API, or as another text protocol, asks the same.
        self.scene = scene.split("_responses")[0].split("_session")[0]
        # What tells toolmark that several agents work at one thing.
        self.headers = {"toolmark-session": f"{scene}-1"} if scene.endswith("_session") else {}
        self.ask = ASKS.get(self.scene, ASK)
        self.runs, self.polls, self.streamed = [], 12, ""

    def get_weather(self, city: str) -> dict:
        """The weather in a city, now.

        Args:
            city: Name of the city.
        """
        self.runs.append(["get_weather", {"city": city}])
        return {"city": city, "degrees": DEGREES.get(city, 18)}

    def job_status(self, job: str) -> dict:
        """How far a job is.

        Args:
            job: Name of the job.
        """
        self.runs.append(["job_status", {"job": job}])
        self.polls -= 1
        return {"job": job, "status": "done", "lines": 4711} if self.polls <= 0 else {"job": job, "status": "running"}

    def read_row(self, row: int) -> dict:
        """One line of the table.

        Args:
            row: Number of the line, from 1.
        """
        self.runs.append(["read_row", {"row": row}])
        return {"row": row, "amount": 3 * row}

    def tools(self):
        """The scene's tools, as plain functions."""
        own = {"poll": self.job_status, "rows": self.read_row, "editing": self.read_row}.get(self.scene, self.get_weather)
        return [plain(own)]


def plain(method):
    """A method as a function of its own: some frameworks read names and annotations from nothing else."""

    if inspect.signature(method).parameters.keys() == {"row"}:

        def function(row: int) -> dict:
            return method(row)
    elif inspect.signature(method).parameters.keys() == {"job"}:

        def function(job: str) -> dict:
            return method(job)
    else:

        def function(city: str) -> dict:
            return method(city)

    function.__name__ = function.__qualname__ = method.__name__
    function.__doc__ = method.__doc__
    return function


class TooLate(BaseException):
    pass


def stop(*_):
    raise TooLate


def play(name, version, scenes):
    """Runs the scenes (those of SCENES, where it is set) at each base URL, and prints what came of them."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, stop)
    wanted = [scene for scene in os.environ.get("SCENES", "").split(",") if scene]
    report = {"framework": name, "version": version, "runs": {}}
    for mode, url in json.loads(os.environ["RUNS"]).items():
        for scene, function in scenes.items():
            if wanted and scene not in wanted:
                continue
            run, began = Run(scene, url), time.monotonic()
            run.mode = mode
            seen = {"answer": None, "exception": None}
            signal.alarm(SCENE_SECONDS)
            try:
                answer = function(run)
                answer = asyncio.run(answer) if inspect.iscoroutine(answer) else answer
                seen["answer"] = answer if isinstance(answer, str) else json.dumps(answer, sort_keys=True)
            except TooLate:
                seen["exception"] = {"class": "TooLate", "message": f"still running after {SCENE_SECONDS} s"}
            except BaseException as error:
                causes, cause = [], error
                while cause is not None and len(causes) < 5:
                    causes.append(f"{type(cause).__name__}: {cause}")
                    cause = cause.__cause__ or cause.__context__
                seen["exception"] = {"class": type(error).__name__, "message": " <- ".join(causes)[:4000]}
                if os.environ.get("TRACE"):
                    traceback.print_exc()
            finally:
                signal.alarm(0)
            report["runs"].setdefault(mode, {})[scene] = {**seen, "tools": run.runs, "streamed": run.streamed, "seconds": round(time.monotonic() - began, 2)}
    # Frameworks print what they like; this line is ours.
    sys.stdout.flush()
    print(f"\nREPORT {json.dumps(report)}", flush=True)
    # Whatever threads a framework left behind end here.
    os._exit(0)
