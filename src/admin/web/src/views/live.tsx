import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { follow, get, matches, parseFilter, type Row } from "../api";
import { text } from "../text";
import { milliseconds, number, Time, Verdict, VirtualList } from "../ui";

/** Rows that the page holds. */
const ROWS_MAX = 5000;
/** Pause between changes of the list, and the longer one where more exchanges come than anybody reads. */
const PACE_MS = 250;
const PACE_OF_MANY_MS = 1000;
const MANY = 25;
/** Pages without a match that are asked for by themselves. */
const EMPTY_PAGES_MAX = 50;
const ENDED = ["pass", "warn", "repaired", "blocked", "failed", "abandoned"];

/** Survives a look at an exchange. */
const kept = { written: "", selected: "" };

export function Live() {
  const [written, setWritten] = useState(kept.written);
  const [rows, setRows] = useState<Row[]>([]);
  const [next, setNext] = useState<string | null>(null);
  const [paused, setPaused] = useState(false);
  const [open, setOpen] = useState(false);
  const [error, setError] = useState("");
  const [selected, setSelected] = useState(kept.selected);
  const fresh = useRef<Row[]>([]);
  const [waiting, setWaiting] = useState(0);
  const [searching, setSearching] = useState(true);
  const pages = useRef(0);
  const filter = useMemo(() => parseFilter(written), [written]);
  const now = useRef({ filter, paused, rows, selected });
  now.current = { filter, paused, rows, selected };
  kept.written = written;
  kept.selected = selected;

  const query = (more: Record<string, string>) => `/api/exchanges?${new URLSearchParams({ ...now.current.filter, limit: "200", ...more })}`;
  const read = () => {
    get<{ data: Row[]; next: string | null }>(query({})).then((page) => { fresh.current = []; setWaiting(0); setRows(page.data); setNext(page.next); setError(""); pages.current = 0; setSearching(false); }, (failure) => { setError(failure.message); setSearching(false); });
  };
  useEffect(() => { const timer = setTimeout(read, 150); return () => clearTimeout(timer); }, [written]);
  useEffect(() => {
    let taken = 0;
    const take = () => {
      if (!fresh.current.length || (fresh.current.length > MANY && performance.now() - taken < PACE_OF_MANY_MS)) return;
      taken = performance.now();
      if (now.current.paused) { setWaiting(fresh.current.length); return; }
      const known = new Set(now.current.rows.slice(0, 500).map((row) => row.id));
      const added = fresh.current.filter((row) => !known.has(row.id)).reverse();
      fresh.current = [];
      setWaiting(0);
      if (added.length) setRows((old) => [...added, ...old].slice(0, ROWS_MAX));
    };
    const timer = setInterval(take, PACE_MS);
    let was = false;
    const stop = follow({
      state: (own) => { setOpen(own); if (own && was) read(); was ||= own; },
      event: (kind, data) => {
        if (kind === "lost") return read();
        if (kind !== "exchange") return;
        const row: Row = JSON.parse(data);
        if (matches(row, now.current.filter) && fresh.current.length < ROWS_MAX) fresh.current.push(row);
      },
    });
    return () => { stop(); clearInterval(timer); };
  }, []);
  useEffect(() => {
    const move = (event: Event) => {
      const step = (event as CustomEvent<number>).detail;
      const { rows, selected } = now.current;
      const at = rows.findIndex((row) => row.id === selected);
      const row = rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + step))];
      if (!row) return;
      setSelected(row.id);
      requestAnimationFrame(() => document.getElementById(`row-${row.id}`)?.focus());
    };
    addEventListener("toolmark-step", move);
    return () => removeEventListener("toolmark-step", move);
  }, []);

  const setVerdict = (verdict: string) => setWritten([verdict && `verdict=${verdict}`, ...written.split(/\s+/).filter((part) => part && !part.startsWith("verdict="))].filter(Boolean).join(" "));
  const older = useMemo(() => next === null ? undefined : () => {
    setNext(null);
    setSearching(true);
    get<{ data: Row[]; next: string | null }>(query({ after: next })).then((page) => { setRows((old) => [...old, ...page.data.filter((row) => !old.some((own) => own.id === row.id))]); setNext(page.next); setSearching(false); }, (failure) => { setError(failure.message); setSearching(false); });
  }, [next]);
  // A page in which nothing matches isn't the end: the next one is asked for, a bounded number of times.
  useEffect(() => {
    if (rows.length || !older || pages.current >= EMPTY_PAGES_MAX) return;
    pages.current += 1;
    older();
  }, [rows.length, older]);
  return (
    <>
      <h1>{text.live.title}</h1>
      <div class="bar">
        <label class="grow">{text.live.filter} <input id="filter" type="search" value={written} placeholder={text.live.hint} onInput={(event) => setWritten(event.currentTarget.value)} /></label>
        <label>{text.live.verdict} <select value={filter.verdict ?? ""} onChange={(event) => setVerdict(event.currentTarget.value)}><option value="">{text.live.any}</option>{ENDED.map((own) => <option value={own}>{own}</option>)}</select></label>
        <button type="button" aria-pressed={paused} onClick={() => setPaused(!paused)}>{paused ? text.live.resume : text.live.pause}{waiting ? ` (${text.live.waiting(waiting)})` : ""}</button>
        <span class={open ? "state open" : "state"} role="status">{open ? text.live.open : text.live.closed}</span>
      </div>
      {error && <p class="error" role="alert">{text.error}: {error}</p>}
      {rows.length > 0 && <div class="heads" aria-hidden="true"><span>{text.row.verdict}</span><span>{text.row.model}</span><span>{text.row.calls}</span><span>{text.row.wrong}</span><span class="figures">{text.row.cost}</span><span class="when">{text.row.ended}</span></div>}
      {rows.length ? <VirtualList items={rows} height={52} label={text.live.title} anchored={(row) => row.id} onEnd={older} render={(row) => (
        <a class="row" id={`row-${row.id}`} href={`#/exchange/${row.id}`} aria-current={row.id === selected} onFocus={() => setSelected(row.id)}>
          <Verdict ended={row.ended} />
          <span class="model">{row.model}</span>
          <span class="tools">{row.calls.map((call) => <span class={`tool ${call.outcome}`}>{call.tool}</span>)}</span>
          <span class="codes">{row.codes.map((own) => <span class={`code ${own.severity}`}>{own.code}</span>)}</span>
          <span class="figures">{row.tokens ? `${number(row.tokens.input + row.tokens.output)} ${text.row.tokens} · ` : ""}{milliseconds(row.total_us)}</span>
          <Time ms={row.at_ms} />
        </a>)} /> : searching ? <p class="muted" role="status">{text.live.searching}</p> : older ? <p class="bar"><button type="button" onClick={() => { pages.current = 0; older(); }}>{text.live.more}</button></p> : <p class="muted">{text.live.none}</p>}
    </>
  );
}
