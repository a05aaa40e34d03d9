// What the Node scenes of tests/integration/responses_clients.rs share: the tools, and who counts their runs.

export const MODEL = 'scripted-1';
export const URL = process.env.OPENAI_BASE_URL;
export const SCENES = Object.entries(JSON.parse(process.env.SCENES)); // the scene's name, and what the user asks

// What one run of an application did. `sends`: requests that the client really sent, retries included.
export function newRun() {
  const run = {
    runs: { get_weather: 0, get_time: 0 },
    sends: 0,
    fetch: (...request) => { run.sends += 1; return fetch(...request); },
    tools: {
      get_weather: ({ city }) => { run.runs.get_weather += 1; return { city, degrees: 18 }; },
      get_time: ({ city }) => { run.runs.get_time += 1; return `12:30 in ${city}`; },
    },
    // A result as text; what is no tool of ours is an error of the application's.
    call: (name, input) => {
      const result = run.tools[name](input);
      return typeof result === 'string' ? result : JSON.stringify(result);
    },
    seen: (facts) => ({ runs: run.runs, sends: run.sends, ...facts }),
  };
  return run;
}

export function check(holds, ...what) {
  if (!holds) throw new Error(`not so: ${JSON.stringify(what)}`);
}
