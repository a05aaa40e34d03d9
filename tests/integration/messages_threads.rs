//! Message threads: a client sends only what is new, and the upstream has the rest. What is let through, repaired and blocked there, and
//! what becomes of threads that toolmark doesn't know.

use serde_json::{Value, json};
use tempfile::TempDir;
use toolmark::{
    marks::CallMark,
    testing::{Proxy, Received, ScriptedReply, ScriptedUpstream},
};

use crate::{
    clients::{
        messages_model::strict_with_threads,
        model::{FORGED, Turn, next_turn},
        runtimes::{self, repository},
    },
    harness::{Answer, http_client, run},
    messages_folded::fold,
    postgres::Ledger,
};

const WAYS: [bool; 2] = [false, true];
const BETA: &str = "message-threads-2026-08-12";

/// Proxies in front of one upstream that keeps threads.
struct Stage {
    upstream: ScriptedUpstream,
    proxies: Vec<Proxy>,
    _directories: Vec<TempDir>,
}

/// What the application got.
struct Turned {
    answer: Answer,
    message: Value,
}

/// The model of `model.rs`, which also says what `metadata` asks for.
fn script(request: &Value, messages: &[Value]) -> Turn {
    match request["metadata"]["user_id"].as_str() {
        Some(say) => Turn::Say(say.to_owned()),
        None => next_turn(messages),
    }
}

impl Stage {
    fn new(policy: &str) -> Self {
        Self::with(policy, "", 1)
    }

    fn with(policy: &str, settings: &str, proxies: usize) -> Self {
        Self::in_front_of(strict_with_threads(script), policy, settings, proxies)
    }

    fn in_front_of(
        model: impl Fn(&Received) -> ScriptedReply + Send + Sync + 'static,
        policy: &str,
        settings: &str,
        proxies: usize,
    ) -> Self {
        let upstream = ScriptedUpstream::start(model).unwrap();
        let directories: Vec<TempDir> = (0..proxies).map(|_| tempfile::tempdir().unwrap()).collect();
        let proxies = directories.iter().map(|directory| proxy(&upstream, policy, settings, directory)).collect();
        Self { upstream, proxies, _directories: directories }
    }

    fn ask(&self, stream: bool, request: Value) -> Turned {
        self.ask_at(0, &[("authorization", "Bearer sk-test")], stream, request)
    }

    fn ask_at(&self, proxy: usize, headers: &[(&'static str, &'static str)], stream: bool, mut request: Value) -> Turned {
        let begins = request["thread"]["type"] != "continue";
        for (name, value) in [("model", json!("claude-opus-5-5")), ("max_tokens", json!(1000)), ("stream", json!(stream))] {
            request[name] = value;
        }
        if begins {
            (request["system"], request["tools"]) = (json!("Be brief."), tools());
        }
        let mut asked = http_client().post(format!("{}/messages?beta=true", self.proxies[proxy].base_url())).body(request.to_string());
        for (name, value) in headers.iter().chain(&[("anthropic-version", "2026-10-21"), ("anthropic-beta", BETA)]) {
            asked = asked.header(*name, *value);
        }
        let answer = run(async {
            let answer = asked.send().await.unwrap();
            let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
            Answer { status, headers, body: answer.text().await.unwrap() }
        });
        let streamed = answer.header("content-type").starts_with("text/event-stream");
        let message = if streamed { fold(&answer.body).unwrap_or_else(|why| panic!("{why}: {}", answer.body)) } else { answer.json() };
        Turned { answer, message }
    }

    /// Begins a thread with what the user says.
    fn create(&self, stream: bool, said: &str) -> Turned {
        self.ask(stream, json!({"messages": [{"role": "user", "content": said}], "thread": {"type": "create"}}))
    }

    fn last_sent(&self) -> Value {
        self.upstream.received().last().unwrap().json()
    }
}

fn proxy(upstream: &ScriptedUpstream, policy: &str, settings: &str, directory: &TempDir) -> Proxy {
    let own = policy.contains('\n');
    std::fs::write(directory.path().join("policy.toml"), if own { policy } else { "" }).unwrap();
    let name = if own { "policy.toml" } else { policy };
    let settings = format!("policy = \"{name}\"\n[[upstreams]]\nname = \"scripted\"\nbase_url = \"{}\"\n{settings}", upstream.base_url());
    Proxy::start(&settings, &[("TOOLMARK_KEY", &"ab".repeat(32)), ("THREADS_KEY", "sk-test")], directory.path()).unwrap()
}

fn tools() -> Value {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    json!([{"name": "get_weather", "input_schema": schema}, {"name": "get_time", "input_schema": schema}])
}

/// What a client sends to go on from this answer.
fn after(turned: &Turned, content: Value) -> Value {
    let thread = json!({"type": "continue", "previous_message_id": turned.message["id"]});
    json!({"messages": [{"role": "user", "content": content}], "thread": thread})
}

/// The weather, for each of the calls of an answer.
fn results(turned: &Turned) -> Value {
    let result = |call: &Value| json!({"type": "tool_result", "tool_use_id": call["id"], "content": r#"{"degrees":18,"city":"Paris"}"#});
    turned.calls().iter().map(result).collect()
}

impl Turned {
    #[track_caller]
    fn judged(&self, verdict: &str, codes: &[&str]) -> &Self {
        let comment = self.answer.body.lines().find_map(|line| line.strip_prefix(": toolmark "));
        let (own, found) = match comment.map(|said| serde_json::from_str::<Value>(said).unwrap()) {
            Some(said) => {
                let codes = said["violations"].as_array().unwrap().iter().map(|code| code.as_str().unwrap().to_owned());
                (said["verdict"].as_str().unwrap().to_owned(), codes.collect::<Vec<_>>().join(","))
            }
            None => (self.answer.header("toolmark-verdict").to_owned(), self.answer.header("toolmark-violations").to_owned()),
        };
        assert_eq!((self.answer.status, &*own, &*found), (200, verdict, &*codes.join(",")), "{}", self.answer.body);
        self
    }

    fn calls(&self) -> Vec<Value> {
        let blocks = self.message["content"].as_array().unwrap_or_else(|| panic!("{}", self.answer.body));
        blocks.iter().filter(|block| block["type"] == "tool_use").cloned().collect()
    }

    fn text(&self) -> String {
        let blocks = self.message["content"].as_array().unwrap_or_else(|| panic!("{}", self.answer.body));
        blocks.iter().filter_map(|block| block["text"].as_str()).collect()
    }

    /// Status, type and code of an error.
    fn error(&self) -> (u16, &str, &str) {
        let error = &self.message["error"];
        let text = |value: &'static str| error[value].as_str().unwrap_or_default();
        (self.answer.status, text("type"), error["details"]["error_code"].as_str().unwrap_or_default())
    }
}

const LOST: (u16, &str, &str) = (404, "not_found_error", "thread_not_found");

#[test]
fn a_call_its_result_and_an_answer() {
    for stream in WAYS {
        let stage = Stage::new("[protocol]\ninject = true\n[citations]\nshow = true\n");
        let first = stage.create(stream, "What is the weather in Paris?");
        let call = first.judged("pass", &[]).calls()[0].clone();
        assert!(CallMark::parse(call["id"].as_str().unwrap()).is_some_and(|mark| mark.upstream_id().is_some()), "{call}");
        let created = stage.last_sent();
        assert!(created["system"].as_str().unwrap().contains("execution_id"), "{created}");
        let second = stage.ask(stream, after(&first, results(&first)));
        assert!(second.judged("pass", &[]).text().starts_with("It is 18 degrees in Paris (execution_id: "));
        let sent = stage.last_sent();
        let result = &sent["messages"][0]["content"][0];
        assert!(call["id"].as_str().unwrap().starts_with(result["tool_use_id"].as_str().unwrap()), "{sent}");
        assert!(result["content"].as_str().unwrap().starts_with(r#"{"execution_id":"get_weather_"#), "{sent}");
        assert_eq!((&sent["system"], &sent["tools"]), (&Value::Null, &Value::Null), "they are the thread's");
        // What the thread proves may be cited in it, and what it doesn't may not.
        let execution = serde_json::from_str::<Value>(result["content"].as_str().unwrap()).unwrap()["execution_id"].clone();
        let mut cites = after(&second, json!("And now?"));
        cites["metadata"] = json!({"user_id": format!("Still 18 degrees (execution_id: {}).", execution.as_str().unwrap())});
        let third = stage.ask(stream, cites);
        assert!(third.judged("pass", &[]).text().starts_with("Still 18 degrees (execution_id: "));
        let mut elsewhere = json!({"messages": [{"role": "user", "content": "And now?"}], "thread": {"type": "create"}});
        elsewhere["metadata"] = json!({"user_id": format!("Still 18 degrees (execution_id: {}).", execution.as_str().unwrap())});
        stage.ask(stream, elsewhere).judged("warn", &["execution_elsewhere", "unsupported_action"]);
    }
}

/// The whole conversation, as a client sends it where its thread isn't there.
fn again(turns: &[(Value, &Turned)], last: Value) -> Value {
    let said = |(asked, turned): &(Value, &Turned)| {
        [json!({"role": "user", "content": asked}), json!({"role": "assistant", "content": turned.message["content"]})]
    };
    let last = json!({"role": "user", "content": last});
    json!({"messages": turns.iter().flat_map(said).chain([last]).collect::<Value>(), "thread": {"type": "create"}})
}

#[test]
fn a_call_is_repaired_inside_the_thread() {
    for stream in WAYS {
        let stage = Stage::new("[calls]\ncorrections = []\n[citations]\nshow = true\n");
        let first = stage.create(stream, "What is the weather in Paris?");
        let second = stage.ask(stream, after(&first, results(&first)));
        let asked = json!("Leave out one of two.");
        let before = stage.upstream.received().len();
        let third = stage.ask(stream, after(&second, asked.clone()));
        assert_eq!(third.judged("repaired", &["missing_required"]).calls().len(), 2);
        let sent: Vec<Value> = stage.upstream.received().iter().skip(before).map(Received::json).collect();
        let [asked_upstream, repair] = &sent[..] else { panic!("{sent:?}") };
        let previous = [asked_upstream, repair].map(|sent| sent["thread"]["previous_message_id"].as_str().unwrap().to_owned());
        assert_eq!((previous[0] == second.message["id"], previous[0] == previous[1]), (true, false), "an answer is gone on from once");
        let answers = repair["messages"].as_array().unwrap();
        assert_eq!((answers.len(), answers[0]["content"].as_array().unwrap().len()), (1, 2), "the upstream has the rest: {repair}");
        assert!(answers[0]["content"].as_array().unwrap().iter().all(|result| result["is_error"] == true), "{repair}");
        // The upstream has a turn there that the application hasn't: the client sends what it has.
        assert_eq!(stage.ask(stream, after(&third, results(&third))).error(), LOST);
        let turns = [(json!("What is the weather in Paris?"), &first), (results(&first), &second), (asked, &third)];
        let last = stage.ask(stream, again(&turns, results(&third)));
        last.judged("pass", &[]);
        assert!(last.text().contains("(execution_id: get_time_"), "{}", last.text());
    }
}

#[test]
fn two_repairs_in_a_row_go_on_from_each_other() {
    for stream in WAYS {
        let model = |_: &Value, messages: &[Value]| {
            let bad = messages.iter().filter(|message| message["content"].as_str().unwrap_or_default().starts_with("Tool call ")).count();
            match (bad, messages.len()) {
                (_, 1) => Turn::Say("Hello.".into()),
                (0, _) => Turn::Call("", vec![("get_wether", r#"{"city":"Paris"}"#)]),
                (1, _) => Turn::Call("", vec![("get_weather", "{}")]),
                _ => Turn::Call("", vec![("get_weather", r#"{"city":"Paris"}"#)]),
            }
        };
        let stage = Stage::in_front_of(strict_with_threads(model), "[calls]\ncorrections = []\n", "", 1);
        let first = stage.create(stream, "Hello");
        let second = stage.ask(stream, after(&first, json!("The weather in Paris?")));
        assert_eq!(second.judged("repaired", &["unknown_tool", "missing_required"]).calls().len(), 1);
    }
}

#[test]
fn a_thread_goes_on_only_from_what_the_application_has() {
    let misnamed = |_: &Value, messages: &[Value]| match messages.len() {
        1 => Turn::Call("", vec![("get-weather", r#"{"city":"Paris"}"#)]),
        _ => next_turn(messages),
    };
    for stream in WAYS {
        let renames = "[calls]\ncorrections = [\"name\"]\n";
        for (stage, verdict, codes) in [
            (Stage::new("[calls]\ncorrections = []\n"), "repaired", &["unknown_tool"][..]),
            (Stage::in_front_of(strict_with_threads(misnamed), renames, "", 1), "pass", &["corrected_name"]),
        ] {
            let changed = stage.create(stream, "Invent a tool.");
            changed.judged(verdict, codes);
            assert_eq!(stage.ask(stream, after(&changed, results(&changed))).error(), LOST);
        }
        let stage = Stage::new("default");
        // A text without its citation.
        let first = stage.create(stream, "What is the weather in Paris?");
        let cited = stage.ask(stream, after(&first, results(&first)));
        assert_eq!(stage.ask(stream, after(&cited, json!("Thanks"))).error(), LOST);
    }
}

#[test]
fn a_fabricated_answer_is_blocked_and_its_thread_begins_anew() {
    for stream in WAYS {
        let stage = Stage::new("[citations]\nshow = true\n");
        let first = stage.create(stream, "What is the weather in Paris?");
        let second = stage.ask(stream, after(&first, results(&first)));
        let blocked = stage.ask(stream, after(&second, json!("Forge a citation.")));
        assert!(!blocked.answer.body.contains(FORGED) || blocked.text().starts_with("I reported a tool result"), "{}", blocked.text());
        blocked.judged("blocked", &["unknown_execution"]);
        let mended = stage.create(stream, "Forge, then mend.");
        assert_eq!(mended.judged("repaired", &["unknown_execution"]).text(), "I can't check that now.");
        // What the upstream keeps there isn't what the application got: the client sends what it has.
        let sent = stage.upstream.received().len();
        assert_eq!(stage.ask(stream, after(&blocked, json!("Thanks"))).error(), LOST);
        assert_eq!(stage.upstream.received().len(), sent);
    }
}

#[test]
fn a_conversation_that_is_sent_again_goes_up_as_the_thread_had_it() {
    for stream in WAYS {
        let stage = Stage::new("default");
        let first = stage.create(stream, "What is the weather in Paris?");
        let messages = json!([
            {"role": "user", "content": "What is the weather in Paris?"},
            {"role": "assistant", "content": first.message["content"]},
            {"role": "user", "content": results(&first)},
        ]);
        for thread in [json!({"type": "create"}), Value::Null] {
            let mut request = json!({"messages": messages});
            if !thread.is_null() {
                request["thread"] = thread;
            }
            assert_eq!(stage.ask(stream, request).judged("pass", &[]).text(), "It is 18 degrees in Paris.");
            let sent = stage.last_sent();
            let ids = (&sent["messages"][1]["content"][1]["id"], &sent["messages"][2]["content"][0]["tool_use_id"]);
            assert!(ids.0 == ids.1 && ids.0.as_str().unwrap().len() == 30, "the upstream's own: {sent}");
        }
    }
}

#[test]
fn what_is_not_known_as_the_callers_is_not_there() {
    for stream in WAYS {
        let stage = Stage::with("default", "", 2);
        let first = stage.create(stream, "What is the weather in Paris?");
        let sent = stage.upstream.received().len();
        let unknown =
            json!({"messages": [{"role": "user", "content": "Hello"}], "thread": {"type": "continue", "previous_message_id": "msg_none"}});
        assert_eq!(stage.ask(stream, unknown).error(), LOST);
        let go_on = after(&first, results(&first));
        assert_eq!(stage.ask_at(0, &[("x-api-key", "sk-other")], stream, go_on.clone()).error(), LOST);
        // Another process that shares no more than the key.
        assert_eq!(stage.ask_at(1, &[("authorization", "Bearer sk-test")], stream, go_on.clone()).error(), LOST);
        assert_eq!(stage.upstream.received().len(), sent);
        stage.ask(stream, go_on.clone()).judged("pass", &[]);
        // The upstream's own error passes: an answer is gone on from once.
        let again = stage.ask(stream, go_on);
        assert_eq!(again.error(), (400, "invalid_request_error", "thread_already_continued"));
    }
}

#[test]
fn a_thread_goes_on_at_another_replica_and_after_a_restart() {
    for stream in WAYS {
        let ledger = Ledger::postgres();
        let settings = format!("[ledger]\nurl = \"{}\"\n", ledger.url());
        let mut stage = Stage::with("[citations]\nshow = true\n", &settings, 2);
        let key = &[("authorization", "Bearer sk-test")];
        let first = stage.create(stream, "What is the weather in Paris?");
        let second = stage.ask_at(1, key, stream, after(&first, results(&first)));
        assert!(second.judged("pass", &[]).text().starts_with("It is 18 degrees in Paris (execution_id: "));
        stage.proxies.clear();
        let directory = tempfile::tempdir().unwrap();
        stage.proxies.push(proxy(&stage.upstream, "default", &settings, &directory));
        let third = stage.ask(stream, after(&second, json!("And the weather in Paris tomorrow?")));
        assert_eq!(third.judged("pass", &[]).calls().len(), 1);
    }
}

#[test]
fn each_policy_says_what_becomes_of_threads() {
    let unsupported = (400, "invalid_request_error", "thread_unsupported_request");
    for stream in WAYS {
        for (policy, expected) in [
            ("[responses]\nstateful = \"stateless\"\n", unsupported),
            ("[responses]\nstateful = \"refuse\"\n", (400, "invalid_request_error", "invalid_request")),
        ] {
            let stage = Stage::new(policy);
            for thread in [json!({"type": "create"}), json!({"type": "continue", "previous_message_id": "msg_1"})] {
                let refused = stage.ask(stream, json!({"messages": [{"role": "user", "content": "Hello"}], "thread": thread}));
                assert_eq!(refused.error(), expected);
                let message = refused.message["error"]["message"].as_str().unwrap();
                let recovers = message.starts_with("capability_rejected: beta_header:message-threads-2026-08-12");
                assert_eq!((recovers, message.contains("`thread`")), (expected == unsupported, true), "{message}");
            }
            assert!(stage.upstream.received().is_empty());
        }
        // A use of it that nobody knows.
        let stage = Stage::new("default");
        for thread in [json!({"type": "fork"}), json!({"type": "continue"}), json!("create")] {
            let refused = stage.ask(stream, json!({"messages": [{"role": "user", "content": "Hello"}], "thread": thread}));
            assert_eq!(refused.error(), unsupported, "{thread}");
        }
        // Nor does an upstream without the API keep any.
        let stage = Stage::with("default", "messages = \"translate\"\n", 1);
        assert_eq!(stage.create(stream, "Hello").error(), unsupported);
        assert!(stage.upstream.received().is_empty());
    }
}

#[test]
fn observing_passes_all_but_anothers_thread() {
    let digests = [
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa",
    ];
    let clients: Vec<String> = ["a", "b"]
        .iter()
        .zip(digests)
        .map(|(name, digest)| format!("[[clients]]\nname = \"{name}\"\nkey_sha256 = \"{digest}\"\n"))
        .collect();
    let settings = format!("api_key_env = \"THREADS_KEY\"\n{}", clients.concat());
    for stream in WAYS {
        let stage = Stage::with("observe", &settings, 1);
        let first = stage.ask_at(
            0,
            &[("x-api-key", "test")],
            stream,
            json!({"messages": [{"role": "user", "content": "What is the weather in Paris?"}], "thread": {"type": "create"}}),
        );
        assert_eq!(stage.last_sent()["thread"]["type"], "create");
        let go_on = after(&first, results(&first));
        let thief = stage.ask_at(0, &[("x-api-key", "other")], stream, go_on.clone());
        assert_eq!(thief.error(), LOST);
        let second = stage.ask_at(0, &[("x-api-key", "test")], stream, go_on);
        assert_eq!(second.text(), "It is 18 degrees in Paris.");
    }
}

#[test]
fn results_that_code_reads_stay_as_they_are_in_a_thread() {
    let programmatic = json!({"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Rome"},
        "caller": {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}});
    let said = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [programmatic], "stop_reason": "tool_use",
        "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}});
    let stage = Stage::in_front_of(move |_| ScriptedReply::json(200, said.to_string()), "default", "", 1);
    let first = stage.create(false, "Weather?");
    let result = json!([{"type": "tool_result", "tool_use_id": first.calls()[0]["id"], "content": "18 degrees"}]);
    stage.ask(false, after(&first, result)).judged("pass", &[]);
    let sent = &stage.last_sent()["messages"][0]["content"][0];
    assert_eq!((&sent["tool_use_id"], &sent["content"]), (&"toolu_1".into(), &"18 degrees".into()));
}

/// anthropic's own threads, with thinking that is bound to everything before it: what was repaired goes on in the thread, and where a
/// thread isn't there, or isn't taken, the client sends everything, which nothing contradicts.
#[test]
fn the_threads_of_anthropics_client() {
    if runtimes::skipped("messages_threads::the_threads_of_anthropics_client") {
        return;
    }
    let shown = regex::Regex::new(r" \(execution_id: [a-z_0-9]+\)").unwrap();
    let both = "What is the weather and the time in Paris?";
    let scenes = json!({"repaired": ["Invent a tool.", both], "blocked": [both, "Forge a citation.", both]});
    for (policy, threaded) in
        [("[calls]\ncorrections = []\n[citations]\nshow = true\n", true), ("[responses]\nstateful = \"stateless\"\n", false)]
    {
        let stage = Stage::new(policy);
        let url = stage.proxies[0].base_url();
        let environment = [
            ("ANTHROPIC_BASE_URL", url.strip_suffix("/v1").unwrap()),
            ("ANTHROPIC_API_KEY", "sk-test"),
            ("OPENAI_BASE_URL", ""),
            ("SCENES", &scenes.to_string()),
        ];
        let script = repository("tests/clients/message_threads.py");
        let printed = runtimes::run_python_of("messages", "tests/clients/messages.txt", &script, &environment);
        let printed: Value = serde_json::from_str(&shown.replace_all(&printed, "")).unwrap();
        for send in ["whole", "streamed"] {
            let repaired = &printed[format!("repaired_{send}")];
            let (look, known) = ("Let me look.", "It is 18 degrees in Paris.");
            let last = "It is 18 degrees in Paris and 18 degrees in Paris and 12:30 in Paris.";
            assert_eq!(repaired["said"], json!([look, known, look, last]), "{printed}");
            assert_eq!(repaired["calls"], json!(["get_weather", "get_weather", "get_time"]), "{printed}");
            // Behind what toolmark changed, the client is told to send all that it has; where threads aren't taken, it is told so once.
            assert_eq!((&repaired["threaded"], &repaired["sends"]), (&threaded.into(), &5.into()), "{printed}");
            let blocked = &printed[format!("blocked_{send}")];
            assert!(blocked["said"].to_string().contains("I reported a tool result that I can't back"), "{printed}");
            assert!(!blocked.to_string().contains(FORGED), "{printed}");
            assert_eq!((&blocked["threaded"], &blocked["sends"]), (&threaded.into(), &6.into()), "{printed}");
            assert_eq!(blocked["calls"].as_array().unwrap().len(), 4, "{printed}");
        }
    }
}
