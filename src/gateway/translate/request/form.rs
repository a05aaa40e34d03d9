//! A request in terms common to all APIs: the form between reading and writing. Pure.
//!
//! Each API has one reader (`from_…`: document to [`RequestPart`]s) and one writer (`to_…`: back to a document); a translation is a
//! reader and a writer. Calls stand with their results, as every API demands that each has one, in an order of its own.
//! Texts stay JSON ([`Json`]) until a writer needs to change them: what isn't changed is copied byte for byte.

use std::borrow::Cow;

/// JSON text, copied from the request or written here.
pub(in crate::translate) type Json<'d> = Cow<'d, str>;

/// One part of a request. Parts keep the order of the members that they were read from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::translate) enum RequestPart<'d> {
    /// The conversation.
    History(Vec<HistoryTurn<'d>>),
    /// Tools that may be called; never empty.
    Tools(Vec<OfferedTool<'d>>),
    /// Rule on which of them may or must be called.
    Choice(OfferedChoice<'d>),
    /// Permission for several calls in one answer: `true` or `false`.
    ParallelCalls(Json<'d>),
    /// Limit for the answer, in tokens: a number.
    MaxTokens(Json<'d>),
    /// Texts at which the answer stops: a string or an array of strings.
    Stop(Json<'d>),
    /// Identifier of the user: a string.
    User(Json<'d>),
    /// Reasoning effort: a string.
    Effort(Json<'d>),
    /// The answer must be a JSON object.
    JsonObject,
    /// The answer must match a schema: an object with `name`, `schema`, `strict` and `description` as chat has it.
    JsonSchema(Json<'d>),
    /// Wish for a streamed answer: `true` or `false`.
    Stream(Json<'d>),
    /// Any other member, by its name in chat.
    Other {
        /// Name of the member.
        name: Cow<'d, str>,
        /// Value of the member.
        value: Json<'d>,
    },
}

/// One turn of the conversation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::translate) enum HistoryTurn<'d> {
    /// Instructions.
    System(TurnContent<'d>),
    /// Words of the user.
    User(TurnContent<'d>),
    /// Words and calls of the model, with the results.
    Assistant(AssistantHistory<'d>),
}

/// A content.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::translate) enum TurnContent<'d> {
    /// A string.
    Plain(Json<'d>),
    /// A list of parts.
    Parts(Vec<ContentPart<'d>>),
}

/// Part of a content.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::translate) enum ContentPart<'d> {
    /// A text: a string.
    Text(Json<'d>),
    /// An image.
    Image {
        /// Its URL, `data:` included: a string.
        url: Json<'d>,
        /// Resolution: a string.
        detail: Option<Json<'d>>,
    },
    /// A sound, as a whole part of chat.
    Audio(Json<'d>),
    /// A file.
    File {
        /// Its name: a string.
        name: Option<Json<'d>>,
        /// Its contents as a `data:` URL: a string.
        data: Json<'d>,
    },
}

/// A turn of the model.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(in crate::translate) struct AssistantHistory<'d> {
    /// Reasoning that chat upstreams get back, in `reasoning_content` and in `reasoning`.
    pub reasoning: [String; 2],
    /// Texts, each a string, with the number of messages before it in the turn.
    pub texts: Vec<(usize, Json<'d>)>,
    /// Refusals, joined.
    pub refusal: String,
    /// Calls.
    pub calls: Vec<CalledTool<'d>>,
}

/// A call of an earlier turn.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::translate) struct CalledTool<'d> {
    /// Id of the call.
    pub id: Cow<'d, str>,
    /// Name of the tool.
    pub name: Cow<'d, str>,
    /// Input of the call.
    pub input: CalledInput<'d>,
    /// Its result; every writer demands one.
    pub output: Option<ToolOutput<'d>>,
}

/// Input of a call: a string.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::translate) enum CalledInput<'d> {
    /// Arguments of a function, JSON in a string.
    Arguments(Json<'d>),
    /// Input of a custom tool.
    Custom(Json<'d>),
}

/// Result of a call.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::translate) struct ToolOutput<'d> {
    /// Its content.
    pub content: TurnContent<'d>,
    /// Report of the tool's failure, where the API has a member for that.
    pub ended: ToolEnding,
}

/// Outcome that a result reports of its tool.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(in crate::translate) enum ToolEnding {
    /// Nothing.
    #[default]
    Unsaid,
    /// It failed: `is_error`.
    Failed,
}

/// A tool that may be called.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::translate) struct OfferedTool<'d> {
    /// Its name.
    pub name: Cow<'d, str>,
    /// Its description: a string.
    pub description: Option<Json<'d>>,
    /// Its input.
    pub takes: ToolInputForm<'d>,
}

/// Input of a tool.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::translate) enum ToolInputForm<'d> {
    /// Arguments.
    Arguments {
        /// Their schema.
        schema: Option<Json<'d>>,
        /// The schema is enforced upstream.
        strict: bool,
    },
    /// Text, in this format, as chat has it.
    Custom(Option<Json<'d>>),
}

/// Rule on which tools may or must be called.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::translate) enum OfferedChoice<'d> {
    /// A mode: `"auto"`, `"none"`, `"required"`.
    Mode(Json<'d>),
    /// This one.
    Tool(ChosenTool<'d>),
    /// One of these, or none, by this mode.
    Allowed {
        /// `"auto"` or `"required"`.
        mode: Json<'d>,
        /// The tools.
        tools: Vec<ChosenTool<'d>>,
    },
}

/// A tool in a choice.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::translate) enum ChosenTool<'d> {
    /// A function of this name.
    Function(Cow<'d, str>),
    /// A custom tool of this name.
    Custom(Cow<'d, str>),
}

impl ChosenTool<'_> {
    /// Its name.
    pub(in crate::translate) fn name(&self) -> &str {
        match self {
            Self::Function(name) | Self::Custom(name) => name,
        }
    }
}

/// Text of a JSON string.
pub(in crate::translate) fn text_of<'j>(json: &'j Json<'_>) -> Cow<'j, str> {
    crate::wire::json::leading_string(json.as_bytes()).map(|(text, _)| text).unwrap_or_default()
}

impl AssistantHistory<'_> {
    /// True if nothing but reasoning is in it.
    pub(in crate::translate) fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.refusal.is_empty() && self.calls.is_empty()
    }
}
