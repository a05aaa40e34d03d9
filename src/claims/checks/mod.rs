//! Checks of a passage: each compares one kind of claim with the evidence. Pure.

pub mod absence;
pub mod account;
pub mod actions;
pub mod acts;
pub mod bindings;
pub mod carried_out;
pub mod compound_numbers;
pub mod consistency;
pub mod counts;
pub mod elsewhere;
mod exclusive;
pub mod failed_calls;
pub mod fields;
pub mod figures;
pub mod order;
pub mod reasons;
pub mod selection;
pub mod states;
pub mod unaccounted;
pub mod values;
pub mod written_output;

/// Runs a check on a text that cites one of some results. For tests.
#[cfg(test)]
mod cited {
    use super::super::{
        context::{CheckContext, CitationScope, ClaimFinding},
        evidence::{EvidenceIndex, ToolResult},
        language::lexicon::{language, words},
        passage::Kind,
        plain::AnalyzedPassage,
    };

    /// The finding of `check` in `text`, which cites the result of the call number `cited`. `calls`: tool, arguments and result of each.
    pub fn find(
        check: fn(&CheckContext<'_>) -> Option<ClaimFinding>,
        asked: &str,
        calls: &[(&str, &str, &str)],
        cited: usize,
        text: &str,
    ) -> Option<ClaimFinding> {
        let results = calls.iter().map(|(tool, arguments, result)| ToolResult::new(tool, arguments, result)).collect();
        let said = calls.iter().map(|(_, arguments, _)| (*arguments).into()).chain([asked.into()]).collect();
        let grounds = EvidenceIndex::new(results, said, asked.into());
        let plain = AnalyzedPassage::of(text);
        let lexicon = language(&words(text), None);
        let sources = grounds.results.get(cited).into_iter().collect();
        check(&CheckContext::new(&plain, Kind::Sentence, lexicon, sources, CitationScope::Cited, &grounds))
    }
}
