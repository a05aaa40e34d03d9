//! What a passage that cites says, accounted for: every count, entity, flag and date of it against the results that it cites. Pure.
//!
//! The claim bears the burden of proof. What is allowed can be computed: what the results say, what follows from them, what
//! anybody in the conversation said. What is left over is a finding.

pub mod asked_absence;
mod counted;
pub mod empty_results;
mod extremes;
mod flags;
pub mod member_values;
pub mod named_records;
pub mod sentence;
pub mod weekdays;

use crate::{
    checks::{
        account::{
            asked_absence::denied,
            counted::counted,
            empty_results::told_of_nothing,
            extremes::extreme,
            flags::{every, flags},
            member_values::{measured, named_field, share},
            named_records::{NamedRecords, bound},
            weekdays::{weekday, weekday_of_call},
        },
        exclusive::exclusive,
    },
    context::{CheckContext, CitationScope, ClaimFinding},
};

/// Findings about a passage, at most one of each kind.
pub fn account(scene: &CheckContext<'_>) -> Vec<ClaimFinding> {
    if scene.endless || scene.plain.asks() || scene.bond < CitationScope::Introduced || scene.sources.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    found.extend(told_of_nothing(scene));
    if found.is_empty() {
        found.extend(denied(scene));
        let names = NamedRecords::new(scene);
        found.extend(counted(scene, &names));
        found.extend(bound(scene, &names));
        found.extend(extreme(scene, &names));
        found.extend(flags(scene));
        found.extend(exclusive(scene, &names));
        found.extend(every(scene));
        found.extend(weekday(scene).or_else(|| weekday_of_call(scene)));
        found.extend(share(scene));
        found.extend(measured(scene));
        found.extend(named_field(scene));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        evidence::{EvidenceIndex, ToolResult},
        language::lexicon::{language, words},
        passage::Kind,
        plain::AnalyzedPassage,
    };

    fn rules(result: &str, text: &str) -> Vec<&'static str> {
        let grounds = EvidenceIndex::new(vec![ToolResult::new("get_state", "{}", result)], Vec::new(), "".into());
        let plain = AnalyzedPassage::of(text);
        let lexicon = language(&words(text), None);
        let sources = grounds.results.iter().collect();
        let scene = CheckContext::new(&plain, Kind::Sentence, lexicon, sources, CitationScope::Cited, &grounds);
        account(&scene).into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn units_shares_and_names_of_members() {
        let album = r#"{"photos":1480,"videos":36,"video_bytes":28800000000}"#;
        for (result, text, rule) in [
            (r#"{"range_km":62}"#, "The range is 62 miles.", Some("measured")),
            (r#"{"altitude_m":100}"#, "It flew at 100 feet.", Some("measured")),
            (r#"{"dose_mg_per_kg":15}"#, "She needs 15 mg per kg.", None),
            (r#"{"altitude_m":100}"#, "It flew at 100 metres.", None),
            (r#"{"km":10,"ascent_m":52}"#, "It was 10 km.", None),
            (r#"{"in_stock_m":7.2}"#, "There are only 7.2 m in stock.", None),
            (r#"{"passed":22,"of":40}"#, "She has 22 of 40 points, so 65 %.", Some("share")),
            (r#"{"late":4,"of":10}"#, "4 of 10 orders are late, while the two weeks before had seen 15 % of them late.", None),
            (r#"{"upload_mbps":18.05}"#, "The upload is 81.5.", Some("named_field")),
            (album, "They have 800 MB on average, videos: 800 MB.", None),
            (r#"{"water_g":350}"#, "The dough has water: 73 %.", None),
        ] {
            let found = rules(result, text);
            let own = ["measured", "share", "named_field"].into_iter().find(|own| found.contains(own));
            assert_eq!(own, rule, "{text}: {found:?}");
        }
    }

    #[test]
    fn counts_of_records() {
        let deals = r#"{"deals":[{"name":"Lusitex","stage":"open"},{"name":"Blum","stage":"offer"},{"name":"Rail","stage":"won"}]}"#;
        for (text, wrong) in [
            ("There are three deals.", false),
            ("There are two running deals; Rail is won.", false),
            ("There are two offer deals; Rail is won.", true),
            ("There are two deals.", true),
            ("There are five deals.", true),
        ] {
            let found = rules(deals, text);
            assert_eq!(found.contains(&"counted"), wrong, "{text}: {found:?}");
        }
    }

    #[test]
    fn opposites_are_of_what_is_told() {
        let hours = r#"{"mon":"closed","tue":"10:00-17:00","sat":"09:00-18:00"}"#;
        for (result, text, wrong) in [
            (r#"{"door":"locked","battery":"80%"}"#, "The front door is unlocked.", true),
            (r#"{"door":"locked","battery":"80%"}"#, "The front door is locked.", false),
            (hours, "At weekends it's open from 9 to 6.", false),
            (hours, "On Monday it's open as well.", true),
        ] {
            let found = rules(result, text);
            assert_eq!(found.contains(&"exclusive"), wrong, "{text}: {found:?}");
        }
    }
}
