// langchain for JavaScript: its agents, context editing, JSON by provider and by tool; chat completions and Responses.

import { readFileSync } from "node:fs";
import { ChatOpenAI } from "@langchain/openai";
import { ClearToolUsesEdit, contextEditingMiddleware, createAgent, providerStrategy, tool, toolStrategy } from "langchain";
import { z } from "zod";
import { named, play } from "./application.mjs";

const Weather = z.object({ city: z.string(), degrees: z.number() }).describe("The weather in a city.").meta({ title: "Weather" });
const limit = { recursionLimit: 120 };

function agentOf(run, { responses = false, tools, ...options } = {}) {
  const { name, description, parameter, number, execute } = run.tool();
  const own = tool(async (given) => JSON.stringify(execute(given)), { name, description, schema: z.object({ [parameter]: number ? z.number() : z.string() }) });
  const model = new ChatOpenAI({ model: run.model, apiKey: run.key, configuration: { baseURL: run.url }, useResponsesApi: responses, maxRetries: 0 });
  return createAgent({ model, tools: tools ?? [own], ...options });
}

const asked = (run) => ({ messages: [{ role: "user", content: run.ask }] });

async function ask(run, options) {
  const state = await agentOf(run, options).invoke(asked(run), limit);
  return state.structuredResponse ?? state.messages.at(-1).text;
}

async function streamed(run, options) {
  for await (const [message] of await agentOf(run, options).stream(asked(run), { ...limit, streamMode: "messages" }))
    if (message.getType() === "ai") run.streamed += message.text;
  return run.streamed;
}

const editing = (run) => {
  const edit = new ClearToolUsesEdit({ trigger: { tokens: 10 }, keep: { messages: 2 }, placeholder: "[cleared]" });
  return ask(run, { middleware: [contextEditingMiddleware({ edits: [edit] })] });
};

const subagents = (run) => {
  const desk = agentOf(run);
  const run_desk = async ({ question }) => (await desk.invoke({ messages: [{ role: "user", content: question }] }, limit)).messages.at(-1).text;
  return ask(run, { tools: [tool(run_desk, { name: "weather_desk", description: "Asks the weather desk.", schema: z.object({ question: z.string() }) })] });
};

const responses = (play) => (run) => play(run, { responses: true });
await play("langchain_js", JSON.parse(readFileSync("node_modules/langchain/package.json")).version, {
  ...named(["weather", "poll", "rows", "parallel", "repair", "error"], (run) => ask(run)),
  ...named(["stream", "cut_text", "cut_call", "cut_quiet"], (run) => streamed(run)),
  editing,
  subagents,
  json: (run) => ask(run, { responseFormat: providerStrategy(Weather) }),
  answer_tool: (run) => ask(run, { responseFormat: toolStrategy(Weather) }),
  ...named(["weather_responses", "poll_responses"], responses(ask)),
  ...named(["stream_responses", "cut_text_responses", "cut_call_responses"], responses(streamed)),
});
