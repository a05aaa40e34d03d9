//! Table of places: where an answer's calls and texts are read and judged, and how everything else an upstream sends is
//! treated. One table for all APIs, for buffered answers and streams.
//!
//! | Content in an unknown place | Treatment |
//! |---|---|
//! | nothing (`null`, `""`, `[]`, `{}`), a number, a boolean | it passes |
//! | a call, or what a client might take for one | the answer is refused: an application could run it |
//! | what the model thought (`reasoning…`, `thinking…`) | it passes: reasoning is no answer |
//! | an echo of the request (`messages`, `prompt`, `input`) | it is left out: it shows what toolmark made of it |
//! | a text under a name that clients read (`text`, `delta`, `message` …) | it is left out: a copy says nothing new, anything else is recorded |
//! | anything else | it is judged by itself; what claims something that may not be claimed is left out and recorded |
//!
//! Left-out text is recorded as `stray_text`. An answer is rewritten once, on arrival, before anything else reads it.
//! Pure.

use std::{borrow::Cow, cell::Cell};

use wide::u8x16;

use crate::{
    exchange::{
        context::Context,
        error::ShapeError,
        text::place::{is_nothing, strings_of},
    },
    judge::text::TextGate,
    violation::{Code, Violation},
    wire::json::{Document, JsonError, Kind, Member, Value, splice::Splices},
};

/// Maximum depth to which values are examined.
const DEPTH_MAX: usize = 64;
/// Limit for strings outside the text of one answer or event that are judged one by one; each needs its own gate.
const JUDGED_MAX: usize = 1000;
/// Minimum length of a string that can make a claim, in bytes.
const CLAIM_BYTES_MIN: usize = 12;

/// Member names under which some client might look for a call.
static CALLS: NameList =
    NameList::of(&["toolcall", "toolcalls", "functioncall", "functioncalls", "customtoolcall", "customtoolcalls", "tooluse", "tooluses"]);
/// Member names under which some client might look for the text of an answer.
static TEXTS: NameList = NameList::of(&[
    "choices",
    "chunk",
    "part",
    "items",
    "parsed",
    "text",
    "content",
    "contents",
    "message",
    "delta",
    "refusal",
    "outputtext",
    "response",
    "completion",
    "generatedtext",
    "transcript",
    "output",
    "outputs",
    "outputmessages",
    "answer",
    "parts",
    "candidates",
    "audio",
    "item",
]);
/// Member names under which some upstreams repeat the request.
static ECHOES: NameList = NameList::of(&["messages", "prompt", "input", "inputs"]);
/// Types of content parts and items that are calls.
static CALL_TYPES: NameList =
    NameList::of(&["toolcall", "functioncall", "customtoolcall", "tooluse", "toolcalls", "functioncalls", "shellcall", "applypatchcall"]);

/// A list of names in lower case, without `_` and `-`.
struct NameList {
    names: &'static [&'static str],
    /// One bit for each letter that a name begins with.
    firsts: u32,
}

impl NameList {
    const fn of(names: &'static [&'static str]) -> Self {
        let (mut firsts, mut at) = (0, 0);
        while at < names.len() {
            firsts |= 1 << (names[at].as_bytes()[0] - b'a');
            at += 1;
        }
        Self { names, firsts }
    }

    /// True if this name is in the list, ignoring case, `_` and `-`, as some clients do.
    #[inline]
    fn has(&self, name: &str) -> bool {
        let first = name.bytes().find(|byte| !matches!(byte, b'_' | b'-')).map_or(0, |byte| byte.to_ascii_lowercase());
        first.is_ascii_lowercase() && self.firsts >> (first - b'a') & 1 == 1 && self.has_folded(name, first)
    }

    fn has_folded(&self, name: &str, first: u8) -> bool {
        let folded = || name.bytes().filter(|byte| !matches!(byte, b'_' | b'-')).map(|byte| byte.to_ascii_lowercase());
        self.names.iter().any(|own| own.as_bytes().first() == Some(&first) && folded().eq(own.bytes()))
    }
}

/// True for names of members that hold reasoning, which is not part of the answer.
#[inline]
pub fn is_thought(name: &str) -> bool {
    let begins = |own: &str| name.as_bytes().first() == own.as_bytes().first();
    ["reasoning", "thinking", "thought", "signature", "encrypted"].iter().any(|own| begins(own) && name.starts_with(own))
}

/// True for a name under which some client might look for a call.
pub fn is_call_name(name: &str) -> bool {
    CALLS.has(name)
}

/// True if a value holds something that could be run: a non-empty object, or a string that might be JSON.
fn might_run(value: Value<'_>) -> bool {
    match value.kind() {
        Kind::Object => !is_nothing(value),
        Kind::Array => value.items().any(might_run) || (value.items().next().is_none() && !is_nothing(value)),
        Kind::Plain | Kind::Escaped => value.text().is_some_and(|text| text.trim_start().starts_with(['{', '[', '<'])),
        Kind::Null | Kind::True | Kind::False | Kind::Number => false,
    }
}

/// True if an object has the members of a call, whatever its type. Not for objects with a result, which ran already,
/// nor for calls that the server runs itself.
fn is_like_call(object: Value<'_>) -> bool {
    let some = |name: &str| object.get(name).is_some_and(|value| !is_nothing(value));
    let has = |name: &str| object.get(name).is_some();
    let kind = object.get("type").and_then(Value::text).unwrap_or_default();
    let hosted = || kind.starts_with("server_") || kind.starts_with("mcp_") || some("output") || some("result");
    CALL_TYPES.has(&kind) || (some("name") && (has("arguments") || has("input")) && !hosted())
}

/// True if a content part is a call or contains one.
pub fn is_call_part(part: Value<'_>) -> bool {
    is_like_call(part) || part.members().any(|member| is_call_name(&member.name()) && might_run(member.value))
}

/// Meaning of a member's name to clients.
#[derive(Clone, Copy, Eq, PartialEq)]
enum MemberName {
    /// Some client looks for answers under it, so that anything shaped like a call in it counts as one.
    Read,
    /// No client is known to read it.
    Unread,
}

/// Refuses calls in an unknown member.
fn refuse_calls(name: &str, value: Value<'_>, read: MemberName, depth: usize) -> Result<(), ShapeError> {
    if is_call_name(name) && might_run(value) {
        return Err(ShapeError::Text);
    }
    match value.kind() {
        Kind::Object if hides(value) => again(value, |root| refuse_calls("", root, read, depth + 1), depth),
        Kind::Object => {
            if read == MemberName::Read && is_like_call(value) {
                return Err(ShapeError::Text);
            }
            let mut members = value.members().filter(|member| !is_plain(member.value));
            members.try_for_each(|member| refuse_calls(&member.name(), member.value, read, depth))
        }
        Kind::Array if hides(value) => again(value, |root| refuse_calls("", root, read, depth + 1), depth),
        Kind::Array => value.items().try_for_each(|item| refuse_calls("", item, read, depth)),
        _ => Ok(()),
    }
}

/// True for a number, a boolean or `null`: it can hold neither a call nor a text.
fn is_plain(value: Value<'_>) -> bool {
    matches!(value.kind(), Kind::Null | Kind::True | Kind::False | Kind::Number)
}

/// True for a non-empty value with unindexed contents: it is nested too deeply.
fn hides(value: Value<'_>) -> bool {
    value.members().next().is_none() && value.items().next().is_none() && !is_nothing(value)
}

/// Examines a value with unindexed contents by parsing it again.
fn again<T: Default, E: From<ShapeError>>(value: Value<'_>, look: impl FnOnce(Value<'_>) -> Result<T, E>, depth: usize) -> Result<T, E> {
    // INVARIANT: JSON nests no deeper than is noted sixteen times over, so this ends first.
    if depth > DEPTH_MAX {
        return Err(ShapeError::Text.into());
    }
    let document = Document::parse(value.raw_bytes()).map_err(|_| ShapeError::Text)?;
    look(document.root())
}

/// Refuses calls in a copy, except those that are also in the original, byte for byte.
fn refuse_other_calls(copy: Value<'_>, original: Value<'_>) -> Result<(), ShapeError> {
    let same = |member: &Member<'_>| original.get(&member.name()).is_some_and(|own| own.raw() == member.value.raw());
    let mut others = copy.members().filter(|member| !(is_call_name(&member.name()) && same(member)));
    others.try_for_each(|member| refuse_calls(&member.name(), member.value, MemberName::Read, 0))
}

/// Refuses calls in all members of an object except `own`, which are read elsewhere. Texts in the other members are
/// lost if the answer is rewritten. `original` is a value that another member may repeat as a whole.
///
/// # Errors
/// [`ShapeError::Text`].
pub fn refuse_calls_beside(object: Value<'_>, own: &[&str], original: Option<Value<'_>>) -> Result<(), ShapeError> {
    for member in object.members() {
        let (name, value) = (member.name(), member.value);
        if own.contains(&&*name) || ECHOES.has(&name) {
            continue;
        }
        let text = TEXTS.has(&name);
        match original.filter(|_| text && value.is_object()) {
            Some(original) => refuse_other_calls(value, original)?,
            None => refuse_calls(&name, value, if text { MemberName::Read } else { MemberName::Unread }, 0)?,
        }
    }
    Ok(())
}

/// Extent of the text in an answer or event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TextExtent {
    /// The whole text.
    Whole,
    /// A piece: the text continues in other events.
    Piece,
}

/// Pass over one answer, or one event of it, that removes or judges everything in unknown places.
pub struct Sweep<'c> {
    context: &'c Context,
    edits: Splices,
    /// True if something was left out that isn't a copy of judged text.
    pub differs: bool,
    /// Number of strings judged so far.
    judged: Cell<usize>,
}

impl<'c> Sweep<'c> {
    /// Starts a pass; nothing is left out yet.
    pub fn new(context: &'c Context) -> Self {
        Self { context, edits: Splices::default(), differs: false, judged: Cell::new(0) }
    }

    /// Sets the role of an answer's message to the assistant's: applications append the message to the conversation as it is.
    pub fn role(&mut self, message: Value<'_>) {
        if let Some(role) = message.get_some("role").filter(|role| !role.is_text("assistant") && !is_nothing(*role)) {
            self.edits.replace(role.span(), "\"assistant\"");
        }
    }

    /// Examines one level of an object. `own`: members that are read elsewhere; `original`: a value that another member
    /// may repeat as a whole; `said`: the judged text, of which other members may be copies.
    ///
    /// # Errors
    /// [`ShapeError::Text`] for a call in an unknown place.
    pub fn object<'s>(
        &mut self,
        object: Value<'_>,
        own: &[&str],
        original: Option<Value<'_>>,
        said: impl Fn() -> Cow<'s, str>,
    ) -> Result<(), ShapeError> {
        let mut gone: Vec<Cow<'_, str>> = Vec::new();
        for member in object.members() {
            let value = member.value;
            if is_plain(value) || is_nothing(value) {
                if member.key.raw().len() >= CLAIM_BYTES_MIN + 2 && self.claims(&member.name()) {
                    self.differs = true;
                    gone.push(member.name());
                }
                continue;
            }
            let name = member.name();
            if own.contains(&&*name) || (is_about(&name) && value.kind() == Kind::Plain && is_token(value.raw())) {
                continue;
            }
            if ECHOES.has(&name) {
                gone.push(name);
                continue;
            }
            let text = TEXTS.has(&name);
            match original.filter(|_| text && value.is_object()) {
                Some(original) => refuse_other_calls(value, original)?,
                None => refuse_calls(&name, value, if text { MemberName::Read } else { MemberName::Unread }, 0)?,
            }
            if text || is_call_name(&name) {
                self.differs |= !is_copy(value, &said());
                gone.push(name);
            } else if !is_thought(&name) && (self.claims(&name) || self.objects_to(value)?) {
                self.differs = true;
                gone.push(name);
            }
        }
        if !gone.is_empty() {
            self.edits.remove_members(object, |name| gone.iter().any(|gone| gone == name));
        }
        Ok(())
    }

    /// Judges each member except `own` of an object that no client takes for an answer, and leaves out members with
    /// unverifiable claims.
    ///
    /// # Errors
    /// [`ShapeError::Text`] for a call.
    pub fn judge_members(&mut self, object: Value<'_>, own: &[&str]) -> Result<(), ShapeError> {
        let mut gone: Vec<Cow<'_, str>> = Vec::new();
        for member in object.members() {
            let name = member.name();
            if own.contains(&&*name) {
                continue;
            }
            refuse_calls(&name, member.value, MemberName::Unread, 0)?;
            if !is_thought(&name) && (self.claims(&name) || self.objects_to(member.value)?) {
                gone.push(name);
            }
        }
        if !gone.is_empty() {
            self.differs = true;
            self.edits.remove_members(object, |name| gone.iter().any(|gone| gone == name));
        }
        Ok(())
    }

    /// True if anything is left out or replaced.
    pub fn changes(&self) -> bool {
        !self.edits.is_empty()
    }

    /// Empties a string in a place where no text belongs yet.
    pub fn empty(&mut self, string: Value<'_>) {
        self.differs = true;
        self.edits.replace(string.span(), "\"\"");
    }

    /// Restores a value to `came`, the application's original.
    pub fn restore(&mut self, value: Value<'_>, came: &str) {
        self.edits.replace(value.span(), came);
    }

    /// Replaces a value.
    pub fn replace(&mut self, value: Value<'_>, with: &str) {
        self.differs = true;
        self.edits.replace(value.span(), with);
    }

    /// Examines `logprobs`: their tokens must spell the text beside them; others are judged like any text, or left out
    /// if they are only a piece of one. `empty`: replacement for left-out logprobs; `extent`: of the text
    /// in this event.
    ///
    /// # Errors
    /// [`ShapeError::Text`] for a call in an unknown place.
    pub fn logprobs(&mut self, holder: Value<'_>, said: &[Cow<'_, str>], extent: TextExtent, empty: &str) -> Result<(), ShapeError> {
        let Some(logprobs) = logprobs_of(holder) else { return Ok(()) };
        refuse_calls("logprobs", logprobs, MemberName::Unread, 0)?;
        let mut objects = self.objects_to(logprobs)?;
        let lists = ["content", "refusal", "tokens"].into_iter().filter_map(|name| logprobs.get(name));
        for list in lists.chain(Some(logprobs).filter(|own| own.is_array())) {
            let (spelled, differs) = spelled(list);
            let bare = bare(&spelled);
            let copy = bare.is_empty() || said.iter().any(|said| self::bare(said) == bare);
            // Clients may read the tokens or their bytes.
            objects |= differs || !copy && (extent == TextExtent::Piece || self.claims(&spelled));
        }
        if objects {
            self.replace(logprobs, empty);
        }
        Ok(())
    }

    /// True if the value contains a string with an unverifiable claim.
    ///
    /// # Errors
    /// [`ShapeError::Text`] if the value is nested too deeply.
    pub fn objects_to(&self, value: Value<'_>) -> Result<bool, ShapeError> {
        // As the counts of tokens are, which nearly every answer has.
        if is_of_tokens(value.raw()) { Ok(false) } else { self.objects_within(value, 0) }
    }

    fn objects_within(&self, value: Value<'_>, depth: usize) -> Result<bool, ShapeError> {
        match value.kind() {
            Kind::Plain | Kind::Escaped => {
                let long = value.raw().len() >= CLAIM_BYTES_MIN + 2;
                Ok(long && value.text().is_some_and(|text| self.claims(&text)))
            }
            Kind::Array | Kind::Object if hides(value) => again(value, |root| self.objects_within(root, depth + 1), depth),
            Kind::Array => self.any(value.items(), depth),
            Kind::Object => value.members().try_fold(false, |found, member| {
                let long = member.key.raw().len() >= CLAIM_BYTES_MIN + 2;
                if found || (is_plain(member.value) && !long) {
                    return Ok(found);
                }
                let name = member.name();
                Ok((long && self.claims(&name)) || (!is_thought(&name) && self.objects_within(member.value, depth)?))
            }),
            Kind::Null | Kind::True | Kind::False | Kind::Number => Ok(false),
        }
    }

    fn any<'d>(&self, mut values: impl Iterator<Item = Value<'d>>, depth: usize) -> Result<bool, ShapeError> {
        values.try_fold(false, |found, value| Ok(found || self.objects_within(value, depth)?))
    }

    fn claims(&self, text: &str) -> bool {
        if is_short(text) {
            return false;
        }
        self.judged.set(self.judged.get() + 1);
        // Who sends so many isn't listened to any more.
        self.judged.get() > JUDGED_MAX || claims(self.context, text)
    }

    /// The document without what is left out; `None` if it is unchanged.
    ///
    /// # Errors
    /// [`JsonError`] if the result isn't JSON, which would be a bug.
    pub fn finish(self, document: &Document) -> Result<Option<Document>, JsonError> {
        if self.edits.is_empty() {
            return Ok(None);
        }
        Document::parse(self.edits.apply(document.bytes())).map(Some)
    }
}

/// True if a text, by itself, makes a claim that can't be verified.
pub fn claims(context: &Context, text: &str) -> bool {
    if is_short(text) {
        return false;
    }
    let mut gate = TextGate::default();
    context.take(&mut gate, text);
    let claim = |violation: &Violation| violation.blocks() && CLAIMS.contains(&violation.code);
    // What only the ledger could tell isn't waited for.
    gate.violations().iter().any(claim) || (gate.blocked().is_none() && gate.cleared() < text.len())
}

/// True if a text is too short to claim anything, or is a single token.
fn is_short(text: &str) -> bool {
    text.len() < CLAIM_BYTES_MIN || is_token(text.as_bytes())
}

/// Violations that are looked for outside the text of an answer.
const CLAIMS: [Code; 6] = [
    Code::UnknownExecution,
    Code::ExpiredExecution,
    Code::ExecutionElsewhere,
    Code::ToolMismatch,
    Code::MissingExecutionId,
    Code::UnsupportedClaim,
];

/// The `logprobs` of an object, unless empty.
pub fn logprobs_of(holder: Value<'_>) -> Option<Value<'_>> {
    holder.get("logprobs").filter(|own| !is_nothing(*own))
}

/// The `stray_text` violation: text beside the answer, different from it or with an unverifiable claim, was left out.
pub fn stray(context: &Context) -> Option<Violation> {
    let message = "the upstream sent text beside the answer that differs from it, or claims what it may not: it was left out";
    context.rules.checks.violation(Code::StrayText, None, message, "")
}

/// True for names of metadata that nearly every answer has.
fn is_about(name: &str) -> bool {
    matches!(
        name,
        "id" | "finish_reason"
            | "object"
            | "model"
            | "system_fingerprint"
            | "service_tier"
            | "obfuscation"
            | "provider"
            | "type"
            | "role"
            | "status"
    )
}

/// Bytes that [`is_token`] looks at at once.
const LANES: usize = 16;

/// True for a single word of base64, a digest, a name or a URL, with or without quotes: nothing that makes a claim, and
/// no execution's id.
pub fn is_token(bytes: &[u8]) -> bool {
    consists_of::<false>(bytes)
}

/// True for JSON without lists in whose strings there is nothing but such words, if it has no blanks.
fn is_of_tokens(json: &[u8]) -> bool {
    consists_of::<true>(json)
}

/// [`is_token`]; `BRACES`: braces as those of objects count as parts of words. In a string, no name would stand in quotes behind one.
fn consists_of<const BRACES: bool>(bytes: &[u8]) -> bool {
    let (chunks, rest) = bytes.as_chunks::<LANES>();
    let mut padded = [b'.'; LANES];
    padded[..rest.len()].copy_from_slice(rest);
    let mut suspects = chunks.iter().chain([&padded]).enumerate().filter_map(|(number, chunk)| match token_chunk::<BRACES>(chunk) {
        Some(0) => None,
        found => Some((number * LANES, found)),
    });
    suspects.all(|(from, found)| {
        found.is_some_and(|places| (0..LANES).filter(|place| places >> place & 1 == 1).all(|place| !names_execution(bytes, from + place)))
    })
}

/// The places in a chunk, one bit for each byte, at which an execution might be named; `None` if a byte is in no word.
#[inline]
fn token_chunk<const BRACES: bool>(chunk: &[u8; LANES]) -> Option<u32> {
    let bytes = u8x16::new(*chunk);
    let is = |byte: u8| bytes.simd_eq(u8x16::splat(byte));
    let lower = bytes | u8x16::splat(0x20);
    let within = |bytes: u8x16, first: u8, last: u8| {
        let above = bytes - u8x16::splat(first);
        above.min(u8x16::splat(last - first)).simd_eq(above)
    };
    // From `+` to `;` lie `,`, `-`, `.`, `/`, the digits and `:`.
    let word = within(lower, b'a', b'z') | within(bytes, b'+', b';') | is(b'=') | is(b'"') | is(b'_');
    let word = if BRACES { word | is(b'{') | is(b'}') } else { word };
    if word.to_bitmask() != 0xffff {
        return None;
    }
    // Whatever follows the chunk's last byte may fit.
    let before = |next: u8x16| next.to_bitmask() >> 1 | 1 << (LANES - 1);
    let time = is(b'_').to_bitmask() & before(within(bytes, b'0', b'9'));
    let label = lower.simd_eq(u8x16::splat(b'e')).to_bitmask() & before(lower.simd_eq(u8x16::splat(b'x')));
    let opening = if BRACES { is(b'{').to_bitmask() & !(before(is(b'"') | is(b'}')) & !(1 << (LANES - 1))) } else { 0 };
    Some(time | label | opening)
}

/// True if an execution's id ends with what follows this place, a time of 13 digits and 16 hex digits, the label of one begins there, or
/// a block that isn't JSON.
fn names_execution(bytes: &[u8], at: usize) -> bool {
    let behind = |length: usize| bytes.get(at + 1..at + 1 + length);
    match bytes.get(at) {
        Some(b'_') => behind(13).is_some_and(|digits| digits.iter().all(u8::is_ascii_digit)),
        Some(b'e' | b'E') => behind(3).is_some_and(|word| word.eq_ignore_ascii_case(b"xec")),
        // A brace, at the end of a chunk or with another character behind it.
        Some(b'{') => !behind(1).is_some_and(|next| matches!(next, b"\"" | b"}")),
        _ => false,
    }
}

/// True if a value repeats only the judged text, as a whole or in parts.
fn is_copy(value: Value<'_>, said: &str) -> bool {
    match value.kind() {
        Kind::Plain | Kind::Escaped => value.text().is_some_and(|text| text.is_empty() || text == said),
        Kind::Object | Kind::Array if hides(value) => false,
        // Calls that aren't the very same were refused.
        Kind::Object => value.members().all(|member| {
            let name = member.name();
            is_about(&name) || is_call_name(&name) || is_copy(member.value, said)
        }),
        Kind::Array => {
            let joined = || joined(Some(value));
            value.items().all(|item| is_copy(item, said)) || (value.items().all(Value::is_string) && joined() == said)
        }
        Kind::Null | Kind::True | Kind::False | Kind::Number => true,
    }
}

/// Text spelled by a list of tokens, by their `bytes` where present; and whether the `bytes` of one spell another text than the token.
fn spelled(list: Value<'_>) -> (String, bool) {
    // Marks by which vocabularies write blanks and line breaks, and bytes that are no character.
    const BLANKS: [char; 3] = ['\u{120}', '\u{2581}', '\u{10a}'];
    let (mut out, mut differs) = (Vec::new(), false);
    for token in list.items() {
        let text = token.get("token").unwrap_or(token).text().unwrap_or_default();
        let bytes: Option<Vec<u8>> = token
            .get("bytes")
            .filter(|bytes| bytes.items().next().is_some())
            .and_then(|bytes| bytes.items().map(|byte| u8::try_from(byte.integer()?).ok()).collect());
        let Some(bytes) = bytes else {
            out.extend_from_slice(text.as_bytes());
            continue;
        };
        // vLLM names tokens by their numbers where it is asked to.
        let same = |spelled: &str| {
            text.starts_with("<0x")
                || text.starts_with("token_id:") && is_token(text.as_bytes())
                || bare(spelled) == bare(&text.replace(BLANKS, " "))
        };
        differs |= std::str::from_utf8(&bytes).is_ok_and(|spelled| !same(spelled));
        out.extend(bytes);
    }
    (String::from_utf8_lossy(&out).into_owned(), differs)
}

/// Text without blanks, without special tokens such as `<|end|>`, and without characters of which only a part is there: a token may end
/// within one.
fn bare(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<|") {
        match after.split_once("|>") {
            Some((inside, behind)) if inside.len() <= 32 && !inside.contains(char::is_whitespace) => {
                out.push_str(before);
                rest = behind;
            }
            _ => break,
        }
    }
    out.push_str(rest);
    out.retain(|c| !c.is_whitespace() && c != char::REPLACEMENT_CHARACTER);
    out
}

/// The text of a value, its parts joined; empty if it has none, or none that can be read.
pub fn joined(value: Option<Value<'_>>) -> Cow<'_, str> {
    match value {
        Some(value) if value.is_string() => value.text().unwrap_or_default(),
        Some(value) => {
            strings_of(value).map(|strings| strings.into_iter().filter_map(Value::text).collect::<String>().into()).unwrap_or_default()
        }
        None => Cow::Borrowed(""),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As [`is_token`], told byte by byte.
    fn is_token_by_bytes(bytes: &[u8]) -> bool {
        bytes.iter().enumerate().all(|(at, byte)| match byte {
            b'_' | b'e' | b'E' => !names_execution(bytes, at),
            b'-' | b'+' | b'/' | b'=' | b'.' | b':' | b',' | b';' | b'"' => true,
            letter => letter.is_ascii_alphanumeric(),
        })
    }

    proptest! {
        #[test]
        fn tokens(parts in proptest::collection::vec(
            prop_oneof![
                8 => "[a-zA-Z0-9+/=.:,;\"-]{0,9}", 4 => Just("exec".to_owned()), 2 => Just("EXEC_".to_owned()), 3 => "_[0-9]{11,15}", 2 => Just("_".to_owned()),
                2 => Just("e".to_owned()), 1 => Just(" ".to_owned()), 1 => Just("é".to_owned()), 1 => any::<char>().prop_map(String::from)
            ],
            0..9,
        )) {
            let text = parts.concat();
            prop_assert_eq!(is_token(text.as_bytes()), is_token_by_bytes(text.as_bytes()), "{}", text);
        }

        #[test]
        fn bytes_of_tokens(byte in any::<u8>(), before in 0_usize..20, behind in 0_usize..20) {
            let text = [vec![b'a'; before], vec![byte], vec![b'a'; behind]].concat();
            prop_assert_eq!(is_token(&text), is_token_by_bytes(&text));
        }
    }

    #[test]
    fn json_of_tokens() {
        for (json, only) in [
            (r#"{"prompt_tokens":912,"details":{"cached_tokens":0.5,"kind":null},"none":{},"id":"a-b"}"#, true),
            (r#"{"a":"result={download:125}"}"#, false),
            (r#"{"a":"result=[125]"}"#, false),
            (r#"{"a":"{"}"#, true),
            (r#"{"a":"it was sent"}"#, false),
            (r#"{"a":"x\u0020y"}"#, false),
            (r#"{"execution":1}"#, false),
            (r#"["get_weather_1763760000123_0123456789abcdef"]"#, false),
            (r#"{"a":"é"}"#, false),
        ] {
            assert_eq!(is_of_tokens(json.as_bytes()), only, "{json}");
        }
    }

    #[test]
    fn names_of_lists() {
        for name in ["tool_calls", "toolCalls", "TOOL-CALLS", "_tool_calls", "-toolCall"] {
            assert!(CALLS.has(name), "{name}");
        }
        for name in ["", "_", "tool", "toolcallss", "ool_calls", "ütool_calls", "0", "{", "`"] {
            assert!(!CALLS.has(name) && !CALL_TYPES.has(name), "{name}");
        }
    }
}
