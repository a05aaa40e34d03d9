// Scenes of tests/integration/responses_clients.rs with the AI SDK: `openai(m)`, which is the Responses API, and `openai.chat(m)`.
//
// Prints one JSON object: for each scene what the application saw.

import { createOpenAI } from '@ai-sdk/openai';
import { generateText, stepCountIs, streamText, tool } from 'ai';
import { createRequire } from 'node:module';
import { z } from 'zod';

import { MODEL, newRun, SCENES, URL } from './application.mjs';

const inputSchema = z.object({ city: z.string() });

const request = (run, more, prompt) => ({
  ...more,
  prompt,
  system: 'You know about cities.',
  stopWhen: stepCountIs(4),
  tools: {
    get_weather: tool({ description: 'The weather in a city, now.', inputSchema, execute: run.tools.get_weather }),
    get_time: tool({ description: 'The time in a city, now.', inputSchema, execute: run.tools.get_time }),
  },
});

function seen(run, steps, facts) {
  const calls = steps.flatMap((step) => step.toolCalls);
  return run.seen({
    text: steps.at(-1).text,
    said: steps.map(({ text }) => text).filter((text) => text),
    calls: calls.map(({ toolCallId, toolName, input }) => ({ id: toolCallId, name: toolName, arguments: JSON.stringify(input) })),
    results: steps.flatMap((step) => step.toolResults).map(({ toolCallId }) => toolCallId),
    ...facts,
  });
}

async function whole(run, more, ask) {
  const { steps } = await generateText(request(run, more, ask));
  return seen(run, steps);
}

async function streamed(run, more, ask) {
  let deltas = '';
  const result = streamText({ ...request(run, more, ask), onError: ({ error }) => { throw error; } });
  for await (const part of result.fullStream) {
    if (part.type === 'error') throw part.error;
    if (part.type === 'text-delta') deltas += part.text;
  }
  return seen(run, await result.steps, { deltas });
}

const models = {
  responses: (openai) => ({ model: openai(MODEL) }),
  stateless: (openai) => ({ model: openai(MODEL), providerOptions: { openai: { store: false } } }),
  chat: (openai) => ({ model: openai.chat(MODEL) }),
};
const results = { version: createRequire(import.meta.url)('ai/package.json').version };
for (const [scene, ask] of SCENES) {
  for (const [name, model] of Object.entries(models)) {
    for (const mode of [whole, streamed]) {
      const run = newRun();
      const openai = createOpenAI({ baseURL: URL, fetch: run.fetch });
      results[`${scene}_${name}_${mode.name}`] = await mode(run, model(openai), ask);
    }
  }
}
console.log(JSON.stringify(results));
