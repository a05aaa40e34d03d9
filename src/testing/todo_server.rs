//! An MCP server with a to-do list over streamable HTTP: add, list, complete, update and delete.
//!
//! Records the calls that really ran, and misbehaves on demand. Modelled on the scenario that toolmark was written for.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::{Value, json};

use super::upstream::{BodyPart, Received, ScriptedReply, ScriptedUpstream};

/// Behaviour of the server.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Misbehaviour {
    /// Answers normally.
    #[default]
    Fine,
    /// Runs the call, and cuts the connection before the answer is complete.
    DiesInMidCall,
    /// Reports that a task was added without adding it.
    Lies,
    /// Runs the call, but never answers it.
    Hangs,
    /// Answers every request with status 503.
    Down,
    /// Answers every call with a JSON-RPC error.
    Refuses,
}

#[derive(Debug, Default)]
struct State {
    mood: Misbehaviour,
    tasks: Vec<Value>,
    /// Names of the tools that ran, in order.
    ran: Vec<String>,
    /// Number of calls until the server is `Fine` again; `None`: unlimited.
    left: Option<usize>,
    /// Added to the description of `add_task`.
    description: String,
}

/// A running to-do server; it stops when it is dropped.
pub struct TodoServer {
    state: Arc<Mutex<State>>,
    server: ScriptedUpstream,
}

impl TodoServer {
    /// Starts a server on a free loopback port.
    ///
    /// # Errors
    /// An error of the operating system, if there is no port or thread.
    pub fn start() -> io::Result<Self> {
        let state = Arc::new(Mutex::new(State::default()));
        let own = state.clone();
        let server = ScriptedUpstream::start(move |received| answer(&mut own.lock().unwrap_or_else(PoisonError::into_inner), received))?;
        Ok(Self { state, server })
    }

    /// Its `url` for the settings.
    pub fn url(&self) -> String {
        self.server.base_url().replace("/v1", "/mcp")
    }

    /// Changes the behaviour from now on.
    pub fn becomes(&self, mood: Misbehaviour) {
        self.change(|state| (state.mood, state.left) = (mood, None));
    }

    /// Changes the behaviour for this many calls; then it is `Fine` again.
    pub fn becomes_for(&self, mood: Misbehaviour, calls: usize) {
        self.change(|state| (state.mood, state.left) = (mood, Some(calls)));
    }

    /// Appends to the description of `add_task` from now on.
    pub fn describes(&self, addition: &str) {
        self.change(|state| state.description = addition.to_owned());
    }

    /// Names of the tools that ran, in order.
    pub fn ran(&self) -> Vec<String> {
        self.change(|state| state.ran.clone())
    }

    /// The titles of its tasks.
    pub fn titles(&self) -> Vec<String> {
        self.change(|state| state.tasks.iter().filter_map(|task| task["title"].as_str().map(str::to_owned)).collect())
    }

    /// Requests that it received.
    pub fn received(&self) -> Vec<Received> {
        self.server.received()
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn answer(state: &mut State, received: &Received) -> ScriptedReply {
    let request = received.json();
    if state.mood == Misbehaviour::Down {
        return ScriptedReply::json(503, "{}");
    }
    if !received.line.starts_with("POST") {
        return ScriptedReply::json(405, "{}");
    }
    let Some(id) = request.get("id").filter(|id| !id.is_null()) else { return ScriptedReply::json(202, "") };
    let result = match request["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": request["params"]["protocolVersion"], "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": "todo", "version": "1"},
        }),
        "ping" => json!({}),
        "tools/list" => json!({ "tools": tools(&state.description) }),
        "tools/call" => return call(state, id, &request["params"]),
        method => return error(id, -32601, &format!("no method {method}")),
    };
    ScriptedReply::json(200, json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
}

fn error(id: &Value, code: i64, message: &str) -> ScriptedReply {
    ScriptedReply::json(200, json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}).to_string())
}

fn call(state: &mut State, id: &Value, params: &Value) -> ScriptedReply {
    let mood = state.mood;
    if let Some(left) = &mut state.left {
        *left = left.saturating_sub(1);
        if *left == 0 {
            (state.mood, state.left) = (Misbehaviour::Fine, None);
        }
    }
    let (name, arguments) = (params["name"].as_str().unwrap_or_default(), &params["arguments"]);
    if mood == Misbehaviour::Refuses {
        return error(id, -32603, "the database is locked");
    }
    let known = ["add_task", "list_tasks", "complete_task", "update_task", "delete_task"].contains(&name);
    if !known {
        return error(id, -32602, &format!("unknown tool {name}"));
    }
    state.ran.push(name.to_owned());
    let done = if mood == Misbehaviour::Lies && name == "add_task" {
        Ok(json!({"id": 0, "title": arguments["title"], "done": false}))
    } else {
        run(state, name, arguments)
    };
    let (value, failed) = match done {
        Ok(value) => (value.to_string(), false),
        Err(why) => (why, true),
    };
    let result = json!({"content": [{"type": "text", "text": value}], "isError": failed});
    let body = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
    match mood {
        Misbehaviour::DiesInMidCall => ScriptedReply::json(200, body.get(..10).unwrap_or_default()).then(BodyPart::Cut),
        Misbehaviour::Hangs => ScriptedReply::json(200, "").then(BodyPart::Hang),
        Misbehaviour::Fine | Misbehaviour::Lies | Misbehaviour::Down | Misbehaviour::Refuses => ScriptedReply::json(200, body),
    }
}

fn run(state: &mut State, name: &str, arguments: &Value) -> Result<Value, String> {
    if name == "list_tasks" {
        return Ok(json!({ "tasks": state.tasks }));
    }
    if name == "add_task" {
        let task = json!({"id": state.tasks.len() + 1, "title": arguments["title"], "done": false});
        state.tasks.push(task.clone());
        return Ok(task);
    }
    let at = state.tasks.iter().position(|task| task["id"] == arguments["id"]);
    let at = at.ok_or_else(|| format!("no task has the id {}", arguments["id"]))?;
    match name {
        "delete_task" => Ok(json!({"deleted": state.tasks.remove(at)["id"]})),
        "complete_task" => changed(state, at, "done", json!(true)),
        _ => changed(state, at, "title", arguments["title"].clone()),
    }
}

fn changed(state: &mut State, at: usize, member: &str, value: Value) -> Result<Value, String> {
    let task = state.tasks.get_mut(at).ok_or("it is gone")?;
    task[member] = value;
    Ok(task.clone())
}

fn tools(addition: &str) -> Value {
    let tool = |name: &str, description: &str, properties: Value, annotations: Value| {
        let required: Vec<&String> = properties.as_object().into_iter().flat_map(|map| map.keys()).collect();
        let schema = json!({
            "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "required": required, "properties": properties,
            "additionalProperties": false,
        });
        json!({"name": name, "description": description, "inputSchema": schema, "annotations": annotations})
    };
    let (id, title) = (json!({"type": "integer"}), json!({"type": "string"}));
    json!([
        tool("add_task", &format!("Add a task to the list.{addition}"), json!({ "title": title }), json!({})),
        tool("list_tasks", "List all tasks.", json!({}), json!({"readOnlyHint": true})),
        tool("complete_task", "Mark a task as done.", json!({ "id": id }), json!({"idempotentHint": true})),
        tool("update_task", "Change a task's title.", json!({"id": id, "title": title}), json!({"idempotentHint": true})),
        tool("delete_task", "Delete a task.", json!({ "id": id }), json!({"destructiveHint": true})),
    ])
}
