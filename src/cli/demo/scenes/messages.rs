//! Scenes on Anthropic's Messages API: the same as others, so the same is caught.

use super::{DemoApi, DemoScene, calls, claims};

/// The scenes.
pub fn scenes() -> Vec<DemoScene> {
    let others: Vec<DemoScene> = calls::scenes().into_iter().chain(claims::scenes()).collect();
    let scene = |of: &str, name, model_does| {
        let other = others.iter().find(|other| other.name == of);
        other.map(|other| DemoScene { name, model_does, api: DemoApi::Messages, ..*other })
    };
    let own = [
        scene("invented-tool", "messages-invented-tool", "on Anthropic's API: calls a tool that doesn't exist"),
        scene("real-result", "messages-real-result", "on Anthropic's API: calls, gets the result, cites it"),
        scene("forged-in-mid-stream", "messages-forged", "on Anthropic's API: forges a citation after it has said much"),
    ];
    own.into_iter().flatten().collect()
}
