//! Marks and execution IDs issued according to a recording: in playback they are issued and verified again, whatever the key is now. Used
//! only if a recording is played in place of a model.

use std::collections::HashMap;

use super::{CallMark, ExecutionId, MarkTime};
use crate::wire::json::canonical::canonical_doubles;

/// Marks and execution IDs that a recording says were issued.
#[derive(Clone, Debug, Default)]
pub struct RecordedMarks {
    marks: HashMap<MarkTime, RecordedCall>,
    executions: HashMap<(String, MarkTime), String>,
}

/// A call that was let through, with its mark.
#[derive(Clone, Debug)]
struct RecordedCall {
    mark: String,
    tool: String,
    arguments: String,
}

impl RecordedMarks {
    /// Adds a call that was let through. `mark`: the id that it got; the call is ignored if that isn't a mark.
    pub fn issue(&mut self, mark: &str, tool: &str, arguments: &str) {
        if let Some(parsed) = CallMark::parse(mark) {
            let issued = RecordedCall { mark: mark.to_owned(), tool: tool.to_owned(), arguments: comparable(arguments) };
            // Of a stream the item comes first without its arguments.
            let known = self.marks.entry(parsed.moment).or_insert_with(|| issued.clone());
            if known.arguments == "{}" && known.mark == issued.mark {
                *known = issued;
            }
        }
    }

    /// Adds an execution ID that a result was stamped with; ignored if no recorded call fits it.
    pub fn stamp(&mut self, id: &str) {
        let Some(parsed) = ExecutionId::parse(id) else { return };
        let fits = |issued: &RecordedCall| super::execution_tool(&issued.tool) == parsed.tool;
        if self.marks.get(&parsed.moment).is_some_and(fits) {
            self.executions.entry((parsed.tool.to_owned(), parsed.moment)).or_insert_with(|| id.to_owned());
        }
    }

    /// Adds the contents of another recording.
    pub fn extend(&mut self, other: Self) {
        self.marks.extend(other.marks);
        self.executions.extend(other.executions);
    }

    /// Number of calls that were let through.
    pub fn len(&self) -> usize {
        self.marks.len()
    }

    /// True if no call was let through.
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// The mark that this call got at this moment.
    pub(super) fn mark(&self, upstream_id: Option<&str>, tool: &str, arguments: &str, moment: MarkTime) -> Option<&str> {
        let issued = self.marks.get(&moment)?;
        let parsed = CallMark::parse(&issued.mark)?;
        let same = parsed.upstream_id == upstream_id && issued.tool == tool && issued.arguments == comparable(arguments);
        same.then_some(issued.mark.as_str())
    }

    /// True if this mark was issued for this call.
    pub(super) fn holds(&self, mark: &CallMark<'_>, tool: &str, arguments: &str) -> bool {
        self.mark(mark.upstream_id, tool, arguments, mark.moment).and_then(CallMark::parse).is_some_and(|own| own == *mark)
    }

    /// The ID of the execution at this moment. `tool`: name as IDs spell it.
    pub(super) fn execution(&self, tool: &str, moment: MarkTime) -> Option<&str> {
        self.executions.get(&(tool.to_owned(), moment)).map(String::as_str)
    }
}

fn comparable(arguments: &str) -> String {
    let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
    canonical_doubles(arguments).unwrap_or_else(|| arguments.to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{
        super::{KeyRing, Scope},
        *,
    };

    #[test]
    fn what_was_issued_holds_under_any_key() {
        let (then, scope) = (KeyRing::new(&[[1; 32]]), Scope::credential(b"a"));
        let moment = MarkTime { time_ms: 1_800_000_000_000, counter: 7 };
        let mark = then.mint(&scope, "get_weather", r#"{"city":"Paris"}"#, moment);
        let behind = then.mint_behind("fc_1", &scope, "add", "", MarkTime { counter: 8, ..moment }).unwrap();
        let id = then.execution_id(&scope, "get_weather", moment);
        let mut recorded = RecordedMarks::default();
        recorded.issue(&mark, "get_weather", r#"{ "city": "Paris" }"#);
        recorded.issue(&behind, "add", "{}");
        recorded.issue("call_of_someone", "add", "{}");
        recorded.stamp(&id);
        recorded.stamp("get_weather_1700000000000_0123456789abcdef");
        assert_eq!((recorded.len(), recorded.executions.len()), (2, 1));

        let now = KeyRing::new(&[[2; 32]]).with_recorded(Arc::new(recorded));
        let elsewhere = Scope::anonymous();
        assert_eq!(now.mint(&elsewhere, "get_weather", r#"{"city":"Paris"}"#, moment), mark);
        assert_ne!(now.mint(&elsewhere, "get_weather", r#"{"city":"Rome"}"#, moment), mark, "another call at that moment");
        assert_eq!(now.mint_behind("fc_1", &elsewhere, "add", "{}", MarkTime { counter: 8, ..moment }), Some(behind));
        let parsed = CallMark::parse(&mark).unwrap();
        assert_eq!(now.verify(&parsed, &elsewhere, "get_weather", r#"{"city":"Paris"}"#), Some(moment));
        assert_eq!(now.verify(&parsed, &elsewhere, "get_weather", r#"{"city":"Rome"}"#), None);
        assert_eq!(now.execution_id(&elsewhere, "get_weather", moment), id);
        assert!(now.is_execution(&ExecutionId::parse(&id).unwrap(), &elsewhere));
        let forged = format!("{}0", &id[..id.len() - 1]);
        assert!(forged == id || !now.is_execution(&ExecutionId::parse(&forged).unwrap(), &elsewhere));
        // Its own key goes on as ever.
        let own = now.mint(&elsewhere, "x", "{}", MarkTime { time_ms: 1_900_000_000_000, counter: 0 });
        assert!(now.verify(&CallMark::parse(&own).unwrap(), &elsewhere, "x", "{}").is_some());
    }
}
