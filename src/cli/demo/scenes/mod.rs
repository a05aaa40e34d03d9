//! The scenes: the scripted model's turns, the application's requests, and the checks of each.
//!
//! The model answers by the content of a request, not by count, so that `--keep` plays the same for anyone.

mod calls;
mod claims;
mod messages;

use serde_json::{Value, json};

use super::{
    client::{ClientView, DemoClient},
    messages as wire,
    script::DemoTurn,
};
use crate::{
    marks::CallMark,
    testing::{Received, ScriptedReply},
};

/// Form of the answer that is requested.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AnswerForm {
    /// `stream: false`
    Whole,
    /// `stream: true`
    Streamed,
}

impl AnswerForm {
    /// The mode in one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Streamed => "streamed",
        }
    }
}

/// API that a scene is played on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DemoApi {
    /// `POST /v1/chat/completions`
    Chat,
    /// `POST /v1/messages`, Anthropic's.
    Messages,
}

/// The application's requests in a scene.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SceneRequests {
    /// One request.
    One,
    /// A second request with the results of the calls.
    Two,
    /// As `Two`, but the history names another city in the model's call.
    TwoAltered,
}

/// One scene.
pub struct DemoScene {
    /// The scene's name, which is also its model's name.
    pub name: &'static str,
    /// The API.
    pub api: DemoApi,
    /// Description of the model's behaviour.
    pub model_does: &'static str,
    /// The user's message.
    pub ask: &'static str,
    /// The application's requests.
    pub rounds: SceneRequests,
    /// The scripted model's turn for a request.
    pub script: fn(&ModelRequest) -> DemoTurn,
    /// Checks of the result.
    pub check: fn(&SceneRun, &mut Expectations),
}

/// The result of playing a scene.
pub struct SceneRun {
    /// Form of the answer: whole or streamed.
    pub mode: AnswerForm,
    /// The application's view of each response, in order.
    pub seen: Vec<ClientView>,
    /// The requests that the upstream got, with messages in the form of chat completions.
    pub upstream: Vec<Value>,
}

impl SceneRun {
    /// The application's view of the last response.
    pub fn last(&self) -> &ClientView {
        // INVARIANT: `play` returns at least one answer.
        static NOTHING: std::sync::LazyLock<ClientView> = std::sync::LazyLock::new(ClientView::default);
        self.seen.last().unwrap_or(&NOTHING)
    }

    /// Contents of the messages with this role in the upstream's request number `at`.
    pub fn sent(&self, at: usize, role: &str) -> Vec<&str> {
        let messages = self.upstream.get(at).and_then(|request| request["messages"].as_array());
        messages.into_iter().flatten().filter(|message| message["role"] == role).filter_map(|message| message["content"].as_str()).collect()
    }

    /// True if this text reached the application in any response.
    pub fn leaked(&self, text: &str) -> bool {
        self.seen.iter().any(|seen| seen.raw.contains(text))
    }

    /// True if the last response has this verdict and these codes.
    pub fn is(&self, verdict: &str, codes: &[&str]) -> bool {
        self.last().verdict == verdict && self.last().codes == codes
    }
}

/// Collects failed checks.
#[derive(Debug, Default)]
pub struct Expectations {
    /// The checks that failed, in words.
    pub failed: Vec<String>,
}

impl Expectations {
    /// Adds `what` to the failed checks unless `holds`.
    pub fn that(&mut self, what: &str, holds: bool) {
        if !holds {
            self.failed.push(what.to_owned());
        }
    }

    /// Checks that apply to every scene.
    pub fn sound(&mut self, played: &SceneRun) {
        let mut marks = Vec::new();
        for seen in &played.seen {
            self.that("the answer ends properly, or with an error", seen.ended || seen.error.is_some());
            self.that("what is said to the model stays between toolmark and the model", !seen.raw.contains("Tool call rejected"));
            for call in &seen.calls {
                self.that("every call that arrives names a tool", TOOLS.contains(&&*call.name));
                let object = serde_json::from_str::<Value>(&call.arguments).is_ok_and(|arguments| arguments.is_object());
                self.that("every call that arrives has an object as arguments", object);
                self.that("every call that arrives carries a mark of toolmark's", CallMark::parse(&call.id).is_some());
                marks.push(call.id.clone());
            }
        }
        let count = marks.len();
        marks.sort();
        marks.dedup();
        self.that("no two calls have one id", marks.len() == count);
        let tools = |request: &Value| request["tools"].as_array().map_or(0, Vec::len);
        self.that("the upstream got the tools each time", played.upstream.iter().all(|request| tools(request) == TOOLS.len()));
        let told = (0..played.upstream.len()).any(|at| !played.sent(at, "system").is_empty());
        self.that("nothing was said to the model that nobody asked for", !told);
    }
}

/// The messages of a request to the scripted model.
pub struct ModelRequest {
    messages: Vec<Value>,
}

impl ModelRequest {
    fn content(&self, at: usize) -> &str {
        self.messages.get(at).and_then(|message| message["content"].as_str()).unwrap_or_default()
    }

    /// Number of repairs in the conversation.
    pub fn repairs(&self) -> usize {
        let again = |at: &usize| {
            ["Tool call rejected: ", "Tool call not run: ", "Your last answer was not delivered"]
                .iter()
                .any(|start| self.content(at + 1).starts_with(start))
        };
        (0..self.messages.len())
            .filter(|at| self.messages.get(*at).is_some_and(|message| message["role"] == "assistant"))
            .filter(again)
            .count()
    }

    /// True if the conversation has a tool's result.
    pub fn has_result(&self) -> bool {
        self.messages
            .iter()
            .any(|message| message["role"] == "tool" && !message["content"].as_str().is_some_and(|text| text.starts_with("Tool call ")))
    }

    /// True if a tool's result contains this text.
    pub fn was_told(&self, text: &str) -> bool {
        let says = |message: &&Value| message["content"].as_str().is_some_and(|content| content.contains(text));
        self.messages.iter().filter(|message| message["role"] == "tool").any(|message| says(&message))
    }

    /// The execution ID in the first stamped result.
    pub fn stamp(&self) -> Option<String> {
        self.messages.iter().filter(|message| message["role"] == "tool").find_map(|message| stamp_of(message["content"].as_str()?))
    }
}

/// The execution ID in a stamped result.
pub fn stamp_of(result: &str) -> Option<String> {
    serde_json::from_str::<Value>(result).ok()?["execution_id"].as_str().map(str::to_owned)
}

/// All scenes, in their order.
pub static SCENES: std::sync::LazyLock<Vec<DemoScene>> =
    std::sync::LazyLock::new(|| calls::scenes().into_iter().chain(claims::scenes()).chain(messages::scenes()).collect());

/// Reply of the scripted upstream.
pub fn answer(received: &Received) -> ScriptedReply {
    answer_of(&SCENES, received)
}

/// Reply of a scripted upstream that plays these scenes.
pub fn answer_of(scenes: &[DemoScene], received: &Received) -> ScriptedReply {
    let request = received.json();
    let Some(scene) = scenes.iter().find(|scene| request["model"] == scene.name) else {
        let names = scenes.iter().map(|scene| scene.name).collect::<Vec<_>>().join(", ");
        let message = format!("the scripted upstream has no such model; its models are: {names}");
        return ScriptedReply::json(
            404,
            json!({"error": {"message": message, "type": "invalid_request_error", "param": "model", "code": "model_not_found"}})
                .to_string(),
        );
    };
    let asked = received_of(scene, received);
    let turn = (scene.script)(&ModelRequest { messages: asked["messages"].as_array().cloned().unwrap_or_default() });
    match (scene.api, request["stream"] == true) {
        (DemoApi::Chat, true) => turn.events(scene.name),
        (DemoApi::Chat, false) => turn.whole(scene.name),
        (DemoApi::Messages, true) => turn.message_events(scene.name),
        (DemoApi::Messages, false) => turn.message(scene.name),
    }
}

/// A request that the upstream got, with messages in the form of chat completions.
pub fn received_of(scene: &DemoScene, received: &Received) -> Value {
    let mut request = received.json();
    if scene.api == DemoApi::Messages {
        request["messages"] = wire::chat_messages(&request).into();
    }
    request
}

/// The first messages of a scene's conversation.
pub fn opening(scene: &DemoScene) -> Vec<Value> {
    vec![json!({"role": "user", "content": scene.ask})]
}

/// A request of the application, with the tools of the demo.
pub fn request(scene: &DemoScene, form: AnswerForm, messages: &[Value]) -> Value {
    let weather = json!({
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 7}},
        "required": ["city"], "additionalProperties": false,
    });
    let nothing = json!({"type": "object", "properties": {}});
    let tool = |name: &str, parameters: Value| json!({"type": "function", "function": {"name": name, "parameters": parameters}});
    json!({"model": scene.name, "stream": form == AnswerForm::Streamed, "messages": messages, "tools": [tool("get_weather", weather), tool("run_speed_test", nothing)]})
}

/// Plays a scene through the proxy.
///
/// # Errors
/// The connection fails.
pub async fn play(client: &DemoClient, scene: &DemoScene, mode: AnswerForm) -> Result<Vec<ClientView>, reqwest::Error> {
    let mut messages = opening(scene);
    let first = client.ask(scene.api, &request(scene, mode, &messages)).await?;
    if scene.rounds == SceneRequests::One || first.calls.is_empty() {
        return Ok(vec![first]);
    }
    let altered = |arguments: &str| {
        if scene.rounds == SceneRequests::TwoAltered { arguments.replace("Oslo", "Bergen") } else { arguments.to_owned() }
    };
    let calls: Vec<Value> = first
        .calls
        .iter()
        .map(|call| json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": altered(&call.arguments)}}))
        .collect();
    messages.push(json!({"role": "assistant", "content": null, "tool_calls": calls}));
    let result =
        |name: &str| if name == "get_weather" { r#"{"temperature_c": 7, "sky": "rain"}"# } else { r#"{"download": 92, "upload": 31}"# };
    messages.extend(first.calls.iter().map(|call| json!({"role": "tool", "tool_call_id": call.id, "content": result(&call.name)})));
    let second = client.ask(scene.api, &request(scene, mode, &messages)).await?;
    Ok(vec![first, second])
}

const TOOLS: [&str; 2] = ["get_weather", "run_speed_test"];
