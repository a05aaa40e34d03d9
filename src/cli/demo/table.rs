//! The table: for each scene the model's behaviour, toolmark's verdict, and the application's view.
//!
//! At most 100 columns; colours are optional.

use super::{
    SceneOutcome,
    scenes::{AnswerForm, DemoScene},
};

/// Style of the table.
pub struct Style {
    /// Use colours.
    pub colours: bool,
}

impl Style {
    fn paint(&self, code: &str, text: &str) -> String {
        if self.colours { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// Title and heading of the table.
    pub fn head(&self, base_url: &str) -> String {
        let title = format!("client ─▶ toolmark at {base_url} ─▶ a scripted model that fails on purpose");
        let names = line(["#", "the model", "mode", "what toolmark did", "what the application saw"]);
        format!("{title}\n\n{}\n{}", self.paint("1", &names), rule('━'))
    }

    /// One scene in one mode.
    pub fn row(&self, number: usize, scene: &DemoScene, outcome: &SceneOutcome) -> String {
        let first = outcome.mode == AnswerForm::Whole;
        let number = if first { number.to_string() } else { String::new() };
        let model = if first { wrap(scene.model_does, WIDTHS[1]) } else { Vec::new() };
        let (toolmark, saw) =
            (wrap(&outcome.toolmark, WIDTHS[3]), outcome.saw.iter().flat_map(|part| wrap(part, WIDTHS[4])).collect::<Vec<_>>());
        let caught = outcome.failed.is_empty();
        let mut out = String::new();
        for at in 0..model.len().max(toolmark.len()).max(saw.len()) {
            let of = |lines: &[String]| lines.get(at).cloned().unwrap_or_default();
            let (number, mode) = if at == 0 { (number.as_str(), outcome.mode.as_str()) } else { ("", "") };
            let sign = match (at, caught) {
                (0, true) => "✅",
                (0, false) => "❌",
                _ => "",
            };
            let text = line([number, &of(&model), mode, &of(&toolmark), &of(&saw)]);
            let text = if caught { text } else { self.paint("31", &text) };
            out.push_str(format!("{text} {sign}").trim_end());
            out.push('\n');
        }
        if first { out } else { format!("{out}{}", self.paint("2", &rule('─'))) }
    }

    /// Failed checks and a summary.
    pub fn foot(&self, results: &[(&str, SceneOutcome)]) -> String {
        let failed: Vec<_> = results.iter().filter(|(_, outcome)| !outcome.failed.is_empty()).collect();
        let mut out = String::from("\n");
        for (name, outcome) in &failed {
            for check in &outcome.failed {
                out.push_str(&format!("{} {name}, {}: not so: {check}\n", self.paint("31", "❌"), outcome.mode.as_str()));
            }
        }
        let held = results.len() - failed.len();
        let summary = format!("{} scenes, each whole and streamed: {held} of {} are as they must be.", results.len() / 2, results.len());
        out.push_str(&self.paint(if failed.is_empty() { "1;32" } else { "1;31" }, &summary));
        out.push('\n');
        out
    }
}

fn line(cells: [&str; 5]) -> String {
    let mut out = String::new();
    for (cell, width) in cells.into_iter().zip(WIDTHS) {
        let padding = width.saturating_sub(cell.chars().count());
        out.push_str(cell);
        out.extend(std::iter::repeat_n(' ', padding + GAP));
    }
    out.truncate(out.trim_end().len());
    let shown = out.chars().count();
    out.extend(std::iter::repeat_n(' ', TOTAL.saturating_sub(shown)));
    out
}

fn rule(of: char) -> String {
    format!("{}\n", of.to_string().repeat(TOTAL + 3))
}

/// Wraps a text into lines of at most `width` characters; longer words are split, and surplus lines are cut off.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        let mut rest: Vec<char> = word.chars().collect();
        loop {
            let used = lines.last().map_or(0, |line| line.chars().count());
            let gap = usize::from(used > 0);
            if used + gap + rest.len() <= width {
                if let Some(line) = lines.last_mut() {
                    line.extend(std::iter::repeat_n(' ', gap).chain(rest));
                }
                break;
            }
            if used > 0 {
                lines.push(String::new());
                continue;
            }
            let tail = rest.split_off(width.min(rest.len()));
            if let Some(line) = lines.last_mut() {
                line.extend(rest);
            }
            rest = tail;
        }
    }
    if lines.len() > LINES_MAX {
        lines.truncate(LINES_MAX);
        if let Some(line) = lines.last_mut() {
            *line = line.chars().take(width - 1).chain(['…']).collect();
        }
    }
    lines
}

const WIDTHS: [usize; 5] = [2, 24, 8, 23, 31];
const GAP: usize = 2;
/// Characters in a line, without the sign at its end.
const TOTAL: usize = 96;
const LINES_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit() {
        for (text, width, lines) in [
            ("one two", 10, vec!["one two"]),
            ("one two", 5, vec!["one", "two"]),
            ("abcdefgh ij", 4, vec!["abcd", "efgh", "ij"]),
            ("a b c d e f g", 1, vec!["a", "b", "c", "…"]),
            ("", 5, vec![""]),
        ] {
            assert_eq!(wrap(text, width), lines, "{text:?} in {width}");
        }
        assert_eq!(WIDTHS.iter().sum::<usize>() + 4 * GAP, TOTAL);
    }
}
