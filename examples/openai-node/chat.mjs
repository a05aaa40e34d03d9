// A chat with one tool, streamed, through toolmark.
//
//   npm install openai
//   OPENAI_BASE_URL=http://127.0.0.1:8787/v1 OPENAI_API_KEY=sk-… node chat.mjs What is the weather in Paris?

import OpenAI from 'openai';

const functions = {
  get_weather: ({ city }) => ({ city, degrees: 18 }), // ask a real service here
};
const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false };
const tools = [{ type: 'function', function: { name: 'get_weather', description: 'The weather in a city, now.', parameters, strict: true } }];

const client = new OpenAI(); // OPENAI_BASE_URL and OPENAI_API_KEY come from the environment
const model = process.env.OPENAI_MODEL ?? 'gpt-4o-mini';
const messages = [{ role: 'user', content: process.argv.slice(2).join(' ') || 'What is the weather in Paris?' }];
let verdict;

for (;;) {
  const stream = client.chat.completions.stream({ model, messages, tools });
  stream.on('content', (text) => process.stdout.write(text));
  // Present in the last chunk where toolmark found something: what it did, and why.
  stream.on('chunk', (chunk) => { verdict = chunk.toolmark ?? verdict; });
  const { message } = (await stream.finalChatCompletion()).choices[0];
  if (message.content) process.stdout.write('\n');
  messages.push(message);
  if (!message.tool_calls?.length) break;
  for (const call of message.tool_calls) {
    // toolmark let it through: the tool is one of ours, and the arguments fit its schema.
    const result = functions[call.function.name](JSON.parse(call.function.arguments));
    messages.push({ role: 'tool', tool_call_id: call.id, content: JSON.stringify(result) });
  }
}
if (verdict) console.log(`toolmark: ${verdict.verdict}, ${verdict.violations.join(', ')}`);
