// Tests of an agent against recorded traffic: `TOOLMARK=$PWD/../../target/release/toolmark npm test`
import { fileURLToPath } from 'node:url'
import OpenAI from 'openai'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { toolmark } from './toolmark.mjs'

const CASSETTE = process.env.CASSETTE ?? fileURLToPath(new URL('../cassettes/weather.jsonl', import.meta.url))
const TOOLS = [
  {
    type: 'function',
    function: {
      name: 'get_weather',
      description: 'The weather in a city, now.',
      parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false },
    },
  },
]

/** The agent under test: asks, runs the tools that are called, and gives back the answer and what was run. */
async function agent(url, question) {
  const client = new OpenAI({ baseURL: url, apiKey: 'any' })
  const messages = [{ role: 'user', content: question }]
  const ran = []
  for (;;) {
    const completion = await client.chat.completions.create({ model: 'gpt-4o', messages, tools: TOOLS })
    const { message } = completion.choices[0]
    if (!message.tool_calls) return { answer: message.content, ran }
    messages.push(message)
    for (const call of message.tool_calls) {
      const { city } = JSON.parse(call.function.arguments)
      ran.push([call.function.name, city])
      messages.push({ role: 'tool', tool_call_id: call.id, content: JSON.stringify({ city, degrees: 18 }) })
    }
  }
}

let serving
beforeAll(async () => void (serving = await toolmark(CASSETTE)))
afterAll(() => serving?.stop())

test('it calls the tool and reports its result', async () => {
  const { answer, ran } = await agent(serving.url, 'What is the weather in Paris?')
  expect(ran).toEqual([['get_weather', 'Paris']])
  expect(answer).toBe('It is 18 degrees in Paris.')
})

test('an invented tool never reaches it', async () => {
  const { answer, ran } = await agent(serving.url, 'Invent a tool.')
  expect(ran).toEqual([['get_weather', 'Paris']])
  expect(answer).toBe('It is 18 degrees in Paris.')
})

test('what was not recorded is an error that says what is nearest', async () => {
  await expect(agent(serving.url, 'What is the weather in Rome?')).rejects.toMatchObject({ status: 404, code: 'cassette_miss' })
})
