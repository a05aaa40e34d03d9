import { useEffect, useRef, useState } from "preact/hooks";
import { getText, type Attempt, type Call, type Finding, type Timeline } from "../api";
import { text } from "../text";
import { Arguments, Findings, Fold, Loaded, Marked, milliseconds, number, Sentence, Time, useApi, Verdict } from "../ui";

const words = text.exchange;
const quote = (own: string) => `'${own.replace(/'/g, "'\\''")}'`;

export function Exchange({ id }: { id: string }) {
  const read = useApi<Timeline>(`/api/exchanges/${encodeURIComponent(id)}/timeline`);
  const box = useRef<HTMLDivElement>(null);
  const [said, say] = useState("");
  useEffect(() => {
    // Steps through what is marked, and through findings without a mark.
    let at = -1;
    const move = (event: Event) => {
      const marks = [...box.current!.querySelectorAll<HTMLElement>("mark, [data-finding]")];
      if (!marks.length) return;
      at = Math.min(marks.length - 1, Math.max(0, at + (event as CustomEvent<number>).detail));
      marks[at]!.focus();
      marks[at]!.scrollIntoView({ block: "center" });
    };
    addEventListener("toolmark-step", move);
    return () => removeEventListener("toolmark-step", move);
  }, [id]);
  const copy = (own: string) => navigator.clipboard.writeText(own).then(() => say(words.copied), (error) => say(String(error)));
  const save = async () => {
    const line = await getText(`/api/exchanges/${id}/cassette`);
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(new Blob([line])), download: `${id}.jsonl` });
    link.click();
    URL.revokeObjectURL(link.href);
  };
  const curl = (shown: Timeline) => `curl -H 'content-type: application/json' -H "authorization: Bearer $OPENAI_API_KEY" "$OPENAI_BASE_URL"${shown.request.line!.replace(/^POST (\/openai)?(\/v1)?/, "")} --data-binary ${quote(shown.request.body!)}`;
  const judge = (shown: Timeline) => `toolmark judge --request <(printf %s ${quote(shown.request.body!)}) --response <(printf %s ${quote(shown.attempts.find((own) => own.response)?.response ?? "")})`;
  return (
    <div ref={box}>
      <h1>{words.title} <code class="id">{id}</code></h1>
      <Loaded of={read}>{(shown) => (
        <>
          <section class="why" aria-label={words.why}>
            <p class="headline"><Verdict ended={shown.summary.ended} /> {text.why[shown.summary.ended]}</p>
            <Reasons of={shown} />
            <p class="muted"><Time ms={shown.began_ms} /> · {shown.summary.model} · {shown.summary.api}{shown.summary.stream ? " (stream)" : ""} · {milliseconds(shown.summary.total_us)}
              {shown.summary.session && <> · {words.session} <a href={`#/session/${encodeURIComponent(shown.summary.session)}`}>{shown.summary.session}</a></>}
              {shown.summary.client && <> · {words.client} {shown.summary.client}</>} · {words.policy} <code>{shown.policy}</code></p>
            {!shown.bodies && <p class="note">{text.closed}</p>}
            {shown.bodies && shown.kept === "nowhere" && <p class="note">{text.notKept}</p>}
            {shown.cut && <p class="note">{text.cut}</p>}
            {shown.redactions > 0 && <p class="muted">{text.redacted(shown.redactions)}</p>}
            {shown.request.body && <p class="bar">
              <button type="button" onClick={() => copy(curl(shown))}>{words.copyCurl}</button>
              <button type="button" onClick={save}>{words.cassette}</button>
              <button type="button" onClick={() => copy(judge(shown))}>{words.copyJudge}</button>
              <span role="status">{said}</span></p>}
          </section>
          <ol class="timeline">
            <li><h2>{words.came}</h2>
              {shown.request.line && <p class="muted"><code>{shown.request.line}</code></p>}
              {asked(shown.request.body) && <><p class="muted">{words.asked}</p><pre class="said">{asked(shown.request.body)}</pre></>}
              <Findings of={shown.request.findings} />
              <Fold title={words.headers} of={shown.request.headers.map((own) => own.join(": ")).join("\n")} />
              <Fold title={words.body} of={shown.request.body} /></li>
            {shown.attempts.map((attempt) => <OneAttempt attempt={attempt} shown={shown.bodies && shown.kept !== "nowhere"} />)}
            {shown.ran.length > 0 && <li><h2>{words.ran}</h2>{shown.ran.map((own) => <div class="call"><p><strong class="tool">{own.tool}</strong> <code>{own.call}</code></p><Arguments json={own.arguments} pointers={[]} /><pre class="said">{own.result}</pre></div>)}</li>}
            <li><h2>{words.left}</h2>
              {shown.answer && <><p class="muted">HTTP {shown.answer.status ?? "—"}</p>
                {(shown.answer.status ?? 0) >= 400 && refusal(shown.answer.body) && <><p>{words.instead}</p><pre class="said">{refusal(shown.answer.body)}</pre></>}
                {(shown.answer.status ?? 0) < 400 && shown.summary.ended === "blocked" && shown.answer.text && <p>{words.instead}</p>}
                {shown.answer.text && <pre class="said">{shown.answer.text}</pre>}
                {shown.answer.calls.map((call) => <div class="call"><p>{words.calls} <strong class="tool">{call.tool}</strong> <code>{call.id}</code></p><Arguments json={call.arguments} pointers={[]} /></div>)}
                <Fold title={words.headers} of={shown.answer.headers.map((own) => own.join(": ")).join("\n")} />
                <Fold title={words.body} of={shown.answer.body} /></>}</li>
            {shown.executions.length > 0 && <li><h2>{words.executions}</h2>{shown.executions.map((own) => (
              <div class="call"><p><strong class={`tool ${own.failed ? "rejected" : "accepted"}`}>{own.tool}</strong> <code>{own.id}</code></p>
                <p class="muted">{words.firstSeen} <Time ms={own.seen_ms} /> · {own.witness === "proxy" ? words.byProxy : words.byApp} · {own.seen_ms - own.started_ms} {text.row.ms}</p>
                {own.result_body && <pre class="said">{own.result_body.text}</pre>}</div>))}</li>}
          </ol>
        </>)}</Loaded>
    </div>
  );
}

/** The last message of a request, in whichever API it is. */
function asked(body: string | null): string | null {
  if (!body) return null;
  try {
    const { messages, input } = JSON.parse(body);
    const last = typeof input === "string" ? input : (Array.isArray(messages ?? input) ? (messages ?? input).at(-1) : null);
    const content = typeof last === "string" ? last : (last?.content ?? last?.output);
    const parts: unknown[] = Array.isArray(content) ? content.map((part) => part?.text ?? (typeof part?.content === "string" ? part.content : "")) : [content];
    const words = parts.filter((part) => typeof part === "string" && part).join("\n");
    return words ? (words.length > 2000 ? `${words.slice(0, 2000)} …` : words) : null;
  } catch { return null; }
}
/** What the application was told in place of an answer. */
function refusal(body: string | null): string | null {
  try { const error = JSON.parse(body ?? "").error; return typeof error?.message === "string" ? error.message : null; } catch { return null; }
}

const faults = (attempt: Attempt) => [...attempt.calls.flatMap((call) => call.findings), ...attempt.findings];
function judged(attempt: Attempt): string {
  const all = faults(attempt);
  if (all.some((own) => own.severity === "block") || attempt.calls.some((call) => call.outcome === "rejected")) return words.judged.rejected!;
  if (attempt.failure || (attempt.status ?? 200) >= 400) return words.judged.none!;
  return all.length ? words.judged.noted! : words.judged.passed!;
}

/** In a sentence each: what was wrong, and where. What was wrong again is told once. */
function Reasons({ of }: { of: Timeline }) {
  const all: { attempts: number[]; was: string; says: string }[] = [];
  const add = (attempt: number, was: string, finding: Finding) => {
    const says = finding.message ?? finding.means;
    const known = all.find((own) => own.was === was && own.says === says);
    if (!known) all.push({ attempts: [attempt], was, says });
    else if (!known.attempts.includes(attempt)) known.attempts.push(attempt);
  };
  of.request.findings.forEach((own) => add(0, words.was.request, own));
  for (const attempt of of.attempts) {
    attempt.calls.forEach((call) => call.findings.forEach((own) => add(attempt.number, words.was.call(call.tool), own)));
    attempt.findings.forEach((own) => add(attempt.number, own.span ? words.was.text : words.was.turn, own));
  }
  return all.length ? <ul class="reasons">{all.slice(0, 12).map((own) => <li>{own.attempts[0] ? `${words.attempts(own.attempts)}, ` : ""}{own.was} <strong><Sentence of={own.says} /></strong></li>)}</ul> : null;
}
/** JSON in which short values stand in one line. */
function compact(value: unknown, indent = ""): string {
  const line = JSON.stringify(value, null, 1)?.replace(/\n\s*/g, " ") ?? "";
  if (value === null || typeof value !== "object" || line.length + indent.length <= 64) return line;
  const inner = `${indent}  `;
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  const parts = Object.entries(value).map(([name, own]) => `${inner}${Array.isArray(value) ? "" : `${JSON.stringify(name)}: `}${compact(own, inner)}`);
  return `${open}\n${parts.join(",\n")}\n${indent}${close}`;
}
/** The part of a tool's declaration that its arguments must fit, in whichever API it is. */
function schema(declared: string): string {
  try { const tool = JSON.parse(declared); return compact(tool.function?.parameters ?? tool.parameters ?? tool.input_schema ?? tool); } catch { return declared; }
}

function OneAttempt({ attempt, shown }: { attempt: Attempt; shown: boolean }) {
  const spans = attempt.findings.flatMap((own) => (own.span ? [own.span] : []));
  const said = judged(attempt);
  return (
    <>
      {attempt.told.length > 0 && <li class="told"><h2>{words.told}</h2>{attempt.told.map((own) => <pre class="said">{own}</pre>)}</li>}
      <li class={said === words.judged.rejected ? "faulty" : said === words.judged.noted ? "doubtful" : said === words.judged.passed ? "right" : ""}>
        <h2>{words.attempt(attempt.number)}: {said}</h2>
        <p class="muted">{attempt.upstream} · {attempt.model} · HTTP {attempt.status ?? "—"} · {milliseconds(attempt.duration_us)}{attempt.tokens && <> · {number(attempt.tokens.input)} + {number(attempt.tokens.output)} {text.row.tokens}</>}</p>
        {attempt.failure && <p class="error">{attempt.failure}</p>}
        {(attempt.status ?? 200) >= 400 && refusal(attempt.response) && <p class="error">{refusal(attempt.response)}</p>}
        {attempt.changes.length > 0 && <details><summary>{attempt.number > 1 ? words.changesSince : words.changes} ({attempt.changes.length})</summary>
          <ul class="changes">{attempt.changes.map((own) => <li><code>{own.at || "/"}</code>{own.before !== null && <pre class="gone">{own.before}</pre>}{own.after !== null && <pre class="new">{own.after}</pre>}</li>)}</ul></details>}
        {attempt.text && <Marked of={attempt.text} spans={spans} />}
        {attempt.calls.map((call) => <OneCall call={call} />)}
        <Findings of={attempt.findings} />
        {shown && !attempt.text && !attempt.calls.length && !attempt.failure && attempt.response === null && <p class="muted">{words.noAnswer}</p>}
        <Fold title={words.request} of={attempt.request} />
        <Fold title={words.response} of={attempt.response} />
      </li>
    </>
  );
}

function OneCall({ call }: { call: Call }) {
  const pointers = call.findings.flatMap((own) => (own.pointer === null ? [] : [own.pointer]));
  return (
    <div class="call">
      <p>{words.calls} <strong class={`tool ${call.outcome ?? ""}`}>{call.findings.some((own) => own.code === "unknown_tool") ? <mark tabIndex={-1}>{call.tool}</mark> : call.tool}</strong> <span class="muted">{call.outcome ? text.outcome[call.outcome] : ""}</span> {call.mark && <code>{call.mark}</code>}</p>
      <div class="pair">
        {call.arguments !== null && <Arguments json={call.arguments} pointers={pointers} />}
        {call.declared && <Fold title={words.schema} of={schema(call.declared)} opened={call.findings.length > 0} asIs />}
      </div>
      <Findings of={call.findings} />
    </div>
  );
}
