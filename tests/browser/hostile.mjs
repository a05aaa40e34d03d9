// Payloads of a public list in every field that a model, a tool, a caller, an upstream or the settings can set: none of them runs, and all are shown as
// the text that they are. The browser reports what its content security policy stopped, and a listener counts the reports.
import { mkdirSync, readFileSync } from "node:fs";
import http from "node:http";
import { ADMIN_URL, browser, enter, exchange, holds, same, SHOTS, stage, weather } from "./common.mjs";

/** The client of `key-hostile` in the settings. */
const CLIENT = "<img src=x onerror=alert(1)>";
const payloads = readFileSync(new URL("payloads.txt", import.meta.url), "utf8").split("\n").filter((line) => line && !line.startsWith("#"));
mkdirSync(SHOTS, { recursive: true });
const reports = [];
const listener = http.createServer((request, response) => {
  let body = "";
  request.on("data", (part) => { body += part; });
  request.on("end", () => { reports.push(body); response.end(); });
});
await new Promise((done) => listener.listen(0, "127.0.0.1", done));
// Between the page and the listener: lets the page's own policy report too, and changes answers where a scene wants it. Not by routes of the browser: with
// them it sends no reports.
let change = null;
const target = new URL(ADMIN_URL);
const between = http.createServer((request, response) => {
  const headers = { ...request.headers, host: target.host };
  const up = http.request({ host: target.hostname, port: target.port, path: request.url, method: request.method, headers }, (answer) => {
    const headers = { ...answer.headers };
    if (headers["content-security-policy"]) headers["content-security-policy"] += `; report-uri http://127.0.0.1:${listener.address().port}/csp`;
    if (!change || !request.url.startsWith("/api/") || !(headers["content-type"] ?? "").startsWith("application/json")) { response.writeHead(answer.statusCode, headers); answer.pipe(response); return; }
    const parts = [];
    answer.on("data", (part) => parts.push(part));
    answer.on("end", () => {
      const body = JSON.stringify(change(JSON.parse(Buffer.concat(parts).toString()), request.url));
      response.writeHead(answer.statusCode, { ...headers, "content-length": Buffer.byteLength(body) });
      response.end(body);
    });
  });
  up.on("error", () => response.destroy());
  response.on("close", () => up.destroy());
  request.pipe(up);
});
await new Promise((done) => between.listen(0, "127.0.0.1", done));
const page_url = `http://127.0.0.1:${between.address().port}/`;
const { context, page, alarms } = await browser(page_url);
const { scene, end } = stage(page);

/** What payloads would leave behind if they were markup. */
const elements = () => page.evaluate(() => document.querySelectorAll("script:not([src$='app.js']), main :is(img, iframe, object, embed, math, style, link, meta, base, form:not(.bar):not(.ask), video, audio, body, html, frameset, isindex, marquee, svg:not(.bars)), [onerror], [onload], [onmouseover], [onclick], [onfocus], [ontoggle], [onbegin], a[href^='javascript' i], a[href^='data:' i], a[href^='vbscript' i]").length);
const quiet = async (what) => {
  same(await elements(), 0, `${what}: elements of payloads`);
  same(alarms.filter((own) => !own.includes("net::")), [], `${what}: alarms`);
  same(await page.evaluate(() => window.__violations), [], `${what}: violations of the content security policy`);
};
const go = async (hash) => { await page.evaluate((own) => { location.hash = own; }, hash); };
/** What a header may carry. */
const header = (own) => own.replace(/[^\x20-\x7e]/g, "").trim() || "x";
const written = (own) => own.replace(/\s+/g, " ").trim();

await enter(page, page_url);
const exchanges = [];
await scene("every_payload_is_sent", async () => {
  for (const own of payloads) {
    const ask = { session: header(own), agent: header(own), model: own, key: exchanges.length % 2 ? "key-support" : "key-hostile" };
    const tools = [{ type: "function", function: { ...weather.function, description: own } }];
    const called = await exchange([{ role: "user", content: `Everything ${own}` }], { ...ask, tools });
    exchanges.push([called.id, own]);
    // A tool's result, and the upstream's error.
    const right = await exchange([{ role: "user", content: "Weather?" }], ask);
    const message = right.json.choices[0].message;
    const result = { role: "tool", tool_call_id: message.tool_calls[0].id, content: own };
    const failed = await exchange([{ role: "user", content: "Weather?" }, message, result, { role: "user", content: `Fail with ${own}` }], ask);
    exchanges.push([failed.id, own]);
  }
  holds(exchanges.length > 450, `${exchanges.length} exchanges`);
});

await scene("every_exchange_is_shown_as_text", async () => {
  for (const [id, own] of exchanges) {
    await go(`#/exchange/${id}`);
    await page.waitForFunction((id) => document.querySelector("h1")?.textContent.includes(id) && document.querySelector(".timeline, .error"), id);
    const seen = await page.evaluate(() => {
      document.querySelectorAll("details").forEach((fold) => { fold.open = true; });
      return new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(document.querySelector("main").textContent), 0)));
    });
    holds(written(seen).includes(written(own)), `${id}: ${own} isn't shown as it is: ${seen.slice(0, 600)}`);
    if (id === exchanges[0][0]) holds(seen.includes(CLIENT), `the client's name isn't shown: ${seen.slice(0, 600)}`);
  }
  await quiet("exchanges");
  same(reports, [], "reports of the content security policy");
});

await scene("lists_filters_and_addresses", async () => {
  const text = () => page.evaluate(() => document.querySelector("main").textContent);
  for (const hash of ["#/live", "#/sessions", "#/tools", "#/models", "#/policy"]) {
    await go(hash);
    await page.waitForTimeout(400);
    const seen = await text();
    holds(hash === "#/policy" || payloads.filter((own) => written(seen).includes(written(own).slice(0, 30))).length > 2, `${hash} shows payloads`);
    await quiet(hash);
  }
  await go("#/live");
  for (const own of payloads.filter((_, at) => at % 12 === 0)) {
    await page.getByLabel("Filter").fill(own);
    await page.waitForTimeout(200);
    for (const hash of [`#/session/${encodeURIComponent(header(own))}`, `#/exchange/${encodeURIComponent(own)}`, `#/policy/${encodeURIComponent(own)}`, `#/${encodeURIComponent(own)}`, `#/${own}`]) {
      await go(hash);
      await page.locator("h1").first().waitFor();
      await page.waitForTimeout(20);
    }
    await go("#/live");
  }
  await page.getByLabel("Filter").fill("");
  await quiet("filters and addresses");
});

await scene("policies_and_ids", async () => {
  await go("#/policy");
  // In the policy's own text.
  const policy = page.getByLabel(/Policy to try/).first();
  holds((await policy.inputValue()).includes("</textarea><script>alert(1)</script>"), "the policy's text is in the field");
  for (const own of payloads.filter((_, at) => at % 12 === 0)) {
    await policy.fill(`mode = "${own}"`);
    await page.getByRole("button", { name: "Judge the kept exchanges" }).first().click();
    await page.getByRole("alert").waitFor();
  }
  await go("#/ledger");
  for (const own of payloads.filter((_, at) => at % 12 === 0)) {
    await page.getByLabel(/Exchange ID/).fill(own);
    await page.keyboard.press("Enter");
    await page.waitForTimeout(20);
  }
  await quiet("policies and ids");
});

// Fields that the settings let nobody set so, as upstreams' names: a listener that went mad tells all of them.
await scene("every_text_of_every_answer", async () => {
  let round = 0;
  const PER_TEXT = 16;
  const rounds = Math.ceil(payloads.length / PER_TEXT);
  const spoil = (value, name) => {
    if (Array.isArray(value)) return value.map((own) => spoil(own, name));
    if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([own, inner]) => [own, spoil(inner, own)]));
    // Ids and roles are compared by the page, and decide where it goes.
    if (typeof value !== "string" || ["role", "id", "state", "next"].includes(name)) return value;
    const start = round * PER_TEXT;
    return value + payloads.slice(start, start + PER_TEXT).join(" ");
  };
  const paths = /\/api\/(?!events|whoami)/;
  change = (answer, url) => (paths.test(url) ? spoil(answer, "") : answer);
  let visits = 0;
  for (; round < rounds; round += 1) {
    for (const hash of ["#/live", `#/exchange/${exchanges[0][0]}`, `#/exchange/${exchanges[1][0]}`, "#/sessions", `#/session/${encodeURIComponent(header(payloads[0]))}`, "#/tools", "#/models", "#/ledger", "#/policy", "#/upstreams"]) {
      await go("#/nothing");
      const answered = page.waitForResponse(paths);
      await go(hash);
      await answered;
      await page.waitForFunction(() => !/Reading …|Searching/.test(document.querySelector("main").textContent));
      await page.waitForTimeout(20);
      visits += 1;
      const sample = payloads[round * PER_TEXT];
      const see = () => page.evaluate(() => document.querySelector("main").textContent + [...document.querySelectorAll("main [title], main [aria-label], main a[href], main textarea")].map((own) => `${own.title}${own.ariaLabel}${own.href ?? ""}${own.value ?? ""}`).join(" "));
      const shows = (seen) => written(seen).includes(written(sample).slice(0, 20)) || seen.includes(encodeURIComponent(sample).slice(0, 20)) || round > 0;
      let seen = await see();
      // A page may read more than one answer.
      for (let tries = 0; !shows(seen) && tries < 100; tries += 1) { await page.waitForTimeout(50); seen = await see(); }
      holds(shows(seen), `${hash} shows no ${sample}: ${seen.slice(0, 300)}`);
    }
    await quiet(`round ${round}`);
  }
  holds(visits >= rounds * 10, `${visits} visits`);
  change = null;
});

await scene("a_markup_error_would_be_seen", async () => {
  same(reports, [], "reports of the content security policy");
  // The same checks, on a page that makes markup of a payload.
  const other = await context.newPage();
  await other.goto(page_url);
  await other.evaluate(() => { document.body.appendChild(Object.assign(document.createElement("img"), { src: "https://evil.example/x.png" })); });
  await other.waitForFunction(() => window.__violations.length > 0);
  for (let waited = 0; !reports.length && waited < 100; waited += 1) await new Promise((done) => setTimeout(done, 50));
  holds(reports.some((own) => own.includes("img-src")), `the listener got no report: ${reports}`);
  await other.close();
});

await context.close();
between.closeAllConnections();
between.close();
listener.close();
end(alarms.filter((own) => !own.includes("evil.example")));
