/** The admin API, as /api/openapi.json describes it. */
export type Severity = "off" | "info" | "warn" | "block";
export interface Row {
  id: string; at_ms: number; api: string; stream: boolean; observed: boolean; client: string | null; session: string | null; model: string; status: number | null;
  verdict: string; ended: string; repairs: number; attempts: number; calls: { tool: string; outcome: string }[]; codes: { code: string; severity: Severity }[];
  executions: number; tokens: { input: number; output: number } | null; total_us: number; overhead_us: number;
}
export interface Finding {
  code: string; severity: Severity; means: string; tool: string | null; message: string | null; advice: string | null; pointer: string | null; span: [number, number] | null;
  certainty: string | null; execution: string | null; found: string | null; expected: string | null;
}
export interface Call { tool: string; outcome: string | null; mark: string | null; corrected: boolean; arguments: string | null; declared: string | null; findings: Finding[] }
export interface Attempt {
  number: number; upstream: string; model: string; status: number | null; tokens: { input: number; output: number } | null; after_ms: number | null; duration_us: number; failure: string | null;
  changes: { at: string; before: string | null; after: string | null }[]; told: string[]; request: string | null; response: string | null; text: string | null; calls: Call[]; findings: Finding[];
}
export interface Execution { id: string; tool: string; mark?: string; witness: string; started_ms: number; seen_ms: number; failed?: boolean; result_body?: { text: string }; arguments_body?: { text: string } }
export interface Timeline {
  summary: Row; began_ms: number; policy: string; kept: "memory" | "ledger" | "nowhere"; bodies: boolean; cut: boolean; redactions: number;
  request: { line: string | null; headers: [string, string][]; body: string | null; findings: Finding[] }; attempts: Attempt[];
  answer: { status: number | null; headers: [string, string][]; body: string | null; cut: boolean; text: string | null; calls: { tool: string; arguments: string; id: string | null }[] } | null;
  executions: Execution[]; ran: { call: string; tool: string; arguments: string; result: string; failed?: boolean }[];
}
export interface Failures { since_ms: number; until_ms: number; step_ms: number; tools: FailureSeries[]; models: FailureSeries[] }
export interface FailureSeries { name: string; code: string; count: number; points: { at_ms: number; info: number; warn: number; block: number }[] }
export interface WhoAmI { role: "nobody" | "read" | "admin"; bodies: boolean; needs_token: boolean; version: string }

export class ApiError extends Error {
  constructor(readonly status: number, message: string) { super(message); }
}

const KEY = "toolmark-token";
export const token = () => sessionStorage.getItem(KEY);
export const setToken = (own: string | null) => (own ? sessionStorage.setItem(KEY, own) : sessionStorage.removeItem(KEY));

async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const own = token();
  if (own) headers.set("authorization", `Bearer ${own}`);
  const response = await fetch(path, { ...init, headers, cache: "no-store", redirect: "error" });
  if (response.ok) return response;
  const error = await response.json().catch(() => null);
  throw new ApiError(response.status, error?.error?.message ?? `HTTP ${response.status}`);
}
export const get = async <T,>(path: string, signal?: AbortSignal): Promise<T> => (await ask(path, { signal })).json();
export const getText = async (path: string): Promise<string> => (await ask(path)).text();
export const post = async <T,>(path: string, body?: unknown): Promise<T> => (await ask(path, { method: "POST", body: body === undefined ? undefined : JSON.stringify(body) })).json();

/** Follows the live events, and connects again where that breaks off. Returns what ends it. */
export function follow(on: { event: (kind: string, data: string) => void; state: (open: boolean) => void }): () => void {
  const stop = new AbortController();
  let pause = 250;
  const run = async () => {
    while (!stop.signal.aborted) {
      try {
        const response = await ask("/api/events?kinds=exchange", { signal: stop.signal });
        const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
        on.state(true);
        pause = 250;
        let rest = "";
        for (;;) {
          const { value, done } = await reader.read();
          if (done) break;
          rest += value;
          for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
            const event = rest.slice(0, end);
            rest = rest.slice(end + 2);
            const [first = "", second = ""] = event.split("\n");
            if (first.startsWith("event: ")) on.event(first.slice(7), second.slice(6));
          }
        }
      } catch (error) {
        if (stop.signal.aborted) return;
        if (error instanceof ApiError && error.status === 401) { on.state(false); return; }
      }
      on.state(false);
      await new Promise((done) => setTimeout(done, pause));
      pause = Math.min(pause * 2, 5000);
    }
  };
  void run();
  return () => stop.abort();
}

/** Parts of a filter as people write it: `verdict=blocked tool=x words`. */
export function parseFilter(written: string): Record<string, string> {
  const parts: Record<string, string> = {};
  const words: string[] = [];
  for (const part of written.split(/\s+/).filter(Boolean)) {
    const [, name, value] = /^(verdict|code|tool|model|session)=(.+)$/.exec(part) ?? [];
    if (name && value) parts[name] = value;
    else words.push(part);
  }
  if (words.length) parts.text = words.join(" ");
  return parts;
}
export function matches(row: Row, filter: Record<string, string>): boolean {
  const words = filter.text?.toLowerCase();
  const all = () => [row.id, row.model, row.session ?? "", row.client ?? "", ...row.calls.map((call) => call.tool), ...row.codes.map((own) => own.code)];
  return (!filter.verdict || row.ended === filter.verdict) && (!filter.model || row.model === filter.model) && (!filter.session || row.session === filter.session)
    && (!filter.tool || row.calls.some((call) => call.tool === filter.tool)) && (!filter.code || row.codes.some((own) => own.code === filter.code))
    && (!words || all().some((own) => own.toLowerCase().includes(words)));
}
