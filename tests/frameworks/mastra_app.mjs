// mastra: agents on the AI SDK's models, an agent as a tool, a processor that edits the context, a structured answer.

import { readFileSync } from "node:fs";
import { createOpenAI } from "@ai-sdk/openai";
import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { z } from "zod";
import { named, play } from "./application.mjs";

const Weather = z.object({ city: z.string(), degrees: z.number() });

function agentOf(run, { responses = false, tools } = {}) {
  const { name, description, parameter, number, execute } = run.tool();
  const inputSchema = z.object({ [parameter]: number ? z.number() : z.string() });
  const own = createTool({ id: name, description, inputSchema, execute: async (given) => execute(given.context ?? given) });
  const openai = createOpenAI({ baseURL: run.url, apiKey: run.key });
  const model = responses ? openai.responses(run.model) : openai.chat(run.model);
  return new Agent({ name: "assistant", instructions: "Use your tools.", model, tools: tools ?? { [name]: own }, maxRetries: 0 });
}

const settings = { maxSteps: 40, modelSettings: { maxRetries: 0 } };

async function ask(run, options, more) {
  const result = await agentOf(run, options).generate(run.ask, { ...settings, ...more });
  if (result.error) throw result.error;
  return result.object ?? result.text;
}

async function streamed(run, options) {
  const result = await agentOf(run, options).stream(run.ask, settings);
  for await (const piece of result.textStream) run.streamed += piece;
  if (result.error) throw result.error;
  return await result.text;
}

const subagents = (run) => {
  const desk = agentOf(run);
  const execute = async (given) => (await desk.generate((given.context ?? given).question, settings)).text;
  const tool = createTool({ id: "weather_desk", description: "Asks the weather desk.", inputSchema: z.object({ question: z.string() }), execute });
  return ask(run, { tools: { weather_desk: tool } });
};

const responses = (play) => (run) => play(run, { responses: true });
await play("mastra", JSON.parse(readFileSync("node_modules/@mastra/core/package.json")).version, {
  ...named(["weather", "poll", "rows", "parallel", "repair", "error"], (run) => ask(run)),
  ...named(["stream", "cut_text", "cut_call", "cut_quiet"], (run) => streamed(run)),
  subagents,
  ...named(["weather_responses", "poll_responses"], responses(ask)),
  ...named(["stream_responses", "cut_text_responses", "cut_call_responses"], responses(streamed)),
});
