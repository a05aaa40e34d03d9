// The pictures in README.md and docs/: real pages with real traffic, in which only what differs from run to run (ids, times, durations, digests) is
// fixed. They are compared with the committed ones; INSPECTOR_RENEW=1 writes them anew.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import pixelmatch from "pixelmatch";
import { PNG } from "pngjs";
import { browser, enter, exchange, holds, same, SHOTS, stage, weather, wire } from "./common.mjs";

const { IMAGES, INSPECTOR_RENEW } = process.env;
/** Share of pixels that may differ: another version of the browser smooths edges in another way. A short word is more than that. */
const TOLERANCE = 0.0001;
/** Difference of colour from which on a pixel counts, of 1. */
const THRESHOLD = 0.2;
const BASE_MS = Date.UTC(2026, 2, 4, 9, 30);
const HOUR = 3_600_000;

mkdirSync(SHOTS, { recursive: true });
const between = await wire();
const page_url = between.url;
// The policy for content is off here only, so that the pictures' own font can be loaded: they don't depend on the machine's fonts.
const { context, page, alarms } = await browser(page_url, { bypassCSP: true, timezoneId: "Europe/Lisbon", colorScheme: "light", viewport: { width: 1280, height: 800 } });
await page.clock.setFixedTime(BASE_MS);
const { scene, end } = stage(page);

const require = createRequire(import.meta.url);
const face = (family, package_name, weight) => `@font-face { font-family: "${family}"; font-weight: ${weight}; src: url(data:font/woff2;base64,${readFileSync(require.resolve(`@fontsource/${package_name}/files/${package_name}-latin-${weight}-normal.woff2`)).toString("base64")}); }`;
const FONTS = [[400, "normal"], [700, "bold"]].map(([weight]) => face("Picture Sans", "dejavu-sans", weight) + face("Picture Mono", "dejavu-mono", weight)).join("\n")
  + "body, button, input, select { font-family: 'Picture Sans' !important; } pre, code, textarea, .tool, .code { font-family: 'Picture Mono' !important; } * { caret-color: transparent !important; animation: none !important; transition: none !important; }";

const ids = [];
const fixed_id = (at) => `019cb8d2-4a00-7000-8000-0000000000${String(at).padStart(2, "0")}`;
const FIXED = { total_us: (at) => 412_000 + at * 37_000, overhead_us: () => 140, duration_us: (at, value, more) => 190_000 + more * 21_000, upstream_ms_mean: () => 236.4, p50: () => 239, p90: () => 388, p99: () => 611, mean: () => 262.1, mac: () => "5c1f0a9b3d7e2468", digest: () => "5a1f7c0d9e3b2468", policy: (at, value) => (/^[0-9a-f]{16,}$/.test(value) ? "5a1f7c0d9e3b2468" : value), base_url: () => "https://llm.example/v1" };
const known = new Map();
const numbered = (value) => { if (!known.has(value)) known.set(value, String(known.size + 1).padStart(4, "0")); return known.get(value); };
const words = (value) => ids.reduce((all, id, at) => all.replaceAll(id, fixed_id(at)), value)
  .replace(/call_[0-9a-f]{20,}/g, (mark) => `call_019cb8d24a007e2b${numbered(mark)}`)
  .replace(/_(\d{13})_[0-9a-f]{16}/g, (whole) => `_1772616600000_00ab34cd56ef${numbered(whole)}`);
function fix(value, name, at, more = 0) {
  if (Array.isArray(value)) return value.map((own, number) => fix(own, name, at, number));
  if (value && typeof value === "object") {
    const own = [value.id, value.summary?.id, value.exchange, value.last].map((id) => ids.indexOf(id)).find((found) => found >= 0) ?? at;
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, fix(inner, name, own, value.number ?? more)]));
  }
  if (FIXED[name] && value !== null) return FIXED[name](at, value, more);
  if (typeof value === "number" && name === "until_ms") return BASE_MS + 20 * 60_000;
  if (typeof value === "number" && /_ms$/.test(name) && value > 1e12) return value % HOUR === 0 ? Math.floor(BASE_MS / HOUR) * HOUR : BASE_MS + at * 61_000 + (name === "seen_ms" ? 183 : 0);
  return typeof value === "string" ? words(value) : value;
}
await context.route(/\/api\/(?!events)/, async (route) => {
  const response = await route.fetch({ url: ids.reduce((url, id, at) => url.replace(fixed_id(at), id), route.request().url()) });
  await route.fulfill({ response, json: fix(await response.json(), "", 0) });
});

const ask = (text, options) => exchange([{ role: "user", content: text }], { tools: [weather], ...options }).then((own) => { ids.push(own.id); return own; });
await scene("traffic", async () => {
  // All of it in one hour.
  const rest = HOUR - (Date.now() % HOUR);
  if (rest < 20_000) await new Promise((done) => setTimeout(done, rest));
  const trip = { session: "trip-lisbon", model: "gpt-4o" };
  const forecast = { type: "function", function: { name: "get_weather", parameters: { type: "object", properties: { city: { type: "string" }, days: { type: "integer", minimum: 1, maximum: 7 } }, required: ["city", "days"] } } };
  const question = { role: "user", content: "What will the weather be in Paris for three days?" };
  const called = await exchange([question], { ...trip, tools: [forecast] });
  ids.push(called.id);
  same(called.verdict, "repaired", "the forecast");
  const message = called.json.choices[0].message;
  const answered = await exchange([question, message, { role: "tool", tool_call_id: message.tool_calls[0].id, content: '{"sky":"clear"}' }], { ...trip, tools: [forecast] });
  ids.push(answered.id);
  await ask("Weather in Paris?", { session: "trip-lisbon", model: "gpt-4o-mini" });
  await ask('Call with {"city":7}', { session: "desk-4", model: "llama-3.3-70b" });
  await ask("Call with {}", { session: "desk-4", model: "llama-3.3-70b" });
  await ask("Cite!", { session: "desk-4", model: "llama-3.3-70b" });
  await ask("Book!", { session: "desk-7", model: "gpt-4o" });
  await ask("Say You have no meetings today.", { session: "desk-7", model: "gpt-4o" });
  await page.waitForTimeout(600);
});

const fonts_are_there = async () => holds(await page.evaluate(async () => { await document.fonts.ready; return document.fonts.check("15px 'Picture Sans'") && document.fonts.check("13px 'Picture Mono'"); }), "the pictures' fonts didn't load");
const differing = (a, b, diff) => pixelmatch(a.data, b.data, diff?.data, a.width, a.height, { threshold: THRESHOLD }) / (a.width * a.height);
/** A picture with 16 levels of each colour: nobody sees it, and it is a third smaller. */
function small(picture) {
  for (let at = 0; at < picture.data.length; at += 1) picture.data[at] = Math.round(picture.data[at] / 17) * 17;
  return PNG.sync.write(picture, { colorType: 2, deflateLevel: 9 });
}
const faults = [];
/** Takes a picture, and compares it. */
async function picture(name) {
  await fonts_are_there();
  await page.mouse.move(0, 0);
  await page.evaluate(() => document.activeElement?.blur());
  const taken = await page.screenshot({ path: `${SHOTS}/${name}.png` });
  const committed = `${IMAGES}/${name}.png`;
  if (INSPECTOR_RENEW) { mkdirSync(IMAGES, { recursive: true }); writeFileSync(committed, small(PNG.sync.read(taken))); }
  if (!existsSync(committed)) return faults.push(`${name}: there is no ${committed}`);
  const [now, before] = [PNG.sync.read(taken), PNG.sync.read(readFileSync(committed))];
  if (now.width !== before.width || now.height !== before.height) return faults.push(`${name}: is ${now.width} x ${now.height}, was ${before.width} x ${before.height}`);
  const diff = new PNG({ width: now.width, height: now.height });
  const share = differing(now, before, diff);
  if (share > TOLERANCE) { writeFileSync(`${SHOTS}/${name}-difference.png`, PNG.sync.write(diff)); faults.push(`${name}: ${(share * 100).toFixed(3)} % of it differs (at most ${TOLERANCE * 100} %)`); }
  return now;
}
const go = async (hash, until) => { await page.evaluate((own) => { location.hash = own; }, hash); await page.getByText(until).first().waitFor(); await page.waitForTimeout(150); };

await scene("pictures", async () => {
  await enter(page, page_url);
  await page.addStyleTag({ content: FONTS });
  await page.locator(`#row-${fixed_id(0)}`).waitFor();
  await page.getByText("connected", { exact: true }).waitFor();
  const live = await picture("live");
  // One word, and another font, are more than the tolerance.
  const changed = async (change) => { await page.evaluate(change); return differing(PNG.sync.read(await page.screenshot()), live); };
  const word = await changed(() => { const own = document.querySelector(".row .model").firstChild; own.data = [...own.data].reverse().join(""); });
  holds(word > TOLERANCE, `one word is ${word} of the picture`);
  const font = await changed(() => document.documentElement.appendChild(Object.assign(document.createElement("style"), { textContent: "body { font-family: serif !important; }" })));
  holds(font > TOLERANCE * 10, `another font is ${font} of the picture`);
  await page.reload();
  await page.getByRole("heading", { name: "Exchanges" }).waitFor();
  await page.addStyleTag({ content: FONTS });

  await page.setViewportSize({ width: 1280, height: 1060 });
  await go(`#/exchange/${fixed_id(0)}`, "What left");
  await picture("exchange");
  await page.setViewportSize({ width: 1280, height: 800 });
  await go("#/session/trip-lisbon", "passed on with the mark");
  await picture("session");
  await go("#/tools", "What went wrong");
  await page.getByText("llama").first().waitFor({ timeout: 300 }).catch(() => {});
  await picture("tools");
  await go("#/models", "What went wrong");
  await picture("models");
  await go("#/policy", "Judge the kept exchanges");
  await page.getByLabel(/Policy to try/).fill('[checks]\nunknown_execution = "warn"\nunsupported_action = "block"\n');
  await page.getByRole("button", { name: "Judge the kept exchanges" }).click();
  await page.getByText(/exchanges would change/).waitFor();
  // Only the trial: the table of codes is as long as the codes are.
  await page.evaluate(() => { const table = [...document.querySelectorAll("main h2")].find((own) => own.textContent === "Codes"); table.nextElementSibling.remove(); table.remove(); });
  await picture("policy");
  await page.setViewportSize({ width: 375, height: 740 });
  await page.emulateMedia({ colorScheme: "dark" });
  await go(`#/exchange/${fixed_id(3)}`, "What left");
  await picture("exchange-narrow-dark");
  same(faults, [], "INSPECTOR_RENEW=1 writes the pictures anew, if they are as they should be: see tests/browser/README.md");
});

await context.close();
between.close();
end(alarms);
