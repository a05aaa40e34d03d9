// Scenes of tests/integration/messages_clients.rs with @anthropic-ai/sdk (npm), written as an application would: a loop with two tools.
//
// Prints one JSON object: for each scene what the application saw. The same as messages.py does with anthropic (PyPI).

import Anthropic from '@anthropic-ai/sdk';
import { VERSION } from '@anthropic-ai/sdk/version';

import { MODEL, newRun, SCENES } from './application.mjs';

const input_schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false };
const TOOLS = [
  { name: 'get_weather', description: 'The weather in a city, now.', input_schema },
  { name: 'get_time', description: 'The time in a city, now.', input_schema },
];

async function whole(client, request) {
  return (await client.messages.create(request)).content;
}

async function helper(client, request, deltas) {
  const stream = client.messages.stream(request);
  stream.on('text', (text) => deltas.push(text));
  return (await stream.finalMessage()).content;
}

async function converse(run, client, mode, ask, options) {
  const [messages, deltas] = [[{ role: 'user', content: ask }], []];
  const [said, calls, results] = [[], [], []];
  for (let turn = 0; turn < 4; turn += 1) {
    const request = { model: MODEL, max_tokens: 5000, system: 'You know about cities.', messages, tools: TOOLS, ...options };
    const content = await mode(client, request, deltas);
    messages.push({ role: 'assistant', content });
    said.push(...content.filter(({ type }) => type === 'text').map(({ text }) => text));
    const called = content.filter(({ type }) => type === 'tool_use');
    if (!called.length) break;
    const answers = called.map(({ id, name, input }) => {
      calls.push({ id, name, arguments: JSON.stringify(input) });
      results.push(id);
      return { type: 'tool_result', tool_use_id: id, content: run.call(name, input) };
    });
    messages.push({ role: 'user', content: answers });
  }
  return run.seen({ text: said.at(-1), said, calls, results, ...(mode === whole ? {} : { deltas: deltas.join('') }) });
}

// What the application catches.
async function failure(run, client, mode, ask) {
  try {
    const content = await mode(client, { model: MODEL, max_tokens: 5000, messages: [{ role: 'user', content: ask }], tools: TOOLS }, []);
    return run.seen({ failed: null, content: JSON.stringify(content) });
  } catch (error) {
    if (!(error instanceof Anthropic.AnthropicError)) throw error;
    const { status = null, type = null, message } = error;
    return run.seen({ failed: error.constructor.name, status, type, message });
  }
}

const results = { version: VERSION };
const thinking = { thinking: { type: 'adaptive' } };
for (const [scene, ask] of SCENES) {
  for (const [name, mode, options] of [['whole', whole, {}], ['helper', helper, {}], ['thinking', helper, thinking]]) {
    const run = newRun();
    const client = new Anthropic({ baseURL: process.env.ANTHROPIC_BASE_URL, fetch: run.fetch, maxRetries: 0 });
    const fails = scene.startsWith('failing_');
    results[`${scene}_${name}`] = await (fails ? failure(run, client, mode, ask) : converse(run, client, mode, ask, options));
  }
}
console.log(JSON.stringify(results));
