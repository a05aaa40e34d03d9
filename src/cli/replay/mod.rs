//! `toolmark replay`: judges recorded traffic again, on all cores; reports differences as text, JSON or JUnit.

mod junit;
mod parallel;
mod report;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use clap::Args;

use super::{Error, judge};
use crate::{
    cassette::{format::RecordedExchange, issued_marks, reader::CassetteLines},
    exchange::active_policy::Standard,
    marks::{KeyRing, RecordedMarks},
    policy::load::PolicySource,
    replay::{
        offline::{Bench, HELD_BYTES_MAX},
        rejudge::{self, ComparisonBasis, Difference, Judgement},
    },
    settings::{self, Environment, Flags},
    tools::registry::SchemaCache,
};
use report::ReplayReport;

/// `toolmark replay`
#[derive(Args, Clone, Debug)]
pub struct ReplayArgs {
    /// The cassette: a file, or a directory of them
    #[arg(value_name = "CASSETTE")]
    pub cassette: PathBuf,
    /// The policy to judge by: a file, or one of `default`, `strict`, `observe`
    #[arg(long, value_name = "FILE")]
    pub policy: Option<String>,
    /// Compare with this second policy instead of with the recorded verdicts
    #[arg(long, value_name = "FILE")]
    pub against: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write JUnit XML, a test case for each exchange
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Exit 1 also where something is blocked and no verdict was recorded
    #[arg(long)]
    pub strict: bool,
}

/// Runs the command.
///
/// # Errors
/// A cassette, settings or a policy that can't be read.
pub fn run(replay: &ReplayArgs, flags: Flags) -> Result<ExitCode, Error> {
    let flags = Flags { policy: replay.policy.clone(), ..flags };
    let offline = settings::load_offline(&flags, &Environment::of_process(), Path::new(""))?;
    let (ring, marks) = judge::ring(&offline.keys)?;
    let (ring, known) = if marks.known() { (ring, true) } else { (recorded_ring(&ring, &replay.cassette)?, false) };
    let second = replay.against.as_deref().map(|name| PolicySource::choose(Some(name), Path::new("")));
    let benches = OfflineJudges {
        first: bench(&offline.policy, &ring)?,
        second: second.as_ref().map(|policy| bench(policy, &ring)).transpose()?,
        known,
    };
    let mut report = ReplayReport::new(benches.names());
    (report.strict, report.keep_cases) = (replay.strict, replay.junit.is_some());
    if let judge::MarkVerification::Unknown(why) = &marks {
        report.notices.push(format!("marks are judged by what the cassette shows of them: {why}"));
    }
    let lines = CassetteLines::open(&replay.cassette).map_err(failed)?;
    parallel::each(lines, |line| benches.judge(line), |case| report.add(case)).map_err(failed)?;
    if let Some(path) = &replay.junit {
        let xml = junit::write(&report).map_err(failed)?;
        std::fs::write(path, xml).map_err(|error| Error::Failed(format!("{} can't be written: {error}", path.display())))?;
    }
    super::print(&if replay.json { report.json() } else { report.text() });
    Ok(if report.failures() > 0 { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Failed(error.to_string())
}

fn bench(policy: &PolicySource, ring: &Arc<KeyRing>) -> Result<Bench, Error> {
    let standard = Standard::new(policy.load()?, HELD_BYTES_MAX).map_err(failed)?;
    Ok(Bench { standard: Arc::new(standard), ring: ring.clone(), schemas: Arc::new(SchemaCache::default()) })
}

/// A key ring that accepts the marks found in the cassette, for use without the key.
fn recorded_ring(ring: &KeyRing, cassette: &Path) -> Result<Arc<KeyRing>, Error> {
    let mut marks = RecordedMarks::default();
    for line in CassetteLines::open(cassette).map_err(failed)? {
        if let Some(exchange) = line.map_err(failed)?.exchange().map_err(failed)? {
            issued_marks::collect(&exchange, &mut marks);
        }
    }
    Ok(Arc::new(ring.clone().with_recorded(Arc::new(marks))))
}

/// The offline judges: for one policy, or for two that are compared.
struct OfflineJudges {
    first: Bench,
    second: Option<Bench>,
    /// The key is available.
    known: bool,
}

/// Result for one line of the cassette.
pub(super) struct ReplayCase {
    /// The exchange's id; empty for a line that a crash cut off.
    id: String,
    /// `FILE:LINE`
    place: String,
    /// The model named in the request.
    model: String,
    /// The recorded verdict, or the one under the first policy.
    before: Option<crate::cassette::format::RecordedVerdict>,
    /// The result under the policy, or under the second one.
    after: Judgement,
    difference: Difference,
}

impl OfflineJudges {
    fn names(&self) -> [String; 2] {
        let name = |bench: &Bench| bench.standard.rules.source.to_string();
        match &self.second {
            Some(second) => [name(&self.first), name(second)],
            None => ["recorded".to_owned(), name(&self.first)],
        }
    }

    fn judge(&self, line: &crate::cassette::reader::CassetteLine) -> Result<ReplayCase, crate::cassette::reader::ReadError> {
        let place = format!("{}:{}", line.path.display(), line.number);
        let Some(exchange) = line.exchange()? else {
            let after = Judgement { not_judged: Some("the line is cut off, as a crash leaves it".into()), ..Judgement::default() };
            return Ok(ReplayCase { id: String::new(), place, model: String::new(), before: None, after, difference: Difference::None });
        };
        let first = rejudge::judge(&self.first, &exchange);
        let (before, after) = match &self.second {
            None => (exchange.verdict.clone(), first),
            Some(second) => (first.judged().then_some(first.found), rejudge::judge(second, &exchange)),
        };
        // Two policies judge the same marks; the recording may have been judged with others.
        let basis = match self.second.is_some() {
            true => ComparisonBasis::SameData,
            false if self.known && self.opens(&exchange) => ComparisonBasis::MarksVerified,
            false => ComparisonBasis::MarksUnverified,
        };
        let difference = match &before {
            Some(before) if after.judged() => rejudge::compare(before, &after, &exchange, basis),
            _ => Difference::None,
        };
        Ok(ReplayCase { id: exchange.id, place, model: after.model.clone(), before, after, difference })
    }

    /// True if the scope of the exchange's marks can be read with this key.
    fn opens(&self, exchange: &RecordedExchange) -> bool {
        exchange.scope.as_deref().is_some_and(|sealed| crate::marks::Scope::opened(sealed, &self.first.ring).is_some())
    }
}
