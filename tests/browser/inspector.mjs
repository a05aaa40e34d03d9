// The inspector in a real browser. Prints one JSON object: the scenes, each with what went wrong in it, or null.
import { mkdirSync, readFileSync } from "node:fs";
import net from "node:net";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const { ADMIN_URL, BASE_URL, TOKEN, SHOTS, CHROMIUM } = process.env;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const results = {};
mkdirSync(SHOTS, { recursive: true });

const tools = [{ type: "function", function: { name: "get_weather", parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } } }];
/** One exchange; its id. */
async function chat(text, { session = "", model = "m" } = {}) {
  const headers = { "content-type": "application/json", ...(session && { "toolmark-session": session }) };
  const response = await fetch(`${BASE_URL}/chat/completions`, { method: "POST", headers, body: JSON.stringify({ model, messages: [{ role: "user", content: text }], tools }) });
  await response.text();
  return response.headers.get("toolmark-exchange");
}
const same = (found, expected, what) => { if (JSON.stringify(found) !== JSON.stringify(expected)) throw new Error(`${what}: ${JSON.stringify(found)}, expected ${JSON.stringify(expected)}`); };
const holds = (value, what) => { if (!value) throw new Error(what); };

// A wire that can be cut, between the page and the listener.
const target = new URL(ADMIN_URL);
const sockets = new Set();
let isCut = false;
const wire = net.createServer((socket) => {
  if (isCut) return socket.destroy();
  const up = net.connect(Number(target.port), target.hostname);
  for (const own of [socket, up]) { sockets.add(own); own.on("error", () => {}); own.on("close", () => sockets.delete(own)); }
  socket.pipe(up).pipe(socket);
});
await new Promise((done) => wire.listen(0, "127.0.0.1", done));
const page_url = `http://127.0.0.1:${wire.address().port}/`;

const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const context = await chromium.launchPersistentContext("", { executablePath: CHROMIUM, headless: true, args: flags, viewport: { width: 1280, height: 860 }, timezoneId: "Asia/Tokyo", locale: "en-GB", reducedMotion: "reduce" });
context.setDefaultTimeout(10_000);
await context.addInitScript(() => { window.__violations = []; addEventListener("securitypolicyviolation", (event) => window.__violations.push(event.violatedDirective + " " + event.blockedURI)); });
const page = await context.newPage();
const alarms = [];
page.on("dialog", (dialog) => { alarms.push(`dialog ${dialog.message()}`); void dialog.dismiss(); });
page.on("pageerror", (error) => alarms.push(`error ${error.message}`));
page.on("request", (request) => { if (!request.url().startsWith(page_url) && !request.url().startsWith("data:") && !request.url().startsWith("blob:")) alarms.push(`request ${request.url()}`); });

const go = async (hash) => { await page.evaluate((own) => { location.hash = own; }, hash); };
const main = () => page.locator("main");
const shot = (name) => page.screenshot({ path: `${SHOTS}/${name}.png` });
async function clean(what) {
  const found = await page.evaluate(async (source) => {
    if (!window.axe) (0, eval)(source);
    const { violations, passes } = await window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] });
    if (passes.length < 5) throw new Error(`only ${passes.length} rules applied`);
    return violations.map((own) => `${own.id}: ${own.nodes.map((node) => node.target.join(" ")).slice(0, 3).join(", ")}`);
  }, axe).catch((error) => [`axe can't run: ${error.message.split("\n")[0]}`]);
  same(found, [], `axe on ${what}`);
}
async function scene(name, play) {
  if (process.env.ONLY && !name.includes(process.env.ONLY)) return;
  try { await play(); results[name] = null; } catch (error) { results[name] = error.message.split("\n").slice(0, 6).join(" | "); await shot(`failed-${name}`).catch(() => {}); }
}

const repaired = await chat("Weather?", { session: "trip" });
const wrong_type = await chat('Call with {"city":7}');
const missing = await chat("Call with {}");
const blocked = await chat("Cite!");
const claimed = await chat("Book!");

await scene("token", async () => {
  await page.goto(page_url);
  await page.getByRole("heading", { name: "A token is needed" }).waitFor();
  await clean("the token's page");
  await page.getByLabel(/Token/).fill("wrong");
  await page.keyboard.press("Enter");
  await page.getByText("This token isn't right.").waitFor();
  await page.getByLabel(/Token/).fill(TOKEN);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Exchanges" }).waitFor();
  await page.locator(`#row-${repaired}`).waitFor();
});

await scene("live", async () => {
  await page.getByText("connected", { exact: true }).waitFor();
  const fresh = await chat("Weather?", { session: "live" });
  await page.locator(`#row-${fresh}`).waitFor();
  await page.getByRole("button", { name: /Pause/ }).click();
  const later = await chat("Weather?", { session: "live" });
  await page.getByRole("button", { name: "Resume (1 new)" }).waitFor();
  same(await page.locator(`#row-${later}`).count(), 0, "shown while paused");
  await page.getByRole("button", { name: /Resume/ }).click();
  await page.locator(`#row-${later}`).waitFor();
  await clean("live");
  await shot("live");
});

await scene("time", async () => {
  const time = page.locator(`#row-${repaired} time`);
  const [shown, utc] = [await time.textContent(), await time.getAttribute("title")];
  const stamp = new Date(await time.getAttribute("datetime"));
  same(shown, new Intl.DateTimeFormat("en-GB", { dateStyle: "short", timeStyle: "medium", timeZone: "Asia/Tokyo" }).format(stamp), "the reader's zone");
  same(utc, `${stamp.toISOString().replace("T", " ").replace("Z", "")} UTC`, "UTC on hover");
});

await scene("filters", async () => {
  const ids = () => page.locator(".row").evaluateAll((rows) => rows.map((row) => row.id.slice(4)).sort());
  const filter = page.getByLabel("Filter");
  for (const [written, expected] of [["verdict=blocked", null], ["code=wrong_type", [wrong_type]], ["session=trip", [repaired]], ["tool=fetch_weather session=trip", [repaired]], ["model=other", []], ["Cite!", [blocked]]]) {
    await filter.fill(written);
    await page.waitForTimeout(600);
    const found = await ids();
    if (expected) same(found, [...expected].sort(), written);
    else holds(found.includes(blocked) && !found.includes(repaired), `${written}: ${found}`);
  }
  await filter.fill("");
  await page.getByLabel("Verdict").selectOption("repaired");
  same(await filter.inputValue(), "verdict=repaired", "the choice is written");
  await page.waitForTimeout(600);
  holds(!(await ids()).includes(blocked), "the choice filters");
  await filter.fill("");
});

await scene("three_keys_to_the_marked_argument", async () => {
  await page.getByLabel("Filter").fill("code=wrong_type");
  await page.waitForFunction(() => document.querySelectorAll(".row").length === 1);
  await page.locator("h1").click();
  await page.keyboard.press("j");
  await page.waitForFunction((id) => document.activeElement.id === `row-${id}`, wrong_type);
  await page.keyboard.press("Enter");
  await page.locator("mark").first().waitFor();
  await page.keyboard.press("j");
  same(await page.evaluate(() => [document.activeElement.tagName, document.activeElement.textContent]), ["MARK", "7"], "the marked argument");
  await page.keyboard.press("Escape");
  await page.getByRole("heading", { name: "Exchanges" }).waitFor();
  same(await page.getByLabel("Filter").inputValue(), "code=wrong_type", "the filter is still there");
  await page.keyboard.press("/");
  same(await page.evaluate(() => document.activeElement.id), "filter", "the filter has the focus");
  await page.getByLabel("Filter").fill("");
  await page.keyboard.press("Escape");
});

await scene("exchange", async () => {
  await go(`#/exchange/${repaired}`);
  await page.getByText("The model made a mistake, was told so, and answered again.").waitFor();
  const text = await main().innerText();
  for (const words of ["fetch_weather", "unknown_tool", "no tool of this name", "Tool call rejected: fetch_weather", "What left", "passed on"]) holds(text.includes(words), `${words}: ${text}`);
  await shot("exchange");
  await page.getByText("Body", { exact: true }).first().click();
  await page.getByText("Weather?").waitFor();
  await clean("exchange");
});

await scene("why_it_was_changed", async () => {
  // The questions of somebody who knows only the address: what was wrong, where, and what became of it.
  for (const [id, words, mark] of [
    [repaired, ["no tool of this name", "Tool call rejected"], "fetch_weather"],
    [wrong_type, ["a parameter is of another type", "/city"], "7"],
    [missing, ["a required parameter is missing", "\"city\""], "{}"],
    [blocked, ["an execution ID that was never issued"], "get_weather_1700"],
    [claimed, ["says that something was done, and no tool did it"], "I have booked"],
  ]) {
    await go(`#/exchange/${id}`);
    await page.locator("h1", { hasText: id }).waitFor();
    await page.locator("mark").first().waitFor();
    const text = await main().innerText();
    for (const own of words) holds(text.includes(own), `${id}: ${own}: ${text}`);
    const marks = await page.locator("mark").allTextContents();
    holds(marks.some((own) => own.startsWith(mark)), `${id}: marked is ${marks}, not ${mark}`);
  }
});

await scene("pages", async () => {
  for (const [hash, heading, words] of [
    ["#/sessions", "Sessions", "trip"], ["#/session/trip", "Session trip", "fetch_weather"], ["#/tools", "Tools", "get_weather"], ["#/models", "Models", "Rejected calls per 1000"],
    ["#/ledger", "Ledger", "Kind"], ["#/policy/unknown_tool", "Policy", "no tool of this name"], ["#/upstreams", "Upstreams", "scripted"],
  ]) {
    await go(hash);
    await page.getByRole("heading", { name: heading, level: 1 }).waitFor();
    await main().getByText(words).first().waitFor();
    await clean(hash);
    await shot(hash.split("/")[1]);
  }
});

await scene("ledger", async () => {
  await go("#/ledger");
  await page.getByRole("button", { name: "Verify now" }).click();
  await page.getByText(/The chain is whole/).waitFor();
  await page.getByLabel(/Exchange ID/).fill("nothing_1_2");
  await page.keyboard.press("Enter");
  await page.getByText("The ledger doesn't know it.").waitFor();
  await page.getByLabel(/Exchange ID/).fill(repaired);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: repaired }).waitFor();
});

await scene("what_if", async () => {
  await go("#/policy");
  const policy = page.getByLabel(/Policy to try/);
  const judge = page.getByRole("button", { name: "Judge the kept exchanges" });
  await policy.waitFor();
  await judge.click();
  await page.getByText(/Nothing would change/).waitFor();
  await policy.fill('[checks]\nunknown_execution = "warn"\n');
  await judge.click();
  await page.getByText(/exchanges would change/).waitFor();
  same(await page.locator(".trial li a[href^='#/exchange']").evaluateAll((all) => all.map((own) => own.getAttribute("href"))), [`#/exchange/${blocked}`], "what would change");
  same(await page.locator(".trial li .verdict").allTextContents(), ["blocked", "warn"], "how");
  await shot("what-if");
  await policy.fill("mode = 1");
  await judge.click();
  await page.getByRole("alert").waitFor();
});

await scene("reconnect", async () => {
  await go("#/live");
  await page.getByText("connected", { exact: true }).waitFor();
  isCut = true;
  sockets.forEach((socket) => socket.destroy());
  await page.getByText("not connected, trying again").waitFor();
  const missed = await chat("Weather?", { session: "missed" });
  isCut = false;
  await page.getByText("connected", { exact: true }).waitFor();
  await page.locator(`#row-${missed}`).waitFor();
  const after = await chat("Weather?", { session: "after" });
  await page.locator(`#row-${after}`).waitFor();
});

await scene("narrow_and_dark", async () => {
  await page.setViewportSize({ width: 375, height: 740 });
  await page.emulateMedia({ colorScheme: "dark" });
  for (const hash of ["#/live", `#/exchange/${wrong_type}`, "#/sessions", "#/tools", "#/models", "#/ledger", "#/policy", "#/upstreams"]) {
    await go(hash);
    await page.locator("h1").waitFor();
    await page.waitForTimeout(300);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    holds(wide <= 375, `${hash} is ${wide} wide`);
    await clean(`${hash}, dark, 375 px`);
  }
  await go(`#/exchange/${wrong_type}`);
  await page.locator("mark").first().waitFor();
  await shot("narrow-dark");
  await page.getByRole("button", { name: "Light or dark" }).click();
  same(await page.evaluate(() => document.documentElement.dataset.theme), "light", "the theme is changed");
  await page.evaluate(() => { localStorage.clear(); delete document.documentElement.dataset.theme; });
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 1280, height: 860 });
});

await scene("hostile_text_is_never_markup", async () => {
  const payloads = ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\"><svg onload=alert(1)>", "javascript:alert(1)", "</textarea><script>alert(1)</script>", "<iframe srcdoc='<script>parent.alert(1)</script>'>", "{{constructor.constructor('alert(1)')()}}", "<a href=javascript:alert(1)>x</a>", "';alert(1);//", "<details open ontoggle=alert(1)>", "<style>@import '//evil.example'</style>", "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>", "<svg><animate onbegin=alert(1) attributeName=x dur=1s>", "\u202e<b onmouseover=alert(1)>"];
  const ids = [];
  for (const own of payloads) {
    const header = encodeURIComponent(own) === own ? own : own.replace(/[^\x20-\x7e]/g, "");
    ids.push(await chat(`Say ${own}`, { session: header, model: own }));
    ids.push(await chat(`Invent ${own}`, { session: header, model: own }));
    ids.push(await chat(`Call with ${JSON.stringify({ [own]: own, city: own })}`, { session: header, model: own }));
  }
  await go("#/live");
  await page.locator(`#row-${ids.at(-1)}`).waitFor();
  for (const id of ids) {
    await go(`#/exchange/${id}`);
    await page.locator("h1", { hasText: id }).waitFor();
    await page.locator(".timeline").waitFor();
    await page.evaluate(() => document.querySelectorAll("details").forEach((fold) => { fold.open = true; }));
    await page.waitForTimeout(30);
    await page.keyboard.press("j");
  }
  for (const hash of ["#/sessions", ...payloads.map((own) => `#/session/${encodeURIComponent(own.replace(/[^\x20-\x7e]/g, ""))}`), "#/tools", "#/models", `#/policy/${encodeURIComponent(payloads[1])}`, `#/exchange/${encodeURIComponent(payloads[0])}`]) {
    await go(hash);
    await page.locator("h1").waitFor();
    await page.waitForTimeout(60);
  }
  const elements = await page.evaluate(() => document.querySelectorAll("main script, main img, main iframe, main math, main style, main [onerror], main [onload], main a[href^='javascript']").length);
  same([elements, alarms.filter((own) => !own.includes("net::"))], [0, []], "what ran");
  same(await page.evaluate(() => window.__violations), [], "violations of the content security policy");
});

await context.close();
wire.close();
sockets.forEach((socket) => socket.destroy());
results.alarms = alarms.length ? alarms.slice(0, 5).join(" | ") : null;
console.log(JSON.stringify(results));
