//! Claim blocks: a block with a valid id is compared with the result that it cites, field by field. Pure.
//!
//! A field's value is compared with the values of the same name in the result, wherever they stand: wrappers may be
//! renamed and nested. Where an object of the block names one of the result's objects (the same `name`, `id`, …), its
//! fields are compared with that one's alone. A field whose name the result lacks must have a value from somewhere.

use crate::{
    evidence::{
        self, EvidenceIndex, ToolResult, derive,
        facts::{NamedValue, ResultFacts, Scalar},
        fits,
    },
    language::{
        date,
        fold::{fold, key, name_words},
        lenient_json::LenientNode,
        number::{Precision, numbers},
    },
};
use toolmark_base::violation::Code;

/// Names of fields that are the block's own.
const OWN: [&str; 14] = [
    "executionid",
    "executedat",
    "toolname",
    "tool",
    "function",
    "commandexecuted",
    "command",
    "name",
    "timestamp",
    "status",
    "success",
    "type",
    "note",
    "source",
];
/// Findings of one block.
const FINDINGS_MAX: usize = 16;

/// A field that is wrong.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FieldMismatch {
    /// Violation code.
    pub code: Code,
    /// The field.
    pub field: String,
    /// Value in the block.
    pub found: String,
    /// Value in the result.
    pub expected: String,
}

/// Findings about a block that cites `source`.
pub fn fields(block: &LenientNode, source: &ToolResult, grounds: &EvidenceIndex) -> Vec<FieldMismatch> {
    let mut check = FieldChecker { source, facts: source.facts(), grounds, found: Vec::new() };
    if !check.facts.partial && !grounds.is_endless() {
        check.node(block, "", None, true);
    }
    check.found
}

/// One `key: value` line under a citation: only a number that the result has another one for.
pub fn line(name: &str, value: &str, source: &ToolResult, grounds: &EvidenceIndex) -> Option<FieldMismatch> {
    let facts = source.facts();
    let mut check = FieldChecker { source, facts, grounds, found: Vec::new() };
    let own = key(name);
    let same: Vec<&NamedValue> = facts.leaves.iter().filter(|leaf| is_name(&own, leaf)).collect();
    let [leaf] = same.as_slice() else { return None };
    let said = numbers(value);
    let ([number], Some(_)) = (said.as_slice(), leaf.value.number()) else { return None };
    // Whatever the line says besides, its number must be one of the result's.
    let stands = grounds.has_number(number, Precision::Exact, source);
    if !stands {
        check.wrong(Code::ClaimMismatch, name, value.to_owned(), leaf.value.shown());
    }
    check.found.pop()
}

/// `download` is the name of `download_mbps` too, but for a unit.
fn is_name(own: &str, leaf: &NamedValue) -> bool {
    leaf.key == own || own.len() > 3 && leaf.key.strip_prefix(own).is_some_and(|rest| rest.len() <= 5)
}

struct FieldChecker<'c> {
    source: &'c ToolResult,
    facts: &'c ResultFacts,
    grounds: &'c EvidenceIndex,
    found: Vec<FieldMismatch>,
}

impl FieldChecker<'_> {
    fn wrong(&mut self, code: Code, field: &str, found: String, expected: String) {
        if self.found.len() < FINDINGS_MAX {
            self.found.push(FieldMismatch { code, field: field.to_owned(), found, expected });
        }
    }

    /// `object`: the result's object that this part of the block speaks of.
    fn node(&mut self, node: &LenientNode, name: &str, object: Option<usize>, top: bool) {
        match node {
            // It cites for itself.
            LenientNode::Object(members) if !top && members.iter().any(|(name, _)| key(name) == "executionid") => {}
            LenientNode::Object(members) => {
                let object = self.object_of(members).or(object.filter(|_| !top));
                for (name, value) in members {
                    let own = key(name);
                    let known = self.facts.of_key(&own).next().is_some();
                    let is_own = OWN.contains(&own.as_str()) && if top { !self.is_of_result(&own, value) } else { !known };
                    if !is_own || !matches!(value, LenientNode::Text(_) | LenientNode::Bare(_)) {
                        self.node(value, name, object, false);
                    }
                }
            }
            LenientNode::List(items) => {
                self.length(name, items.len());
                items.iter().for_each(|item| self.node(item, name, None, false));
            }
            LenientNode::Text(text) => self.value(name, &Scalar::Text(text.clone()), object),
            LenientNode::Bare(value) => self.value(name, value, object),
        }
    }

    /// Is a member of the block's own names one of the result's after all, where that is one object that has it? What may be
    /// said of the execution itself (`"status": "ok"`) is that, unless the result says otherwise.
    fn is_of_result(&self, own: &str, value: &LenientNode) -> bool {
        let mut same = self.facts.of_key(own).filter(|leaf| leaf.object == 1);
        let (Some(real), None, true) =
            (same.next(), same.next(), self.facts.lists.iter().all(|list| list.depth > 0 || !list.words.is_empty()))
        else {
            return false;
        };
        let said = match value {
            LenientNode::Text(text) => fold(text),
            LenientNode::Bare(scalar) => fold(&scalar.shown()),
            LenientNode::Object(_) | LenientNode::List(_) => return false,
        };
        let said = said.as_str();
        let real = fold(&real.value.shown());
        let fails = ["fail", "error", "denied", "refused", "reject", "declined", "false", "cancel", "expired", "timeout"];
        match own {
            "name" => said != fold(&self.source.tool),
            "type" => !matches!(said, "function" | "tool" | "tool result" | "tool call" | "tool output" | "result" | "object"),
            "success" => true,
            "status" => {
                let done =
                    matches!(said, "success" | "successful" | "ok" | "okay" | "completed" | "complete" | "done" | "executed" | "200");
                !done || fails.iter().any(|part| real.contains(part))
            }
            _ => false,
        }
    }

    /// The one object of the result that has a string of the block's object under the same name.
    fn object_of(&self, members: &[(String, LenientNode)]) -> Option<usize> {
        for (name, value) in members {
            let LenientNode::Text(text) = value else { continue };
            let (own, folded) = (key(name), fold(text));
            if OWN[..6].contains(&own.as_str()) || folded.is_empty() {
                continue;
            }
            let mut same = self.facts.of_key(&own).filter(|leaf| matches!(&leaf.value, Scalar::Text(other) if fold(other) == folded));
            if let (Some(leaf), None) = (same.next(), same.next()) {
                return Some(leaf.object).filter(|object| *object > 0);
            }
        }
        None
    }

    /// A list of a known name that is longer than the result's.
    fn length(&mut self, name: &str, length: usize) {
        let words = name_words(name);
        let same: Vec<usize> =
            self.facts.lists.iter().filter(|list| list.words == words && !words.is_empty()).map(|list| list.length).collect();
        let most = same.iter().copied().max();
        if let Some(most) = most.filter(|most| length > *most && length > same.iter().sum()) {
            self.wrong(Code::CountMismatch, name, length.to_string(), most.to_string());
        }
    }

    fn value(&mut self, name: &str, value: &Scalar, object: Option<usize>) {
        if hollow(value) {
            return;
        }
        let own = key(name);
        let same: Vec<&NamedValue> = self.facts.of_key(&own).collect();
        let bound: Vec<&NamedValue> = same.iter().copied().filter(|leaf| object == Some(leaf.object)).collect();
        let candidates = if bound.is_empty() { &same } else { &bound };
        if candidates.iter().any(|leaf| self.same(value, &leaf.value)) {
            return;
        }
        if let Some(leaf) = candidates.first().filter(|leaf| !own.is_empty() && leaf.value != Scalar::Null) {
            // A total or an average under the name of what it is of.
            let derives = bound.is_empty() && same.len() > 1 && derives(value, &same);
            if !derives {
                self.wrong(Code::ClaimMismatch, name, value.shown(), leaf.value.shown());
            }
            return;
        }
        if !self.stands(value) {
            self.wrong(Code::UngroundedValue, name, value.shown(), "a value that the result has".to_owned());
        }
    }

    /// Are these the same, units, rounding and marks left out?
    fn same(&self, said: &Scalar, real: &Scalar) -> bool {
        if let (Scalar::Flag(said), Scalar::Flag(real)) = (said, real) {
            return said == real;
        }
        if let (Scalar::Flag(flag), other) | (other, Scalar::Flag(flag)) = (said, real) {
            let word = fold(&other.shown());
            let yes = ["yes", "true", "1", "ja", "si", "oui", "on", "enabled", "active"].contains(&word.as_str());
            let no = ["no", "false", "0", "nein", "non", "off", "disabled", "inactive"].contains(&word.as_str());
            return if *flag { !no } else { !yes };
        }
        let (a, b) = (said.shown(), real.shown());
        let (folded_a, folded_b) = (fold(&a), fold(&b));
        if folded_a == folded_b
            || (folded_a.len() > 3 && folded_b.contains(&folded_a))
            || (folded_b.len() > 3 && folded_a.contains(&folded_b))
        {
            return true;
        }
        let (in_said, in_real) = (numbers(&a), numbers(&b));
        if in_said.is_empty() || in_real.is_empty() {
            return false;
        }
        let (dates_a, dates_b) = (date::dates(&a), date::dates(&b));
        if !dates_a.dates.is_empty() && !dates_b.dates.is_empty() {
            return dates_a.dates.iter().any(|one| dates_b.dates.iter().any(|other| one.agrees(other)));
        }
        let mut real: Vec<f64> = in_real.iter().flat_map(|number| number.readings().map(|reading| reading.value)).collect();
        real.sort_by(f64::total_cmp);
        in_said.iter().all(|number| fits(number, Precision::Exact, &real))
    }

    /// Does the value of a field that the result doesn't name stand anywhere?
    fn stands(&self, value: &Scalar) -> bool {
        match value {
            Scalar::Flag(_) | Scalar::Null => true,
            Scalar::Number(_) => {
                let shown = value.shown();
                let said = numbers(&shown);
                let counted = || self.facts.counts().iter().any(|count| value.number() == Some(*count as f64));
                said.iter().all(|number| {
                    number.whole().is_some_and(|whole| whole <= 2) || self.grounds.has_number(number, Precision::Exact, self.source)
                }) || counted()
            }
            Scalar::Text(text) => {
                let said = numbers(text);
                let words = self.grounds.has_words(text, self.source);
                // Free words are the model's own; a measure isn't.
                words
                    || said.is_empty()
                    || said.len() > 2
                    || said.iter().all(|number| self.grounds.has_number(number, Precision::Exact, self.source))
                    || !date::dates(text).dates.is_empty()
            }
        }
    }
}

/// Is it a sum, an average or such of these?
fn derives(value: &Scalar, of: &[&NamedValue]) -> bool {
    let column: Vec<f64> = of.iter().filter_map(|leaf| leaf.value.number()).collect();
    let mut found = vec![column.len() as f64];
    let mut shares = Vec::new();
    derive::aggregates(&column, &mut found, &mut shares);
    found.extend(shares);
    let shown = value.shown();
    let numbers = numbers(&shown);
    !numbers.is_empty() && column.len() > 1 && numbers.iter().all(|number| evidence::equals(number, Precision::Exact, &found))
}

/// Placeholders in templates.
fn hollow(value: &Scalar) -> bool {
    match value {
        Scalar::Null => true,
        Scalar::Text(text) => {
            let text = text.trim();
            matches!(text, "" | "..." | "…" | "N/A" | "n/a" | "unknown" | "-") || (text.starts_with('<') && text.ends_with('>'))
        }
        Scalar::Number(_) | Scalar::Flag(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::lenient_json::read;

    fn wrong(result: &str, block: &str) -> Vec<String> {
        let grounds = EvidenceIndex::new(vec![ToolResult::new("close_ticket", "{}", result)], Vec::new(), "".into());
        fields(&read(block), &grounds.results[0], &grounds).into_iter().map(|wrong| wrong.field).collect()
    }

    #[test]
    fn what_a_block_says_of_itself_and_what_of_the_result() {
        for (result, block, expected) in [
            (r#"{"success":false,"reason":"locked"}"#, "{'execution_id':'E','success':True}", &["success"][..]),
            (r#"{"status":"failed"}"#, "{'execution_id':'E','status':'success'}", &["status"]),
            (r#"{"status":"open"}"#, "{'execution_id':'E','status':'closed'}", &["status"]),
            (r#"{"name":"Ann"}"#, "{'execution_id':'E','name':'Bob'}", &["name"]),
            (r#"{"type":"refund","amount":5}"#, "{'execution_id':'E','type':'charge','amount':5}", &["type"]),
            (r#"{"status":"shipped"}"#, "{'execution_id':'E','status':'success'}", &[]),
            (r#"{"name":"Ann"}"#, "{'execution_id':'E','name':'close_ticket'}", &[]),
            (r#"{"type":"refund"}"#, "{'execution_id':'E','type':'function'}", &[]),
            (r#"{"success":true,"name":"Ann"}"#, "{'execution_id':'E','success':'yes','name':'ann'}", &[]),
            (r#"[{"name":"Ann"},{"name":"Bob"}]"#, "{'execution_id':'E','name':'Team'}", &[]),
            (r#"{"users":[{"name":"Ann"}]}"#, "{'execution_id':'E','name':'Team'}", &[]),
            (r#"{"ok":1}"#, "{'execution_id':'E','status':'done','success':true}", &[]),
        ] {
            assert_eq!(wrong(result, block), expected, "{result} {block}");
        }
    }

    const RESULT: &str = r#"{"download_mbps":93.42,"upload":41,"server":"Berlin-2","ok":true,"at":"2025-05-03T10:00:00Z","players":[{"name":"Ann","points":12},{"name":"Bob","points":7}]}"#;

    fn codes(block: &str) -> Vec<(Code, String)> {
        let source = ToolResult::new("run_speed_test", "{}", RESULT);
        let grounds = EvidenceIndex::new(vec![source], Vec::new(), "".into());
        fields(&read(block), &grounds.results[0], &grounds).into_iter().map(|wrong| (wrong.code, wrong.field)).collect()
    }

    #[test]
    fn blocks() {
        let mismatch = |field: &str| vec![(Code::ClaimMismatch, field.to_owned())];
        for (block, expected) in [
            ("{'tool': 'run_speed_test', 'result': {'download_mbps': 93.4, 'server': 'berlin 2'}}", vec![]),
            ("{'Download-Mbps': '93 Mbps', 'ok': True, 'at': 'May 3, 2025'}", vec![]),
            ("{'upload': 47}", mismatch("upload")),
            ("{'server': 'Paris'}", mismatch("server")),
            ("{'ok': false}", mismatch("ok")),
            ("{'at': '2025-06-09'}", mismatch("at")),
            ("{'players': [{'name': 'Ann', 'points': 12}]}", vec![]),
            ("{'players': [{'name': 'Ann', 'points': 7}]}", mismatch("points")),
            ("{'ping_ms': 18}", vec![(Code::UngroundedValue, "ping_ms".to_owned())]),
            ("{'summary': 'all fine', 'total_points': 19}", vec![]),
            ("{'players': [1, 2, 3]}", vec![(Code::CountMismatch, "players".to_owned())]),
        ] {
            assert_eq!(codes(block), expected, "{block}");
        }
    }
}
