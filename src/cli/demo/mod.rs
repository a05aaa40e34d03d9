//! `toolmark demo`: plays failures of a model over real sockets and shows that toolmark catches them.
//!
//! ```text
//!  client ─▶ proxy ─▶ scripted upstream
//!  every scene whole and streamed ─▶ checks on what the client got and the upstream received ─▶ table
//! ```
//! The scenes are in `scenes`; nothing here judges: the proxy is the one that `serve` runs.

mod client;
mod messages;
mod scenes;
mod script;
mod table;
mod todo;

use std::{
    io::{IsTerminal as _, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use self::{
    client::DemoClient,
    scenes::{AnswerForm, DemoScene, Expectations, SCENES, SceneRun},
};
use super::Error;
use crate::{
    daemon::signals::{Asked, Signals},
    settings::Flags,
    testing::{Proxy, ScriptedUpstream},
};

/// Runs the command.
///
/// # Errors
/// The system provides no port, thread or directory.
pub fn run(demo: &super::DemoArgs, flags: Flags) -> Result<ExitCode, Error> {
    if flags.config.is_some() {
        return Err(Error::Failed("the demo has settings of its own: leave --config out".into()));
    }
    let stage = DemoSetup::build("default").map_err(|error| Error::Failed(format!("the demo can't start: {error}")))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::Failed(format!("the demo can't start: {error}")))?;
    let client = DemoClient::new(&stage.proxy.base_url()).map_err(|error| Error::Failed(error.to_string()))?;
    let colours = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let style = table::Style { colours };
    say(&style.head(&stage.proxy.base_url()));
    let mut results = Vec::new();
    for (number, scene) in SCENES.iter().enumerate() {
        for mode in [AnswerForm::Whole, AnswerForm::Streamed] {
            let result = runtime.block_on(stage.play(&client, scene, mode));
            say(&style.row(number + 1, scene, &result));
            results.push((scene.name, result));
        }
    }
    let todo = todo::TodoSetup::build().map_err(|error| Error::Failed(format!("the demo can't start: {error}")))?;
    let todo_client = DemoClient::new(&todo.proxy.base_url()).map_err(|error| Error::Failed(error.to_string()))?;
    for (number, scene) in todo.scenes().iter().enumerate() {
        for mode in [AnswerForm::Whole, AnswerForm::Streamed] {
            let result = runtime.block_on(todo.play(&todo_client, scene, mode));
            say(&style.row(SCENES.len() + number + 1, scene, &result));
            results.push((scene.name, result));
        }
    }
    say(&style.foot(&results));
    if demo.keep {
        say(&keep_text(&stage.proxy.base_url()));
        runtime.block_on(asked_to_stop()).map_err(|error| Error::Failed(error.to_string()))?;
    }
    let caught = results.iter().all(|(_, result)| result.failed.is_empty());
    Ok(if caught { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Result of one scene in one mode.
pub struct SceneOutcome {
    /// Form of the answer: whole or streamed.
    pub mode: AnswerForm,
    /// toolmark's verdict and codes, in words.
    pub toolmark: String,
    /// Text, calls and errors that the application got.
    pub saw: Vec<String>,
    /// The checks that failed.
    pub failed: Vec<String>,
}

/// Upstream and proxy; both stop when this is dropped.
struct DemoSetup {
    proxy: Proxy,
    upstream: ScriptedUpstream,
}

impl DemoSetup {
    fn build(policy: &str) -> Result<Self, crate::testing::StartError> {
        let directory = Directory::make()?;
        let upstream = ScriptedUpstream::start(scenes::answer)?;
        let proxy = Proxy::in_front_of(&upstream.base_url(), policy, &directory.0)?;
        // The settings were read; nothing is kept there.
        drop(directory);
        Ok(Self { proxy, upstream })
    }

    async fn play(&self, client: &DemoClient, scene: &DemoScene, mode: AnswerForm) -> SceneOutcome {
        let before = self.upstream.received().len();
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
        let upstream = self.upstream.received().iter().skip(before).map(|received| scenes::received_of(scene, received)).collect();
        let played = SceneRun { mode, seen, upstream };
        let mut check = Expectations::default();
        check.sound(&played);
        (scene.check)(&played, &mut check);
        SceneOutcome { mode, toolmark: played.last().toolmark(), saw: played.last().saw(), failed: check.failed }
    }
}

/// A temporary directory, removed when this is dropped.
struct Directory(PathBuf);

impl Directory {
    fn make() -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("toolmark-demo-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // If it can't be removed, the system cleans it up.
        let _left = std::fs::remove_dir_all(&self.0);
    }
}

fn say(text: &str) {
    let mut out = std::io::stdout();
    // Through `write_all`, not `println!`: a closed pipe is no panic.
    let _closed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn keep_text(base_url: &str) -> String {
    let mut text = format!("\nStill serving at {base_url} (Ctrl-C ends it). The model's name picks the scene:\n");
    let scenes = [("invented-tool", AnswerForm::Whole), ("forged-in-mid-stream", AnswerForm::Streamed), ("never-mends", AnswerForm::Whole)];
    for (name, form) in scenes {
        let body = SCENES.iter().find(|scene| scene.name == name).map(|scene| scenes::request(scene, form, &scenes::opening(scene)));
        let body = body.unwrap_or_default().to_string().replace('\'', r"'\''");
        text.push_str(&format!("\ncurl -sN {base_url}/chat/completions -H 'content-type: application/json' -d '{body}'\n"));
    }
    text
}

async fn asked_to_stop() -> std::io::Result<()> {
    let mut signals = Signals::hear()?;
    while signals.next().await == Asked::Reload {}
    Ok(())
}

#[cfg(test)]
mod tests;
