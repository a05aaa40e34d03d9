"""dspy: ReAct as a text protocol, ReAct with native calls that ends in a tool (`submit`), typed answers as JSON."""

import importlib.metadata

import dspy
from application import play
from dspy.predict.react_v2 import ReActV2


class Scripted(dspy.LM):
    """dspy looks models up in a table, which lacks ours."""

    supports_function_calling = property(lambda self: True)


def lm_of(run, **options):
    return Scripted(f"openai/{run.model}", api_base=run.url, api_key=run.key, cache=False, num_retries=0, **options)


def ask(run, kind=ReActV2, adapter=None):
    with dspy.context(lm=lm_of(run), adapter=adapter or dspy.ChatAdapter(use_native_function_calling=kind is ReActV2)):
        return kind("question -> answer", tools=run.tools(), max_iters=40)(question=run.ask).answer


def json_answer(run):
    class Weather(dspy.Signature):
        """What the weather is."""

        report: str = dspy.InputField()
        city: str = dspy.OutputField()
        degrees: int = dspy.OutputField()

    with dspy.context(lm=lm_of(run), adapter=dspy.JSONAdapter()):
        answer = dspy.Predict(Weather)(report="It is 18 degrees in Paris.")
        return {"city": answer.city, "degrees": answer.degrees}


scenes = {name: ask for name in ("weather", "poll", "rows", "parallel", "repair", "error")}
scenes |= {"text_protocol": lambda run: ask(run, kind=dspy.ReAct), "json": json_answer}
play("dspy", importlib.metadata.version("dspy"), scenes)
