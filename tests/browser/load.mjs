// What the live page costs: the browser while 200 exchanges a second come, and the proxy, per request, with the page open and closed.
// Prints figures and asserts none. Rounds with the page open and closed take turns, so that what else the machine does meets both.
//
//   cd tests/browser && npm ci && TOOLMARK=../../target/release/toolmark node load.mjs
//
// ROUNDS (8) of each kind, of ROUND_SECONDS (8) each; RATE (200) exchanges a second; READER=tail follows by `toolmark tail` instead of a browser.
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const { TOOLMARK, CHROMIUM = "/usr/bin/chromium", ROUNDS = "8", ROUND_SECONDS = "8", RATE = "200", READER = "browser" } = process.env;
const [rounds, seconds, rate] = [ROUNDS, ROUND_SECONDS, RATE].map(Number);
if (!TOOLMARK) throw new Error("TOOLMARK must name the binary");

const tools = [{ type: "function", function: { name: "get_weather", parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } } }];
const request = JSON.stringify({ model: "m", messages: [{ role: "user", content: "Weather in Paris?" }], tools });
const answer = JSON.stringify({ id: "c", object: "chat.completion", created: 1, model: "m", choices: [{ index: 0, message: { role: "assistant", content: null, tool_calls: [{ id: "call_0", type: "function", function: { name: "get_weather", arguments: '{"city":"Paris"}' } }] }, finish_reason: "tool_calls" }], usage: { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 } });
const free = () => new Promise((done) => { const server = net.createServer().listen(0, "127.0.0.1", () => { const { port } = server.address(); server.close(() => done(port)); }); });
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

const upstream = http.createServer((asked, response) => { asked.resume(); asked.on("end", () => { response.writeHead(200, { "content-type": "application/json" }); response.end(answer); }); });
await new Promise((done) => upstream.listen(0, "127.0.0.1", done));
const directory = mkdtempSync(join(tmpdir(), "toolmark-load-"));
const [port, admin] = [await free(), await free()];
writeFileSync(join(directory, "toolmark.toml"), `[log]\nlevel = "warn"\n[[upstreams]]\nname = "u"\nbase_url = "http://127.0.0.1:${upstream.address().port}/v1"\n[ledger]\nurl = "sqlite:toolmark.db"\n[admin]\nlisten = "127.0.0.1:${admin}"\n`);
const proxy = spawn(TOOLMARK, ["serve", "--listen", `127.0.0.1:${port}`], { cwd: directory, stdio: "ignore" });
for (let tries = 0; !(await fetch(`http://127.0.0.1:${admin}/healthz`).then((own) => own.ok, () => false)); tries += 1) { if (tries > 200) throw new Error("toolmark doesn't start"); await pause(50); }

/** Nanoseconds on the processors of all threads of a process. */
const cpu = (id) => readdirSync(`/proc/${id}/task`).reduce((sum, task) => { try { return sum + Number(readFileSync(`/proc/${id}/task/${task}/schedstat`, "utf8").split(" ")[0]); } catch { return sum; } }, 0);
/** The same, by the names of the threads. */
const by_thread = (id) => readdirSync(`/proc/${id}/task`).reduce((all, task) => {
  try {
    const name = readFileSync(`/proc/${id}/task/${task}/comm`, "utf8").trim().replace(/-\d+$/, "");
    all[name] = (all[name] ?? 0) + Number(readFileSync(`/proc/${id}/task/${task}/schedstat`, "utf8").split(" ")[0]);
  } catch { /* It has ended. */ }
  return all;
}, {});
/** A process and all that it started. */
function family(id) {
  const parents = new Map(readdirSync("/proc").filter((own) => /^\d+$/.test(own)).map((own) => { try { return [Number(own), Number(readFileSync(`/proc/${own}/stat`, "utf8").split(") ")[1].split(" ")[1])]; } catch { return [0, 0]; } }));
  const all = [id];
  for (let at = 0; at < all.length; at += 1) for (const [own, parent] of parents) if (parent === all[at]) all.push(own);
  return all;
}
const of_family = (id) => family(id).reduce((sum, own) => { try { return sum + cpu(own); } catch { return sum; } }, 0);

const agent = new http.Agent({ keepAlive: true, maxSockets: 16 });
let sent = 0;
const one = () => new Promise((done) => {
  const asked = http.request({ port, host: "127.0.0.1", path: "/v1/chat/completions", method: "POST", agent, headers: { "content-type": "application/json", "content-length": Buffer.byteLength(request) } }, (response) => { response.resume(); response.on("end", () => { sent += 1; done(); }); });
  asked.on("error", done);
  asked.end(request);
});
async function load(seconds) {
  const begun = performance.now();
  const running = [];
  for (let at = 0; at < seconds * rate; at += 1) {
    const due = begun + (at * 1000) / rate;
    if (due > performance.now()) await pause(due - performance.now());
    running.push(one());
  }
  await Promise.all(running);
}

let context, page, reader;
const browser_id = () => Number(readdirSync("/proc").filter((own) => /^\d+$/.test(own)).find((own) => { try { return readFileSync(`/proc/${own}/stat`, "utf8").split(") ")[1].split(" ")[1] === String(process.pid) && readFileSync(`/proc/${own}/cmdline`, "utf8").includes("chrom"); } catch { return false; } }));
if (READER === "browser") {
  context = await chromium.launchPersistentContext("", { executablePath: CHROMIUM, headless: true, args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"], viewport: { width: 1280, height: 860 } });
  page = await context.newPage();
}
const open = async () => {
  if (page) { await page.goto(`http://127.0.0.1:${admin}/`); await page.getByText("connected", { exact: true }).waitFor(); }
  else reader = spawn(TOOLMARK, ["tail", "--admin", `http://127.0.0.1:${admin}`], { stdio: "ignore" });
};
const close = async () => { if (page) await page.goto("about:blank"); else reader?.kill(); };

await load(3);
const figures = { open: [], closed: [], browser: [] };
const threads = { open: {}, closed: {} };
const counts = { open: 0, closed: 0 };
for (let round = 0; round < rounds * 2; round += 1) {
  // Open, closed, closed, open, …
  const kind = [0, 3].includes(round % 4) ? "open" : "closed";
  await (kind === "open" ? open() : close());
  await load(1);
  const threads_before = by_thread(proxy.pid);
  const [before, browser_before, sent_before, begun] = [cpu(proxy.pid), page ? of_family(browser_id()) : 0, sent, performance.now()];
  await load(seconds);
  const took = performance.now() - begun;
  figures[kind].push((cpu(proxy.pid) - before) / 1000 / (sent - sent_before));
  for (const [name, time] of Object.entries(by_thread(proxy.pid))) threads[kind][name] = (threads[kind][name] ?? 0) + time - (threads_before[name] ?? 0);
  counts[kind] += sent - sent_before;
  if (page && kind === "open") figures.browser.push((of_family(browser_id()) - browser_before) / 1e4 / took);
  if (kind === "open") await close();
}
const median = (all) => { const own = [...all].sort((a, b) => a - b); return (own[Math.floor((own.length - 1) / 2)] + own[Math.ceil((own.length - 1) / 2)]) / 2; };
const shown = (all) => all.map((own) => own.toFixed(1)).join(" ");
const of_threads = (kind) => Object.entries(threads[kind]).map(([name, time]) => [name, time / 1000 / counts[kind]]).filter(([, time]) => time >= 0.05).map(([name, time]) => `${name} ${time.toFixed(1)}`).join(", ");
const ratios = figures.open.map((own, at) => own / figures.closed[at]);
console.log(`${sent} exchanges, ${rate} a second`);
console.log(`proxy, CPU µs a request, closed: ${median(figures.closed).toFixed(1)} (${shown(figures.closed)})`);
console.log(`proxy, CPU µs a request, open:   ${median(figures.open).toFixed(1)} (${shown(figures.open)})`);
console.log(`by thread, closed: ${of_threads("closed")}`);
console.log(`by thread, open:   ${of_threads("open")}`);
console.log(`open to closed, of neighbouring rounds: median ${((median(ratios) - 1) * 100).toFixed(1)} % (${ratios.map((own) => `${((own - 1) * 100).toFixed(1)}`).join(" ")})`);
if (page) console.log(`browser, all its processes, per cent of a core: median ${median(figures.browser).toFixed(1)} (${shown(figures.browser)})`);
await context?.close();
reader?.kill();
proxy.kill();
upstream.close();
agent.destroy();
rmSync(directory, { recursive: true });
process.exit(0);
