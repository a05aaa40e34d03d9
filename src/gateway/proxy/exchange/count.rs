//! Counts of tokens: a request prepared as if it were to be answered, so that what toolmark adds is counted.
//!
//! They make no record, and carry no tool calls. In cassettes they are as exchanges of their own.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response, StatusCode};

use super::{basis, cassette_session, read};
use crate::{
    exchange::adapter::{RequestHead as _, WholeConversation},
    openai::error::masked,
    policy::PolicyMode,
    proxy::{
        conversations::recall::recall_for,
        exchange::Incoming,
        helper_threads,
        http::{body::Body, failure::Failure},
        upstream::{self, BodyPassage, pool::Outgoing, select::UpstreamSelection, status::Asked},
        worker::Worker,
    },
    wire::json::{Document, Kind, Value},
};

/// Path of Anthropic's token count below the base URL.
const PATH: &str = "/messages/count_tokens";

/// Serves a request for the number of its tokens: the upstream counts it as it would get it.
pub async fn count<A: WholeConversation>(worker: Arc<Worker>, incoming: Incoming) -> Response<Body> {
    counted::<A>(worker, incoming).await.unwrap_or_else(|failure| failure.response(A::API))
}

async fn counted<A: WholeConversation>(worker: Arc<Worker>, incoming: Incoming) -> Result<Response<Body>, Failure> {
    let Incoming { headers, query, body: came, caller, held: _held, tape, .. } = incoming;
    let app = worker.app.clone();
    let standard = app.standard(&caller).clone();
    helper_threads::step_for(came.len()).await;
    let document = read(came.clone(), &standard, A::DEPTH_NOTED)?;
    let restored = app.kept.restore::<A>(app.recorder.shelf(), &standard, &document, &caller.scope, app.now_ms()).await;
    let document = restored.body.map(|body| read(body, &standard, A::DEPTH_NOTED)).transpose()?.unwrap_or(document);
    let (selection, body) = {
        let head = A::Head::read(&document)?;
        let selection = UpstreamSelection::new(&worker, A::API, head.model(), query, headers)?;
        let (rules, endpoint) = (&standard.rules, &worker.endpoints[selection.upstream()]);
        let recalled = recall_for(&app, &standard, &caller.scope, endpoint, &head).await?;
        let further = recalled.tools_with(head.further_tools());
        let tools = standard.tools.get(head.brought(&further), &rules.policy, &rules.checks, &app.schemas)?;
        let basis = basis(&app, &standard, endpoint.chat, caller.scope, tools, app.now_ms());
        let begun = A::begin(&document, &head, &recalled, basis)?;
        (selection, begun.body)
    };
    let endpoint = selection.endpoint(&worker);
    let missing = || Failure::new(StatusCode::NOT_FOUND, "not_found", "this upstream counts no tokens");
    if selection.api_of(&endpoint.settings) != A::API {
        return Err(missing());
    }
    let played = match app.cassettes.player(selection.upstream()) {
        Some(player) => {
            let limit = app.settings.limits.request_bytes;
            cassette_session::passed(player, &Method::POST, PATH, Outgoing::Whole(came), limit).await?.1
        }
        None => None,
    };
    let answer = match played {
        Some(answer) => answer,
        None => {
            let target = endpoint.target(PATH, selection.query()).ok_or_else(missing)?;
            let headers = selection.headers();
            let tape = tape.map(|tape| cassette_session::record_attempt(tape, endpoint, &target, &headers, &body));
            let sent = endpoint.send(Method::POST, target, headers, body.into()).await;
            cassette_session::recorded_answer(sent.map_err(|error| error.failure), &tape)?
        }
    };
    endpoint.usable(Asked::Answer, PATH, &answer)?;
    let (status, headers) = (answer.status(), endpoint.downstream_headers(answer.headers(), BodyPassage::MayChange));
    let body = endpoint.read(answer, upstream::ERROR_BYTES_MAX).await?;
    let body = endpoint.own_key().map_or(body.clone(), |key| masked(body, key));
    let body = match upstream::is_answer(status) && standard.rules.policy.mode == PolicyMode::Enforce {
        true => counts(body).ok_or_else(|| Failure::protocol(&endpoint.settings.name, "it is no JSON object with counts"))?,
        false => body,
    };
    let mut response = Response::new(Body::Whole(body));
    (*response.status_mut(), *response.headers_mut()) = (status, headers);
    Ok(response)
}

/// The counts in an answer, and nothing else: nobody judges what else it says. `None` if it isn't a JSON object.
fn counts(body: Bytes) -> Option<Bytes> {
    let document = Document::parse(body).ok()?;
    let is_count = |value: Value<'_>| value.kind() == Kind::Number;
    let are_counts = |value: Value<'_>| value.is_object() && value.members().all(|member| is_count(member.value));
    let root = Some(document.root()).filter(|root| root.is_object())?;
    let counts = root.members().filter(|member| is_count(member.value) || are_counts(member.value));
    let written: Vec<String> = counts.map(|member| format!("{}:{}", member.key.raw_str(), member.value.raw_str())).collect();
    Some(format!("{{{}}}", written.join(",")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_nothing_else() {
        for (body, left) in [
            (r#"{"input_tokens": 12}"#, Some(r#"{"input_tokens":12}"#)),
            (
                r#"{"input_tokens":12,"context_management":{"original_input_tokens":20},"note":"sent"}"#,
                Some(r#"{"input_tokens":12,"context_management":{"original_input_tokens":20}}"#),
            ),
            (r#"{"type":"message","content":[{"type":"tool_use"}]}"#, Some("{}")),
            ("[1]", None),
            ("12 tokens", None),
        ] {
            assert_eq!(counts(Bytes::from(body)).as_deref(), left.map(str::as_bytes), "{body}");
        }
    }
}
