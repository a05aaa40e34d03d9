//! Figures that stand beside each other in a passage, reckoned again: changes, conversions, shares, units. Pure.

pub mod changes;
pub mod conversions;
pub mod operands;
pub mod shares;
pub mod sums;
pub mod units;

use std::ops::Range;

use crate::context::{CheckContext, CitationScope, ClaimFinding};
use toolmark_base::violation::{Certainty, Code};

/// The findings of a passage about its own figures.
pub fn figures(scene: &CheckContext<'_>) -> Vec<ClaimFinding> {
    if scene.bond < CitationScope::Introduced || scene.plain.asks() {
        return Vec::new();
    }
    let first = [
        changes::change(scene),
        conversions::conversion(scene),
        shares::share(scene),
        units::unit_of_another_column(scene),
        sums::sum(scene),
        sums::span_of_time(scene),
    ];
    let mut found: Vec<ClaimFinding> = first.into_iter().flatten().collect();
    if found.is_empty() {
        found.extend(operands::made_of_two(scene));
    }
    found
}

/// A likely finding about these bytes of the passage.
fn finding(scene: &CheckContext<'_>, rule: &'static str, code: Code, span: Range<usize>, expected: String) -> ClaimFinding {
    let found = scene.text().get(span.clone()).unwrap_or_default().to_owned();
    ClaimFinding { rule, code, span, found, expected, certainty: Certainty::Likely }
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

    /// The checks that find something in a text that cites this result.
    fn rules(result: &str, text: &str) -> Vec<&'static str> {
        let grounds = EvidenceIndex::new(vec![ToolResult::new("get_list", "{}", result)], Vec::new(), "".into());
        let plain = AnalyzedPassage::of(text);
        let lexicon = language(&words(text), None);
        let scene = CheckContext::new(&plain, Kind::Sentence, lexicon, grounds.results.iter().collect(), CitationScope::Cited, &grounds);
        figures(&scene).into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn figures_beside_each_other_agree() {
        let heating = "2023 | kWh: 8900 | EUR: 1216\n2024 | kWh: 7100 | EUR: 994";
        let rain = "date         tmax_c  rain_mm  wind_kmh\n2025-08-06   27.3    0.0      7\n2025-08-07   30.8    5.4      14\n2025-08-08   21.7    11.6     18";
        let votes = r#"{"eligible":1250,"cast":800,"a":336,"b":248,"c":176,"invalid":40}"#;
        for (result, text, rule) in [
            (heating, "It has risen from 8,900 to 7,100 kWh.", Some("change_direction")),
            (heating, "It has fallen from 8,900 to 7,100 kWh.", None),
            (heating, "Usage dropped from 8,900 to 7,100 kWh, a decrease of 2,100 kWh.", Some("change_apart")),
            (heating, "Usage dropped from 8,900 to 7,100 kWh, a decrease of 1,800 kWh.", None),
            (heating, "Usage went from 8,900 to 7,100 kWh, a difference of 2,100 kWh.", Some("change_apart")),
            (heating, "Usage went from 8,900 to 7,100 kWh, a difference of 1,800 kWh.", None),
            (heating, "8,900 से 7,100, यानी 2,100 की गिरावट।", Some("change_apart")),
            (heating, "8,900 से 7,100, यानी 1,800 की गिरावट।", None),
            (heating, "Der Verbrauch ging um 2.100 kWh zurück, von 8.900 auf 7.100 kWh.", Some("change_apart")),
            (heating, "Der Verbrauch ging um 1.800 kWh zurück, von 8.900 auf 7.100 kWh.", None),
            (heating, "消費は8,900から7,100に増えました。", Some("change_direction")),
            (heating, "Your rank rose from 12 to 5.", None),
            (heating, "It didn't rise from 8,900 to 7,100.", None),
            (r#"{"length_km":13.2,"ascent_m":460}"#, "The loop is 13.2 km, or about 9.8 miles.", Some("conversion")),
            (r#"{"length_km":13.2,"ascent_m":460}"#, "The loop is 13.2 km, or about 8.2 miles.", None),
            (r#"{"length_km":13.2,"ascent_m":460}"#, "The loop is 13.2 km (460 m up).", None),
            (r#"{"height_m":1.8}"#, "He is 1.80 m (5 ft 11 in).", None),
            (rain, "14 mm of rain fell on 7 August.", Some("unit_column")),
            (rain, "5.4 mm of rain fell on 7 August, and 17 mm in all.", None),
            (votes, "Turnout was 68 % of the 1,250 voters.", Some("share")),
            (votes, "Turnout was 64 % of the 1,250 voters.", None),
            (votes, "Nwosu has 42 % of the 800 ballots.", None),
            (votes, "The rate is 48 %: 336 of 800.", Some("share")),
            (votes, "The rate is 42 %: 336 of 800.", None),
        ] {
            assert_eq!(rules(result, text), rule.into_iter().collect::<Vec<_>>(), "{text}");
        }
    }
}
