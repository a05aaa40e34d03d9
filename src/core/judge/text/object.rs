//! Members of an object: decides if it names a tool, an execution or a result. Pure.

use std::{ops::Range, sync::OnceLock};

use super::{Evidence, fold, tail::TextWindow};

/// Names of further members that are kept of one object.
const OTHERS_MAX: usize = 64;
/// Bytes of the longest member name that has a meaning.
const NAME_BYTES_MAX: usize = 24;

/// A member's value.
#[derive(Clone, Debug)]
pub(super) enum MemberValue {
    /// A string's inside, or a bare word or number.
    Plain(Range<usize>),
    /// An object or list; of an object, the value of its `name`.
    Nested(Option<Range<usize>>),
}

/// An object that names a tool or an execution.
#[derive(Clone, Debug)]
pub(super) struct BlockObject {
    /// Span, braces included.
    pub span: Range<usize>,
    /// The value of the member that names a tool.
    pub tool: Option<Range<usize>>,
    /// The value of its execution id.
    pub id: Option<Range<usize>>,
    /// Name of the member that holds the object.
    pub under: Option<Range<usize>>,
    /// Introduction of the object: `check_net() -> `.
    pub lead: Option<Range<usize>>,
    /// The value of its `name`.
    pub name: Option<Range<usize>>,
    said: MemberTraits,
    /// Its `role` is a tool's.
    of_tool: bool,
    others: Vec<Range<usize>>,
    others_lost: bool,
}

/// Properties of the members of an object or record, besides the tool.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MemberTraits {
    /// A member has a name that results use.
    pub strong: bool,
    /// A member has a name that only a tool's output uses.
    pub output: bool,
    /// A member has a name that definitions or calls use.
    pub definition: bool,
    /// A member describes a tool.
    pub described: bool,
    /// The member that names the tool often names other things.
    pub weak: bool,
}

impl MemberTraits {
    /// True if the members look like a result, or like a call if the other members are all parameters of the tool.
    pub fn is_result(self) -> bool {
        match self.weak {
            true => self.output && !self.described,
            false => self.strong || !self.definition,
        }
    }

    /// True if the other members decide whether this is a call.
    pub fn may_be_call(self) -> bool {
        !self.weak
    }
}

/// Meaning of a member's name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum MemberMeaning {
    Tool,
    /// Names a tool, or something else.
    WeakTool,
    Role,
    Name,
    Id,
    Result,
    /// A result, and nothing else.
    Output,
    Definition,
    /// Part of a definition, which no call has.
    Description,
    Neutral,
    Other,
}

impl BlockObject {
    /// Object that starts at `start` and has no members yet.
    pub fn new(start: usize) -> Self {
        Self {
            span: start..start,
            tool: None,
            id: None,
            under: None,
            lead: None,
            name: None,
            said: MemberTraits::default(),
            of_tool: false,
            others: Vec::new(),
            others_lost: false,
        }
    }

    /// Ends the object; true if it says anything about tools. `under`: meaning of the name of the member that holds it.
    pub fn settle(&mut self, under: Option<MemberMeaning>) -> bool {
        if self.tool.is_none() {
            let wrapped = matches!(under, Some(MemberMeaning::Tool));
            if self.of_tool || self.said.output || wrapped {
                self.tool.clone_from(&self.name);
                self.said.weak = !(self.of_tool || wrapped);
            }
        }
        self.tool.is_some() || self.id.is_some() || self.lead.is_some() || self.under.is_some() && self.said.strong
    }

    /// Adds a member.
    pub fn member(&mut self, tail: &TextWindow, name: Range<usize>, value: MemberValue) {
        let meaning = meaning(tail.slice(name.clone()));
        let hollow = match &value {
            MemberValue::Plain(span) => is_hollow(tail.slice(span.clone())) || is_ahead(tail.slice(span.clone())),
            MemberValue::Nested(_) => false,
        };
        match (meaning, value) {
            (MemberMeaning::Tool, MemberValue::Plain(span)) => (self.tool, self.said.weak) = (Some(span), false),
            (MemberMeaning::WeakTool, MemberValue::Plain(span)) if self.tool.is_none() => (self.tool, self.said.weak) = (Some(span), true),
            (MemberMeaning::Id, MemberValue::Plain(span)) => self.id = Some(span),
            (MemberMeaning::Name, MemberValue::Plain(span)) => self.name = Some(span),
            (MemberMeaning::Role, MemberValue::Plain(span)) => {
                self.of_tool |= matches!(&*fold::plain(tail.slice(span)).trim().to_ascii_lowercase(), "tool" | "function");
            }
            (MemberMeaning::Tool, MemberValue::Nested(inner)) => {
                self.said.definition = true;
                if self.tool.is_none() {
                    self.tool = inner;
                }
            }
            (MemberMeaning::Definition, _) => self.said.definition = true,
            (MemberMeaning::Description, _) => (self.said.definition, self.said.described) = (true, true),
            (MemberMeaning::Id | MemberMeaning::Neutral | MemberMeaning::Role | MemberMeaning::Name, _) => {}
            (MemberMeaning::Result | MemberMeaning::Output | MemberMeaning::Other | MemberMeaning::WeakTool, _) if hollow => {}
            (MemberMeaning::Result | MemberMeaning::Output, _) => {
                self.said.strong = true;
                self.said.output |= meaning == MemberMeaning::Output;
                self.other(name);
            }
            (MemberMeaning::Other | MemberMeaning::WeakTool, _) => self.other(name),
        }
    }

    fn other(&mut self, name: Range<usize>) {
        if self.others.len() < OTHERS_MAX {
            self.others.push(name);
        } else {
            self.others_lost = true;
        }
    }

    /// True if a member has a name that results use.
    pub fn is_strong(&self) -> bool {
        self.said.strong
    }

    /// True if its members look like a result of `tool` rather than a definition or a call of it.
    pub fn is_result(&self, tail: &TextWindow, tool: &str, evidence: &dyn Evidence) -> bool {
        let parameter = |name: &Range<usize>| evidence.has_parameter(tool, tail.slice(name.clone()));
        let is_call = || self.said.may_be_call() && !self.others_lost && self.others.iter().all(parameter);
        self.said.is_result() && !is_call()
    }
}

/// Name of the tool in `value`: `run_speed_test(…)` and `functions.run_speed_test` name `run_speed_test`.
pub(super) fn tool_name(value: &str) -> String {
    let seen = fold::plain(value);
    let name = seen.split('(').next().unwrap_or_default().trim();
    name.strip_prefix("functions.").unwrap_or(name).to_owned()
}

/// True for placeholders that templates have in place of a value.
pub(super) fn is_hollow(value: &str) -> bool {
    let value = value.trim();
    let types = [
        "string",
        "any",
        "number",
        "integer",
        "int",
        "float",
        "double",
        "bool",
        "boolean",
        "str",
        "dict",
        "list",
        "object",
        "array",
        "bytes",
        "datetime",
        "date",
        "unknown",
        "void",
        "String",
        "Number",
        "Boolean",
        "Object",
        "Any",
        "str | None",
        "string | null",
        "number | null",
    ];
    matches!(value, "" | "null" | "None" | "undefined" | "..." | "…")
        || types.contains(&value)
        || (value.starts_with('<') && value.ends_with('>'))
}

/// True for words that say that something is still to be done: a step of a plan, not an outcome.
pub(super) fn is_ahead(value: &str) -> bool {
    let words = [
        "pending",
        "todo",
        "to do",
        "to-do",
        "to_do",
        "planned",
        "proposed",
        "queued",
        "waiting",
        "upcoming",
        "not started",
        "not_started",
        "not-started",
    ];
    let value = value.trim();
    words.iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// True for words that say what a tool is like, and nothing of a run of it.
pub(super) fn is_property(value: &str) -> bool {
    let words = [
        "yes",
        "no",
        "stable",
        "experimental",
        "alpha",
        "beta",
        "preview",
        "deprecated",
        "supported",
        "unsupported",
        "not supported",
        "optional",
        "required",
        "recommended",
        "not needed",
        "n/a",
        "-",
        "–",
        "—",
        "read only",
        "read-only",
        "read",
        "write",
        "ja",
        "nein",
        "stabil",
        "oui",
        "non",
        "sí",
        "sì",
    ];
    words.iter().any(|word| word.eq_ignore_ascii_case(value)) || is_ahead(value)
}

/// Meaning of a member's name.
pub(super) fn meaning(name: &str) -> MemberMeaning {
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b' ')) {
        return meaning_of(name);
    }
    if !name.is_ascii() {
        let lower = name.trim().to_lowercase();
        if let Some((_, meaning)) = FOREIGN.iter().find(|(own, _)| *own == lower) {
            return *meaning;
        }
    }
    meaning_of(&fold::plain(name))
}

/// Member names in other languages.
const FOREIGN: [(&str, MemberMeaning); 24] = [
    ("función", MemberMeaning::Tool),
    ("funkcja", MemberMeaning::Tool),
    ("narzędzie", MemberMeaning::Tool),
    ("araç", MemberMeaning::Tool),
    ("инструмент", MemberMeaning::Tool),
    ("工具", MemberMeaning::Tool),
    ("工具名称", MemberMeaning::Tool),
    ("ツール", MemberMeaning::Tool),
    ("ツール名", MemberMeaning::Tool),
    ("도구", MemberMeaning::Tool),
    ("उपकरण", MemberMeaning::Tool),
    ("acción", MemberMeaning::WeakTool),
    ("observación", MemberMeaning::Output),
    ("résultat", MemberMeaning::Output),
    ("sonuç", MemberMeaning::Output),
    ("результат", MemberMeaning::Output),
    ("结果", MemberMeaning::Output),
    ("返回结果", MemberMeaning::Output),
    ("輸出", MemberMeaning::Output),
    ("输出", MemberMeaning::Output),
    ("結果", MemberMeaning::Output),
    ("出力", MemberMeaning::Output),
    ("결과", MemberMeaning::Output),
    ("परिणाम", MemberMeaning::Output),
];

/// Member names in their compared form: lower case, without `_`, `-` and blanks.
const NAMES: [(MemberMeaning, &[&str]); 8] = [
    (
        MemberMeaning::Tool,
        &[
            "toolname",
            "tool",
            "function",
            "functionname",
            "commandexecuted",
            "toolused",
            "usedtool",
            "toolcalled",
            "calledtool",
            "toolrun",
            "toolexecuted",
            "executedtool",
            "functioncalled",
            "werkzeug",
            "funktion",
            "outil",
            "fonction",
            "herramienta",
            "strumento",
            "ferramenta",
            "funcao",
            "gereedschap",
        ],
    ),
    (MemberMeaning::WeakTool, &["action", "command", "operation", "call", "method", "aktion", "azione"]),
    (MemberMeaning::Role, &["role"]),
    (MemberMeaning::Id, &["executionid"]),
    (
        MemberMeaning::Output,
        &[
            "result",
            "results",
            "output",
            "outputs",
            "response",
            "stdout",
            "toolresult",
            "toolresults",
            "tooloutput",
            "toolresponse",
            "observation",
            "returned",
            "returnvalue",
            "ergebnis",
            "ausgabe",
            "resultat",
            "sortie",
            "resultado",
            "salida",
            "risultato",
            "wynik",
            "observacion",
            "beobachtung",
            "osservazione",
            "cikti",
        ],
    ),
    (
        MemberMeaning::Result,
        &[
            "data",
            "status",
            "success",
            "ok",
            "error",
            "executedat",
            "stderr",
            "exitcode",
            "returncode",
            "duration",
            "durationms",
            "elapsed",
            "elapsedms",
        ],
    ),
    (
        MemberMeaning::Definition,
        &[
            "arguments",
            "args",
            "kwargs",
            "required",
            "strict",
            "params",
            "inputs",
            "input",
            "actioninput",
            "toolinput",
            "schedule",
            "cron",
            "trigger",
            "triggers",
            "onfailure",
            "onsuccess",
            "onerror",
            "env",
            "replicas",
            "permissions",
            "permission",
            "allowed",
            "uses",
            "with",
            "config",
            "configuration",
            "settings",
            "options",
            "defaults",
            "ratelimit",
            "auth",
            "transport",
            "instructions",
            "prompt",
            "policy",
        ],
    ),
    (
        MemberMeaning::Description,
        &[
            "description",
            "parameter",
            "namespace",
            "signature",
            "parameters",
            "inputschema",
            "properties",
            "schema",
            "returns",
            "outputschema",
        ],
    ),
];
/// Names that indicate neither a result nor a definition.
const NEUTRAL: [&str; 43] = [
    "id",
    "type",
    "callid",
    "toolcallid",
    "index",
    "step",
    "order",
    "purpose",
    "reason",
    "rationale",
    "why",
    "when",
    "usage",
    "signature",
    "example",
    "examples",
    "enabled",
    "title",
    "note",
    "notes",
    "category",
    "priority",
    "timeout",
    "timeouts",
    "timeoutms",
    "timeoutseconds",
    "retries",
    "maxretries",
    "dependson",
    "after",
    "condition",
    "fallback",
    "optional",
    "goal",
    "phase",
    "expected",
    "expectedoutput",
    "expectedresult",
    "thought",
    "kind",
    "version",
    "tags",
    "label",
];

/// Member names with their meanings, sorted.
fn names() -> &'static [(&'static str, MemberMeaning)] {
    static NAMES_SORTED: OnceLock<Vec<(&'static str, MemberMeaning)>> = OnceLock::new();
    NAMES_SORTED.get_or_init(|| {
        let of =
            |(meaning, names): &(MemberMeaning, &'static [&'static str])| names.iter().map(|name| (*name, *meaning)).collect::<Vec<_>>();
        let mut all: Vec<(&str, MemberMeaning)> = NAMES.iter().flat_map(of).collect();
        all.extend(NEUTRAL.iter().map(|name| (*name, MemberMeaning::Neutral)));
        all.push(("name", MemberMeaning::Name));
        all.sort_unstable_by_key(|(name, _)| *name);
        all
    })
}

fn meaning_of(name: &str) -> MemberMeaning {
    let mut letters = [0_u8; NAME_BYTES_MAX];
    let mut length = 0;
    for byte in name.bytes().filter(|b| !matches!(b, b'_' | b'-' | b' ')) {
        let Some(slot) = letters.get_mut(length) else { return MemberMeaning::Other };
        *slot = byte.to_ascii_lowercase();
        length += 1;
    }
    let letters = letters.get(..length).unwrap_or_default();
    let names = names();
    let found = names.binary_search_by(|(name, _)| name.as_bytes().cmp(letters)).ok();
    found.and_then(|at| names.get(at)).map_or(MemberMeaning::Other, |(_, meaning)| *meaning)
}

/// True if a name that begins with `start` can mean a tool, an execution or a result.
pub(super) fn may_mean(start: &str) -> bool {
    let tells = |meaning: MemberMeaning| {
        matches!(
            meaning,
            MemberMeaning::Tool
                | MemberMeaning::WeakTool
                | MemberMeaning::Id
                | MemberMeaning::Result
                | MemberMeaning::Output
                | MemberMeaning::Role
                | MemberMeaning::Name
        )
    };
    if !start.is_ascii() {
        let lower = start.trim().to_lowercase();
        return FOREIGN.iter().any(|(name, _)| name.starts_with(&lower));
    }
    let letters: String =
        start.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).take(NAME_BYTES_MAX + 1).map(|c| c.to_ascii_lowercase()).collect();
    names().iter().any(|(name, meaning)| tells(*meaning) && name.starts_with(&letters))
        || FOREIGN.iter().any(|(name, _)| name.starts_with(&letters))
}
