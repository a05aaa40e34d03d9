import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, setToken, token, type WhoAmI } from "./api";
import { text } from "./text";
import { Exchange } from "./views/exchange";
import { Live } from "./views/live";
import { Ledger, Models, Policy, Session, Sessions, Tools, Upstreams } from "./views/others";

const decode = (part: string | undefined) => { try { return part && decodeURIComponent(part); } catch { return part; } };
const place = () => { const [page = "live", ...rest] = location.hash.replace(/^#\//, "").split("/"); return { page: page || "live", rest: decode(rest[0]) }; };

function Page({ page, rest }: { page: string; rest?: string }) {
  switch (page) {
    case "exchange": return <Exchange key={rest} id={rest ?? ""} />;
    case "session": return <Session name={rest ?? ""} />;
    case "sessions": return <Sessions />;
    case "tools": return <Tools />;
    case "models": return <Models />;
    case "ledger": return <Ledger />;
    case "policy": return <Policy code={rest} />;
    case "upstreams": return <Upstreams />;
    default: return <Live />;
  }
}

function AskToken({ onToken }: { onToken: () => void }) {
  const [own, set] = useState("");
  const send = (event: Event) => { event.preventDefault(); setToken(own); onToken(); };
  return <form class="ask" onSubmit={send}><h1>{text.token.title}</h1>{token() && <p class="error" role="alert">{text.token.wrong}</p>}
    <label>{text.token.label} <input type="password" autocomplete="off" value={own} onInput={(event) => set(event.currentTarget.value)} /></label><button>{text.token.send}</button></form>;
}

function App() {
  const [at, go] = useState(place);
  const [who, setWho] = useState<WhoAmI | null>(null);
  const [round, setRound] = useState(0);
  useEffect(() => { get<WhoAmI>("/api/whoami").then(setWho, () => setWho(null)); }, [round]);
  useEffect(() => {
    const moved = () => { go(place()); document.querySelector("main")?.scrollTo(0, 0); };
    const pressed = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      const writes = target.matches("input, textarea, select");
      if (event.key === "Escape") { if (writes) target.blur(); else if (place().page === "exchange" && history.length > 1) history.back(); else location.hash = "#/live"; return; }
      if (writes || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "/") { event.preventDefault(); const filter = document.getElementById("filter"); if (filter) filter.focus(); else { location.hash = "#/live"; setTimeout(() => document.getElementById("filter")?.focus(), 50); } }
      if (event.key === "j" || event.key === "k") dispatchEvent(new CustomEvent("toolmark-step", { detail: event.key === "j" ? 1 : -1 }));
    };
    addEventListener("hashchange", moved);
    addEventListener("keydown", pressed);
    return () => { removeEventListener("hashchange", moved); removeEventListener("keydown", pressed); };
  }, []);
  const theme = () => {
    const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("toolmark-theme", document.documentElement.dataset.theme);
  };
  const own = at.page === "exchange" ? "live" : at.page === "session" ? "sessions" : at.page;
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.querySelector("main")?.focus(); }}>{text.skip}</a>
      <header><strong>{text.name}</strong>
        <nav aria-label={text.name}>{Object.entries(text.pages).map(([page, name]) => <a href={`#/${page}`} aria-current={page === own ? "page" : undefined}>{name}</a>)}</nav>
        <button type="button" onClick={theme}>{text.theme}</button>
        {token() && <button type="button" onClick={() => { setToken(null); setRound(round + 1); }}>{text.token.forget}</button>}
      </header>
      <main id="main" tabIndex={-1}>{who === null ? <p class="muted">{text.loading}</p> : who.role === "nobody" ? <AskToken key={round} onToken={() => setRound(round + 1)} /> : <Page key={round} {...at} />}</main>
      <footer class="muted">{text.keys}{who && ` · ${who.version} · ${who.role}`}</footer>
    </>
  );
}

const theme = localStorage.getItem("toolmark-theme");
if (theme) document.documentElement.dataset.theme = theme;
render(<App />, document.getElementById("app")!);
