//! What one replica learns of upstreams, at another one within a second; and each for itself while the channel is cut.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use toolmark::testing::{Received, ScriptedReply, ScriptedUpstream};

use super::{
    Place,
    replicas::{Replicas, always_calls, says},
};
use crate::{
    harness::post,
    program::until,
    upstreams::stage::{error, with_tool},
};

/// What all is about.
const SECOND: Duration = Duration::from_secs(1);

/// Replicas whose first upstream, `main`, plays this; its fallback always answers.
struct Stage {
    replicas: Replicas,
    main: ScriptedUpstream,
}

impl Stage {
    fn start(place: &Place, script: impl Fn(&Received) -> ScriptedReply + Send + Sync + 'static) -> Self {
        let main = ScriptedUpstream::start(script).unwrap();
        let settings = format!(
            "[[upstreams]]\nname = \"main\"\nbase_url = \"{}\"\nmodels = [\"main-*\"]\napi_key_env = \"OWN_KEY\"\nprobe = \"off\"\n\
             fallback = [\"scripted\"]\nfallback_models = {{ \"main-1\" = \"spare\" }}\n",
            main.base_url()
        );
        // The first of the settings serves what names no model.
        let replicas = Replicas::start_before(place, &settings, |_| says("From the spare."));
        replicas.channel_is("ready");
        Self { replicas, main }
    }

    /// Asks a replica for the model of `main`. Who answered?
    fn ask(&self, at: usize) -> String {
        let answer =
            post(&format!("{}/chat/completions", self.replicas.proxies[at].base_url()), &with_tool("main-1").to_string(), "Bearer k");
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
    }

    fn known(&self, at: usize) -> Value {
        let report = serde_json::to_value(self.replicas.proxies[at].app().observed.readiness.report()).unwrap();
        report["details"]["upstreams"]["main"].clone()
    }

    /// Waits until a replica knows this, for at most a second.
    fn within_a_second(&self, place: &Place, what: &str, at: usize, holds: impl Fn(&Value) -> bool) {
        let since = Instant::now();
        until(what, || holds(&self.known(at)).then_some(()));
        assert!(since.elapsed() < SECOND, "{}: {what} took {:?}", place.name(), since.elapsed());
    }
}

#[test]
fn an_open_breaker_is_known_within_a_second() {
    for place in Place::all() {
        let stage = Stage::start(&place, |_| error(500, "down"));
        // As often as it takes until it is left alone.
        until("the breaker opens", || {
            assert_eq!(stage.ask(0), "From the spare.");
            (stage.known(0)["breaker"] == "open").then_some(())
        });
        stage.within_a_second(&place, "the other one's is open", 1, |known| known["breaker"] == "open");
        let asked = stage.main.received().len();
        assert_eq!(stage.ask(1), "From the spare.");
        assert_eq!(stage.main.received().len(), asked, "{}: a replica that never failed doesn't ask it", place.name());
    }
}

#[test]
fn a_pause_a_refused_parameter_and_what_a_model_can_do_are_known_within_a_second() {
    for place in Place::all() {
        let script = |received: &Received| match received.json()["metadata"]["case"].as_str() {
            Some("pause") => error(429, "slow down").header("retry-after", "30"),
            Some("parameter") => error(400, "parallel_tool_calls is not supported by this model"),
            Some("tools") => ScriptedReply::json(
                500,
                json!({"error": {"code": 500, "message": "tools param requires --jinja flag", "type": "server_error"}}).to_string(),
            ),
            _ => says("From main."),
        };
        let stage = Stage::start(&place, script);
        let ask = |case: &str| {
            let mut request = with_tool("main-1");
            request["metadata"] = json!({"case": case});
            request["parallel_tool_calls"] = json!(false);
            post(&format!("{}/chat/completions", stage.replicas.proxies[0].base_url()), &request.to_string(), "Bearer k")
        };
        ask("parameter");
        stage.within_a_second(&place, "the parameter", 1, |known| known["models"]["main-1"]["refuses"] == json!(["parallel_tool_calls"]));
        ask("tools");
        stage.within_a_second(&place, "no tools", 1, |known| {
            known["models"]["main-1"]["calls"] == "no" && known["models"]["main-1"]["reason"] == "tools are refused"
        });
        // It has nothing else to say: the pause of one is that of all.
        let paused = post(
            &format!("{}/chat/completions", stage.replicas.proxies[0].base_url()),
            &json!({"model": "main-1", "metadata": {"case": "pause"}, "messages": [{"role": "user", "content": "Hello?"}]}).to_string(),
            "Bearer k",
        );
        assert_eq!(paused.status, 200, "{}", paused.body);
        stage.within_a_second(&place, "the pause", 1, |known| known["paused"] == true);
    }
}

#[test]
fn a_reset_of_loops_holds_at_all_replicas() {
    for place in Place::all() {
        let replicas = Replicas::start(&place, "[loops]\nconsecutive_failures = 1\non_limit = 'end'\n", "", always_calls());
        replicas.channel_is("ready");
        let ask = |at: usize, messages: &Value| {
            let tools = json!([{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}]);
            let url = format!("{}/chat/completions", replicas.proxies[at].base_url());
            post(&url, &json!({"model": "m", "messages": messages, "tools": tools}).to_string(), "Bearer k").json()["choices"][0]["message"]
                .clone()
        };
        let called = ask(0, &json!([{"role": "user", "content": "Work."}]));
        let result = json!({"role": "tool", "tool_call_id": called["tool_calls"][0]["id"], "content": "Error: no"});
        let failed = json!([{"role": "user", "content": "Work."}, called, result]);
        assert!(!ask(1, &failed)["tool_calls"].is_array(), "{}", place.name());
        let since = Instant::now();
        replicas.proxies[0].app().reset_loops(Some("look_up"), None);
        until("it is reset at the other one, too", || ask(1, &failed)["tool_calls"].is_array().then_some(()));
        assert!(since.elapsed() < 2 * SECOND, "{}: {:?}, of which some is the exchange's", place.name(), since.elapsed());
    }
}

#[test]
fn without_the_channel_each_finds_out_for_itself() {
    for place in Place::all() {
        let down = Arc::new(AtomicBool::new(true));
        let is_down = down.clone();
        let stage = Stage::start(&place, move |_| if is_down.load(Ordering::SeqCst) { error(500, "down") } else { says("From main.") });
        stage.replicas.line.cut();
        stage.replicas.counters_are("degraded");
        stage.replicas.channel_is("degraded");
        let opens = |at: usize| {
            until("the breaker opens", || {
                stage.ask(at);
                (stage.known(at)["breaker"] == "open").then_some(())
            });
        };
        opens(0);
        assert_eq!(stage.known(1)["breaker"], "closed", "{}: nobody told it", place.name());
        let asked = stage.main.received().len();
        opens(1);
        assert!(stage.main.received().len() >= asked + 5, "{}: it found out for itself", place.name());
        down.store(false, Ordering::SeqCst);
        until("each comes back by its own trials", || (stage.ask(0) == "From main." && stage.ask(1) == "From main.").then_some(()));
        stage.replicas.line.mend();
        stage.replicas.counters_are("ready");
        stage.replicas.channel_is("ready");
    }
}

#[test]
fn what_strangers_send_on_the_channel_is_refused() {
    for place in Place::all() {
        let stage = Stage::start(&place, |_| says("From main."));
        let channel = stage.replicas.channel();
        let refused = |at: usize| stage.replicas.metric(at, "toolmark_news_refused_total");
        let opened = json!({"what": "breaker_opened", "upstream": "main", "pause_ms": 60_000, "failure": "unreachable"}).to_string();
        let sealed = [&[7; 16][..], &[0; 32], opened.as_bytes()].concat();
        let messages: Vec<Vec<u8>> = vec![opened.into_bytes(), sealed, vec![0; 5_000], vec![0xff; 3], Vec::new()];
        let count = AtomicUsize::new(0);
        for message in &messages {
            match &place {
                Place::Valkey(own) => {
                    let heard: usize = redis::cmd("PUBLISH").arg(&channel).arg(&message[..]).query(&mut own.client()).unwrap();
                    assert_eq!(heard, 2, "both listen");
                }
                Place::Postgres(own) => {
                    use base64::Engine as _;
                    let text = base64::engine::general_purpose::STANDARD.encode(message);
                    own.client().execute("SELECT pg_notify($1, $2)", &[&channel, &text]).unwrap();
                }
                Place::OwnPostgres(_) => unreachable!("not asked for"),
            }
            let sent = count.fetch_add(1, Ordering::SeqCst) + 1;
            until("both refuse it", || (refused(0) >= sent as f64 && refused(1) >= sent as f64).then_some(()));
        }
        assert_eq!((refused(0), refused(1)), (5.0, 5.0), "{}", place.name());
        assert_eq!((stage.known(1)["breaker"].as_str(), stage.ask(1).as_str()), (Some("closed"), "From main."), "{}", place.name());
    }
}
