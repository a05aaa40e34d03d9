//! Corrections that the policy lists: changes that may be made to a call without asking the model.
//!
//! Each is tried only if something is wrong, checked against the tool's schema afterwards, and dropped if two meanings are possible. The
//! rest stays as the model sent it. Pure.

mod coerce;
mod nulls;
mod remove_members;
pub(crate) mod rename;
mod repair_json;

use bytes::Bytes;

pub(crate) use self::nulls::needless_nulls;
use crate::{
    judge::call::issues::{place, quote},
    policy::Correction,
    schema::{
        Schema,
        strict_json::{Parsed, brief, parse_unique},
    },
    violation::Code,
    wire::json::{Document, splice::Splices, string},
};
pub(crate) use repair_json::mend;

/// Issues with one call's schema that are looked at; fewer are reported.
pub(crate) const ISSUES_MAX: usize = 256;
/// Characters of a name in a correction's message.
const NAME_CHARS_MAX: usize = 128;

/// The corrections that the policy enables.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EnabledCorrections {
    pub(crate) syntax: bool,
    pub(crate) name: bool,
    pub(crate) types: bool,
    pub(crate) null_optional: bool,
    pub(crate) parameters: bool,
}

impl EnabledCorrections {
    pub(crate) fn of(list: &[Correction]) -> Self {
        let listed = |correction| list.contains(&correction);
        Self {
            syntax: listed(Correction::Syntax),
            name: listed(Correction::Name),
            types: listed(Correction::Types),
            null_optional: listed(Correction::NullOptional),
            parameters: listed(Correction::Parameters),
        }
    }
}

/// Corrections that were made: code and message of each.
pub(crate) type CorrectionLog = Vec<(Code, String)>;

/// Arguments that fit the schema after correction.
pub(crate) struct Corrected {
    pub(crate) text: String,
    pub(crate) parsed: Parsed,
    pub(crate) notes: CorrectionLog,
}

/// Corrects an arguments object that doesn't fit the schema; `None` if it still doesn't fit. `text`: the JSON of `parsed`.
pub(crate) fn arguments(schema: &Schema, text: &str, parsed: &Parsed, allowed: EnabledCorrections) -> Option<Corrected> {
    if !(allowed.parameters || allowed.null_optional || allowed.types) {
        return None;
    }
    let mut own = Corrected { text: text.to_owned(), parsed: parsed.clone(), notes: CorrectionLog::new() };
    if allowed.parameters {
        own.rename(schema)?;
    }
    if allowed.null_optional {
        own.leave_out(schema)?;
    }
    if allowed.types {
        own.spell_out(schema)?;
    }
    // A null that is left out guesses nothing; whatever else was changed must be understood as a whole.
    let guessed = own.notes.iter().any(|(code, _)| *code != Code::CorrectedNullOptional);
    let fits = !own.notes.is_empty() && schema.fits(&own.parsed) && !(guessed && has_unknown(schema, &own.parsed));
    fits.then_some(own)
}

/// True if there is a parameter that the schema neither names nor allows.
pub(crate) fn has_unknown(schema: &Schema, parsed: &Parsed) -> bool {
    parsed.value.as_object().into_iter().flat_map(|map| map.keys()).any(|name| schema.is_unknown(name))
}

/// Log entry for a tool that was called by another name.
pub(crate) fn renamed(name: &str, tool: &str) -> CorrectionLog {
    let name = quote(&brief(name, NAME_CHARS_MAX));
    vec![(Code::CorrectedName, format!("there is no tool {name}: it was taken for {}", quote(tool)))]
}

impl Corrected {
    /// Replaces the text; `None` if the new one can't be parsed, which ends the attempt.
    fn becomes(&mut self, text: String) -> Option<()> {
        self.parsed = parse_unique(&text).ok()?;
        self.text = text;
        Some(())
    }

    fn document(&self) -> Option<Document> {
        Document::parse(Bytes::copy_from_slice(self.text.as_bytes())).ok()
    }

    fn edited(&mut self, document: &Document, edits: Splices) -> Option<()> {
        let text = String::from_utf8(edits.apply(document.bytes()).to_vec()).ok()?;
        self.becomes(text)
    }

    fn rename(&mut self, schema: &Schema) -> Option<()> {
        let map = self.parsed.value.as_object()?;
        let Some((from, to)) = rename::parameter(schema, map) else { return Some(()) };
        let note = format!("there is no parameter {}: it was taken for {}", quote(&brief(from, NAME_CHARS_MAX)), quote(to));
        let document = self.document()?;
        let member = document.root().members().find(|member| member.is(from))?;
        let mut edits = Splices::default();
        edits.replace(member.key.span(), string::quote(to));
        self.notes.push((Code::CorrectedParameters, note));
        self.edited(&document, edits)
    }

    fn leave_out(&mut self, schema: &Schema) -> Option<()> {
        let nulls = needless_nulls(schema, &self.parsed, &schema.issues_of(&self.parsed, ISSUES_MAX));
        if nulls.is_empty() {
            return Some(());
        }
        let pointers: Vec<&str> = nulls.iter().map(String::as_str).collect();
        let shorter = remove_members::without(&self.text, &pointers)?;
        self.notes
            .extend(nulls.iter().map(|pointer| (Code::CorrectedNullOptional, format!("{} was null and was left out", place(pointer)))));
        self.becomes(shorter)
    }

    fn spell_out(&mut self, schema: &Schema) -> Option<()> {
        let mut spelled: Vec<(String, String)> = Vec::new();
        for issue in schema.issues_of(&self.parsed, ISSUES_MAX) {
            let value = self.parsed.value.pointer(&issue.pointer).and_then(serde_json::Value::as_str);
            let json = value.zip(issue.types()).and_then(|(value, wanted)| coerce::spelled(value, &wanted));
            if let Some(json) = json.filter(|_| !spelled.iter().any(|(pointer, _)| *pointer == issue.pointer)) {
                spelled.push((issue.pointer, json));
            }
        }
        if spelled.is_empty() {
            return Some(());
        }
        let document = self.document()?;
        let mut edits = Splices::default();
        for (pointer, json) in spelled {
            edits.replace(remove_members::at(document.root(), &pointer)?.span(), json);
            self.notes.push((Code::CorrectedTypes, format!("{} was a text and is what it spells out", place(&pointer))));
        }
        self.edited(&document, edits)
    }
}

#[cfg(test)]
mod tests;
