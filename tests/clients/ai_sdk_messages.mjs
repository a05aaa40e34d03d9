// Scenes of tests/integration/messages_clients.rs with the AI SDK and @ai-sdk/anthropic.
//
// Prints one JSON object: for each scene what the application saw.

import { createAnthropic } from '@ai-sdk/anthropic';
import { generateText, stepCountIs, streamText, tool } from 'ai';
import { createRequire } from 'node:module';
import { z } from 'zod';

import { MODEL, newRun, SCENES } from './application.mjs';

const inputSchema = z.object({ city: z.string() });

const request = (run, model, prompt, more) => ({
  model,
  prompt,
  ...more,
  maxOutputTokens: 4000,
  maxRetries: 0,
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

async function whole(run, model, ask, more) {
  const { steps } = await generateText(request(run, model, ask, more));
  return seen(run, steps);
}

async function streamed(run, model, ask, more) {
  let deltas = '';
  const result = streamText({ ...request(run, model, ask, more), onError: () => {} });
  for await (const part of result.fullStream) {
    if (part.type === 'error') throw part.error;
    if (part.type === 'text-delta') deltas += part.text;
  }
  return seen(run, await result.steps, { deltas });
}

const results = { version: createRequire(import.meta.url)('@ai-sdk/anthropic/package.json').version };
const thinking = { providerOptions: { anthropic: { thinking: { type: 'enabled', budgetTokens: 2000 } } } };
for (const [scene, ask] of SCENES) {
  for (const [name, mode, more] of [['whole', whole, {}], ['streamed', streamed, {}], ['thinking', streamed, thinking]]) {
    const run = newRun();
    const anthropic = createAnthropic({ baseURL: `${process.env.ANTHROPIC_BASE_URL}/v1`, fetch: run.fetch });
    try {
      results[`${scene}_${name}`] = await mode(run, anthropic(MODEL), ask, more);
    } catch (error) {
      if (!scene.startsWith('failing_')) throw error;
      results[`${scene}_${name}`] = run.seen({ failed: error.constructor.name ?? 'error', status: error.statusCode ?? null, message: error.message });
    }
  }
}
console.log(JSON.stringify(results));
