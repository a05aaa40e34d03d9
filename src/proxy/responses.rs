//! One exchange of the Responses API: what is remembered of its conversation is looked up, the rest is as for chat.

use std::sync::Arc;

use http::Response;

use super::{
    body::Body,
    exchange::{Incoming, basis, drive, read},
    memory::Memory,
    reply::Failure,
    rounds,
    run::{Run, Who},
    server::Worker,
    stage::Stage,
    way::Way,
};
use crate::{
    exchange::{adapter::Adapter as _, context::Basis},
    judge::marks::Scope,
    responses::{
        adapter::Responses,
        request::{self, DEPTH_NOTED, Head, Recalled},
    },
};

/// Serves `POST /v1/responses`.
pub async fn responses(worker: Arc<Worker>, incoming: Incoming) -> Response<Body> {
    match begin(worker, incoming) {
        Ok((run, stream)) => drive::<Responses>(run, stream).await,
        Err(failure) => failure.response(),
    }
}

/// Everything before the first byte goes upstream.
fn begin(worker: Arc<Worker>, incoming: Incoming) -> Result<(Run, bool), Failure> {
    let Incoming { headers, query, body, caller, started, tape, held } = incoming;
    let app = worker.app.clone();
    let standard = app.standard(&caller);
    let who = Who::of(app.client_name(&caller), &headers);
    let document = read(body, &standard, DEPTH_NOTED)?;
    rounds::check_responses(&standard)?;
    let head = Head::read(&document)?;
    let model = head.model.clone().into_owned();
    let way = Way::new(&worker, Responses::PATH, &model, query, headers)?;
    let endpoint = &worker.endpoints[way.upstream()];
    let translates = way.translates(&endpoint.settings);
    let recalled = recall(&app.memory, &caller.scope, &head);
    let mut further: Vec<Arc<str>> = recalled.thread.iter().flat_map(|thread| thread.tools.iter().cloned()).collect();
    further.extend(head.further_tools());
    let rules = &standard.rules;
    let tools = standard.tools.get(head.brought(&further), &rules.policy, &rules.checks, &app.schemas)?;
    let stream = head.stream;
    let stage = Stage::new(&app.cassettes, way.upstream(), Responses::PATH, document.bytes(), tape);
    let basis = Basis {
        beyond: app.loops.beyond(|| app.recorder.scope(&caller.scope), who.session.as_deref()),
        ..basis(&app, &standard, endpoint.chat, caller.scope, tools)
    };
    let basis = stage.basis(basis);
    let mut begun = request::begin(&document, &head, &recalled, further, basis)?;
    // Translated answers are kept by nobody.
    begun.context.hidden.store &= !translates;
    let context = Arc::new(begun.context);
    let mut run = Run::new(worker, way, context, begun.violations, model, begun.body, stream, started, who, held);
    run.stage = stage;
    Ok((run, stream))
}

fn recall(memory: &Memory, scope: &Scope, head: &Head<'_>) -> Recalled {
    let wanted = head.wanted();
    let by_response = || memory.response(scope, head.previous.as_deref()?);
    let by_conversation = || memory.conversation(scope, head.conversation.as_deref()?);
    Recalled {
        thread: by_response().or_else(by_conversation),
        calls: wanted
            .calls
            .into_iter()
            .filter_map(|mark| Some((memory.call(scope, &mark)?, mark)))
            .map(|(call, mark)| (mark, call))
            .collect(),
        items: wanted.items.into_iter().filter_map(|id| Some((memory.item(scope, &id)?, id))).map(|(fate, id)| (id, fate)).collect(),
    }
}
