// Starts toolmark on a cassette: the agent under test talks to it as to a model, with no network.
//
// Record a cassette once, with the real model behind it:
//   toolmark serve --upstream https://api.openai.com/v1 --record session.jsonl
import { spawn } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

/** Gives back what to set as OPENAI_BASE_URL, and how to stop it. */
export async function toolmark(cassette) {
  const serving = spawn(process.env.TOOLMARK ?? 'toolmark', ['serve', '--replay', cassette, '--listen', '127.0.0.1:0'], {
    cwd: mkdtempSync(join(tmpdir(), 'toolmark-')),
    env: { ...process.env, TOOLMARK_LEDGER__URL: 'memory:' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = new Promise((resolve) => serving.once('exit', resolve))
  for await (const line of createInterface({ input: serving.stdout })) {
    const url = line.split('OPENAI_BASE_URL=')[1]?.split(' ')[0]
    if (url) {
      serving.stdout.resume()
      return { url, stop: () => (serving.kill(), ended) }
    }
  }
  throw new Error('toolmark did not start')
}
