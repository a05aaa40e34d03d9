// openai-agents for JavaScript: agents, an agent as a tool, a filter of the model's input, an output type; chat completions and Responses.

import { readFileSync } from "node:fs";
import { Agent, Runner, setTracingDisabled, tool } from "@openai/agents-core";
import { OpenAIProvider } from "@openai/agents-openai";
import OpenAI from "openai";
import { z } from "zod";
import { PLACEHOLDER, named, play } from "./application.mjs";

setTracingDisabled(true);
const Weather = z.object({ city: z.string(), degrees: z.number() });

function agentOf(run, options) {
  const { name, description, parameter, number, execute } = run.tool();
  const own = tool({ name, description, parameters: z.object({ [parameter]: number ? z.number() : z.string() }), execute: async (given) => execute(given) });
  return new Agent({ name: "assistant", instructions: "Use your tools.", model: run.model, tools: [own], ...options });
}

function runnerOf(run, useResponses, options) {
  const openAIClient = new OpenAI({ baseURL: run.url, apiKey: run.key, maxRetries: 0 });
  return new Runner({ modelProvider: new OpenAIProvider({ openAIClient, useResponses }), tracingDisabled: true, ...options });
}

async function ask(run, { responses = false, runner, ...options } = {}) {
  return (await runnerOf(run, responses, runner).run(agentOf(run, options), run.ask, { maxTurns: 40 })).finalOutput;
}

async function streamed(run, { responses = false } = {}) {
  const result = await runnerOf(run, responses).run(agentOf(run), run.ask, { stream: true, maxTurns: 40 });
  for await (const piece of result.toTextStream()) run.streamed += piece;
  await result.completed;
  return result.finalOutput;
}

const clear = ({ modelData }) => {
  const results = modelData.input.filter((item) => item.type === "function_call_result");
  const old = new Set(results.slice(0, -2));
  return { ...modelData, input: modelData.input.map((item) => (old.has(item) ? { ...item, output: { type: "text", text: PLACEHOLDER } } : item)) };
};

const subagents = (run) => {
  const runner = runnerOf(run, false);
  const desk = agentOf(run).asTool({ toolName: "weather_desk", toolDescription: "Asks the weather desk.", runConfig: runner.config });
  return ask(run, { tools: [desk] });
};

const responses = (play) => (run) => play(run, { responses: true });
await play("openai_agents_js", JSON.parse(readFileSync("node_modules/@openai/agents-core/package.json")).version, {
  ...named(["weather", "poll", "rows", "parallel", "repair", "error"], (run) => ask(run)),
  ...named(["stream", "cut_text", "cut_call", "cut_quiet"], (run) => streamed(run)),
  editing: (run) => ask(run, { runner: { callModelInputFilter: clear } }),
  subagents,
  json: (run) => ask(run, { outputType: Weather }),
  ...named(["weather_responses", "poll_responses"], responses(ask)),
  json_responses: (run) => ask(run, { responses: true, outputType: Weather }),
  ...named(["stream_responses", "cut_text_responses", "cut_call_responses"], responses(streamed)),
});
