import { useEffect, useState } from "preact/hooks";
import { get, post, type Execution, type Failures, type FailureSeries, type Row } from "../api";
import { text } from "../text";
import { Bars, Code, Loaded, milliseconds, number, Sentence, Table, Time, useApi, Verdict } from "../ui";

const share = (own: number | null) => (own === null ? "—" : `${(own * 100).toFixed(1)} %`);

export function Sessions() {
  const read = useApi<{ data: { session: string; exchanges: number; blocked: number; last_ms: number }[] }>("/api/sessions");
  const words = text.sessions;
  return <><h1>{words.title}</h1><Loaded of={read}>{({ data }) => data.length ? <Table label={words.title} head={[words.one, words.exchanges, words.blocked, words.last]}
    rows={data.map((own) => [<a href={`#/session/${encodeURIComponent(own.session)}`}>{own.session}</a>, number(own.exchanges), number(own.blocked), <Time ms={own.last_ms} />])} /> : <p class="muted">{words.none}</p>}</Loaded></>;
}

interface OfSession extends Row { marks: string[]; verified: Execution[]; history: string[]; loops: number }
export function Session({ name }: { name: string }) {
  const read = useApi<{ data: OfSession[]; complete: boolean }>(`/api/sessions/${encodeURIComponent(name)}`);
  const words = text.sessions;
  return <><h1>{words.one} <span class="id">{name}</span></h1><Loaded of={read}>{({ data }) => <ol class="timeline">{data.map((own) => (
    <li class={own.codes.length ? "faulty" : ""}><h2><a href={`#/exchange/${own.id}`}><Time ms={own.at_ms} /></a> <Verdict ended={own.ended} /></h2>
      <p>{own.model} · {milliseconds(own.total_us)} {own.codes.map((code) => <><Code {...code} /> </>)}</p>
      {own.verified.map((one) => <p>{words.verified}: <strong class={`tool ${one.failed ? "rejected" : "accepted"}`}>{one.tool}</strong> <code>{one.id}</code></p>)}
      {own.history.length > 0 && <p>{words.history}: {own.history.map((code) => <><Code code={code} /> </>)}</p>}
      {own.calls.map((call, at) => {
        const mark = call.outcome === "accepted" ? own.marks[own.calls.slice(0, at).filter((before) => before.outcome === "accepted").length] : undefined;
        return <p>{text.exchange.calls} <strong class={`tool ${call.outcome}`}>{call.tool}</strong> {mark ? <>{words.marks} <code>{mark}</code></> : text.outcome[call.outcome]}</p>;
      })}
      {own.loops > 0 && <p class="error">{words.loops}: {own.loops}</p>}
    </li>))}</ol>}</Loaded></>;
}

interface Durations { p50: number; p99: number }
interface Totals { exchanges: number; endings: Record<string, number>; rejected_calls_per_1000: number; tokens: { input: number; output: number }; repair_tokens: { input: number; output: number }; upstream_ms_mean: number; duration_ms: Durations | null }
interface Stats {
  until_ms: number; tools: { tool: string; calls: Record<string, number>; success_rate: number | null; duration_ms: Durations | null }[];
  models: ({ model: string } & Totals)[]; invented: { name: string; calls: number }[]; failing: { tool: string; failures: number; last_failure_ms: number }[]; hours: ({ at_ms: number } & Totals)[];
}
const HOUR = 3_600_000;
const HOURS = 48;
/** Exchanges by the hour: all, and those that weren't let through as they were. */
function Hours({ of }: { of: Stats }) {
  const since = Math.floor(of.until_ms / HOUR) * HOUR - (HOURS - 1) * HOUR;
  const bad = (own: Totals) => (own.endings.blocked ?? 0) + (own.endings.repaired ?? 0) + (own.endings.failed ?? 0);
  return <figure><figcaption>{text.tools.hours} <span class="muted">({text.tools.course.toLowerCase()}: <span class="key all" /> {text.tools.key.split("·")[0]}<span class="key bad" /> {text.tools.key.split("·")[1]})</span></figcaption>
    <Bars tall label={text.tools.hours} since={since} step={HOUR} slots={HOURS} of={of.hours.map((own) => ({ at_ms: own.at_ms, all: own.exchanges, bad: bad(own) }))} />
    <div class="axis muted"><Time ms={since} /><Time ms={of.until_ms} /></div></figure>;
}
function Failed({ of, name, series }: { of: Failures; name: string; series: FailureSeries[] }) {
  const words = text.tools;
  const since = Math.floor(of.until_ms / of.step_ms) * of.step_ms - (HOURS - 1) * of.step_ms;
  if (!series.length) return <p class="muted">{words.none}</p>;
  return <Table label={words.failures} head={[name, words.code, words.count, words.course, words.lastSeen]} rows={series.map((own) => [
    own.name, <Code code={own.code} severity={own.points.some((point) => point.block) ? "block" : own.points.some((point) => point.warn) ? "warn" : "info"} />, number(own.count),
    <Bars label={`${own.name} ${own.code}`} since={since} step={of.step_ms} slots={HOURS} of={own.points.map((point) => ({ at_ms: point.at_ms, all: point.info + point.warn + point.block, bad: point.block }))} />,
    own.points.length ? <Time ms={own.points[own.points.length - 1]!.at_ms} /> : "—"])} />;
}
const durations = (own: Durations | null) => [own ? number(own.p50) : "—", own ? number(own.p99) : "—"];
export function Tools() {
  const stats = useApi<Stats>("/api/stats");
  const failures = useApi<Failures>("/api/failures");
  const refused = useApi<{ data: { tool: string; code: string; severity: string; count: number; last: string; examples: string[] }[] }>("/api/refusals");
  const words = text.tools;
  return <><h1>{words.title}</h1><Loaded of={stats}>{(own) => <>
    <Hours of={own} />
    <Table label={words.title} head={[words.tool, words.calls, words.rejected, words.success, words.p50, words.p99]} rows={own.tools.map((tool) => [tool.tool, number((tool.calls.accepted ?? 0) + (tool.calls.rejected ?? 0) + (tool.calls.withheld ?? 0)), number(tool.calls.rejected ?? 0), share(tool.success_rate), ...durations(tool.duration_ms)])} />
    <h2>{words.failures}</h2><Loaded of={failures}>{(history) => <Failed of={history} name={words.tool} series={history.tools} />}</Loaded>
    <h2>{words.refused}</h2><Loaded of={refused}>{({ data }) => <Table label={words.refused} head={[words.tool, words.code, words.count, words.example, words.last]} rows={data.map((one) => [one.tool, <Code code={one.code} severity={one.severity} />, number(one.count), <ul>{one.examples.map((example) => <li><Sentence of={example} /></li>)}</ul>, <a href={`#/exchange/${one.last}`}>{text.exchange.title}</a>])} />}</Loaded>
    <h2>{words.invented}</h2><Table label={words.invented} head={[words.tool, words.count]} rows={own.invented.map((one) => [one.name, number(one.calls)])} />
    <h2>{words.failing}</h2><Table label={words.failing} head={[words.tool, words.count, words.last]} rows={own.failing.map((one) => [one.tool, number(one.failures), <Time ms={one.last_failure_ms} />])} />
  </>}</Loaded></>;
}
export function Models() {
  const stats = useApi<Stats>("/api/stats");
  const failures = useApi<Failures>("/api/failures");
  const words = text.models;
  const sum = (own: { input: number; output: number }) => number(own.input + own.output);
  return <><h1>{words.title}</h1><Loaded of={stats}>{(own) => <><Hours of={own} /><Table label={words.title} head={[words.model, words.exchanges, words.blocked, words.repaired, words.per1000, words.p50, words.p99, words.upstream, words.tokens, words.repair]}
    rows={own.models.map((model) => [model.model, number(model.exchanges), number(model.endings.blocked ?? 0), number(model.endings.repaired ?? 0), number(model.rejected_calls_per_1000), ...durations(model.duration_ms), number(model.upstream_ms_mean), sum(model.tokens), sum(model.repair_tokens)])} />
    <h2>{text.tools.failures}</h2><Loaded of={failures}>{(history) => <Failed of={history} name={words.model} series={history.models} />}</Loaded></>}</Loaded></>;
}

interface LedgerState { kind: string; store: string; waiting: number; trouble: string | null; chains: { writer: number; records: number; removed: number; mac: string | null }[]; verification: { state: string; records?: number; of?: number; at_ms?: number; outcome?: { whole: boolean; records: number; fault: string | null } } }
export function Ledger() {
  const read = useApi<LedgerState>("/api/ledger");
  const [error, setError] = useState("");
  const [id, setId] = useState("");
  const running = read.data?.verification.state === "running";
  useEffect(() => { if (!running) return; const timer = setTimeout(read.again, 300); return () => clearTimeout(timer); });
  const verify = () => post("/api/ledger/verify").then(() => { setError(""); setTimeout(read.again, 50); }, (failure) => setError(failure.message));
  const find = async (event: Event) => {
    event.preventDefault();
    const own = id.trim();
    if (/^[0-9a-f]{8}-/.test(own)) { location.hash = `#/exchange/${own}`; return; }
    get<{ exchange: string }>(`/api/executions/${encodeURIComponent(own)}`).then((found) => { location.hash = `#/exchange/${found.exchange}`; }, () => setError(text.ledger.notFound));
  };
  const words = text.ledger;
  return <><h1>{words.title}</h1><Loaded of={read}>{(own) => { const { state, outcome, records = 0, of = 0 } = own.verification; return <>
    <p>{words.kind}: <code>{own.kind}</code> · {words.store}: <code>{own.store}</code> · {words.waiting}: {number(own.waiting)}</p>
    {own.trouble && <p class="error" role="alert">{own.trouble}</p>}
    <p class="bar"><button type="button" onClick={verify} disabled={running}>{words.verify}</button>
      <span role="status">{state === "running" ? words.running(records, of) : state === "never" ? words.never : outcome?.whole ? words.whole(outcome.records) : `${words.broken} ${outcome?.fault ?? ""}`}</span></p>
    {state === "running" && <progress value={records} max={of || 1} aria-label={words.verify} />}
    {error && <p class="error" role="alert">{error}</p>}
    <h2>{words.chains}</h2><Table label={words.chains} head={[words.writer, words.records, words.removed, words.mac]} rows={own.chains.map((chain) => [chain.writer, number(chain.records), number(chain.removed), <code>{chain.mac?.slice(0, 16) ?? "—"}</code>])} />
    <h2>{words.look}</h2><form class="bar" onSubmit={find}><label class="grow">{words.lookLabel} <input value={id} onInput={(event) => setId(event.currentTarget.value)} /></label><button>{words.find}</button></form>
  </>; }}</Loaded></>;
}

interface PolicyState {
  judges: string[]; source: string; digest: string; mode: string; text: string | null; notices: string[]; checks: { code: string; place: string; means: string; severity: string; blocks_from: string | null; default: string; strict: string }[];
  reload: { at_ms: number; error: string | null; changes: { code: string; before: string; after: string }[]; mode: [string, string] | null } | null;
}
interface Trial { judged: number; not_judged: Record<string, number>; complete: boolean; changes: { code: string; before: string; after: string }[]; data: { id: string; at_ms: number | null; model: string; before: string; after: string; gone: string[]; new: string[]; open: boolean }[] }
export function Policy({ code }: { code?: string }) {
  const read = useApi<{ data: PolicyState[] }>("/api/policy");
  useEffect(() => { if (code && read.data) document.getElementById(`code-${code}`)?.scrollIntoView({ block: "center" }); }, [code, read.data]);
  const words = text.policy;
  return <><h1>{words.title}</h1><Loaded of={read}>{({ data }) => data.map((own, at) => <section>
    <p>{words.judges}: {own.judges.join(", ")} · {words.source}: <code>{own.source}</code> · {words.digest}: <code>{own.digest}</code> · {words.mode}: <strong>{own.mode}</strong></p>
    {own.notices.map((notice) => <p class="note">{notice}</p>)}
    {!own.reload && <p class="muted">{words.never}</p>}
    {own.reload && <p>{words.reload}: <Time ms={own.reload.at_ms} /> · {own.reload.error ? <span class="error">{words.failed}: {own.reload.error}</span> : <>{words.changed}: {own.reload.mode && `${words.mode} ${own.reload.mode.join(" → ")} `}{own.reload.changes.map((one) => <><Code code={one.code} /> {one.before} → {one.after} </>)}</>}</p>}
    <WhatIf text={own.text ?? ""} at={at} />
    <h2>{words.codes}</h2><Table label={words.codes} head={[words.code, words.place, words.means, words.severity, words.default, words.strict]} rows={own.checks.map((check) => [<span id={at === 0 ? `code-${check.code}` : undefined} class={check.code === code ? "target" : ""}><code>{check.code}</code></span>, check.place, <Sentence of={check.means} />, <strong class={`severity ${check.severity}`}>{check.severity}{check.blocks_from === "certain" ? ` ${words.ifCertain}` : ""}</strong>, check.default, check.strict])} />
  </section>)}</Loaded></>;
}
function WhatIf({ text: own, at }: { text: string; at: number }) {
  const [written, write] = useState(own);
  const [found, set] = useState<Trial | null>(null);
  const [error, setError] = useState("");
  const words = text.policy;
  const judge = () => post<Trial>("/api/policy/what-if", { policy: written, instead_of: at }).then((trial) => { set(trial); setError(""); }, (failure) => { set(null); setError(failure.message); });
  return <details open={at === 0}><summary>{words.trial}</summary>
    <label>{words.trialLabel}<textarea rows={12} spellcheck={false} value={written} onInput={(event) => write(event.currentTarget.value)} /></label>
    <p class="bar"><button type="button" onClick={judge}>{words.judge}</button></p>
    {error && <p class="error" role="alert">{error}</p>}
    {found && <div class="trial" role="status"><p>{found.data.length ? words.differs(found.data.length, found.judged) : words.same(found.judged)} {!found.complete && words.incomplete}</p>
      {found.changes.length > 0 && <p>{words.would} {found.changes.map((one) => <><Code code={one.code} /> {one.before} → {one.after} </>)}</p>}
      {Object.entries(found.not_judged).map(([why, count]) => <p class="muted">{words.notJudged} {count} ({why})</p>)}
      <ul>{found.data.map((one) => <li><a href={`#/exchange/${one.id}`}>{one.at_ms !== null && <Time ms={one.at_ms} />} {one.model}</a>: <Verdict ended={one.before} /> → <Verdict ended={one.after} /> {one.new.map((own) => <>+<Code code={own} /> </>)}{one.gone.map((own) => <>−<Code code={own} /> </>)}{one.open && <span class="muted">({words.open})</span>}</li>)}</ul></div>}
  </details>;
}

interface UpstreamState { name: string; base_url: string; preset: string; breaker: string; paused: boolean; models: Record<string, { calls: string; reason: string | null; refuses: string[]; found_at_ms: number | null }> }
export function Upstreams() {
  const read = useApi<{ data: UpstreamState[]; part: { state: string; why?: string } | null }>("/api/upstreams");
  useEffect(() => { const timer = setInterval(read.again, 5000); return () => clearInterval(timer); });
  const words = text.upstreams;
  const model = ([name, own]: [string, UpstreamState["models"][string]]) => <li><strong>{name}</strong>: {words.calls[own.calls] ?? own.calls}{own.reason ? ` (${own.reason})` : ""}{own.refuses?.length ? `, ${words.refuses} ${own.refuses.join(", ")}` : ""}{own.found_at_ms !== null && <span class="muted">, {words.probed} <Time ms={own.found_at_ms} /></span>}</li>;
  return <><h1>{words.title}</h1><Loaded of={read}>{({ data, part }) => <>
    {part && <p class={part.state === "ready" ? "" : "error"} role="status">{part.state === "ready" ? words.healthy : part.why}</p>}
    <Table label={words.title} head={[words.name, words.url, words.preset, words.breaker, words.paused, words.models]} rows={data.map((own) => [own.name, <code>{own.base_url}</code>, own.preset, <span class={own.breaker === "closed" ? "" : "error"}>{words.state[own.breaker] ?? own.breaker}</span>, <span class={own.paused ? "error" : ""}>{own.paused ? words.yes : words.no}</span>, Object.keys(own.models ?? {}).length ? <ul>{Object.entries(own.models).map(model)}</ul> : words.none])} /></>}</Loaded></>;
}
