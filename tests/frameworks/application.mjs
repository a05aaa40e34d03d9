// What the JavaScript applications of tests/frameworks share; the same as application.py.

const SCENE_MILLISECONDS = 60_000;
const CITIES = ["Oslo", "Rome", "Bern", "Kyiv", "Lima", "Cairo", "Delhi", "Quito"];
const ASKS = {
  poll: "Wait until job j-17 is done, then say how many lines it has.",
  rows: "Read the table from its first line to its 25th, one at a time, and report the last amount.",
  editing: "Read the table from its first line to its 12th, one at a time, and report the last amount.",
  parallel: "What is the weather in Oslo, Rome, Bern, Kyiv, Lima, Cairo, Delhi and Quito?",
  subagents: "Have the weather desk say what the weather in Paris is, and pass it on.",
};
export const ASK = "What is the weather in Paris?";
export const PLACEHOLDER = "[cleared]";

const TOOLS = {
  get_weather: {
    description: "The weather in a city, now.",
    parameter: "city",
    run: (run, city) => ({ city, degrees: CITIES.includes(city) ? 11 + CITIES.indexOf(city) : 18 }),
  },
  job_status: {
    description: "How far a job is.",
    parameter: "job",
    run: (run, job) => (--run.polls <= 0 ? { job, status: "done", lines: 4711 } : { job, status: "running" }),
  },
  read_row: { description: "One line of the table.", parameter: "row", number: true, run: (run, row) => ({ row, amount: 3 * row }) },
};

export class Run {
  constructor(scene, url) {
    Object.assign(this, { url, model: `scripted-${scene}`, key: "sk-test", tools: [], streamed: "", polls: 12 });
    this.scene = scene.split("_responses")[0];
    this.ask = ASKS[this.scene] ?? ASK;
  }

  // The scene's tool: name, description, parameter, and what runs it with an object of arguments.
  tool() {
    const name = { poll: "job_status", rows: "read_row", editing: "read_row" }[this.scene] ?? "get_weather";
    const { description, parameter, number, run } = TOOLS[name];
    const execute = (given) => {
      this.tools.push([name, { [parameter]: given[parameter] }]);
      return run(this, given[parameter]);
    };
    return { name, description, parameter, number, execute };
  }
}

export async function play(name, version, scenes) {
  const wanted = (process.env.SCENES ?? "").split(",").filter(Boolean);
  const report = { framework: name, version, runs: {} };
  // What a framework throws behind our back is its own affair.
  process.on("unhandledRejection", () => {});
  process.on("uncaughtException", () => {});
  for (const [mode, url] of Object.entries(JSON.parse(process.env.RUNS))) {
    report.runs[mode] = {};
    for (const [scene, play] of Object.entries(scenes)) {
      if (wanted.length && !wanted.includes(scene)) continue;
      const [run, began] = [new Run(scene, url), Date.now()];
      let timer;
      const late = new Promise((_, fail) => {
        timer = setTimeout(() => fail(Object.assign(new Error("still running"), { name: "TooLate" })), SCENE_MILLISECONDS);
      });
      const seen = { answer: null, exception: null };
      try {
        const answer = await Promise.race([play(run), late]);
        seen.answer = typeof answer === "string" ? answer : JSON.stringify(answer ?? null);
      } catch (error) {
        const causes = [];
        for (let cause = error; cause && causes.length < 5; cause = cause.cause) causes.push(`${cause.name}: ${cause.message} ${cause.responseBody ?? ""}`);
        seen.exception = { class: error?.constructor?.name ?? typeof error, message: causes.join(" <- ").slice(0, 4000) };
        if (process.env.TRACE) console.error(error);
      }
      clearTimeout(timer);
      report.runs[mode][scene] = { ...seen, tools: run.tools, streamed: run.streamed, seconds: (Date.now() - began) / 1000 };
    }
  }
  await new Promise((done) => process.stdout.write(`\nREPORT ${JSON.stringify(report)}\n`, done));
  process.exit(0);
}

export const named = (names, play) => Object.fromEntries(names.map((name) => [name, play]));
