//! Settings in, settings or a message out.

use std::{fs, time::Duration};

use super::*;

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const UPSTREAM: &str = "[[upstreams]]\nname = \"a\"\nbase_url = \"http://a/v1\"\n";

fn read(toml: &str, environment: &[(&str, &str)], flags: &Flags) -> Result<Settings, String> {
    let directory = tempfile::tempdir().unwrap();
    if !toml.is_empty() {
        fs::write(directory.path().join(CONFIG_FILE), toml).unwrap();
    }
    let settings = load(flags, &Environment::of(environment), directory.path());
    settings.map_err(|error| error.to_string().replace(&format!("{}/", directory.path().display()), ""))
}

fn with(rest: &str) -> String {
    format!("{rest}\n{UPSTREAM}")
}

#[track_caller]
fn refused(toml: &str, environment: &[(&str, &str)], words: &[&str]) {
    let error = read(toml, environment, &Flags::default()).expect_err(toml);
    for word in words {
        assert!(error.contains(word), "{word:?} isn't in:\n{error}\nfor:\n{toml}");
    }
}

#[test]
fn nothing_but_an_upstream() {
    for (url, base) in [
        ("https://api.openai.com", "https://api.openai.com/v1"),
        ("http://localhost:11434/", "http://localhost:11434/v1"),
        ("https://api.groq.com/openai/v1/", "https://api.groq.com/openai/v1"),
    ] {
        let flags = Flags { upstream: Some(url.into()), ..Flags::default() };
        let settings = read("", &[], &flags).unwrap();
        let upstream = settings.upstream_for(Some("anything")).unwrap();
        assert_eq!((&*upstream.name, &*upstream.base_url, &upstream.credential), ("upstream", base, &Credential::Caller));
        assert_eq!(settings.listen.to_string(), "127.0.0.1:8787");
        assert_eq!(settings.policy, PolicySource::Default);
        assert!(matches!(&settings.keys, KeySource::File(path) if path.ends_with("toolmark.key")));
        assert_eq!((settings.limits.request_bytes, settings.limits.connections), (32 << 20, 10_000));
        assert_eq!(settings.notices, Vec::<String>::new());
    }
    let error = read("", &[], &Flags::default()).unwrap_err();
    assert!(error.contains("toolmark serve --upstream https://") && error.contains("[[upstreams]]"), "{error}");
}

#[test]
fn paths_of_a_file_are_relative_to_it_and_those_of_flags_to_the_working_directory() {
    let (working, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (here, there) = (working.path(), other.path());
    let all = "policy = 'mine.toml'\n[ledger]\nurl = 'sqlite:own.db'\n[record]\npath = 'tape.jsonl'\n\
        [[clients]]\nname = 'c'\nkey_sha256 = '000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f'\npolicy = 'client.toml'\n\
        [[upstreams]]\nname = 'a'\nbase_url = 'cassette:played.jsonl'\n";
    fs::write(there.join("settings.toml"), all).unwrap();
    let flags = Flags { config: Some(there.join("settings.toml")), ..Flags::default() };
    let load = |flags: &Flags, set: &[(&str, &str)]| load(flags, &Environment::of(set), here).unwrap();
    let paths = |settings: &Settings| {
        let LedgerUrl::Sqlite(ledger) = &settings.ledger.url else { panic!() };
        let PolicySource::File(policy) = &settings.policy else { panic!() };
        let Some(PolicySource::File(client)) = &settings.clients[0].policy else { panic!() };
        let record = settings.cassettes.record.as_ref().unwrap().path.clone();
        vec![policy.clone(), client.clone(), ledger.clone(), record, settings.upstreams[0].cassette.clone().unwrap()]
    };
    let names = ["mine.toml", "client.toml", "own.db", "tape.jsonl", "played.jsonl"];
    let from = |directory: &Path| names.map(|name| directory.join(name)).to_vec();
    let settings = load(&flags, &[]);
    assert_eq!(paths(&settings), from(there));
    assert!(settings.notices.iter().all(|notice| !notice.contains("as before")), "{:?}", settings.notices);
    // Where only the old place has them, they are taken there for one more release, and that is said.
    names.iter().for_each(|name| fs::write(here.join(name), "").unwrap());
    let settings = load(&flags, &[]);
    assert_eq!(paths(&settings), from(here));
    let said = settings.notices.iter().filter(|notice| notice.contains("as before")).count();
    assert_eq!(said, names.len(), "{:?}", settings.notices);
    names.iter().for_each(|name| fs::write(there.join(name), "").unwrap());
    let settings = load(&flags, &[]);
    assert_eq!((paths(&settings), settings.notices.iter().any(|notice| notice.contains("as before"))), (from(there), false));
    // Flags and variables stay where whoever types them is.
    let flagged = Flags { policy: Some("flag.toml".into()), record: Some("flag.jsonl".into()), ..flags.clone() };
    let settings = load(&flagged, &[("TOOLMARK_LEDGER__URL", "sqlite:variable.db")]);
    assert_eq!(paths(&settings)[0], here.join("flag.toml"));
    assert_eq!(paths(&settings)[2..4], [here.join("variable.db"), here.join("flag.jsonl")]);
    // Absolute ones are what they are, and what no file says stays, too.
    fs::write(there.join("settings.toml"), format!("policy = '{}'\n{UPSTREAM}", here.join("abs.toml").display())).unwrap();
    let settings = load(&flags, &[]);
    assert_eq!(settings.policy, PolicySource::File(here.join("abs.toml")));
    assert!(matches!(&settings.ledger.url, LedgerUrl::Sqlite(path) if *path == here.join("toolmark.db")), "{:?}", settings.ledger.url);
    fs::write(there.join("settings.toml"), format!("policy = 'strict'\n{UPSTREAM}")).unwrap();
    assert_eq!(load(&flags, &[]).policy, PolicySource::Strict);
}

#[test]
fn offline_needs_no_upstream() {
    let flags = Flags { policy: Some("strict".into()), ..Flags::default() };
    let offline = load_offline(&flags, &Environment::of(&[("TOOLMARK_KEY", KEY)]), Path::new("/no/such")).unwrap();
    assert_eq!((offline.policy, offline.scope), (PolicySource::Strict, ScopeKind::Caller));
    assert!(matches!(offline.keys, KeySource::Ring(_)));
}

#[test]
fn the_contracts_example() {
    let toml = format!(
        r#"
listen = "127.0.0.1:8787"
policy = "policies/default.toml"
passthrough = []
allowed_hosts = ["Proxy.example.org"]
[[upstreams]]
name = "cerebras"
base_url = "https://api.cerebras.ai/v1"
api_key_env = "CEREBRAS_API_KEY"
models = ["llama*", "gpt-oss*"]
call_ids = "short9"
tool_choice = "required"
probe = "off"
timeouts = {{ connect = "5s", first_byte = "600s", idle = "1m" }}
[[upstreams]]
name = "openai"
base_url = "https://api.openai.com/v1"
[[clients]]
name = "support-bot"
key_sha256 = "{KEY}"
policy = "strict"
[ledger]
url = "sqlite:data/toolmark.db"
keep = "30d"
store = "bodies"
body_bytes = "4KiB"
only_tools = ["get_*"]
except_tools = ["get_secret"]
durability = "commit"
wait = "2s"
lookup = "100ms"
[marks]
key_env = "TOOLMARK_KEY"
scope = "shared"
[admin]
listen = "127.0.0.1:8788"
[limits]
request_bytes = "1MiB"
response_bytes = 1048576
connections = 10
held_bytes = "1MiB"
[log]
format = "json"
level = "debug"
"#
    );
    let settings = read(&toml, &[("CEREBRAS_API_KEY", "csk-1"), ("TOOLMARK_KEY", KEY)], &Flags::default()).unwrap();
    let serves = |model| settings.upstream_for(model).map(|upstream| &*upstream.name);
    assert_eq!(serves(Some("llama-3.3/70b")), Some("cerebras"));
    assert_eq!(serves(Some("gpt-4o")), Some("openai"));
    assert_eq!(serves(None), Some("cerebras"));
    assert_eq!(settings.upstreams[0].timeouts.idle, Duration::from_secs(60));
    assert_eq!((settings.upstreams[0].fitting.short_ids, settings.upstreams[0].tool_choice), (true, DefaultToolChoice::Required));
    assert_eq!(settings.clients[0].policy, Some(PolicySource::Strict));
    assert_eq!(settings.allowed_hosts, ["proxy.example.org"]);
    assert_eq!((settings.limits.request_bytes, settings.limits.response_bytes), (1 << 20, 1 << 20));
    assert_eq!((settings.log.format, settings.log.level, settings.scope), (LogFormat::Json, LogLevel::Debug, ScopeKind::Shared));
    assert_eq!((settings.ledger.store, settings.ledger.durability), (StoredContent::Bodies, Durability::Commit));
    let covered = ["get_weather", "get_secret", "send"].map(|tool| settings.ledger.body_tools.covers(tool));
    assert_eq!((settings.ledger.body_bytes, covered), (4096, [true, false, false]));
    let shown = format!("{settings:?}");
    assert!(!shown.contains("csk-1") && shown.contains("[…]"), "{shown}");
}

#[test]
fn later_layers_win() {
    let toml = with("listen = '127.0.0.1:1'\npolicy = 'strict'");
    let environment = [
        ("TOOLMARK_LISTEN", "127.0.0.1:2"),
        ("TOOLMARK_LIMITS__CONNECTIONS", "7"),
        ("TOOLMARK_LIMITS__HELD_BYTES", "4096"),
        ("TOOLMARK_ALLOWED_HOSTS", "a.example, b.example"),
        ("TOOLMARK_PASSTHROUGH", "[\"/v1/rerank\"]"),
        ("TOOLMARK_LOG__LEVEL", "\"warn\""),
        ("TOOLMARK_LEDGER__URL", "memory:"),
        ("TOOLMARK_UPSTREAMS", "[{name = \"b\", base_url = \"http://b/v1\", api_key_env = \"\"}]"),
    ];
    let settings = read(&toml, &environment, &Flags::default()).unwrap();
    assert_eq!(settings.listen.port(), 2);
    assert_eq!((settings.limits.connections, settings.limits.held_bytes), (7, 4096));
    assert_eq!(settings.allowed_hosts, ["a.example", "b.example"]);
    assert_eq!(settings.passthrough, ["/v1/rerank"]);
    assert_eq!((settings.log.level, &settings.ledger.url, &settings.keys), (LogLevel::Warn, &LedgerUrl::Memory, &KeySource::Ephemeral));
    assert_eq!((&*settings.upstreams[0].name, &settings.upstreams[0].credential), ("b", &Credential::None));
    let flags =
        Flags { listen: Some("localhost:3".into()), policy: Some("observe".into()), upstream: Some("http://c".into()), ..Flags::default() };
    let settings = read(&toml, &environment, &flags).unwrap();
    assert_eq!((settings.listen.to_string().as_str(), settings.policy), ("127.0.0.1:3", PolicySource::Observe));
    assert_eq!((settings.upstreams.len(), &*settings.upstreams[0].base_url), (1, "http://c/v1"));
}

#[test]
fn text_from_the_environment_stays_text() {
    for (name, value, shown) in [("TOOLMARK_LISTEN", "0123", "`0123`"), ("TOOLMARK_LISTEN", "true", "`true`")] {
        refused(&with(""), &[(name, value)], &[name, shown, "127.0.0.1:8787"]);
    }
    let settings = read(&with("policy = 'x'"), &[("TOOLMARK_POLICY", "0123")], &Flags::default()).unwrap();
    assert!(matches!(settings.policy, PolicySource::File(path) if path.ends_with("0123")));
}

#[test]
fn the_listed_keys_are_those_of_the_settings() {
    let error = read(&with("zzz = 1"), &[], &Flags::default()).unwrap_err().to_string();
    let known = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<std::collections::BTreeSet<_>>();
    let told: Vec<&str> = error.split_once("known here: ").unwrap().1.split(", ").map(|key| key.trim_matches('`')).collect();
    assert_eq!(known(&told), known(toolmark_core::config::sections::SETTINGS));
}

#[test]
fn variables_that_are_no_settings() {
    let fine = [
        ("TOOLMARK_KEY", KEY),
        ("TOOLMARK_ADMIN_TOKEN", "x"),
        ("TOOLMARK_SKIP_CLIENTS", "1"),
        ("TOOLMARK_BIN", "/x"),
        ("TOOLMARK_SERVICE_HOST", "10.0.0.1"),
        ("TOOLMARK_SERVICE_PORT_HTTP", "8787"),
        ("TOOLMARK_PORT", "tcp://10.0.0.1:8787"),
        ("TOOLMARK_PORT_8787_TCP_ADDR", "10.0.0.1"),
        ("TOOLMARK_ADMIN_PORT_8788_TCP", "tcp://10.0.0.1:8788"),
        ("TOOLMARK_OPENAI_KEY", "sk-x"),
    ];
    let settings = read(&with("").replace("base_url", "api_key_env = 'TOOLMARK_OPENAI_KEY'\nbase_url"), &fine, &Flags::default()).unwrap();
    assert!(matches!(settings.keys, KeySource::Ring(_)));
    for (name, value, hint) in [
        ("TOOLMARK_LISTN", "x", "TOOLMARK_LISTEN"),
        ("TOOLMARK_LIMITS_CONNECTIONS", "7", "TOOLMARK_LIMITS__CONNECTIONS"),
        ("TOOLMARK_PORT", "8787", "known at the top: `listen`"),
        ("TOOLMARK_LIMIT", "7", "TOOLMARK_LIMITS`?"),
        ("TOOLMARK_LIMITS__CONECTIONS", "7", "did you mean `connections`"),
        ("TOOLMARK_LIMTS__CONNECTIONS", "7", "did you mean `limits`"),
        ("TOOLMARK_UPSTREAMS__0__NAME", "x", "TOOLMARK_UPSTREAMS='[{name"),
    ] {
        refused(&with(""), &[(name, value)], &[name, hint]);
    }
}

#[test]
fn what_is_refused_and_how() {
    let set = [("SET", "sk-secret")];
    for (toml, words) in [
        ("listen = \n", &["toolmark.toml:1:", "not valid TOML"][..]),
        ("listen = '1'\nlisten = '2'", &["toolmark.toml:2:", "duplicate key"]),
        (&with("listne = 'x'"), &["toolmark.toml:1: `listne`: unknown key (did you mean `listen`?", "known here: `listen`"]),
        (&with("[calls]\nmax_repairs = 1"), &["toolmark.toml:1: `calls`: unknown key: it belongs in the policy's file", "`policy`"]),
        (&with("mode = 'observe'"), &["`mode`: unknown key: it belongs in the policy's file"]),
        (&with("[limits]\n\nconections = 1"), &["toolmark.toml:3: `limits.conections`", "`connections`"]),
        (
            &with("[limits]\nconnections = 'many'"),
            &["toolmark.toml:2: `limits.connections`: found string \"many\", expected a whole number"],
        ),
        (&with("[limits]\nconnections = 0"), &["`limits.connections`", "1 to 1000000"]),
        (&with("[limits]\nconnections = -1"), &["`limits.connections`", "-1"]),
        (&with("[limits]\nrequest_bytes = 'lots'"), &["`limits.request_bytes`: `lots` is no size", "\"32MiB\""]),
        (&with("[limits]\nrequest_bytes = '1TiB'"), &["`limits.request_bytes`", "out of range"]),
        (&with("[limits]\nheld_bytes = true"), &["`limits.held_bytes`: found bool true, expected a size"]),
        (&with("[limits]\nclient_idle = '1ms'"), &["`limits.client_idle`", "10ms to 1h"]),
        (&with("[counters]\nurl = 'postgres'"), &["`counters.url`", "`[ledger] url`"]),
        (&with("[counters]\nurl = 'postgres://u:p@h/d'"), &["`counters.url`: no place for counters", "\"redis://host:6379\""]),
        (&with("[counters]\nurl = 'redis:x'"), &["`counters.url`: no place for counters"]),
        (&with("[counters]\nwait = '0s'"), &["`counters.wait`", "1ms to 10s"]),
        (&with("limits = 3"), &["`limits`: found", "expected a table"]),
        (&with("allow_anonymous = 'yes'"), &["`allow_anonymous`", "expected true or false"]),
        (&with("passthrough = '/v1/x'"), &["`passthrough`", "expected an array"]),
        (&with("passthrough = ['v2/x']"), &["`passthrough[0]`: `v2/x`", "/v1/rerank"]),
        (&with("passthrough = ['/v2/x;y']"), &["`passthrough[0]`: `/v2/x;y`", "/v1/rerank"]),
        (&with("passthrough = ['/x', '/']"), &["`passthrough[1]`"]),
        (&with("passthrough = ['/*']"), &["`passthrough[0]`"]),
        (&with("passthrough = ['/chat/*']"), &["`/chat/completions`", "enforced"]),
        (&with("passthrough = ['/v1/conversations']"), &["enforced"]),
        (&with("passthrough = ['/v1/a', '/v1/../x']"), &["`passthrough[1]`"]),
        (&with("passthrough = ['/v1/*']"), &["`/v1/chat/completions`", "enforced"]),
        (&with("passthrough = ['/v1/responses']"), &["enforced"]),
        (&with("allowed_hosts = ['http://x']"), &["`allowed_hosts[0]`", "without scheme"]),
        (&with("listen = '8787'"), &["toolmark.toml:1: `listen`: `8787` is no address", "127.0.0.1:8787"]),
        (&with("[log]\nformat = 'jsn'"), &["`log.format`: `jsn`", "did you mean `json`", "known: `text`, `json`"]),
        (&with("[log]\nlevel = 'loud'"), &["`log.level`", "`trace`"]),
        (&with("[ledger]\nurl = 'mysql://u:pw@x'"), &["`ledger.url`", "sqlite:toolmark.db"]),
        (&with("[ledger]\nurl = 'sqlite::memory:'"), &["\"memory:\""]),
        (&with("[ledger]\nurl = 'postgres://x'"), &["`marks.key_env`", "several replicas need TOOLMARK_KEY"]),
        (&with("[ledger]\nkeep = 'ever'"), &["`ledger.keep`: `ever` is no duration"]),
        (&with("[marks]\nscope = 'all'"), &["`marks.scope`", "`caller`, `shared`"]),
        (&with("[marks]\nkey_env = 'MY_KEY'"), &["toolmark.toml:2: `marks.key_env`", "MY_KEY isn't set"]),
        (&with("[marks]\nkey_env = 'SET'"), &["SET has 9 characters where 64 hex digits belong"]),
        (&with("[admin]\nlisten = '0.0.0.0:8788'"), &["`admin.listen`", "TOOLMARK_ADMIN_TOKEN"]),
        (&with("[admin]\nlisten = '127.0.0.1:8787'"), &["`admin.listen`", "two addresses"]),
        (&with("[[mcp]]\nname = 'todo'"), &["`mcp[0].command`", "say how it is reached"]),
        (&with("[[mcp]]\nname = 'to do'\ncommand = ['x']"), &["`mcp[0].name`", "A-Z a-z"]),
        (&with("[[mcp]]\nname = 'a'\ncommand = ['x']\nexecut = 'proxy'"), &["did you mean `execute`"]),
        (&with("[[mcp]]\nname = 'a'\ncommand = ['x']\nenv = ['UNSET']"), &["`mcp[0].env`", "UNSET isn't set"]),
        (&with("[[mcp]]\nname = 'a'\nurl = 'http://x/mcp'\nheaders_env = { authorization = 'sk-secret' }"), &["never the value"]),
        (&with("[[mcp]]\nname = 'a'\nurl = 'http://u:pw@x/mcp'"), &["`mcp[0].url`", "headers_env"]),
        (&with("[[mcp]]\nname = 'a'\ncommand = ['x']\ntools = ['[']"), &["`mcp[0].tools[0]`", "no glob"]),
        (&with("[[mcp]]\nname = 'a'\ncommand = ['x']\nmax_rounds = 0"), &["`mcp[0].max_rounds`", "1 to 100"]),
    ] {
        refused(toml, &set, words);
    }
}

#[test]
fn what_is_refused_of_upstreams_and_clients() {
    let set = [("SET", "sk-secret"), ("EMPTY", ""), ("BLANK", "sk secret")];
    let second = "[[upstreams]]\nname = 'b'\nbase_url = 'http://b/v1'\n";
    let client = |rest: &str| format!("{UPSTREAM}[[clients]]\nname = 'c'\n{rest}\n");
    let upstream = |rest: &str| format!("{UPSTREAM}{rest}\n");
    for (toml, words) in [
        (UPSTREAM.replace("http://a/v1", "a/v1"), &["toolmark.toml:3: `upstreams[0].base_url`", "https://api.openai.com/v1"][..]),
        (UPSTREAM.replace("http:", "ftp:"), &["base_url", "http or https"]),
        (UPSTREAM.replace("/v1", "/v1?a=b"), &["base_url", "`?`"]),
        (UPSTREAM.replace("//a", "//user:pw@a"), &["base_url", "api_key_env"]),
        (UPSTREAM.replace("/v1", "/v1/chat/completions"), &["without `/chat/completions`"]),
        (UPSTREAM.replace("\"a\"", "\"\""), &["`upstreams[0].name`"]),
        ("[[upstreams]]\nname = 'x'".into(), &["`upstreams[0]`", "`base_url` is missing"]),
        (format!("{UPSTREAM}{UPSTREAM}"), &["toolmark.toml:5: `upstreams[1].name`", "two upstreams are named `a`"]),
        (upstream("api_key = 'sk-x'"), &["`upstreams[0].api_key`", "did you mean `api_key_env`", "never written in the file"]),
        (upstream("api_key_env = 'UNSET'"), &["toolmark.toml:4: `upstreams[0].api_key_env`", "UNSET isn't set"]),
        (upstream("api_key_env = 'EMPTY'"), &["EMPTY is empty"]),
        (upstream("api_key_env = 'BLANK'"), &["BLANK holds blanks"]),
        (upstream("api_key_env = 'sk-proj-123'"), &["name the variable"]),
        (upstream("models = ['gpt-[']"), &["`upstreams[0].models[0]`: `gpt-[` is no glob"]),
        (upstream("models = []"), &["`upstreams[0].models`", "leave `models` out"]),
        (upstream("call_ids = 'short'"), &["call_ids", "did you mean `short9`"]),
        (upstream("timeouts = { conect = '1s' }"), &["`upstreams[0].timeouts.conect`", "did you mean `connect`"]),
        (upstream("timeouts = { connect = '0s' }"), &["`upstreams[0].timeouts.connect`", "more than 0"]),
        (upstream("timeouts = { connect = 5 }"), &["`upstreams[0].timeouts.connect`", "expected a string"]),
        (format!("{}{second}", upstream("fallback = ['c']")), &["`upstreams[0].fallback`: there is no upstream `c`", "`b`"]),
        (format!("{}{second}", upstream("fallback = ['b']")), &["a fallback needs an api_key_env", "`b`"]),
        (upstream("fallback_models = { a = 'b' }"), &["`upstreams[0].fallback_models.a`: there is no `fallback`"]),
        (
            format!("{}{second}api_key_env = ''\nmodels = ['x']", upstream("fallback = ['b']\nfallback_models = { m = 'y' }")),
            &["`upstreams[0].fallback_models.m`: no upstream in `fallback` serves `y`"],
        ),
        (upstream("probe = '1s'"), &["at least 10s"]),
        (upstream("preset = 'opanai'"), &["preset", "did you mean `openai`"]),
        (upstream("drop = ['tools']"), &["`upstreams[0].drop[0]`: `tools` can't be left out"]),
        (upstream("drop = ['messages.content']"), &["can't be left out"]),
        (upstream("drop = ['a..b']"), &["is no parameter"]),
        (upstream("map = { model.a = 'b' }"), &["`model` can't be mapped"]),
        (upstream("map = { tool_choice.requird = 'any' }"), &["no request says `requird`", "did you mean `required`"]),
        (upstream("defaults = { tools = [] }"), &["it belongs to each request"]),
        (upstream("put_back = ['extra']"), &["put_back", "known"]),
        (upstream("probe = 'sometimes'"), &["expected \"off\""]),
        (upstream("responses = 'translated'"), &["responses", "native", "translate"]),
        (upstream("messages = 'none'"), &["messages", "native", "translate"]),
        (upstream("chat = 'translate'\nmessages = 'translate'"), &["upstreams[0].messages", "one of them must be native"]),
        (client(&format!("key_sha256 = '{KEY}'\nconcurrent = 0")), &["`clients[0].concurrent`", "a whole number of 1 or more"]),
        (client("key_sha256 = 'abc'"), &["toolmark.toml:6: `clients[0].key_sha256`", "64 hex digits", "sha256sum"]),
        (client(&format!("key_sha256 = '{KEY}'\n[[clients]]\nname = 'c'\nkey_sha256 = '{KEY}'")), &["`clients[1].name`", "must differ"]),
        (client(&format!("key_sha256 = '{KEY}'\n[[clients]]\nname = 'd'\nkey_sha256 = '{KEY}'")), &["`clients[1].key_sha256`", "same key"]),
    ] {
        refused(&toml, &set, words);
        let error = read(&toml, &set, &Flags::default()).unwrap_err();
        assert!(!error.contains("secret ") && !error.contains("sk-") && !error.contains("pw"), "{error}");
    }
}

#[test]
fn no_open_relay() {
    let open = "listen = '0.0.0.0:8787'\n";
    let keyed = format!("{UPSTREAM}api_key_env = 'SET'\n");
    let set = [("SET", "sk-secret")];
    refused(&format!("{open}{keyed}"), &set, &["`listen`", "upstream `a`", "[[clients]]", "allow_anonymous = true"]);
    for fine in [
        format!("{open}allow_anonymous = true\n{keyed}"),
        format!("{open}{UPSTREAM}"),
        format!("listen = '[::1]:0'\n{keyed}"),
        format!("{open}{keyed}[[clients]]\nname = 'c'\nkey_sha256 = '{KEY}'"),
    ] {
        read(&fine, &set, &Flags::default()).unwrap();
    }
}

#[test]
fn files_and_flags_that_are_wrong() {
    let flags = |config: &str| Flags { config: Some(config.into()), ..Flags::default() };
    let missing = read(UPSTREAM, &[], &flags("no/such.toml")).unwrap_err();
    assert!(missing.contains("no/such.toml can't be read") && missing.contains("--upstream"), "{missing}");
    let directory = read(UPSTREAM, &[], &flags(".")).unwrap_err();
    assert!(directory.contains("name the file in it"), "{directory}");
    assert!(read(UPSTREAM, &[], &flags(CONFIG_FILE)).is_ok());
    let upstream = Flags { upstream: Some("api.openai.com".into()), ..Flags::default() };
    assert!(read("", &[], &upstream).unwrap_err().starts_with("--upstream: `upstreams[0].base_url`: no URL"));
    let listen = Flags { listen: Some("here".into()), ..upstream.clone() };
    let listen = Flags { upstream: Some("http://a".into()), ..listen };
    assert!(read("", &[], &listen).unwrap_err().starts_with("--listen: `listen`: `here` is no address"));
    let record = Flags { record: Some("x".into()), upstream: Some("http://a".into()), ..Flags::default() };
    assert!(read("", &[], &record).unwrap().cassettes.record.is_some());
    let both = Flags { replay: Some("x".into()), ..record };
    assert!(read("", &[], &both).unwrap_err().contains("`record.path`: this is the cassette that is played"));
    let replay = Flags { replay: Some("x".into()), ..Flags::default() };
    assert!(read("", &[], &replay).unwrap().upstreams[0].cassette.is_some(), "it needs no upstream, and no key");
    for (settings, words) in [
        ("[replay]\nmode = 'passthrough'\n", "needs a `file`"),
        ("[replay]\nfile = 'x'\npace = 'fast'\n", "`fast` is no pace"),
        ("[replay]\nfile = 'x'\nignore = ['user']\n", "`user` is no JSON pointer"),
        ("[record]\npth = 'x'\n", "did you mean `path`?"),
        ("[[faults]]\nkind = '429'\nprobability = 2.0\n", "`faults[0].probability`: expected a number from 0 to 1"),
    ] {
        let error = read(&format!("{UPSTREAM}{settings}"), &[], &Flags::default()).unwrap_err();
        assert!(error.contains(words), "{words:?} isn't in:\n{error}");
    }
}

#[test]
fn a_verifier_has_an_upstream_with_a_key_of_its_own_and_bounds() {
    let with = |upstream: &str, rest: &str| {
        format!(
            "[[upstreams]]\nname = \"a\"\nbase_url = \"http://a/v1\"\n{upstream}\n[verifier]\nupstream = \"a\"\nmodel = \"m\"\n{rest}\n"
        )
    };
    let keyless = "api_key_env = \"\"";
    assert_eq!(read(UPSTREAM, &[], &Flags::default()).unwrap().verifier, None);
    let own = read(&with(keyless, ""), &[], &Flags::default()).unwrap().verifier.unwrap();
    assert_eq!((own.at, &*own.model, own.when, own.deadline), (0, "m", VerifyWhen::Undecided, Duration::from_secs(5)));
    assert_eq!((own.calls_per_hour, own.tokens_per_hour, own.cache, own.max_bytes), (600, 1_000_000, 1_000, 64 << 10));
    let all = "when = \"all\"\ndeadline = \"60s\"\ncalls_per_hour = 1\ntokens_per_hour = 2\ncache = 0\nmax_bytes = \"1MiB\"";
    let said = [("TOOLMARK_VERIFIER__CALLS_PER_HOUR", "7"), ("TOOLMARK_VERIFIER__DEADLINE", "10ms")];
    let own = read(&with(keyless, all), &said, &Flags::default()).unwrap().verifier.unwrap();
    assert_eq!((own.when, own.deadline, own.calls_per_hour, own.cache), (VerifyWhen::All, Duration::from_millis(10), 7, 0));
    for (upstream, rest, words) in [
        ("", "", &["verifier.upstream", "api_key_env", "`a`"][..]),
        (keyless, "deadline = \"2m\"", &["verifier.deadline", "10ms to 60s"]),
        (keyless, "deadline = 5", &["verifier.deadline"]),
        (keyless, "calls_per_hour = 0", &["verifier.calls_per_hour", "leave `[verifier]` out"]),
        (keyless, "tokens_per_hour = 0", &["verifier.tokens_per_hour"]),
        (keyless, "cache = 1000000", &["verifier.cache"]),
        (keyless, "max_bytes = \"2MiB\"", &["verifier.max_bytes", "out of range"]),
        (keyless, "when = \"never\"", &["verifier.when", "undecided"]),
        (keyless, "dead_line = \"5s\"", &["unknown key", "deadline"]),
    ] {
        refused(&with(upstream, rest), &[], words);
    }
    refused(
        &with(keyless, "").replace("upstream = \"a\"", "upstream = \"b\""),
        &[],
        &["verifier.upstream", "no upstream `b`", "known: `a`"],
    );
    refused(&with(keyless, "").replace("model = \"m\"", "model = \" \""), &[], &["verifier.model"]);
    refused(&with(keyless, "").replace("model = \"m\"\n", ""), &[], &["model"]);
}

#[test]
fn counters_are_this_processs_the_ledgers_or_a_server_of_their_own() {
    let url = |toml: &str| read(&with(toml), &[("TOOLMARK_KEY", &"cd".repeat(32))], &Flags::default()).unwrap();
    let settings = url("");
    assert!(matches!(settings.counters.url, CountersUrl::Memory) && settings.counters.wait == Duration::from_millis(50));
    let shared = url("[counters]\nurl = 'postgres'\nwait = '1s'\n[ledger]\nurl = 'postgres://u:secret@h/d'");
    assert!(matches!(&shared.counters.url, CountersUrl::Postgres(url) if url.expose() == "postgres://u:secret@h/d"));
    for text in ["redis://h", "rediss://:secret@h:6380/2", "valkey://h:6379", "valkeys://h"] {
        let settings = url(&format!("[counters]\nurl = '{text}'"));
        assert!(matches!(&settings.counters.url, CountersUrl::Redis(url) if url.expose() == text), "{text}");
        assert!(!format!("{settings:?}").contains("secret") && settings.notices.is_empty(), "{:?}", settings.notices);
    }
    let settings = read(&with("[counters]\nurl = 'redis://h'"), &[], &Flags::default()).unwrap();
    assert!(settings.notices.iter().any(|notice| notice.contains("the same TOOLMARK_KEY")), "{:?}", settings.notices);
}
