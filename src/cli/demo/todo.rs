//! Scenes with a to-do list behind toolmark, as an MCP server: a real call, a server that dies during a call, and a claim
//! that the list contradicts.

use super::{
    Directory, SceneOutcome,
    client::DemoClient,
    scenes::{self, AnswerForm, DemoApi, DemoScene, Expectations, ModelRequest, SceneRequests, SceneRun},
    script::DemoTurn,
};
use crate::testing::{Misbehaviour, Proxy, ScriptedUpstream, StartError, TodoServer};

/// Upstream, to-do list and proxy; all stop when this is dropped.
pub struct TodoSetup {
    /// The proxy.
    pub proxy: Proxy,
    /// The scripted model.
    pub upstream: ScriptedUpstream,
    todo: TodoServer,
    scenes: Vec<DemoScene>,
}

const POLICY: &str = "[[state]]\nname = \"added\"\nwhen = { tool = \"add_task\" }\nprobe = { mcp = \"todo\", tool = \"list_tasks\" }\n\
                      expect = \"$.tasks[?@.title == '{{title}}']\"\nmessage = \"the list has no such task\"\n";

impl TodoSetup {
    /// Starts the upstream, the to-do list and the proxy.
    ///
    /// # Errors
    /// The system provides no port, thread or directory.
    pub fn build() -> Result<Self, StartError> {
        let directory = Directory::make()?;
        let todo = TodoServer::start()?;
        let upstream = ScriptedUpstream::start(|received| scenes::answer_of(&scenes(), received))?;
        std::fs::write(directory.0.join("policy.toml"), POLICY)?;
        let settings = format!(
            "policy = \"policy.toml\"\n[[upstreams]]\nname = \"scripted\"\nbase_url = \"{}\"\n\
             [[mcp]]\nname = \"todo\"\nurl = \"{}\"\nexecute = \"proxy\"\nrequired = true\nexpect = [\"add_task\", \"list_tasks\"]\n",
            upstream.base_url(),
            todo.url()
        );
        let proxy = Proxy::start(&settings, &[], &directory.0)?;
        // The settings were read; nothing is kept there.
        drop(directory);
        Ok(Self { proxy, upstream, todo, scenes: scenes() })
    }

    /// The scenes of the to-do list.
    pub fn scenes(&self) -> &[DemoScene] {
        &self.scenes
    }

    /// Plays one scene.
    pub async fn play(&self, client: &DemoClient, scene: &DemoScene, mode: AnswerForm) -> SceneOutcome {
        match scene.name {
            "todo-server-dies" => self.todo.becomes_for(Misbehaviour::DiesInMidCall, 1),
            "todo-contradicted" => self.todo.becomes_for(Misbehaviour::Lies, 1),
            _ => self.todo.becomes(Misbehaviour::Fine),
        }
        let (asked, ran) = (self.upstream.received().len(), self.todo.ran().len());
        let seen = match scenes::play(client, scene, mode).await {
            Ok(seen) => seen,
            Err(error) => {
                return SceneOutcome {
                    mode,
                    toolmark: "–".into(),
                    saw: vec!["–".into()],
                    failed: vec![format!("the exchange ended: {error}")],
                };
            }
        };
        let upstream = self.upstream.received().iter().skip(asked).map(|received| scenes::received_of(scene, received)).collect();
        let played = SceneRun { mode, seen, upstream };
        let mut check = Expectations::default();
        let ran: Vec<String> = self.todo.ran().into_iter().skip(ran).collect();
        check.that("the task was added once, and no more", ran.iter().filter(|tool| *tool == "add_task").count() == 1);
        check.that("the application saw no call", played.seen.iter().all(|seen| seen.calls.is_empty()));
        let five = |request: &serde_json::Value| request["tools"].as_array().is_some_and(|tools| tools.len() == 7);
        check.that("the model got the server's five tools each time", played.upstream.iter().all(five));
        (scene.check)(&played, &mut check);
        SceneOutcome { mode, toolmark: played.last().toolmark(), saw: played.last().saw(), failed: check.failed }
    }
}

fn scenes() -> Vec<DemoScene> {
    let scene = |name, model_does, script: fn(&ModelRequest) -> DemoTurn, check: fn(&SceneRun, &mut Expectations)| DemoScene {
        name,
        api: DemoApi::Chat,
        model_does,
        ask: "Put it on my list.",
        rounds: SceneRequests::One,
        script,
        check,
    };
    vec![
        scene("todo-real-run", "calls a tool that toolmark runs, and cites it", added, real_run),
        scene("todo-server-dies", "calls a tool whose server dies in the middle", unsure, unknown_effect),
        scene("todo-contradicted", "says that a task was added that the list lacks", contradicted, mismatch),
    ]
}

fn add(title: &str) -> DemoTurn {
    DemoTurn::call("todo__add_task", &format!(r#"{{"title":"{title}"}}"#))
}

fn added(asked: &ModelRequest) -> DemoTurn {
    match asked.stamp() {
        Some(id) => DemoTurn::say(&["I added it ", "to your list (execution_id: ", &id, ")."]),
        None => add("Buy milk"),
    }
}

fn unsure(asked: &ModelRequest) -> DemoTurn {
    match (asked.has_result(), asked.was_told("UNKNOWN")) {
        (false, _) => add("Buy milk"),
        (true, true) => DemoTurn::say(&[UNSURE]),
        (true, false) => DemoTurn::say(&["Done!"]),
    }
}

fn contradicted(asked: &ModelRequest) -> DemoTurn {
    if asked.has_result() { added(asked) } else { add("Call mum") }
}

fn real_run(played: &SceneRun, check: &mut Expectations) {
    check.that("the verdict is pass, with nothing to object to", played.is("pass", &[]));
    check.that("the text arrived without the citation", played.last().text == "I added it to your list.");
    check.that("the model was asked on with the result", played.upstream.len() == 2);
}

fn unknown_effect(played: &SceneRun, check: &mut Expectations) {
    check.that("the model was told that the effect is unknown", played.sent(1, "tool").iter().any(|text| text.contains("UNKNOWN")));
    check.that("and could say so", played.last().text == UNSURE);
}

fn mismatch(played: &SceneRun, check: &mut Expectations) {
    check.that("the verdict is blocked, with its code", played.is("blocked", &["state_mismatch"]));
    check.that("what was said never arrived", !played.leaked("I added it"));
    check.that("the application is told why", played.last().text.contains("the list has no such task"));
}

const UNSURE: &str = "The server broke off, so I can't tell whether it is on your list.";
