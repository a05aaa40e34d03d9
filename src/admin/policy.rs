//! The policies: what is in force, what each code does, what the last reload changed, and what another policy would have said.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use serde::{Deserialize, Serialize};

use super::{
    api::read_blocking,
    codes,
    exchanges::{TRIAL_HELD_BYTES, kept_exchanges},
    query::Parameters,
    responses::{self, invalid},
};
use crate::{
    exchange::active_policy::Standard,
    policy::{PolicyMode, compiled::CompiledPolicy},
    proxy::{
        app::App,
        http::{body::Body, failure::Failure},
    },
    replay::{
        offline::Bench,
        rejudge::{self, ComparisonBasis, Difference},
    },
    tools::registry::SchemaCache,
    violation::{Certainty, Code, Severity},
};

/// Maximum bytes of a policy on trial.
const POLICY_BYTES_MAX: usize = 256 << 10;
/// Exchanges that are judged again, at most.
const TRIAL_MAX: usize = 1000;
/// Time for judging them again.
const TRIAL_TIME: Duration = Duration::from_secs(8);

/// A policy in force.
#[derive(Serialize)]
struct PolicyView {
    /// Whose it is: `settings`, or the names of the clients that are judged by it.
    judges: Vec<String>,
    source: String,
    digest: String,
    mode: &'static str,
    /// The policy's text, if its file can be read.
    text: Option<String>,
    /// Digest of the file as it is now differs: it was changed and is not in force.
    notices: Vec<String>,
    checks: Vec<CheckView>,
    reload: Option<ReloadView>,
}

/// What a policy does about one code.
#[derive(Serialize)]
struct CheckView {
    code: Code,
    place: &'static str,
    means: &'static str,
    severity: Severity,
    /// For `block`: the certainty from which on it blocks.
    blocks_from: Option<Certainty>,
    default: Severity,
    strict: Severity,
}

/// The last reload of a policy that changed it, or failed.
#[derive(Serialize)]
struct ReloadView {
    at_ms: u64,
    before: String,
    after: Option<String>,
    error: Option<String>,
    changes: Vec<SeverityChange>,
    mode: Option<[&'static str; 2]>,
}

/// A code whose severity changed.
#[derive(Serialize)]
struct SeverityChange {
    code: Code,
    before: String,
    after: String,
}

fn mode(policy: &CompiledPolicy) -> &'static str {
    match policy.policy.mode {
        PolicyMode::Enforce => "enforce",
        PolicyMode::Observe => "observe",
    }
}

fn digest(policy: &CompiledPolicy) -> String {
    policy.digest.get(..16).unwrap_or(&policy.digest).to_owned()
}

fn severity(policy: &CompiledPolicy, code: Code) -> String {
    let severity = policy.checks.severity(code);
    match (severity, policy.checks.blocks_from(code)) {
        (Severity::Block, Certainty::Certain) => "block if certain".to_owned(),
        _ => severity.as_str().to_owned(),
    }
}

fn changes(before: &CompiledPolicy, after: &CompiledPolicy) -> Vec<SeverityChange> {
    let changed = Code::ALL.iter().filter(|code| severity(before, **code) != severity(after, **code));
    changed.map(|code| SeverityChange { code: *code, before: severity(before, *code), after: severity(after, *code) }).collect()
}

/// `GET /api/policy`
pub async fn policy(app: &Arc<App>, query: &str) -> Result<Response<Body>, Failure> {
    Parameters::read(query, &[])?;
    let own = app.clone();
    let data = read_blocking(move || {
        let reloads = own.reloads();
        let view = |(at, (source, standard)): (usize, (crate::policy::load::PolicySource, Arc<Standard>))| {
            let rules = &standard.rules;
            let check = |code: &Code| CheckView {
                code: *code,
                place: codes::place(*code),
                means: codes::meaning(*code),
                severity: rules.checks.severity(*code),
                blocks_from: (rules.checks.severity(*code) == Severity::Block).then(|| rules.checks.blocks_from(*code)),
                default: code.default_severity(),
                strict: code.strict_severity(),
            };
            let reload = reloads.iter().find(|reload| reload.policy == at).map(|reload| {
                let after = reload.after.as_ref();
                ReloadView {
                    at_ms: reload.at_ms,
                    before: digest(&reload.before),
                    after: after.ok().map(|after| digest(after)),
                    error: after.err().cloned(),
                    changes: after.map(|after| changes(&reload.before, after)).unwrap_or_default(),
                    mode: after.ok().map(|after| [mode(&reload.before), mode(after)]).filter(|[before, after]| before != after),
                }
            });
            PolicyView {
                judges: own.judged_by(at),
                source: source.to_string(),
                digest: digest(rules),
                mode: mode(rules),
                text: source.text().ok(),
                notices: rules.notices.clone(),
                checks: Code::ALL.iter().map(check).collect(),
                reload,
            }
        };
        Ok(own.policies().into_iter().enumerate().map(view).collect::<Vec<_>>())
    })
    .await?;
    Ok(responses::json(&serde_json::json!({ "data": data })))
}

/// A trial as it is asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Trial {
    /// The policy's text.
    policy: String,
    /// Index of the policy in whose place it is tried.
    #[serde(default)]
    instead_of: usize,
    /// Exchanges at most, the newest first.
    limit: Option<usize>,
}

/// What a trial found.
#[derive(Serialize)]
struct TrialReport {
    /// Exchanges that were judged by both policies.
    judged: usize,
    /// Exchanges that can't be judged again, by reason.
    not_judged: std::collections::BTreeMap<String, usize>,
    /// False if there wasn't time for all.
    complete: bool,
    /// Severities that the policy changes.
    changes: Vec<SeverityChange>,
    /// The exchanges that it would change, the newest first.
    data: Vec<TrialDifference>,
}

/// An exchange that the policy on trial judges in another way.
#[derive(Serialize)]
struct TrialDifference {
    id: String,
    at_ms: Option<u64>,
    model: String,
    before: String,
    after: String,
    gone: Vec<String>,
    new: Vec<String>,
    /// The model would have been asked again; what it would have answered isn't known.
    open: bool,
}

/// `POST /api/policy/what-if`
pub async fn what_if(app: &Arc<App>, request: Request<Incoming>) -> Result<Response<Body>, Failure> {
    Parameters::read(request.uri().query().unwrap_or_default(), &[])?;
    let Ok(body) = Limited::new(request.into_body(), POLICY_BYTES_MAX * 2).collect().await else {
        let message = format!("the body broke off, or is longer than {} bytes", POLICY_BYTES_MAX * 2);
        return Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", message));
    };
    let trial: Trial = serde_json::from_slice(&body.to_bytes())
        .map_err(|error| invalid("body", format!("{error}; write it like {{\"policy\": \"mode = \\\"enforce\\\"\"}}")))?;
    if trial.policy.len() > POLICY_BYTES_MAX {
        return Err(invalid("policy", format!("a policy on trial may have {POLICY_BYTES_MAX} bytes")));
    }
    let policies = app.policies();
    let Some((source, current)) = policies.get(trial.instead_of) else {
        return Err(invalid("instead_of", format!("there are {} policies, counted from 0", policies.len())));
    };
    let (source, current, own) = (source.clone(), current.clone(), app.clone());
    let report = read_blocking(move || Ok(judge(&own, &source, &current, &trial))).await??;
    Ok(responses::json(&report))
}

fn judge(app: &App, source: &crate::policy::load::PolicySource, current: &Arc<Standard>, trial: &Trial) -> Result<TrialReport, Failure> {
    let wrong = |error: &dyn std::fmt::Display| invalid("policy", error.to_string());
    let rules = source.compile(&trial.policy, &current.rules).map_err(|error| wrong(&error))?;
    let changes = changes(&current.rules, &rules);
    let standard = Standard::new(rules, TRIAL_HELD_BYTES).map_err(|error| wrong(&error))?;
    let bench = |standard: Arc<Standard>| Bench { standard, ring: app.ring.clone(), schemas: Arc::new(SchemaCache::default()) };
    let (old, new) = (bench(current.clone()), bench(Arc::new(standard)));
    let limit = trial.limit.unwrap_or(TRIAL_MAX).min(TRIAL_MAX);
    let kept = kept_exchanges(app, limit).map_err(|error| responses::ledger(&error))?;
    let mut report = TrialReport { judged: 0, not_judged: std::collections::BTreeMap::new(), complete: true, changes, data: Vec::new() };
    let began = Instant::now();
    for exchange in kept {
        if began.elapsed() > TRIAL_TIME {
            report.complete = false;
            break;
        }
        let (before, after) = (rejudge::judge(&old, &exchange), rejudge::judge(&new, &exchange));
        if !before.judged() || !after.judged() {
            let why = before.not_judged.or(after.not_judged).unwrap_or_default();
            *report.not_judged.entry(why).or_default() += 1;
            continue;
        }
        report.judged += 1;
        if let Difference::Differs { verdicts: [was, is], gone, new } =
            rejudge::compare(&before.found, &after, &exchange, ComparisonBasis::SameData)
        {
            let (id, at_ms, model) = (exchange.id.clone(), exchange.at_ms, after.model.clone());
            report.data.push(TrialDifference { id, at_ms, model, before: was, after: is, gone, new, open: after.open });
        }
    }
    Ok(report)
}
