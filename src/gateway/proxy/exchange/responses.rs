//! One exchange of the Responses API: looks up its cached conversation; the rest is as for chat.

use std::{collections::HashSet, sync::Arc};

use http::{Response, StatusCode};

use crate::{
    exchange::{
        active_policy::Standard,
        context::{Basis, Begun},
        conversation::Thread,
        conversation::request_prefix::{PrefixOwner, PrefixUse},
        hidden_turns::{How, RoundForm as _},
    },
    ledger::lookup::LookupUnavailable,
    marks::Scope,
    policy::PolicyMode,
    proxy::conversations::journal::Identity,
    proxy::conversations::owners::UnownedObjects,
    proxy::{
        app::App,
        conversations::{owners, recall, replicated},
        exchange::{
            Incoming, basis,
            cassette_session::CassetteSession,
            driver::{ExchangeDriver, PreparedRun},
            read, read_known,
            record_builder::{CallerInfo, Delivery},
            run,
            tool_rounds::{self, RoundBase, ToolRounds},
        },
        helper_threads,
        http::{body::Body, failure::Failure},
        upstream::{Endpoint, select::UpstreamSelection},
        worker::Worker,
    },
    responses::request::named::named_objects,
    responses::{
        adapter::Responses,
        hidden_turns::known_calls,
        request::{self, DEPTH_NOTED, Head, Recalled, statefulness},
    },
    wire::json::Document,
};

/// Serves `POST /v1/responses`.
pub async fn responses(worker: Arc<Worker>, incoming: Incoming) -> Response<Body> {
    match begin(worker, incoming).await {
        Ok(driver) => run::<Responses>(driver).await,
        Err(failure) => failure.response(Responses::API),
    }
}

/// Prepares an exchange: everything before the first byte goes upstream.
pub(in crate::proxy) async fn begin(worker: Arc<Worker>, incoming: Incoming) -> Result<Box<ExchangeDriver>, Failure> {
    let Incoming { headers, query, body, place, caller, started, tape, held } = incoming;
    let app = worker.app.clone();
    let now_ms = app.now_ms();
    let standard = app.standard(&caller).clone();
    let info = CallerInfo::of(app.client_name(&caller), &headers);
    let owner = PrefixOwner { api: Responses::API, scope: caller.scope.clone(), rules: standard.rules.clone() };
    let (came, mut prefix) = read_known(&app, &owner, (body, place), tape.as_ref(), &standard, DEPTH_NOTED).await?;
    tool_rounds::check(&standard, 1)?;
    let restored = app.kept.restore::<Responses>(app.recorder.shelf(), &standard, &came, &caller.scope, now_ms).await;
    let document = match restored.body {
        Some(body) => {
            helper_threads::step_for(body.len()).await;
            // What was put back is no part of what came.
            prefix = PrefixUse::Off;
            read(body, &standard, DEPTH_NOTED)?
        }
        None => came.clone(),
    };
    let head = Head::read(&document)?;
    if head.background && app.settings.runs_tools() && standard.offered.1.runs() && standard.rules.policy.mode == PolicyMode::Enforce {
        let message = "toolmark runs tools of MCP servers itself, and can't do so for a response that is made in the background: leave `background` out";
        return Err(Failure { param: Some("background".into()), ..Failure::new(StatusCode::BAD_REQUEST, "invalid_request", message) });
    }
    let model = head.model.clone().into_owned();
    let identity = || Identity::of(&caller.scope, Responses::API.path(), &headers, came.bytes());
    let identity = if app.settings.runs_tools() { identity() } else { Identity::default() };
    let selection = UpstreamSelection::new(&worker, Responses::API, &model, query, headers)?;
    let endpoint = &worker.endpoints[selection.upstream()];
    let translates = selection.translation(&endpoint.settings).is_some();
    let (mut recalled, loaded) = recall(&app, &caller.scope, &head).await;
    if loaded.is_err() && head.wanted().conversation.is_some() && standard.rules.policy.mode == PolicyMode::Enforce {
        // What is known of it would be replaced by what this request adds.
        return Err(replicated::unavailable_now());
    }
    if let (Some(previous), None, true) = (&head.previous, &recalled.thread, app.settings.runs_tools()) {
        // What was said there isn't known, but where the upstream has it.
        let upstream_id = app.kept.upstream_id(app.recorder.shelf(), &caller.scope, previous, now_ms).await;
        recalled.thread = upstream_id.map(|id| Arc::new(Thread { upstream_id: Some(id), incomplete: true, ..Thread::default() }));
    }
    check_named(&app, &standard, &caller.scope, endpoint, &head, &recalled).await?;
    let further = recalled.tools_with(head.further_tools());
    let rules = &standard.rules;
    if standard.tools.takes_long(&head.brought(&further)) {
        helper_threads::step().await;
    }
    let tools = standard.tools.get(head.brought(&further), &rules.policy, &rules.checks, &app.schemas)?;
    for back in restored.back.iter().filter(|back| back.how == How::Results) {
        recalled.calls.extend(known_calls(&back.kept, &tools.registry, &app.ring, &caller.scope));
    }
    let delivery = Delivery::of(head.stream);
    let cassette = CassetteSession::new(&app.cassettes, selection.upstream(), Responses::API.path(), came.bytes(), tape);
    let basis = Basis {
        beyond: app.loops.beyond(|| app.recorder.scope(&caller.scope), info.session.as_deref(), now_ms).await,
        prefix: prefix.clone(),
        ..basis(&app, &standard, endpoint.chat, caller.scope, tools, now_ms)
    };
    let basis = cassette.basis(basis);
    let begin = move |document: &Document, basis: Basis<'_>| {
        let mut begun = request::begin(document, &Head::read(document)?, &recalled, further.clone(), basis)?;
        // Translated answers are kept by nobody.
        if let Some(context) = begun.unshared() {
            context.hidden.store &= !translates;
        }
        Ok(begun)
    };
    let (upstream, beyond) = (basis.upstream, basis.beyond.clone());
    let Begun { context, body, known, mut violations } = begin(&document, basis)?;
    violations.extend(restored.violations);
    if loaded.is_err() {
        violations.extend(replicated::unavailable(&standard.rules.checks));
    }
    let known = known.and_then(|known| app.prefixes.keep(known, prefix));
    let rounds = ToolRounds::of(&standard, || RoundBase {
        standard: standard.clone(),
        upstream,
        beyond,
        came,
        identity,
        prepare: Box::new(begin),
        tap: Responses::tap,
    });
    Ok(ExchangeDriver::new(PreparedRun {
        worker,
        context,
        violations,
        body,
        known,
        model,
        delivery,
        caller: info,
        selection,
        cassette,
        rounds,
        began: started,
        held,
    }))
}

/// Refuses a request that names stored objects which the upstream would open with toolmark's own key, and which aren't the
/// caller's. In observe mode only those that are known to be somebody else's.
pub(in crate::proxy) async fn check_named(
    app: &App,
    standard: &Standard,
    scope: &Scope,
    endpoint: &Endpoint,
    head: &Head<'_>,
    recalled: &Recalled,
) -> Result<(), Failure> {
    let policy = &standard.rules.policy;
    if !endpoint.opens_everybodys(app.caller_credential()) {
        return Ok(());
    }
    let observes = policy.mode == PolicyMode::Observe;
    if !observes {
        statefulness::check(head, policy.responses.stateful)?;
    }
    let replaced: HashSet<&str> = recalled.items.iter().map(|(id, _)| &**id).collect();
    let named = named_objects(head, |id| !observes && replaced.contains(id));
    owners::check(app, scope, &endpoint.settings.name, &named, UnownedObjects::under(policy.mode)).await
}

/// Reads what a request names and this process doesn't know into its caches, and takes what is known of it from there.
///
/// # Errors
/// [`LookupUnavailable`] beside what this process knows, if the ledger doesn't say in time.
pub(in crate::proxy) async fn recall(app: &App, scope: &Scope, head: &Head<'_>) -> (Recalled, Result<(), LookupUnavailable>) {
    let named = named_objects(head, |id| app.memory.knows_item(scope, id));
    let loaded = replicated::load(app, scope, named, head.wanted()).await;
    let mut recalled = recall::recall(&app.memory, scope, head.wanted());
    if let (Err(_), None, Some(previous)) = (&loaded, &recalled.thread, &head.previous) {
        recalled.thread = Some(Arc::new(Thread::after_unread(previous)));
    }
    (recalled, loaded)
}
