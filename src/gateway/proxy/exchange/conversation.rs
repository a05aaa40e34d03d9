//! Updates of the conversation that an exchange belongs to, where the upstream stores it: what later exchanges need to know.

use bytes::Bytes;
use http::StatusCode;

use crate::{
    exchange::{
        context::Context,
        conversation::{Fate, Left, Memo, RejectedUpdate},
    },
    ledger::sealed_kv::IntentSlot,
    marks::Scope,
    openai::Api,
    proxy::upstream::CallerCredential,
    proxy::{
        app::App,
        conversations::{
            originals::{Got, Object, Turn},
            replicated::{self, KvEntry},
        },
        http::failure::Failure,
        upstream::{Endpoint, select::UpstreamSelection},
    },
    responses::stored::Ids,
    wire::json::string::quote,
};

/// Updates of one exchange that are still to be stored.
#[derive(Default)]
pub struct ConversationUpdates {
    /// Update to store if the exchange ends without an accepted turn.
    unanswered: Option<Memo>,
    /// Dispositions of items of rejected attempts, if the upstream stores them.
    dropped: Vec<(String, Fate)>,
    /// The start of the stream's response was stored.
    is_begun: bool,
    /// Response that was requested earlier and is fetched now.
    fetched: Option<Fetched>,
    /// Rows for the ledger: objects that the caller owns now, and what another replica must know of the conversation.
    rows: Vec<KvEntry>,
}

/// Response that is fetched after it was made in the background.
pub struct Fetched {
    /// ID of the response, as the application has it.
    id: String,
    /// Permit to judge it, until the exchange has ended.
    _turn: Turn,
}

impl Fetched {
    /// Response with this ID, as the application has it, and the permit to judge it.
    pub fn new(id: String, turn: Turn) -> Self {
        Self { id, _turn: turn }
    }
}

/// Process, exchange and upstream that updates are stored for.
#[derive(Clone, Copy)]
pub struct ConversationPlace<'p> {
    /// The process's state.
    pub app: &'p App,
    /// The exchange.
    pub context: &'p Context,
    /// Its upstream.
    pub selection: &'p UpstreamSelection,
    /// The same, as this worker reaches it.
    pub endpoint: &'p Endpoint,
}

impl ConversationPlace<'_> {
    /// True if the upstream would open what this exchange stores there to every caller.
    fn is_everybodys(&self) -> bool {
        let caller = if self.selection.is_foreign() { CallerCredential::Withheld } else { self.app.caller_credential() };
        (self.context.hidden.store || self.selection.api() == Api::Responses) && self.endpoint.opens_everybodys(caller)
    }
}

impl ConversationUpdates {
    /// Records that this response was requested earlier and is fetched now.
    pub fn fetch(&mut self, fetched: Fetched) {
        self.fetched = Some(fetched);
    }

    /// Records the error that the application got for a response that was fetched: it gets the same again.
    pub fn refuse(&mut self, place: ConversationPlace<'_>, failure: &Failure) {
        let fetched = self.fetched.as_ref().filter(|_| failure.status == StatusCode::UNPROCESSABLE_ENTITY);
        if let Some(id) = fetched.map(|fetched| fetched.id.clone()) {
            self.keep_object(place, &id, Got::Refused(failure.json().into()));
        }
    }

    /// Stores a conversation update. One of a response that is fetched is added to what is known by now.
    fn keep(&mut self, app: &App, scope: &Scope, memo: Memo) {
        let memory = &app.memory;
        let known = self.fetched.as_ref().and_then(|fetched| memory.response(scope, &fetched.id));
        if let (Some(id), true) = (&memo.conversation, self.fetched.is_some()) {
            let thread = memory.conversation(scope, id).map_or_else(|| memo.thread.clone(), |thread| thread.answered(&memo));
            self.remember(app, scope, Memo { conversation: Some(id.clone()), thread, ..Memo::default() });
        }
        let memo = match known {
            Some(thread) => Memo { conversation: None, thread: thread.answered(&memo), ..memo },
            None if self.fetched.is_some() => Memo { conversation: None, ..memo },
            None => memo,
        };
        self.remember(app, scope, memo);
    }

    /// Stores a conversation update in this process, and its rows until they go to the ledger.
    fn remember(&mut self, app: &App, scope: &Scope, memo: Memo) {
        self.rows.extend(replicated::rows(app, scope, &memo));
        app.memory.keep(scope, memo);
    }

    /// Adds rows for the ledger.
    pub fn replicate(&mut self, rows: Vec<KvEntry>) {
        self.rows.extend(rows);
    }

    /// Records a rejected turn.
    pub fn reject(&mut self, update: RejectedUpdate) {
        self.dropped.extend(update.items);
        self.unanswered = update.unanswered;
    }

    /// Stores the update that later exchanges need.
    pub fn store(&mut self, place: ConversationPlace<'_>, memo: Option<Memo>) {
        self.unanswered = None;
        let Some(mut memo) = memo else { return };
        let ConversationPlace { app, context, .. } = place;
        let items = match &memo.left {
            Some(Left::Whole(left)) if place.is_everybodys() || app.recorder.is_shared() => Ids::of(left).items,
            Some(_) | None => Vec::new(),
        };
        // The next request may name them, and needn't ask the ledger for them here.
        items.iter().filter(|id| !id.is_empty()).for_each(|id| app.memory.keep_untouched(&context.scope, id));
        self.note_owned(place, Ids { response: memo.responses.first().cloned(), conversation: memo.conversation.clone(), items });
        let mut dropped = std::mem::take(&mut self.dropped);
        if let Some(Left::Whole(left)) = &memo.left {
            // Upstreams may number the items of each answer anew: what was passed on stands.
            dropped.retain(|(id, _)| memchr::memmem::find(left, quote(id).as_bytes()).is_none());
        }
        memo.items.append(&mut dropped);
        if let (Some(left), Some(id)) = (memo.left.take(), memo.responses.first()) {
            let request = || Got::Awaited(context.request().bytes().clone());
            self.keep_object(place, id, if let Left::Whole(left) = left { Got::Whole(left) } else { request() });
        }
        if let Some(id) = &memo.conversation {
            self.keep_object(place, id, Got::Withheld);
        }
        memo.items.extend(memo.thread.owed.iter().map(|owed| (owed.call_id.clone(), Fate::Dropped)));
        self.keep(app, &context.scope, memo);
    }

    /// [`Self::store`] if the upstream gave no answer in the end: the conversation stays where the attempt before left it.
    pub fn store_without_answer(&mut self, place: ConversationPlace<'_>, memo: Option<Memo>) {
        let unanswered = self.unanswered.take();
        self.store(place, memo.map(|memo| Memo { conversation: None, ..memo }));
        self.unanswered = unanswered;
    }

    /// Notes that the caller owns the objects that an answer made: a response, or the event that contains it.
    pub fn note_owned_of(&mut self, place: ConversationPlace<'_>, answer: &Bytes) {
        if place.is_everybodys() {
            self.note_owned(place, Ids::of(answer));
        }
    }

    /// Notes that the caller owns these objects. INVARIANT: those that the request itself names were found to be the
    /// caller's before it was sent.
    fn note_owned(&mut self, place: ConversationPlace<'_>, mut ids: Ids) {
        if !place.is_everybodys() {
            return;
        }
        let ConversationPlace { app, context, endpoint, .. } = place;
        if context.observes() && context.hidden.conversation.is_some() {
            // What nobody is known to own is asked for there, and to name it makes nobody its owner.
            ids.conversation = None;
        }
        self.rows.extend(app.owners.note(&context.scope, &endpoint.settings.name, &ids));
    }

    /// Takes the rows for the ledger.
    pub fn take_rows(&mut self) -> Vec<KvEntry> {
        std::mem::take(&mut self.rows)
    }

    /// Stores the update of an exchange that ends without an accepted turn, if it does. Nothing is attempted after this.
    pub fn settle(&mut self, app: &App, context: &Context) {
        if let Some(mut memo) = self.unanswered.take() {
            memo.items.append(&mut self.dropped);
            self.keep(app, &context.scope, memo);
        }
    }

    /// Stores what is left if the exchange ends without an accepted turn.
    pub fn end(&mut self, app: &App, context: &Context) {
        self.settle(app, context);
        if !self.rows.is_empty() {
            // What couldn't be kept is known to this process.
            let _kept = app.recorder.shelf().put_behind(self.take_rows(), IntentSlot::default(), app.now_ms());
        }
    }

    /// Records the start of a stream's response: until it has ended, it can't be retrieved otherwise, unless it is
    /// generated in the background.
    pub fn begin_response(&mut self, place: ConversationPlace<'_>, id: impl FnOnce() -> Option<String>) {
        let context = place.context;
        if self.is_begun || self.fetched.is_some() || !context.hidden.store {
            return;
        }
        let Some(id) = id().filter(|id| !id.is_empty()) else { return };
        self.is_begun = true;
        self.note_owned(place, Ids { response: Some(id.clone()), ..Ids::default() });
        if context.observes() {
            return;
        }
        let got = if context.hidden.background { Got::Awaited(context.request().bytes().clone()) } else { Got::Withheld };
        self.keep_object(place, &id, got);
    }

    /// Stores the upstream that has an object, and what the application got of it.
    fn keep_object(&mut self, place: ConversationPlace<'_>, id: &str, got: Got) {
        let ConversationPlace { app, context, selection, .. } = place;
        // Who has it is known, and stays so.
        let known = self.fetched.as_ref().and_then(|_| app.originals.get(&context.scope, id));
        let (upstream, foreign) =
            known.map_or_else(|| (selection.upstream(), selection.is_foreign()), |known| (known.upstream, known.foreign));
        self.rows.extend(replicated::keep_object(app, &context.scope, id, Object { upstream, foreign, got }));
    }
}
