//! Stored responses and conversations of upstreams, requested by their IDs. docs/contract.md, "Stored objects".
//!
//! ```text
//! object ─▶ who has it, for this caller ─▶ that upstream ─▶ answered before: what the application got then
//!                                                        ─▶ made in the background: judged now, never repaired
//!                                                        ─▶ items: only what is known to have been given, with its marks
//!                                                        ─▶ all else: members that carry nothing
//! items written ─▶ prepared as a request's input
//! ```
//! The pure part is in [`crate::responses::stored`].

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};

use super::route::Stored;
use crate::{
    cassette::player::PlaybackSpeed,
    exchange::{
        active_policy::Standard,
        context::Begun,
        conversation::Thread,
        error::{Fault, Refusal, unique_in_request},
    },
    ledger::lookup::LookupUnavailable,
    marks::{CallMark, ExecutionId, Scope},
    openai::error::{Reported, enveloped, masked},
    policy::{PolicyMode, Stateful},
    proxy::conversations::owners::UnownedObjects,
    proxy::exchange::record_builder::Delivery,
    proxy::upstream::BodyPassage,
    proxy::upstream::CallerCredential,
    proxy::{
        app::App,
        conversations::{
            originals::{Got, Object},
            owners, replicated,
        },
        exchange::{self, Incoming, basis, cassette_session, conversation::Fetched, read, responses},
        helper_threads,
        http::{
            body::{Body, PassedBody},
            credentials, error_response,
            failure::Failure,
            headers::{UPSTREAM, VERDICT, VIOLATIONS},
        },
        upstream::{
            self, Endpoint,
            pool::Outgoing,
            response::{Answer, AnswerBody},
            status::Asked,
        },
        worker::Worker,
    },
    responses::{
        adapter::Responses,
        conversation_update,
        request::{
            self, DEPTH_NOTED, Head, Recalled,
            named::{NamedObject, ObjectKind},
        },
        stored::{self, Ids, StoredKnowledge},
    },
    settings::{self, Credential},
    violation::{Code, Severity, Violation},
    wire::json::{Document, Value, splice::Splices, string::quote},
};

/// Maximum responses of one conversation that are searched for an item, the latest first.
const ANSWERS_MAX: usize = 64;
/// Maximum bytes of these responses.
const ANSWERS_BYTES_MAX: usize = 8 << 20;
/// Maximum pages of a list that are read for one of which something is left.
const PAGES_MAX: usize = 16;
/// Members of a conversation that need no judging; only these are passed on.
const CONVERSATION: [&str; 5] = ["id", "object", "created_at", "metadata", "deleted"];
/// The same for a deleted response; below, for a count of tokens and for a compacted response.
const DELETED: [&str; 3] = ["id", "object", "deleted"];
const TOKENS: [&str; 2] = ["object", "input_tokens"];
const COMPACTED: [&str; 3] = ["id", "object", "created_at"];

/// Serves a request for stored objects.
pub async fn stored(worker: Arc<Worker>, what: Stored, method: Method, incoming: Incoming) -> Response<Body> {
    let app = worker.app.clone();
    let standard = app.standard(&incoming.caller).clone();
    let scope = incoming.caller.scope.clone();
    let client = StoredCaller { worker: &worker, app: &app, standard: &standard, scope: &scope };
    let observes = standard.rules.policy.mode == PolicyMode::Observe;
    if let Some(id) = what.id()
        && replicated::load_stored(&app, &scope, id).await.is_err()
        && !observes
    {
        return replicated::unavailable_now().response(crate::openai::Api::Responses);
    }
    let served = match what {
        _ if observes => client.unjudged(&what, method, incoming).await,
        Stored::Response(id) if method == Method::DELETE => client.delete(&id, &incoming).await,
        Stored::Response(id) => client.retrieve(&id, Method::GET, incoming).await,
        Stored::Cancel(id) => client.retrieve(&id, Method::POST, incoming).await,
        Stored::InputItems(id) => client.input_items(&id, &incoming).await,
        Stored::Compact => client.compact(&incoming).await,
        Stored::InputTokens => client.input_tokens(&incoming).await,
        Stored::Conversations => client.create(&incoming).await,
        Stored::Conversation(id) => client.conversation(&id, method, &incoming).await,
        Stored::Items(id) if method == Method::POST => client.write_items(&id, &incoming).await,
        Stored::Items(id) => client.items(&id, &incoming).await,
        Stored::Item(id, item) => client.item(&id, &item, method, &incoming).await,
    };
    served.unwrap_or_else(|failure| failure.response(crate::openai::Api::Responses))
}

/// The caller's worker, policy and scope.
struct StoredCaller<'c> {
    worker: &'c Arc<Worker>,
    app: &'c Arc<App>,
    standard: &'c Arc<Standard>,
    scope: &'c Scope,
}

/// Upstream that has an object; `foreign`: it is a fallback, which never sees the caller's own key.
#[derive(Clone, Copy)]
struct Holder {
    upstream: usize,
    foreign: bool,
}

impl Holder {
    fn of(object: &Object) -> Self {
        Self { upstream: object.upstream, foreign: object.foreign }
    }
}

/// Upstream's response to a request.
enum Came {
    /// Complete answer.
    Whole(HeaderMap, Bytes),
    /// Answer that streams.
    Stream(Answer),
    /// Error, to be passed on.
    Error(Response<Body>),
}

/// Unwraps a complete answer; returns from the function otherwise.
macro_rules! whole {
    ($came:expr) => {
        match $came {
            Came::Whole(headers, body) => (headers, body),
            Came::Stream(_) => {
                return Err(Failure::new(StatusCode::BAD_GATEWAY, "upstream_protocol", "a stream came that wasn't asked for"))
            }
            Came::Error(response) => return Ok(response),
        }
    };
}

impl StoredCaller<'_> {
    fn endpoint(&self, upstream: usize) -> Result<&Endpoint, Failure> {
        self.worker.endpoints.get(upstream).ok_or_else(|| Failure::unreachable("upstream"))
    }

    /// Use of the caller's credential at the upstream that holds an object.
    fn caller_credential(&self, holder: Holder) -> CallerCredential {
        if holder.foreign { CallerCredential::Withheld } else { self.app.caller_credential() }
    }

    /// Refuses the request if the policy accepts only requests without stored state.
    fn check_stateful(&self) -> Result<(), Failure> {
        if self.standard.rules.policy.responses.stateful == Stateful::Track {
            return Ok(());
        }
        let message = "stored responses and conversations can't be used, because this proxy's policy takes only requests that stand alone (`[responses] stateful`): send the whole conversation in `input`";
        Err(Failure::new(StatusCode::BAD_REQUEST, "invalid_request", message))
    }

    /// A response that this caller was given.
    fn response(&self, id: &str) -> Result<Arc<Object>, Failure> {
        self.check_stateful()?;
        self.app.originals.get(self.scope, id).ok_or_else(|| {
            let message = format!(
                "toolmark doesn't know the response `{id}` of this caller, so it can't tell what of it was refused: it was made by another caller, not through toolmark, or before a restart or at another replica that didn't leave it in the ledger (`[ledger] store = \"bodies\"` does). Ask again with POST /v1/responses"
            );
            not_found("unknown_response", message)
        })
    }

    /// Upstream that has a conversation. Where toolmark's own key would open it, it must be the caller's.
    async fn holder_of(&self, id: &str) -> Result<Holder, Failure> {
        self.check_stateful()?;
        if let Some(object) = self.app.originals.get(self.scope, id) {
            return Ok(Holder::of(&object));
        }
        let holder = self.keeper()?;
        self.check_owner(holder, ObjectKind::Conversation, id).await?;
        Ok(holder)
    }

    /// Refuses an object that the upstream would open with toolmark's own key, and that isn't the caller's. In observe mode
    /// only one that is known to be somebody else's.
    async fn check_owner(&self, holder: Holder, kind: ObjectKind, id: &str) -> Result<(), Failure> {
        let endpoint = self.endpoint(holder.upstream)?;
        if !endpoint.opens_everybodys(self.caller_credential(holder)) {
            return Ok(());
        }
        let named = [NamedObject { kind, id: id.to_owned(), param: None }];
        let unowned = UnownedObjects::under(self.standard.rules.policy.mode);
        owners::check(self.app, self.scope, &endpoint.settings.name, &named, unowned).await
    }

    /// [`Self::check_owner`] for all that the body of a request names.
    async fn check_named(&self, holder: Holder, head: &Head<'_>, recalled: &Recalled) -> Result<(), Failure> {
        responses::check_named(self.app, self.standard, self.scope, self.endpoint(holder.upstream)?, head, recalled).await
    }

    /// Notes that the caller owns these objects.
    ///
    /// # Errors
    /// [`LookupUnavailable`] if the ledger doesn't take that in time: until it does, another replica takes them for nobody's.
    async fn own(&self, holder: Holder, ids: &Ids) -> Result<(), LookupUnavailable> {
        let Some(endpoint) = self.worker.endpoints.get(holder.upstream) else { return Ok(()) };
        if !endpoint.opens_everybodys(self.caller_credential(holder)) {
            return Ok(());
        }
        replicated::store(self.app, self.app.owners.note(self.scope, &endpoint.settings.name, ids)).await
    }

    /// Upstream for requests that name no model: the first that serves the Responses API. The caller's own key is used only at
    /// the first upstream that it could be meant for.
    fn keeper(&self) -> Result<Holder, Failure> {
        let endpoints = &self.worker.endpoints;
        let by_caller = |endpoint: &Endpoint| endpoint.settings.credential == Credential::Caller;
        let meant = endpoints.iter().position(by_caller);
        let keeps = |(at, endpoint): &(usize, &Endpoint)| {
            endpoint.settings.responses == settings::ApiSupport::Native
                && (!by_caller(endpoint) || self.app.caller_credential() == CallerCredential::Withheld || meant == Some(*at))
        };
        let found = endpoints.iter().enumerate().find(keeps).map(|(upstream, _)| Holder { upstream, foreign: false });
        found.ok_or_else(keeps_nothing)
    }

    /// Sends a request to an upstream. `rest`: path below its base URL; `query`: the caller's.
    async fn ask(
        &self,
        holder: Holder,
        method: Method,
        rest: &str,
        query: Option<&str>,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Came, Failure> {
        let endpoint = self.endpoint(holder.upstream)?;
        if endpoint.settings.responses == settings::ApiSupport::Translate {
            return Err(keeps_nothing());
        }
        let (mut sent, query) = match holder.foreign {
            true => (endpoint.headers_elsewhere(headers), query.and_then(credentials::plain_query)),
            false => {
                let caller = self.app.caller_credential();
                (endpoint.headers(headers, caller), endpoint.query(query.map(str::to_owned), caller))
            }
        };
        if body.is_empty() {
            sent.remove(header::CONTENT_TYPE);
        } else {
            sent.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let wrong = || Failure::new(StatusCode::BAD_REQUEST, "invalid_path", "the path can't be passed on");
        let target = endpoint.target(rest, query.as_deref().filter(|query| !query.is_empty())).ok_or_else(wrong)?;
        let (body, played) = match self.app.cassettes.player(holder.upstream) {
            Some(player) => {
                cassette_session::passed(player, &method, rest, Outgoing::Whole(body), self.app.settings.limits.request_bytes).await?
            }
            None => (Outgoing::Whole(body), None),
        };
        let response = match played {
            Some(played) => played,
            None => endpoint.send(method, target, sent, body).await?,
        };
        endpoint.usable(Asked::Answer, rest, &response)?;
        if upstream::is_encoded(response.headers()) {
            return Err(Failure::protocol(&endpoint.settings.name, "it is compressed, though that wasn't asked for"));
        }
        let status = response.status();
        if status.is_success() && upstream::is_event_stream(response.headers()) {
            return Ok(Came::Stream(response));
        }
        let headers = endpoint.downstream_headers(response.headers(), BodyPassage::MayChange);
        if !status.is_success() {
            let body = endpoint.read(response, upstream::ERROR_BYTES_MAX).await?;
            let observes = self.standard.rules.policy.mode == PolicyMode::Observe;
            let body = if endpoint.settings.fitting.wrap_errors && !observes { enveloped(body) } else { body };
            return Ok(Came::Error(self.failed(endpoint, status, headers, body)));
        }
        let mut weight = self.app.load.weight();
        let bytes_max = usize::try_from(self.app.settings.limits.response_bytes).unwrap_or(usize::MAX);
        let body = endpoint.read_weighed(response, bytes_max, |bytes| weight.grow(bytes)).await?;
        helper_threads::step_for(body.len()).await;
        if let Some(error) = self.reported(&body) {
            let status = error.status.and_then(|status| StatusCode::from_u16(status).ok()).unwrap_or(StatusCode::BAD_GATEWAY);
            let mut headers = headers;
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            return Ok(Came::Error(self.failed(endpoint, status, headers, error.judged_envelope(speaks_of_executions).into())));
        }
        Ok(Came::Whole(headers, body))
    }

    /// Error in a body that came with a status of success.
    fn reported(&self, body: &Bytes) -> Option<Reported> {
        if self.standard.rules.policy.mode == PolicyMode::Observe {
            return None;
        }
        let document = Document::parse(body.clone()).ok()?;
        if stored::is_error(document.root()) { Reported::read(body) } else { None }
    }

    /// An upstream's error for the application, without toolmark's own key.
    fn failed(&self, endpoint: &Endpoint, status: StatusCode, headers: HeaderMap, body: Bytes) -> Response<Body> {
        let body = endpoint.own_key().map_or(body.clone(), |key| masked(body, key));
        let mut passed = Response::new(Body::Whole(body));
        *passed.status_mut() = status;
        *passed.headers_mut() = headers;
        passed.headers_mut().insert(VERDICT, HeaderValue::from_static("failed"));
        if let Ok(name) = HeaderValue::from_str(&endpoint.settings.name) {
            passed.headers_mut().insert(UPSTREAM, name);
        }
        passed
    }

    /// Parses an upstream's answer.
    fn document(&self, holder: Holder, body: Bytes) -> Result<Document, Failure> {
        let name = &*self.endpoint(holder.upstream)?.settings.name;
        Document::parse(body).map_err(|error| Failure::protocol(name, error))
    }

    fn fault(&self, holder: Holder, fault: &Fault) -> Failure {
        let name = self.worker.endpoints.get(holder.upstream).map_or("upstream", |endpoint| &*endpoint.settings.name);
        Failure::protocol(name, fault)
    }

    /// Response with this JSON. `violations`: those found in it.
    fn answer(&self, holder: Holder, headers: HeaderMap, json: impl Into<Body>, violations: &[Violation]) -> Response<Body> {
        let mut response = error_response::json(StatusCode::OK, json);
        for (name, value) in &headers {
            if name != header::CONTENT_TYPE {
                response.headers_mut().append(name, value.clone());
            }
        }
        let warns = violations.iter().any(|violation| violation.severity >= Severity::Warn);
        response.headers_mut().insert(VERDICT, HeaderValue::from_static(if warns { "warn" } else { "pass" }));
        let mut codes: Vec<Code> = violations.iter().map(|violation| violation.code).collect();
        codes.sort_unstable();
        codes.dedup();
        let codes = codes.iter().map(|code| code.as_str()).collect::<Vec<_>>().join(",");
        if let (false, Ok(codes)) = (codes.is_empty(), HeaderValue::try_from(codes)) {
            response.headers_mut().insert(VIOLATIONS, codes);
        }
        let name = self.worker.endpoints.get(holder.upstream).map(|endpoint| HeaderValue::from_str(&endpoint.settings.name));
        if let Some(Ok(name)) = name {
            response.headers_mut().insert(UPSTREAM, name);
        }
        for violation in violations.iter().filter(|violation| violation.severity >= Severity::Warn) {
            tracing::warn!(code = violation.code.as_str(), "violation {}: {}", violation.code, violation.message);
        }
        response
    }

    /// Passes a request on in observe mode: nothing is changed, and only exchanges are judged.
    async fn unjudged(&self, what: &Stored, method: Method, incoming: Incoming) -> Result<Response<Body>, Failure> {
        let (id, rest) = match what {
            Stored::Response(id) => (id.as_str(), format!("/responses/{id}")),
            Stored::InputItems(id) => (id.as_str(), format!("/responses/{id}/input_items")),
            Stored::Cancel(id) => (id.as_str(), format!("/responses/{id}/cancel")),
            Stored::Compact => ("", "/responses/compact".to_owned()),
            Stored::InputTokens => ("", "/responses/input_tokens".to_owned()),
            Stored::Conversations => ("", "/conversations".to_owned()),
            Stored::Conversation(id) => (id.as_str(), format!("/conversations/{id}")),
            Stored::Items(id) => (id.as_str(), format!("/conversations/{id}/items")),
            Stored::Item(id, item) => (id.as_str(), format!("/conversations/{id}/items/{item}")),
        };
        let known = self.app.originals.get(self.scope, id).map(|object| Holder::of(&object));
        let holder = match known {
            Some(holder) => holder,
            None if matches!(what, Stored::Compact | Stored::InputTokens) => self.holder_for_model(&incoming.body)?,
            None => self.keeper()?,
        };
        if known.is_none() {
            self.check_object(holder, what, id).await?;
        }
        self.check_body(holder, what, &incoming.body).await?;
        let came = self.ask(holder, method, &rest, incoming.query.as_deref(), &incoming.headers, incoming.body.clone()).await?;
        Ok(match came {
            Came::Whole(headers, body) => {
                if let (Stored::Conversations, Ok(document)) = (what, Document::parse(body.clone())) {
                    let conversation = document.root().get("id").and_then(Value::text).map(|id| id.into_owned());
                    // What only was to be observed passes.
                    let _noted = self.own(holder, &Ids { conversation, ..Ids::default() }).await;
                }
                let mut response = Response::new(Body::Whole(body));
                *response.headers_mut() = headers;
                response
            }
            Came::Stream(response) => {
                let endpoint = self.endpoint(holder.upstream)?;
                let headers = endpoint.downstream_headers(response.headers(), BodyPassage::Unchanged);
                let body = PassedBody::new(response.into_body(), incoming.held, endpoint.settings.timeouts.idle);
                let mut passed = Response::new(Body::Pass(Box::new(body)));
                *passed.headers_mut() = headers;
                passed
            }
            Came::Error(response) => response,
        })
    }

    /// Refuses the object that the path of [`Self::unjudged`] names if it is known to be somebody else's.
    async fn check_object(&self, holder: Holder, what: &Stored, id: &str) -> Result<(), Failure> {
        match what {
            Stored::Response(_) | Stored::Cancel(_) | Stored::InputItems(_) => self.check_owner(holder, ObjectKind::Response, id).await,
            Stored::Conversation(_) | Stored::Item(..) | Stored::Items(_) => self.check_owner(holder, ObjectKind::Conversation, id).await,
            Stored::Compact | Stored::InputTokens | Stored::Conversations => Ok(()),
        }
    }

    /// Refuses a body of [`Self::unjudged`] that names objects known to be somebody else's.
    async fn check_body(&self, holder: Holder, what: &Stored, body: &Bytes) -> Result<(), Failure> {
        if !self.endpoint(holder.upstream)?.opens_everybodys(self.caller_credential(holder)) {
            return Ok(());
        }
        if body.is_empty() {
            return Ok(());
        }
        let mut document = read(body.clone(), self.standard, DEPTH_NOTED)?;
        if matches!(what, Stored::Items(_) | Stored::Conversations) {
            unique_in_request(document.root(), "the request")?;
            let items = document.root().get_some("items").map_or("[]", |items| items.raw_str());
            document = read(format!("{{\"input\":{items}}}").into(), self.standard, DEPTH_NOTED)?;
        }
        self.check_named(holder, &Head::read(&document)?, &Recalled::default()).await
    }

    fn holder_for_model(&self, body: &Bytes) -> Result<Holder, Failure> {
        let document = Document::parse(body.clone()).ok();
        let model = document.as_ref().and_then(|document| document.root().get("model")).and_then(Value::text).unwrap_or_default();
        let upstream = self.worker.endpoint_for(&model)?;
        let keeps = self.endpoint(upstream)?.settings.responses == settings::ApiSupport::Native;
        if keeps { Ok(Holder { upstream, foreign: false }) } else { Err(keeps_nothing()) }
    }

    /// The upstream's ID of a response.
    fn upstream_id(&self, id: &str) -> String {
        let thread = self.app.memory.response(self.scope, id);
        thread.and_then(|thread| thread.upstream_id.clone()).map_or_else(|| id.to_owned(), |own| own.to_string())
    }

    /// `GET /v1/responses/{id}`, and the response to its cancellation.
    async fn retrieve(&self, id: &str, method: Method, incoming: Incoming) -> Result<Response<Body>, Failure> {
        let mut object = self.response(id)?;
        let streams = method == Method::GET && parameter(incoming.query.as_deref(), "stream").is_some_and(|value| value == "true");
        if method == Method::GET && parameter(incoming.query.as_deref(), "starting_after").is_some() {
            let message = "a stream can be judged from its beginning only: leave `starting_after` out";
            return Err(Failure {
                param: Some("starting_after".into()),
                ..Failure::new(StatusCode::BAD_REQUEST, "invalid_request", message)
            });
        }
        if object.got == Got::Withheld {
            let message = format!(
                "the response `{id}` wasn't passed on when it was answered, or not to its end, so it isn't given out now: ask again with POST /v1/responses"
            );
            return Err(not_found("unknown_response", message));
        }
        // A stream is judged as it comes, so that nobody else may begin one.
        let mut turn = None;
        if streams && matches!(object.got, Got::Awaited(_)) {
            turn = Some(self.app.originals.turn(self.scope, id).await);
            object = self.response(id)?;
        }
        let end = if method == Method::POST { "/cancel" } else { "" };
        let rest = format!("/responses/{}{end}", self.upstream_id(id));
        // What was given before is given again: only whether it is still there is asked.
        let stream = streams && matches!(object.got, Got::Awaited(_));
        let query = without(incoming.query.as_deref(), if stream { &[] } else { &["stream", "include_obfuscation"] });
        let holder = Holder::of(&object);
        let mut headers = incoming.headers.clone();
        if !stream {
            headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        }
        let came = self.ask(holder, method, &rest, query.as_deref(), &headers, Bytes::new()).await?;
        let answer = match came {
            Came::Error(response) => return Ok(response),
            came if !matches!(object.got, Got::Awaited(_)) => {
                let (headers, _) = whole!(came);
                return self.again(holder, headers, &object.got, Delivery::of(streams));
            }
            Came::Stream(answer) => answer,
            Came::Whole(headers, body) => {
                let document = self.document(holder, body.clone())?;
                if let Some(json) = stored::unfinished(&document, id).map_err(|fault| self.fault(holder, &fault))? {
                    return Ok(self.answer(holder, headers, json, &[]));
                }
                let mut answer = Response::new(AnswerBody::played(vec![(0, body)], PlaybackSpeed::None, false));
                *answer.headers_mut() = headers;
                answer
            }
        };
        let turn = match turn {
            Some(turn) => turn,
            None => self.app.originals.turn(self.scope, id).await,
        };
        // It is judged once: whoever asks meanwhile gets what came of it.
        object = self.response(id)?;
        let Got::Awaited(request) = object.got.clone() else {
            let headers = self.endpoint(holder.upstream)?.downstream_headers(answer.headers(), BodyPassage::MayChange);
            return self.again(holder, headers, &object.got, Delivery::of(streams));
        };
        // Judged as it would have been when it was asked for.
        let incoming = Incoming { query: None, body: request, tape: None, ..incoming };
        let mut driver = responses::begin(self.worker.clone(), incoming).await?;
        driver.selection.go_to_holder(holder.upstream, self.worker);
        Ok(exchange::run_fetched::<Responses>(driver, answer, Fetched::new(id.to_owned(), turn)).await)
    }

    /// The same answer that the application got before.
    fn again(&self, holder: Holder, headers: HeaderMap, got: &Got, delivery: Delivery) -> Result<Response<Body>, Failure> {
        let left = match got {
            Got::Whole(left) => left,
            Got::Refused(error) => {
                let mut answer = self.answer(holder, headers, Body::Whole(error.clone()), &[]);
                *answer.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
                answer.headers_mut().insert(VERDICT, HeaderValue::from_static("blocked"));
                return Ok(answer);
            }
            Got::Awaited(_) | Got::Withheld => return Err(Failure::unreachable("upstream")),
        };
        let document = self.document(holder, left.clone())?;
        let response = stored::response_of(document.root());
        let mut answer = match delivery {
            Delivery::Whole => self.answer(holder, headers, response.raw_str().to_owned(), &[]),
            Delivery::Stream => self.answer(holder, headers, stored::events(response), &[]),
        };
        if delivery == Delivery::Stream {
            answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        }
        // What came of it is said again, too.
        let own = response.get("toolmark");
        let codes: Vec<_> = own.and_then(|own| own.get("violations")).into_iter().flat_map(Value::items).filter_map(Value::text).collect();
        let verdict = own.and_then(|own| own.get("verdict")).and_then(Value::text).unwrap_or_default();
        for (name, text) in [(VERDICT, &*verdict), (VIOLATIONS, &*codes.join(","))] {
            if let (false, Ok(value)) = (text.is_empty(), HeaderValue::from_str(text)) {
                answer.headers_mut().insert(name, value);
            }
        }
        Ok(answer)
    }

    async fn delete(&self, id: &str, incoming: &Incoming) -> Result<Response<Body>, Failure> {
        let holder = Holder::of(&*self.response(id)?);
        let rest = format!("/responses/{}", self.upstream_id(id));
        let (headers, body) =
            whole!(self.ask(holder, Method::DELETE, &rest, incoming.query.as_deref(), &incoming.headers, Bytes::new()).await?);
        replicated::forget(self.app, self.scope, id);
        // Some upstreams have nothing to say.
        let document = self.document(holder, if body.is_empty() { Bytes::from_static(b"{}") } else { body })?;
        let json = stored::bare(&document, &DELETED, Some(id)).map_err(|fault| self.fault(holder, &fault))?;
        Ok(self.answer(holder, headers, json, &[]))
    }

    async fn input_items(&self, id: &str, incoming: &Incoming) -> Result<Response<Body>, Failure> {
        let holder = Holder::of(&*self.response(id)?);
        let thread = self.app.memory.response(self.scope, id);
        let rest = format!("/responses/{}/input_items", self.upstream_id(id));
        self.listed(holder, &rest, incoming, thread.as_deref()).await
    }

    async fn items(&self, id: &str, incoming: &Incoming) -> Result<Response<Body>, Failure> {
        let holder = self.holder_of(id).await?;
        let rest = format!("/conversations/{id}/items");
        self.listed(holder, &rest, incoming, self.app.memory.conversation(self.scope, id).as_deref()).await
    }

    async fn item(&self, id: &str, item: &str, method: Method, incoming: &Incoming) -> Result<Response<Body>, Failure> {
        let holder = self.holder_of(id).await?;
        let rest = format!("/conversations/{id}/items/{item}");
        let (headers, body) =
            whole!(self.ask(holder, method.clone(), &rest, incoming.query.as_deref(), &incoming.headers, Bytes::new()).await?);
        let document = self.document(holder, body)?;
        if method == Method::DELETE {
            let json = stored::bare(&document, &CONVERSATION, None).map_err(|fault| self.fault(holder, &fault))?;
            return Ok(self.answer(holder, headers, json, &[]));
        }
        let list = self.document(holder, format!("[{}]", document.root().raw_str()).into())?;
        let thread = self.app.memory.conversation(self.scope, id);
        self.load_items(list.root()).await?;
        let passed = self.known(thread.as_deref(), |known| known.items(list.root())).map_err(|fault| self.fault(holder, &fault))?;
        match passed.items.into_iter().next() {
            Some(item) => Ok(self.answer(holder, headers, item, &[])),
            None => {
                let message = format!("the item `{item}` was refused when it was answered, or toolmark doesn't know whether it was");
                Err(not_found("unknown_item", message))
            }
        }
    }

    /// Notes that the caller owns the items of a list.
    async fn own_items(&self, holder: Holder, list: &str) {
        let Ok(document) = Document::parse(Bytes::copy_from_slice(list.as_bytes())) else { return };
        let items = document.root().get("data").map(Ids::items_of).unwrap_or_default();
        let Some(endpoint) = self.worker.endpoints.get(holder.upstream) else { return };
        if !endpoint.opens_everybodys(self.caller_credential(holder)) {
            return;
        }
        // Where the ledger is silent nothing is noted: to refer to these items is refused later, never allowed in error.
        let Ok(items) = owners::without_owner(self.app, self.scope, items).await else { return };
        let _noted = self.own(holder, &Ids { items, ..Ids::default() }).await;
    }

    /// A list of items for the application: the first page of which something is left, since clients take an empty page for
    /// the last one. `rest`: its path.
    async fn listed(&self, holder: Holder, rest: &str, incoming: &Incoming, thread: Option<&Thread>) -> Result<Response<Body>, Failure> {
        let (mut query, mut unknown) = (incoming.query.clone(), 0_usize);
        for pages in 1.. {
            let came = self.ask(holder, Method::GET, rest, query.as_deref(), &incoming.headers, Bytes::new()).await?;
            let (headers, body) = whole!(came);
            let document = self.document(holder, body)?;
            if let Some(items) = document.root().get("data") {
                self.load_items(items).await?;
            }
            let page = self.known(thread, |known| stored::list(&document, &known)).map_err(|fault| self.fault(holder, &fault))?;
            unknown = unknown.saturating_add(page.unknown);
            let next = page.next.filter(|_| page.passed == 0 && pages < PAGES_MAX);
            let Some(next) = next else {
                let violations = self.incomplete(unknown)?;
                self.own_items(holder, &page.json).await;
                return Ok(self.answer(holder, headers, page.json, &violations));
            };
            let mut after = form_urlencoded::Serializer::new(String::new());
            after.append_pair("after", &next);
            let other = without(incoming.query.as_deref(), &["after"]);
            query = Some(other.into_iter().chain([after.finish()]).collect::<Vec<_>>().join("&"));
        }
        // INVARIANT: the last of the pages returns.
        Err(internal())
    }

    /// Violation for items that were left out.
    ///
    /// # Errors
    /// [`Failure`] if the policy blocks on it.
    fn incomplete(&self, unknown: usize) -> Result<Vec<Violation>, Failure> {
        if unknown == 0 {
            return Ok(Vec::new());
        }
        let message =
            format!("{unknown} of the items are left out: toolmark doesn't know whether they were refused when they were answered");
        let advice =
            "they were made before a restart, by another replica, or not through toolmark: begin a new conversation if they matter";
        let violation = self.standard.rules.checks.violation(Code::HistoryIncomplete, None, message, advice);
        match violation.as_ref().filter(|violation| violation.blocks()) {
            Some(violation) => Err(Refusal::of(violation).into()),
            None => Ok(violation.into_iter().collect()),
        }
    }

    /// Calls `read` with the facts about items that this process has stored.
    fn known<T>(&self, thread: Option<&Thread>, read: impl FnOnce(StoredKnowledge<'_>) -> T) -> T {
        let (mut given, mut bytes) = (HashMap::new(), 0_usize);
        for id in thread.iter().flat_map(|thread| thread.answers.iter().rev()).take(ANSWERS_MAX) {
            let Some(object) = self.app.originals.get(self.scope, id) else { continue };
            if let Got::Whole(left) = &object.got {
                bytes = bytes.saturating_add(left.len());
                if bytes > ANSWERS_BYTES_MAX {
                    break;
                }
                stored::given(left, &mut given);
            }
        }
        let (memory, scope, ring) = (&self.app.memory, self.scope, &self.app.ring);
        read(StoredKnowledge {
            given,
            fate: &|id| memory.item(scope, id),
            mark: &|id| memory.mark(scope, id).map(|mark| mark.to_string()),
            call: &|mark| memory.call(scope, mark),
            verifies: &|mark, tool, arguments| {
                CallMark::parse(mark).is_some_and(|mark| ring.verify(&mark, scope, tool, arguments).is_some())
            },
            is_mark: &|id| CallMark::parse(id).is_some_and(|mark| ring.made(&mark, scope)),
            written: thread.map_or(&[], |thread| &thread.written),
            judged: false,
        })
    }

    /// Prepares written items as the input of a request.
    async fn begun(&self, holder: Holder, body: Bytes) -> Result<(Document, Begun), Failure> {
        let document = read(body, self.standard, DEPTH_NOTED)?;
        let head = Head::read(&document)?;
        let (recalled, loaded) = responses::recall(self.app, self.scope, &head).await;
        self.check_named(holder, &head, &recalled).await?;
        let further = recalled.tools_with(head.further_tools());
        let rules = &self.standard.rules;
        let tools = self.standard.tools.get(head.brought(&further), &rules.policy, &rules.checks, &self.app.schemas)?;
        let mut basis = basis(self.app, self.standard, self.endpoint(holder.upstream)?.chat, self.scope.clone(), tools, self.app.now_ms());
        // Nobody answers this.
        basis.protocol = None;
        let mut begun = request::begin(&document, &head, &recalled, further, basis)?;
        if loaded.is_err() {
            begun.violations.extend(replicated::unavailable(&rules.checks));
        }
        Ok((document, begun))
    }

    /// [`Self::begun`]; refuses the request if the policy blocks on what was found.
    async fn verified(&self, holder: Holder, body: Bytes) -> Result<(Document, Begun), Failure> {
        let (document, begun) = self.begun(holder, body).await?;
        match begun.violations.iter().find(|violation| violation.blocks()) {
            Some(violation) => Err(Refusal::of(violation).into()),
            None => Ok((document, begun)),
        }
    }

    async fn input_tokens(&self, incoming: &Incoming) -> Result<Response<Body>, Failure> {
        let holder = self.holder_for_model(&incoming.body)?;
        let (document, begun) = self.begun(holder, incoming.body.clone()).await?;
        let asked = prepared(&document, &begun)?;
        let came = self.ask(holder, Method::POST, "/responses/input_tokens", incoming.query.as_deref(), &incoming.headers, asked).await?;
        let (headers, body) = whole!(came);
        let document = self.document(holder, body)?;
        let json = stored::bare(&document, &TOKENS, None).map_err(|fault| self.fault(holder, &fault))?;
        Ok(self.answer(holder, headers, json, &[]))
    }

    async fn compact(&self, incoming: &Incoming) -> Result<Response<Body>, Failure> {
        let holder = self.holder_for_model(&incoming.body)?;
        let (document, begun) = self.verified(holder, incoming.body.clone()).await?;
        let asked = prepared(&document, &begun)?;
        // The conversation goes on from what is kept, not from this.
        let memo = conversation_update::remember(&begun.context, None, Some("compacted"), &[], Vec::new(), Vec::new());
        let came = self.ask(holder, Method::POST, "/responses/compact", incoming.query.as_deref(), &incoming.headers, asked).await?;
        let (headers, body) = whole!(came);
        let document = self.document(holder, body)?;
        let fault = |fault: Fault| self.fault(holder, &fault);
        let head = stored::bare(&document, &COMPACTED, None).map_err(fault)?;
        let output = document.root().get("output").ok_or(Fault::Unknown("no `output`")).map_err(fault)?;
        let found = stored::compaction_violations(output, &begun.context);
        if let Some(violation) = found.iter().find(|violation| violation.blocks()) {
            return Err(exchange::unprocessable(violation));
        }
        let passed = self.known(Some(&memo.thread), |known| StoredKnowledge { judged: true, ..known }.items(output)).map_err(fault)?;
        let mut violations = begun.violations;
        violations.extend(found);
        violations.extend(self.incomplete(passed.unknown)?);
        let listed = format!("{{\"data\":[{}]}}", passed.items.join(","));
        self.own_items(holder, &listed).await;
        let head = head.strip_suffix('}').unwrap_or("{");
        let comma = if head.len() > 1 { "," } else { "" };
        let usage = document.root().get("usage").map_or("null", |usage| if stored::is_figures(usage) { usage.raw_str() } else { "null" });
        let json = format!("{head}{comma}\"output\":[{}],\"usage\":{usage}}}", passed.items.join(","));
        Ok(self.answer(holder, headers, json, &violations))
    }

    async fn create(&self, incoming: &Incoming) -> Result<Response<Body>, Failure> {
        self.check_stateful()?;
        let holder = self.keeper()?;
        let came = if incoming.body.is_empty() { Bytes::from_static(b"{}") } else { incoming.body.clone() };
        let document = read(came, self.standard, DEPTH_NOTED)?;
        let ItemWrite { body, begun } = self.writing(holder, &document, None).await?;
        let asked = self.ask(holder, Method::POST, "/conversations", incoming.query.as_deref(), &incoming.headers, body).await?;
        let (headers, body) = whole!(asked);
        let answered = self.document(holder, body)?;
        let json = stored::bare(&answered, &CONVERSATION, None).map_err(|fault| self.fault(holder, &fault))?;
        if let Some(id) = answered.root().get("id").and_then(Value::text).filter(|id| !id.is_empty()) {
            kept(self.own(holder, &Ids { conversation: Some(id.clone().into_owned()), ..Ids::default() }).await)?;
            let object = Object { upstream: holder.upstream, foreign: false, got: Got::Withheld };
            let row = replicated::keep_object(self.app, self.scope, &id, object);
            kept(replicated::store(self.app, row.into_iter().collect()).await)?;
            let memo = match &begun {
                Some((_, begun)) => conversation_update::remember(&begun.context, None, Some(&id), &[], Vec::new(), Vec::new()),
                // All that there is of it is known: nothing.
                None => crate::exchange::conversation::Memo { conversation: Some(id.into_owned()), ..Default::default() },
            };
            kept(replicated::keep(self.app, self.scope, memo).await)?;
        }
        let violations = match begun {
            Some((written, begun)) => self.noted(&written, begun).await,
            None => Vec::new(),
        };
        Ok(self.answer(holder, headers, json, &violations))
    }

    async fn conversation(&self, id: &str, method: Method, incoming: &Incoming) -> Result<Response<Body>, Failure> {
        let holder = self.holder_of(id).await?;
        let body = if method == Method::POST { incoming.body.clone() } else { Bytes::new() };
        if method == Method::POST {
            let document = read(body.clone(), self.standard, DEPTH_NOTED)?;
            unique_in_request(document.root(), "the request")?;
            if document.root().members().any(|member| !member.is("metadata")) {
                return Err(Refusal::new("invalid_request", None, "only `metadata` of a conversation can be changed").into());
            }
        }
        let rest = format!("/conversations/{id}");
        let (headers, body) = whole!(self.ask(holder, method.clone(), &rest, incoming.query.as_deref(), &incoming.headers, body).await?);
        if method == Method::DELETE {
            replicated::forget(self.app, self.scope, id);
        }
        let document = self.document(holder, body)?;
        let json = stored::bare(&document, &CONVERSATION, None).map_err(|fault| self.fault(holder, &fault))?;
        Ok(self.answer(holder, headers, json, &[]))
    }

    async fn write_items(&self, id: &str, incoming: &Incoming) -> Result<Response<Body>, Failure> {
        let holder = self.holder_of(id).await?;
        let document = read(incoming.body.clone(), self.standard, DEPTH_NOTED)?;
        if document.root().get("items").is_none() {
            return Err(Refusal::new("invalid_request", Some("items"), "`items` is missing").into());
        }
        let ItemWrite { body, begun } = self.writing(holder, &document, Some(id)).await?;
        let rest = format!("/conversations/{id}/items");
        let came = self.ask(holder, Method::POST, &rest, incoming.query.as_deref(), &incoming.headers, body).await?;
        let (headers, body) = whole!(came);
        let answered = self.document(holder, body)?;
        let mut violations = Vec::new();
        if let Some((written, begun)) = begun {
            let memo = conversation_update::remember(&begun.context, None, Some(id), &[], Vec::new(), Vec::new());
            let stored = replicated::keep(self.app, self.scope, memo).await;
            violations = self.noted(&written, begun).await;
            // To write it again would have it twice in the conversation.
            let is_told = violations.iter().any(|violation| violation.code == Code::LedgerUnavailable);
            violations.extend(stored.err().filter(|_| !is_told).and_then(|_| replicated::unavailable(&self.standard.rules.checks)));
        }
        let thread = self.app.memory.conversation(self.scope, id);
        if let Some(items) = answered.root().get("data") {
            self.load_items(items).await?;
        }
        let page = self.known(thread.as_deref(), |known| stored::list(&answered, &known)).map_err(|fault| self.fault(holder, &fault))?;
        // What was written is written: that it can't be shown is no reason to write it again.
        violations.extend(self.incomplete(page.unknown).unwrap_or_default());
        self.own_items(holder, &page.json).await;
        Ok(self.answer(holder, headers, page.json, &violations))
    }

    /// Request that writes items, which are prepared.
    async fn writing(&self, holder: Holder, document: &Document, conversation: Option<&str>) -> Result<ItemWrite, Failure> {
        let root = document.root();
        if !root.is_object() {
            return Err(Refusal::new("invalid_request", None, "the request must be a JSON object").into());
        }
        unique_in_request(root, "the request")?;
        let Some(items) = root.get_some("items") else { return Ok(ItemWrite { body: document.bytes().clone(), begun: None }) };
        if !items.is_array() {
            return Err(Refusal::wrong("items", "an array of items").into());
        }
        let of = conversation.map(|id| format!(",\"conversation\":{}", quote(id))).unwrap_or_default();
        let (written, begun) = self.verified(holder, format!("{{\"input\":{}{of}}}", items.raw_str()).into()).await?;
        let prepared = Document::parse(begun.body.joined()).map_err(|_| internal())?;
        let input = prepared.root().get("input").ok_or_else(internal)?;
        let mut edits = Splices::default();
        edits.replace(items.span(), input.raw_str().to_owned());
        Ok(ItemWrite { body: edits.apply(document.bytes()), begun: Some((written, begun)) })
    }

    /// Stores the marks by which the application knows the calls that it wrote. Returns the violations found in them.
    async fn noted(&self, written: &Document, begun: Begun) -> Vec<Violation> {
        let mut marks = Vec::new();
        for item in written.root().get("input").into_iter().flat_map(Value::items) {
            let id = item.get("call_id").and_then(Value::text).unwrap_or_default();
            let Some(mark) = CallMark::parse(&id).filter(|mark| self.app.ring.made(mark, self.scope)) else { continue };
            marks.extend(mark.upstream_id().map(|own| (own.to_owned(), id.clone().into_owned())));
        }
        let stored = replicated::keep_marks(self.app, self.scope, &marks).await;
        let late = stored.err().and_then(|_| replicated::unavailable(&self.standard.rules.checks));
        begun.violations.into_iter().chain(late).collect()
    }

    /// Reads what other replicas know of listed items.
    async fn load_items(&self, items: Value<'_>) -> Result<(), Failure> {
        replicated::load_items(self.app, self.scope, items).await.map_err(|_| replicated::unavailable_now())
    }
}

/// Request that writes items.
struct ItemWrite {
    body: Bytes,
    /// The items as a request, and that request prepared.
    begun: Option<(Document, Begun)>,
}

/// A request with its prepared members, without those that only concern an answer.
fn prepared(document: &Document, begun: &Begun) -> Result<Bytes, Failure> {
    let made = Document::parse(begun.body.joined()).map_err(|_| internal())?;
    let mut edits = Splices::default();
    for name in ["input", "previous_response_id", "tools"] {
        if let Some(own) = made.root().get(name).filter(|own| document.root().get(name).is_none_or(|came| came.raw() != own.raw())) {
            edits.set_member(document.root(), name, own.raw_str());
        }
    }
    Ok(edits.apply(document.bytes()))
}

/// What another replica must know is in the ledger, or the client has to ask again.
fn kept(stored: Result<(), LookupUnavailable>) -> Result<(), Failure> {
    stored.map_err(|LookupUnavailable| replicated::unavailable_now())
}

fn not_found(code: &'static str, message: String) -> Failure {
    Failure::new(StatusCode::NOT_FOUND, code, message)
}

fn internal() -> Failure {
    Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "the items can't be prepared")
}

fn keeps_nothing() -> Failure {
    let message = "the upstream has no Responses API of its own (`responses = \"translate\"`), so nothing is kept there: send the whole conversation in `input`";
    Failure::new(StatusCode::NOT_IMPLEMENTED, "endpoint_not_enforced", message)
}

/// Value of the last parameter with this name.
fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    let pairs = form_urlencoded::parse(query?.as_bytes());
    pairs.filter(|(own, _)| own == name).last().map(|(_, value)| value.into_owned())
}

/// The query without these parameters, otherwise as it was written.
fn without(query: Option<&str>, names: &[&str]) -> Option<String> {
    let is = |part: &&str| !form_urlencoded::parse(part.as_bytes()).any(|(own, _)| names.contains(&&*own));
    let kept: Vec<&str> = query?.split('&').filter(is).collect();
    (!kept.is_empty()).then(|| kept.join("&"))
}

/// True for an error's words that speak of an execution: there is no conversation here that they could be judged by.
fn speaks_of_executions(words: &str) -> bool {
    let is_id = |word: &str| ExecutionId::parse(word).is_some();
    words.to_ascii_lowercase().contains("execution") || words.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-').any(is_id)
}
