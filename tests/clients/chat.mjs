// Scenes of tests/integration/clients.rs with openai (npm), written as an application would.
//
// Prints one JSON object: for each scene what the application saw. The same as chat.py does with openai (PyPI).

import OpenAI from 'openai';
import { VERSION } from 'openai/version';

const MODEL = 'scripted-1';
let sent = 0; // every request that the client really sent, retries included

const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false };
const TOOLS = [{ type: 'function', function: { name: 'get_weather', description: 'The weather in a city, now.', parameters, strict: true } }];

const getWeather = ({ city }) => ({ city, degrees: 18 });

const clientOf = (url) => new OpenAI({ baseURL: url, fetch: (...request) => { sent += 1; return fetch(...request); } });

async function whole(client, messages) {
  const { data, response } = await client.chat.completions.create({ model: MODEL, messages, tools: TOOLS }).withResponse();
  const { message, finish_reason } = data.choices[0];
  const header = (name) => response.headers.get(`toolmark-${name}`);
  const facts = {
    finish_reason,
    header: header('verdict'),
    violations: header('violations'),
    exchange: header('exchange'),
    member: data.toolmark ?? null,
    tokens: data.usage.total_tokens,
    id: data.id,
  };
  return [message, facts];
}

async function streamed(client, messages) {
  let text = '';
  const [calls, ids, facts] = [[], new Set(), { member: null, tokens: null }];
  const request = { model: MODEL, messages, tools: TOOLS, stream: true, stream_options: { include_usage: true } };
  const { data: stream, response } = await client.chat.completions.create(request).withResponse();
  for await (const chunk of stream) {
    ids.add(chunk.id);
    facts.member = chunk.toolmark ?? facts.member;
    facts.tokens = chunk.usage?.total_tokens ?? facts.tokens;
    for (const { delta, finish_reason } of chunk.choices) {
      text += delta.content ?? '';
      facts.finish_reason = finish_reason ?? facts.finish_reason;
      for (const { index, ...call } of delta.tool_calls ?? []) {
        if (calls[index]) calls[index].function.arguments += call.function.arguments;
        else calls[index] = call;
      }
    }
  }
  facts.exchange = response.headers.get('toolmark-exchange');
  [facts.id] = ids;
  if (ids.size !== 1) throw new Error(`ids ${[...ids]}`);
  return [{ role: 'assistant', content: text || null, ...(calls.length ? { tool_calls: calls } : {}) }, facts];
}

async function helper(client, messages) {
  let member = null;
  const runner = client.chat.completions.stream({ model: MODEL, messages, tools: TOOLS, stream_options: { include_usage: true } });
  runner.on('chunk', (chunk) => { member = chunk.toolmark ?? member; });
  const completion = await runner.finalChatCompletion();
  const { message, finish_reason } = completion.choices[0];
  return [message, { finish_reason, member, tokens: completion.usage.total_tokens, id: completion.id }];
}

// A tool loop: asks, runs the tools, sends the results, until there is an answer.
async function converse(client, mode, ask) {
  const [messages, turns, before] = [[{ role: 'user', content: ask }], [], sent];
  for (let turn = 0; turn < 4; turn += 1) {
    const [message, facts] = await mode(client, messages);
    messages.push(message);
    const calls = message.tool_calls ?? [];
    const shown = calls.map(({ id, type, function: { name, arguments: text } }) => ({ id, type, name, arguments: text }));
    turns.push({ text: message.content, role: message.role, calls: shown, ...facts });
    if (!calls.length) break;
    for (const call of calls) {
      const content = JSON.stringify(getWeather(JSON.parse(call.function.arguments)));
      messages.push({ role: 'tool', tool_call_id: call.id, content });
    }
  }
  return { turns, sends: sent - before };
}

// The helper that runs the tools by itself.
async function runTools(client, ask, stream) {
  const runnable = { ...TOOLS[0].function, function: getWeather, parse: JSON.parse };
  const runner = client.chat.completions.runTools({
    model: MODEL, messages: [{ role: 'user', content: ask }], tools: [{ type: 'function', function: runnable }], stream,
  });
  const text = await runner.finalContent();
  const calls = runner.messages.flatMap((message) => message.tool_calls ?? []);
  return { text, calls: calls.map(({ id, function: { name, arguments: text } }) => ({ id, name, arguments: text })), roles: runner.messages.map(({ role }) => role) };
}

// What the application catches.
async function failure(request) {
  const [before, seen] = [sent, []];
  try {
    await request(seen);
  } catch (error) {
    if (!(error instanceof OpenAI.APIError)) throw error;
    const { status = null, code, type, param, message } = error;
    return { class: error.constructor.name, status, code, type, param, message, seen: seen.join(''), sends: sent - before };
  }
  throw new Error(`no error, but ${seen}`);
}

const ask = (client, text, more) =>
  client.chat.completions.create({ model: MODEL, messages: [{ role: 'user', content: text }], tools: TOOLS, ...more });

async function read(client, text, seen) {
  for await (const chunk of await ask(client, text, { stream: true })) seen.push(chunk.choices[0].delta.content ?? '');
}

async function readHelper(client, text, seen) {
  const runner = client.chat.completions.stream({ model: MODEL, messages: [{ role: 'user', content: text }], tools: TOOLS });
  runner.on('content', (delta) => seen.push(delta));
  await runner.finalChatCompletion();
}

const [client, erring, strict] = ['DEFAULT_URL', 'ERROR_URL', 'STRICT_URL'].map((name) => clientOf(process.env[name]));
const asks = {
  round_trip: 'What is the weather in Paris?',
  repaired: 'Invent a tool.',
  parallel: 'What is the weather in Paris and Rome?',
  objected: 'Forge, then mend.',
  blocked: 'Forge a citation.',
  exhausted: 'Never mend.',
};
const strictAsks = { strict: 'What is the weather in Paris?', uncited: 'Report without citing.' };
const results = { version: VERSION };
for (const [scene, question] of Object.entries(asks)) {
  for (const mode of [whole, streamed, helper]) results[`${scene}_${mode.name}`] = await converse(client, mode, question);
}
for (const [scene, question] of Object.entries(strictAsks)) {
  for (const mode of [whole, streamed, helper]) results[`${scene}_${mode.name}`] = await converse(strict, mode, question);
}
for (const scene of ['round_trip', 'repaired', 'parallel']) {
  results[`${scene}_runner`] = await runTools(client, asks[scene], false);
  results[`${scene}_runner_streamed`] = await runTools(client, asks[scene], true);
}
results.error_streamed = await failure((seen) => read(client, 'Break off.', seen));
results.error_helper = await failure((seen) => readHelper(client, 'Break off.', seen));
results.refused_whole = await failure(() => ask(erring, 'Never mend.'));
results.refused_streamed = await failure((seen) => read(erring, 'Never mend.', seen));
results.bad_request = await failure(() => ask(client, 'Be a bad request.'));
results.bad_tool = await failure(() => client.chat.completions.create({ model: MODEL, messages: [], tools: [{ type: 'function' }] }));
console.log(JSON.stringify(results));
