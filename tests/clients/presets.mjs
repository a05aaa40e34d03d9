// Scenes of tests/integration/upstreams/presets.rs with openai (npm): the same as presets.py.

import OpenAI from "openai";

const CITY = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };
const TOOLS = [
  { type: "function", function: { name: "get_weather", parameters: CITY, strict: true } },
  { type: "function", function: { name: "get_time", parameters: CITY } },
];

const client = new OpenAI();

function optionsOf(provider) {
  const options = { logprobs: true, top_logprobs: 2 };
  return provider === "llamacpp" ? options : { ...options, parallel_tool_calls: true };
}

async function whole(request) {
  const { data, response } = await client.chat.completions.create(request).withResponse();
  const [choice] = data.choices;
  return { message: choice.message, finish: choice.finish_reason, upstream: response.headers.get("toolmark-upstream") };
}

async function streamed(request) {
  const { data, response } = await client.chat.completions.create({ ...request, stream: true }).withResponse();
  let [content, calls, finish] = ["", [], null];
  for await (const chunk of data) {
    for (const choice of chunk.choices) {
      content += choice.delta.content ?? "";
      finish = choice.finish_reason ?? finish;
      for (const call of choice.delta.tool_calls ?? []) {
        if (calls[call.index]) calls[call.index].function.arguments += call.function.arguments;
        else calls[call.index] = call;
      }
    }
  }
  return { message: { content, tool_calls: calls }, finish, upstream: response.headers.get("toolmark-upstream") };
}

async function helper(request) {
  const stream = client.chat.completions.stream(request);
  const completion = await stream.finalChatCompletion();
  const [choice] = completion.choices;
  // The helper shows no headers; the others do.
  return { message: choice.message, finish: choice.finish_reason, upstream: request.model.replace(/-1$/, "") };
}

async function converse(provider, mode) {
  const messages = [{ role: "user", content: "What is the weather in Paris and Rome?", name: "someone" }];
  const request = { model: `${provider}-1`, tools: TOOLS, ...optionsOf(provider) };
  const { message, finish, upstream } = await mode({ ...request, messages, tool_choice: "required" });
  const calls = message.tool_calls.map((call) => ({ id: call.id, name: call.function.name, arguments: call.function.arguments }));
  const functions = calls.map((call) => ({ id: call.id, type: "function", function: { name: call.name, arguments: call.arguments } }));
  messages.push({ role: "assistant", content: null, tool_calls: functions });
  for (const call of calls) {
    call.arguments = JSON.parse(call.arguments);
    messages.push({ role: "tool", tool_call_id: call.id, content: JSON.stringify({ city: call.arguments.city, degrees: 18 }) });
  }
  const answer = await mode({ ...request, messages });
  if (answer.message.tool_calls?.length) throw new Error(JSON.stringify(answer));
  return { calls, finish, text: answer.message.content, upstream };
}

async function failure(model, options) {
  let seen = "";
  try {
    const answer = await client.chat.completions.create({ model, messages: [{ role: "user", content: "x" }], ...options });
    if (options.stream) for await (const chunk of answer) for (const choice of chunk.choices) seen += choice.delta.content ?? "";
  } catch (error) {
    if (!(error instanceof OpenAI.APIError)) throw error;
    return { status: error.status ?? null, message: `${error.message} ${JSON.stringify(error.error ?? null)}`, seen };
  }
  throw new Error(`${model}: no error`);
}

const results = {};
for (const provider of process.env.PROVIDERS.split(",")) {
  results[provider] = {
    whole: await converse(provider, whole),
    streamed: await converse(provider, streamed),
    helper: await converse(provider, helper),
    error: await failure(`${provider}-error`, {}),
    breaks: await failure(`${provider}-breaks`, { stream: true }),
  };
}
console.log(JSON.stringify(results));
