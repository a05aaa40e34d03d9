// Scenes of tests/integration/responses_clients.rs with openai (npm) on the Responses API, written as an application would.
//
// Prints one JSON object: for each scene what the application saw. The same as responses.py does with openai (PyPI).

import OpenAI from 'openai';
import { zodResponsesFunction } from 'openai/helpers/zod';
import { VERSION } from 'openai/version';
import { z } from 'zod';

import { check, MODEL, newRun, SCENES, URL } from './application.mjs';

const instructions = 'You know about cities.';
const city = z.object({ city: z.string() });
const PARSEABLE = [
  zodResponsesFunction({ name: 'get_weather', description: 'The weather in a city, now.', parameters: city }),
  zodResponsesFunction({ name: 'get_time', description: 'The time in a city, now.', parameters: city }),
];
const TOOLS = JSON.parse(JSON.stringify(PARSEABLE));

const factsOf = ({ id, status, usage, toolmark }) => ({ id, status, tokens: usage.total_tokens, member: toolmark ?? null });

async function whole(client, input) {
  const { data, response } = await client.responses.create({ model: MODEL, instructions, input, tools: TOOLS }).withResponse();
  const names = ['verdict', 'violations', 'exchange', 'repairs'];
  const header = Object.fromEntries(names.map((name) => [name, response.headers.get(`toolmark-${name}`)]));
  return [data, { ...factsOf(data), header }];
}

// Nothing is kept upstream, and the items go back without the ids that they came with.
async function stateless(client, items) {
  const input = items.map(({ id, ...item }) => item);
  const response = await client.responses.create({ model: MODEL, instructions, input, tools: TOOLS, store: false });
  return [response, factsOf(response)];
}

// The history stays upstream: only what is new goes there.
async function chained(client, items, previous) {
  const input = items.slice(items.findLastIndex(({ role, type }) => role === 'assistant' || type === 'function_call') + 1);
  const response = await client.responses.create({ model: MODEL, instructions, input, tools: TOOLS, previous_response_id: previous });
  return [response, factsOf(response)];
}

async function parsed(client, input) {
  const response = await client.responses.parse({ model: MODEL, instructions, input, tools: PARSEABLE });
  const calls = response.output.filter(({ type }) => type === 'function_call');
  for (const call of calls) check(typeof call.parsed_arguments.city === 'string', call);
  return [response, factsOf(response)];
}

// Reads the events as they come, and believes nothing that they don't all say.
async function streamed(client, input) {
  let [deltas, response, member] = ['', null, null];
  const [texts, args, done, numbers, kinds] = [{}, {}, [], [], []];
  for await (const event of await client.responses.create({ model: MODEL, instructions, input, tools: TOOLS, stream: true })) {
    numbers.push(event.sequence_number);
    kinds.push(event.type);
    member = event.toolmark ?? member;
    const place = `${event.item_id} ${event.content_index}`;
    if (event.type === 'response.output_text.delta') {
      deltas += event.delta;
      texts[place] = (texts[place] ?? '') + event.delta;
    }
    if (event.type === 'response.output_text.done') check(texts[place] === event.text, event);
    if (event.type === 'response.content_part.done') check(texts[place] === event.part.text, event);
    if (event.type === 'response.function_call_arguments.delta') args[event.item_id] = (args[event.item_id] ?? '') + event.delta;
    if (event.type === 'response.function_call_arguments.done') {
      check((args[event.item_id] ?? event.arguments) === event.arguments, event);
      args[event.item_id] = event.arguments;
    }
    if (event.type === 'response.output_item.done') check(done.push(event.item) - 1 === event.output_index, event);
    if (event.type === 'response.completed') response = event.response;
  }
  check(numbers.every((number, at) => at === 0 || number > numbers[at - 1]), numbers);
  check(kinds[0] === 'response.created' && kinds[1] === 'response.in_progress' && kinds.at(-1) === 'response.completed', kinds);
  check(JSON.stringify(done) === JSON.stringify(response.output), done, response.output);
  const parts = done.flatMap(({ id, content }) => (content ?? []).map(({ text }, at) => [`${id} ${at}`, text]));
  check(JSON.stringify(texts) === JSON.stringify(Object.fromEntries(parts)), texts, parts);
  const calls = done.filter(({ type }) => type === 'function_call');
  check(JSON.stringify(args) === JSON.stringify(Object.fromEntries(calls.map((call) => [call.id, call.arguments]))), args, calls);
  const output_text = response.output.flatMap(({ content }) => content ?? []).map(({ text }) => text).join('');
  const facts = factsOf(response);
  return [{ ...response, output_text }, { ...facts, member: member ?? facts.member, deltas }];
}

async function helper(client, input) {
  let [deltas, member] = ['', null];
  const stream = client.responses.stream({ model: MODEL, instructions, input, tools: PARSEABLE });
  stream.on('response.output_text.delta', ({ delta }) => { deltas += delta; });
  stream.on('response.completed', ({ toolmark }) => { member = toolmark ?? null; });
  const response = await stream.finalResponse();
  const facts = factsOf(response);
  return [response, { ...facts, member: member ?? facts.member, deltas }];
}

// An item as it goes back.
function plain({ parsed_arguments, ...item }) {
  if (!item.content) return item;
  return { ...item, content: item.content.map(({ parsed, ...part }) => part) };
}

// A tool loop: asks, runs the tools, sends the results, until there is an answer.
async function converse(run, client, mode, ask) {
  const [items, turns, said, calls, results] = [[{ role: 'user', content: ask }], [], [], [], []];
  let response;
  for (let turn = 0; turn < 4; turn += 1) {
    let facts;
    [response, facts] = await mode(client, items, response?.id);
    turns.push(facts);
    items.push(...response.output.map(plain));
    if (response.output_text) said.push(response.output_text);
    const asked = response.output.filter(({ type }) => type === 'function_call');
    for (const { call_id, name, arguments: args } of asked) {
      calls.push({ id: call_id, name, arguments: args });
      results.push(call_id);
      items.push({ type: 'function_call_output', call_id, output: run.call(name, JSON.parse(args)) });
    }
    if (!asked.length) break;
  }
  const deltas = 'deltas' in turns[0] ? { deltas: turns.map((turn) => turn.deltas).join('') } : {};
  return run.seen({ text: response.output_text, said, calls, results, turns, ...deltas });
}

// What the application catches, and what it reads of a stream that fails.
async function failures(client) {
  const request = { model: MODEL, instructions, tools: TOOLS };
  let [refused, seen, last] = [null, '', null];
  try {
    await client.responses.create({ ...request, input: 'Be a bad request.' });
  } catch (error) {
    refused = { class: error.constructor.name, status: error.status, type: error.type, message: error.error.message };
  }
  for await (const event of await client.responses.create({ ...request, input: 'Break off.', stream: true })) {
    if (event.type === 'response.output_text.delta') seen += event.delta;
    last = event;
  }
  return { refused, failed: { seen, last: last.type, status: last.response.status, error: last.response.error } };
}

const results = { version: VERSION };
for (const [scene, ask] of SCENES) {
  for (const mode of [whole, stateless, chained, parsed, streamed, helper]) {
    const run = newRun();
    const client = new OpenAI({ baseURL: URL, fetch: run.fetch });
    results[`${scene}_${mode.name}`] = await converse(run, client, mode, ask);
  }
}
results.failures = await failures(new OpenAI({ baseURL: URL }));
console.log(JSON.stringify(results));
