//! State rules that ask over HTTP: whom, how, and what never happens.

use toolmark::testing::{BodyPart, Proxy, Received, ScriptedReply, ScriptedUpstream};

use super::stage::{Seen, read, turn, user, wire};
use crate::harness::post;

const CLAIM: &str = "I added \"it's a/b?\".";
const TRUE: &str = r#"{"task":{"title":"it's a/b?"}}"#;

fn policy(url: &str, more: &str) -> String {
    format!(
        "[[state]]\nname = \"said\"\nwhen = {{ phrase = '(?i)added \"(?<title>[^\"]+)\"' }}\nprobe = {{ http = \"GET {url}\" }}\n\
         expect = \"$.task[?@ == '{{{{title}}}}']\"\n{more}"
    )
}

struct World {
    server: ScriptedUpstream,
}

impl World {
    fn answers(reply: impl Fn(&Received) -> ScriptedReply + Send + Sync + 'static) -> Self {
        Self { server: ScriptedUpstream::start(reply).unwrap() }
    }

    /// `127.0.0.1:port`
    fn host(&self) -> String {
        self.server.base_url().trim_start_matches("http://").trim_end_matches("/v1").to_owned()
    }

    /// What becomes of the claim.
    fn judges(&self, more: &str, stream: bool) -> Seen {
        self.judged_at(&self.host(), more, stream)
    }

    /// The same where it is asked by this name and port.
    fn judged_at(&self, host: &str, more: &str, stream: bool) -> Seen {
        let url = format!("http://{host}/tasks/{{{{title}}}}?by=title");
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("policy.toml"), policy(&url, more)).unwrap();
        let model = ScriptedUpstream::start(|received| wire(turn(CLAIM, &[]), received.json()["stream"] == true)).unwrap();
        let upstream = format!("[[upstreams]]\nname = \"a\"\nbase_url = \"{}\"\n", model.base_url());
        let settings = format!("policy = \"policy.toml\"\nprobe_hosts = [\"{host}\"]\n{upstream}");
        let proxy = Proxy::start(&settings, &[], directory.path()).unwrap();
        let request = serde_json::json!({"model": "m", "messages": [user("Add it")], "stream": stream});
        read(&post(&format!("{}/chat/completions", proxy.base_url()), &request.to_string(), "Bearer secret"), stream)
    }
}

#[test]
fn the_world_is_asked_by_one_get_with_the_values_in_their_places() {
    for stream in [false, true] {
        let world = World::answers(|_| ScriptedReply::json(200, TRUE));
        let seen = world.judges("", stream);
        assert_eq!((seen.verdict.as_str(), seen.text.as_str()), ("pass", CLAIM), "{seen:?}");
        let received = world.server.received();
        assert_eq!(received.len(), 1);
        assert_eq!(received[0].line, "GET /tasks/it%27s%20a%2Fb%3F?by=title", "{received:?}");
        assert!(received[0].headers.get("authorization").is_none(), "nobody's credential goes there");
    }
}

#[test]
fn a_name_is_looked_at_before_it_is_connected_to() {
    // The one name that may lead to this machine, and only where it is named itself.
    let world = World::answers(|_| ScriptedReply::json(200, TRUE));
    let named = world.host().replace("127.0.0.1", "localhost");
    let seen = world.judged_at(&named, "", false);
    assert_eq!((seen.verdict.as_str(), world.server.received().len()), ("pass", 1), "{seen:?}");
}

#[test]
fn where_the_world_disagrees_or_has_no_such_thing_it_is_a_mismatch() {
    for (status, body) in [(200, r#"{"task":{"title":"tea"}}"#), (200, "{}"), (200, "no JSON"), (404, TRUE), (410, "")] {
        let seen = World::answers(move |_| ScriptedReply::json(status, body)).judges("", false);
        assert!(seen.verdict == "blocked" && seen.codes.contains("state_mismatch"), "{status} {body}: {seen:?}");
    }
}

#[test]
fn what_gives_no_answer_is_unknown_and_nothing_is_followed() {
    let elsewhere = World::answers(|_| ScriptedReply::json(200, TRUE));
    let target = format!("http://{}/stolen", elsewhere.host());
    let redirect = move |status| {
        let target = target.clone();
        World::answers(move |_| ScriptedReply::json(status, TRUE).header("location", target.clone()))
    };
    let worlds = [
        redirect(302),
        redirect(307),
        World::answers(|_| ScriptedReply::json(500, TRUE)),
        World::answers(|_| ScriptedReply::json(401, TRUE)),
        World::answers(|_| ScriptedReply::json(200, "x".repeat(2 << 20))),
        World::answers(|_| ScriptedReply::json(200, "{").then(BodyPart::Cut)),
        World::answers(|_| ScriptedReply::json(200, "{").then(BodyPart::Hang)),
    ];
    for (number, world) in worlds.iter().enumerate() {
        let seen = world.judges("deadline = \"2s\"\n", false);
        assert!(seen.verdict == "warn" && seen.codes.contains("state_unknown"), "{number}: {seen:?}");
        assert_eq!(world.server.received().len(), 1, "{number}: asked once");
    }
    assert!(elsewhere.server.received().is_empty());
}

#[test]
fn only_hosts_that_the_settings_name_are_asked() {
    let world = World::answers(|_| ScriptedReply::json(200, TRUE));
    let start = |url: &str, hosts: &str| {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("policy.toml"), policy(url, "")).unwrap();
        let upstream = "[[upstreams]]\nname = \"a\"\nbase_url = \"http://127.0.0.1:9/v1\"\n";
        let settings = format!("policy = \"policy.toml\"\nprobe_hosts = {hosts}\n{upstream}");
        Proxy::start(&settings, &[], directory.path()).map(drop).map_err(|error| error.to_string())
    };
    let url = format!("http://{}/x", world.host());
    let error = start(&url, "[]").unwrap_err();
    assert!(error.contains(&format!("probe_hosts = [\"{}\"]", world.host())), "{error}");
    assert!(start(&url, "[\"127.0.0.1\"]").is_err(), "another port is another host");
    assert!(start(&url, &format!("[\"{}\"]", world.host())).is_ok());
    assert!(start("https://tasks.example.com/x", "[\"example.com\"]").is_err());
    for wrong in ["[\"http://a\"]", "[\"a/b\"]", "[\"u@a\"]", "[\"\"]"] {
        assert!(start(&url, wrong).unwrap_err().contains("is no host"), "{wrong}");
    }
    for wrong in ["http://{{title}}/x", "ftp://a/x"] {
        assert!(start(wrong, "[\"a\"]").unwrap_err().contains("probe.http"), "{wrong}");
    }
    assert!(world.server.received().is_empty());
}
