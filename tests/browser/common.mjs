// What the scripts share: the browser, the wire between it and the listener, checks, and traffic.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import net from "node:net";
import { chromium } from "playwright-core";

export const { ADMIN_URL, BASE_URL, TOKEN, SHOTS, CHROMIUM, INSPECTOR_ONLY, INSPECTOR_DIST } = process.env;
export const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export const same = (found, expected, what) => { if (JSON.stringify(found) !== JSON.stringify(expected)) throw new Error(`${what}: ${JSON.stringify(found)}, expected ${JSON.stringify(expected)}`); };
export const holds = (value, what) => { if (!value) throw new Error(what); };

/** A wire that can be cut, between the page and the listener. */
export async function wire() {
  const target = new URL(ADMIN_URL);
  const sockets = new Set();
  const own = { isCut: false, cut() { own.isCut = true; sockets.forEach((socket) => socket.destroy()); }, close() { server.close(); sockets.forEach((socket) => socket.destroy()); } };
  const server = net.createServer((socket) => {
    if (own.isCut) return socket.destroy();
    const up = net.connect(Number(target.port), target.hostname);
    for (const one of [socket, up]) { sockets.add(one); one.on("error", () => {}); one.on("close", () => sockets.delete(one)); }
    socket.pipe(up).pipe(socket);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  own.url = `http://127.0.0.1:${server.address().port}/`;
  return own;
}

/** A browser with one page; `alarms` has what must not happen. */
export async function browser(page_url, options = {}) {
  const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--font-render-hinting=none", "--disable-lcd-text"];
  const context = await chromium.launchPersistentContext("", { executablePath: CHROMIUM, headless: true, args: flags, viewport: { width: 1280, height: 860 }, timezoneId: "Asia/Tokyo", locale: "en-GB", reducedMotion: "reduce", ...options });
  context.setDefaultTimeout(10_000);
  await context.addInitScript(() => { window.__violations = []; addEventListener("securitypolicyviolation", (event) => window.__violations.push(event.violatedDirective + " " + event.blockedURI)); });
  // Files that were built elsewhere, to look at a change without building toolmark.
  if (INSPECTOR_DIST) await context.route(/\/(app\.js|app\.css)?$/, async (route) => {
    const file = new URL(route.request().url()).pathname.slice(1) || "index.html";
    const response = await route.fetch();
    await route.fulfill({ response, body: readFileSync(`${INSPECTOR_DIST}/${file}`) });
  });
  const page = await context.newPage();
  const alarms = [];
  page.on("dialog", (dialog) => { alarms.push(`dialog ${dialog.message()}`); void dialog.dismiss(); });
  page.on("pageerror", (error) => alarms.push(`error ${error.message}`));
  page.on("request", (request) => { if (!request.url().startsWith(page_url) && !request.url().startsWith("data:") && !request.url().startsWith("blob:")) alarms.push(`request ${request.url()}`); });
  return { context, page, alarms };
}

/** Gives the page the token. */
export async function enter(page, page_url) {
  await page.goto(page_url);
  await page.getByLabel(/Token/).fill(TOKEN);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Exchanges" }).waitFor();
}

export const weather = { type: "function", function: { name: "get_weather", parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } } };
/** Waits until the listener lists the exchange, which is behind its answer: exchanges are listed in the order in which they end. */
async function listed(id) {
  for (let tries = 0; id; tries += 1) {
    const response = await fetch(`${ADMIN_URL}api/exchanges/${id}`, { headers: { authorization: `Bearer ${TOKEN}` } });
    await response.arrayBuffer();
    if (response.ok) return;
    if (tries > 500) throw new Error(`${id} isn't listed: ${response.status}`);
    await new Promise((done) => setTimeout(done, 20));
  }
}

/** Sends a conversation; the response's headers and its JSON, once the exchange is listed. `key`: whose it is. */
export async function exchange(messages, { session = "", model = "m", key = "key-support", tools = [weather], agent = "inspector-test/1.0" } = {}) {
  const headers = { "content-type": "application/json", authorization: `Bearer ${key}`, "user-agent": agent, ...(session && { "toolmark-session": session }) };
  const response = await fetch(`${BASE_URL}/chat/completions`, { method: "POST", headers, body: JSON.stringify({ model, messages, tools }) });
  const text = await response.text();
  await listed(response.headers.get("toolmark-exchange"));
  return { id: response.headers.get("toolmark-exchange"), verdict: response.headers.get("toolmark-verdict"), status: response.status, json: JSON.parse(text) };
}

/** Plays scenes; prints one JSON object: each with what went wrong in it, or null. */
export function stage(page) {
  const results = {};
  return {
    async scene(name, play) {
      if (INSPECTOR_ONLY && !name.includes(INSPECTOR_ONLY)) return;
      try { await play(); results[name] = null; } catch (error) { results[name] = error.message.split("\n").slice(0, 6).join(" | "); await page.screenshot({ path: `${SHOTS}/failed-${name}.png` }).catch(() => {}); }
    },
    end(alarms) { results.alarms = alarms.length ? alarms.slice(0, 5).join(" | ") : null; console.log(JSON.stringify(results)); },
  };
}
