// The inspector in a real browser. Prints one JSON object: the scenes, each with what went wrong in it, or null.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { axe, browser, exchange, holds, same, SHOTS, stage, TOKEN, wire } from "./common.mjs";

mkdirSync(SHOTS, { recursive: true });
const between = await wire();
const page_url = between.url;
const { context, page, alarms } = await browser(page_url);
await context.grantPermissions(["clipboard-read", "clipboard-write"]);
const { scene, end } = stage(page);
/** One exchange; its id. */
const chat = async (text, options) => (await exchange([{ role: "user", content: text }], options)).id;

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
  await page.getByText(/The model made a mistake, was told so, and answered again/).waitFor();
  const text = await main().innerText();
  for (const words of ["fetch_weather", "unknown_tool", "no tool of this name", "Tool call rejected: fetch_weather", "What left", "passed on"]) holds(text.includes(words), `${words}: ${text}`);
  await shot("exchange");
  await page.getByText("Body", { exact: true }).first().click();
  await page.locator("pre.json", { hasText: "Weather?" }).waitFor();
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
    await page.setViewportSize({ width: 1280, height: 1500 });
    await shot(`why-${mark.replace(/\W/g, "") || "missing"}`);
    await page.setViewportSize({ width: 1280, height: 860 });
  }
});

await scene("copies", async () => {
  await go(`#/exchange/${repaired}`);
  const copied = async (button) => {
    await page.getByRole("button", { name: button }).click();
    await page.getByText("Copied.").waitFor();
    return page.evaluate(() => navigator.clipboard.readText());
  };
  const curl = await copied("Copy as curl");
  holds(curl.startsWith("curl -H 'content-type: application/json'") && curl.includes('"$OPENAI_BASE_URL"/chat/completions') && curl.includes("Weather?"), curl);
  const judge = await copied("Copy as a judge command");
  holds(judge.startsWith("toolmark judge --request <(printf %s '{") && judge.includes("fetch_weather"), judge);
  // The Rust side runs both.
  writeFileSync(`${SHOTS}/judge.sh`, judge);
  writeFileSync(`${SHOTS}/curl.sh`, curl);
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Save as a cassette" }).click()]);
  same(download.suggestedFilename(), `${repaired}.jsonl`, "the cassette's name");
  const saved = readFileSync(await download.path(), "utf8");
  writeFileSync(`${SHOTS}/saved.jsonl`, saved);
  const line = JSON.parse(saved);
  same([line.cassette, line.id], [1, repaired], "the cassette");
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

/** Changes the JSON answers of a path until the scene's end. */
async function changed(path, change, play) {
  const handler = async (route) => { const response = await route.fetch(); await route.fulfill({ response, json: change(await response.json(), new URL(route.request().url())) }); };
  await page.route(path, handler);
  try { await play(); } finally { await page.unrouteAll({ behavior: "wait" }); }
}

await scene("long_lists", async () => {
  await go("#/sessions");
  const row = (of, at) => ({ ...of, id: `00000000-0000-7000-8000-${String(at).padStart(12, "0")}` });
  let asked = 0;
  await changed(/\/api\/exchanges\?/, (answer, url) => {
    asked += 1;
    const first = Number(url.searchParams.get("after") ?? 0);
    return { data: Array.from({ length: 1000 }, (_, at) => row(answer.data[0] ?? {}, first + at)), next: first < 3000 ? String(first + 1000) : null };
  }, async () => {
    await go("#/live");
    await page.locator("#row-00000000-0000-7000-8000-000000000000").waitFor();
    same(asked, 1, "only the first page is asked for");
    const made = () => page.locator(".row").count();
    holds(await made() < 40, `${await made()} rows are made of 1000`);
    for (let last = 999; last < 4000; last += 1000) {
      // The next page may come after a scroll.
      await page.waitForFunction((id) => { const list = document.querySelector(".list"); list.scrollTo(0, list.scrollHeight); return document.getElementById(id); }, `row-00000000-0000-7000-8000-${String(last).padStart(12, "0")}`, { polling: 50 });
      holds(await made() < 40, `${await made()} rows are made`);
    }
    await page.waitForTimeout(300);
    same(asked, 4, "pages that were asked for");
  });
  // Pages without a match aren't the end.
  await go("#/sessions");
  await changed(/\/api\/exchanges\?/, (answer, url) => {
    const after = Number(url.searchParams.get("after") ?? 0);
    return after < 5 ? { data: [], next: String(after + 1) } : { data: [row(answer.data[0] ?? {}, 7)], next: null };
  }, async () => {
    await go("#/live");
    await page.locator("#row-00000000-0000-7000-8000-000000000007").waitFor();
  });
  await go("#/sessions");
  await changed(/\/api\/exchanges\?/, () => ({ data: [], next: "1" }), async () => {
    await go("#/live");
    await page.getByRole("button", { name: "Search further back" }).waitFor();
  });
});

await scene("states_that_are_seldom", async () => {
  await go("#/live");
  await changed(/\/api\/ledger$/, (answer) => ({ ...answer, trouble: "the disk is full", verification: { state: "running", records: 40, of: 100 } }), async () => {
    await go("#/ledger");
    await page.getByText("Verifying: 40 of 100 records").waitFor();
    same(await page.locator("progress").evaluate((own) => [own.value, own.max]), [40, 100], "progress");
    await page.getByText("the disk is full").waitFor();
    await clean("a ledger that is verified");
  });
  const reload = { at_ms: 1772616600000, before: "a", after: "b", error: null, changes: [{ code: "unknown_tool", before: "block", after: "warn" }], mode: ["enforce", "observe"] };
  await changed(/\/api\/policy$/, (answer) => ({ data: answer.data.map((own) => ({ ...own, reload })) }), async () => {
    await go("#/policy");
    const text = await page.getByText(/Last reload/).innerText();
    for (const own of ["unknown_tool", "block → warn", "enforce → observe"]) holds(text.includes(own), `${own}: ${text}`);
  });
  const models = { big: { calls: "no", reason: "it answers with text", refuses: ["temperature"], found_at_ms: 1772616600000 } };
  await changed(/\/api\/upstreams$/, (answer) => ({ part: { state: "down", why: "`scripted` failed 3 times" }, data: answer.data.map((own) => ({ ...own, breaker: "open", paused: true, models })) }), async () => {
    await go("#/upstreams");
    await page.getByText("`scripted` failed 3 times").waitFor();
    const text = await main().innerText();
    for (const own of ["open: no request goes up", "reached: paused", "big: no (it answers with text), refuses temperature, found"]) holds(text.includes(own), `${own}: ${text}`);
    await clean("upstreams that are down");
  });
  await changed(/\/api\/sessions\/trip$/, (answer) => ({ ...answer, data: answer.data.map((own) => ({ ...own, history: ["rewritten_result"], loops: 2, verified: [{ id: "get_weather_1_2", tool: "get_weather" }] })) }), async () => {
    await go("#/session/trip");
    await page.getByText("loops stopped: 2").waitFor();
    const text = await main().innerText();
    for (const own of ["wrong in its history: rewritten_result", "verified result: get_weather get_weather_1_2", "passed on with the mark call_"]) holds(text.replace(/\s+/g, " ").includes(own), `${own}: ${text}`);
  });
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
  between.cut();
  await page.getByText("not connected, trying again").waitFor();
  const missed = await chat("Weather?", { session: "missed" });
  between.isCut = false;
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
    await shot(`narrow-dark-${hash.split("/")[1]}`);
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

await context.close();
between.close();
end(alarms);
