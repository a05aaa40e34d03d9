/** Parts that several pages share. Text from outside is only ever a text node. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, get, type Finding } from "./api";
import { text } from "./text";

const local = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "medium" });
/** A time in the reader's zone, with UTC on hover. */
export function Time({ ms }: { ms: number }) {
  const utc = new Date(ms).toISOString();
  return <time dateTime={utc} title={`${utc.replace("T", " ").replace("Z", "")} UTC`}>{local.format(ms)}</time>;
}
export const number = (value: number) => value.toLocaleString();
export const milliseconds = (us: number) => `${us < 10_000 ? (us / 1000).toFixed(1) : Math.round(us / 1000)} ${text.row.ms}`;
export const Verdict = ({ ended }: { ended: string }) => <span class={`verdict ${ended}`}>{ended}</span>;
export const Code = ({ code, severity }: { code: string; severity?: string }) => <a class={`code ${severity ?? ""}`} href={`#/policy/${code}`}>{code}</a>;
/** Markdown's code spans, and nothing else of it. */
export const Sentence = ({ of }: { of: string }) => <>{of.split("`").map((part, at) => (at % 2 ? <code>{part}</code> : part))}</>;

/** What a page reads: again when its path changes. */
export function useApi<T>(path: string | null): { data?: T; error?: ApiError; again: () => void } {
  const [state, set] = useState<{ path: string | null; data?: T; error?: ApiError }>({ path: null });
  const [round, setRound] = useState(0);
  useEffect(() => {
    if (!path) return;
    const stop = new AbortController();
    get<T>(path, stop.signal).then((data) => set({ path, data }), (error) => { if (!stop.signal.aborted) set({ path, error }); });
    return () => stop.abort();
  }, [path, round]);
  const current = state.path === path ? state : { data: undefined, error: undefined };
  return { data: current.data, error: current.error, again: () => setRound(round + 1) };
}
export function Loaded<T>({ of, children }: { of: { data?: T; error?: ApiError }; children: (data: T) => ComponentChildren }) {
  if (of.error) return <p class="error" role="alert">{text.error}: {of.error.message}</p>;
  return of.data === undefined ? <p class="muted">{text.loading}</p> : <>{children(of.data)}</>;
}

/** A text with one place marked; `span` counts code points. */
export function Marked({ of, spans }: { of: string; spans: [number, number][] }) {
  const letters = [...of];
  const parts: ComponentChildren[] = [];
  let at = 0;
  for (const [start, end] of [...spans].sort((a, b) => a[0] - b[0])) {
    if (start < at || end > letters.length) continue;
    parts.push(letters.slice(at, start).join(""), <mark tabIndex={-1}>{letters.slice(start, end).join("")}</mark>);
    at = end;
  }
  parts.push(letters.slice(at).join(""));
  return <pre class="said">{parts}</pre>;
}

/** A call's arguments with the places at fault marked. */
export function Arguments({ json, pointers }: { json: string; pointers: string[] }) {
  let value: unknown;
  try { value = JSON.parse(json); } catch { return <pre class="json"><mark tabIndex={-1}>{json || "—"}</mark></pre>; }
  const node = (own: unknown, pointer: string, depth: number): ComponentChildren => {
    const indent = "  ".repeat(depth);
    let shown: ComponentChildren;
    if (own !== null && typeof own === "object" && depth < 40) {
      const list = Array.isArray(own);
      const entries = Object.entries(own);
      const [open, close] = list ? "[]" : "{}";
      shown = entries.length === 0 ? `${open}${close}` : [
        `${open}\n`,
        entries.map(([name, inner], at) => [`${indent}  `, list ? "" : `${JSON.stringify(name)}: `, node(inner, `${pointer}/${name.replace(/~/g, "~0").replace(/\//g, "~1")}`, depth + 1), at + 1 < entries.length ? ",\n" : "\n"]),
        `${indent}${close}`,
      ];
    } else shown = JSON.stringify(own) ?? "";
    return pointers.includes(pointer) ? <mark tabIndex={-1}>{shown}</mark> : shown;
  };
  return <pre class="json">{node(value, "", 0)}</pre>;
}
export function pretty(body: string): string {
  try { return JSON.stringify(JSON.parse(body), null, 2); } catch { return body; }
}
/** A long text behind a fold: made only when it is opened. */
export function Fold({ title, of, opened, asIs }: { title: string; of: string | null | undefined; opened?: boolean; asIs?: boolean }) {
  const [open, set] = useState(opened ?? false);
  if (!of) return null;
  return <details open={open} onToggle={(event) => set(event.currentTarget.open)}><summary>{title}</summary>{open && <pre class="json" tabIndex={0}>{asIs ? of : pretty(of)}</pre>}</details>;
}

export function Findings({ of }: { of: Finding[] }) {
  if (!of.length) return null;
  return <ul class="findings">{of.map((one) => (
    <li class={one.severity} tabIndex={-1} data-finding>
      <p class="message">{one.message ? <Sentence of={one.message} /> : <Sentence of={one.means} />}{one.pointer ? <> · {text.exchange.at} <code>{one.pointer}</code></> : null}</p>
      {one.found && <p>{text.exchange.found}: <q>{one.found}</q>{one.expected && <> · {text.exchange.expected}: <q>{one.expected}</q></>}{one.execution && <> · <code>{one.execution}</code></>}</p>}
      {one.advice && <p class="advice">{text.exchange.advice}: <Sentence of={one.advice} /></p>}
      <p class="muted"><Code code={one.code} severity={one.severity} /> {text.exchange.means} “<Sentence of={one.means} />”, {text.severity[one.severity]}{one.certainty ? `, ${text.certainty[one.certainty] ?? one.certainty}` : ""}</p>
    </li>))}</ul>;
}

/** Counts over time: a slot for each step, all of them at the back, those at fault in front. */
export function Bars({ label, since, step, slots, of, tall }: { label: string; since: number; step: number; slots: number; of: { at_ms: number; all: number; bad: number }[]; tall?: boolean }) {
  const height = tall ? 60 : 22;
  const most = Math.max(1, ...of.map((own) => own.all));
  const size = (count: number) => (count ? Math.max(2, (count / most) * height) : 0);
  const said = of.filter((own) => own.all).map((own) => `${new Date(own.at_ms).toISOString().slice(0, 16)}Z ${own.all}${own.bad === own.all ? "" : ` (${own.bad})`}`).join("; ");
  return (
    <svg class={tall ? "bars tall" : "bars"} viewBox={`0 0 ${slots * 10} ${height}`} role="img" aria-label={`${label}: ${said || text.tools.none}`} preserveAspectRatio="none">
      <rect class="ground" width={slots * 10} y={height - 0.5} height={0.5} />
      {of.map((own) => {
        const x = Math.round((own.at_ms - since) / step) * 10 + 1;
        return x < 0 || x > slots * 10 ? null : <g><title>{`${new Date(own.at_ms).toLocaleString()}: ${own.all}`}</title><rect class="all" x={x} width={8} y={height - size(own.all)} height={size(own.all)} /><rect class="bad" x={x} width={8} y={height - size(own.bad)} height={size(own.bad)} /></g>;
      })}
    </svg>
  );
}

/** A list of which only what is seen is made. */
export function VirtualList<T>({ items, height, render, label, onEnd, anchored }: { items: T[]; height: number; render: (item: T, at: number) => ComponentChildren; label: string; onEnd?: () => void; anchored?: (item: T) => string }) {
  const box = useRef<HTMLDivElement>(null);
  const [view, set] = useState({ top: 0, height: 800 });
  useEffect(() => {
    const own = box.current!;
    const measure = () => set({ top: own.scrollTop, height: own.clientHeight || 800 });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(own);
    own.addEventListener("scroll", measure, { passive: true });
    return () => { observer.disconnect(); own.removeEventListener("scroll", measure); };
  }, []);
  const first = Math.max(0, Math.floor(view.top / height) - 5);
  const last = Math.min(items.length, Math.ceil((view.top + view.height) / height) + 5);
  useEffect(() => { if (onEnd && last >= items.length) onEnd(); }, [last, items.length, onEnd]);
  return (
    <div class="list" ref={box} tabIndex={0} role="region" aria-label={label}>
      <ol style={{ height: `${items.length * height}px` }}>
        {items.slice(first, last).map((item, at) => <li key={anchored?.(item) ?? first + at} style={{ top: `${(first + at) * height}px`, height: `${height}px` }}>{render(item, first + at)}</li>)}
      </ol>
    </div>
  );
}

/** A table of names and figures. */
export function Table({ head, rows, label }: { head: string[]; rows: ComponentChildren[][]; label: string }) {
  if (!rows.length) return <p class="muted">{text.empty}</p>;
  return <div class="scroll" tabIndex={0} role="region" aria-label={label}><table><thead><tr>{head.map((cell) => <th scope="col">{cell}</th>)}</tr></thead><tbody>{rows.map((row) => <tr>{row.map((cell, at) => <td data-label={head[at]}>{cell}</td>)}</tr>)}</tbody></table></div>;
}
