//! Cassettes for other tools: vcrpy's form and HAR 1.2. What those can't say stands beside in a member of our own, which
//! they pass over, so that importing gives the same exchanges again. Pure.

pub mod har;
pub mod vcr;

use super::{
    import::ImportError,
    line::{Exchange, Request, Response},
};

/// Where a request went whose URL isn't recorded: toolmark's own default.
const BASE: &str = "http://127.0.0.1:8787";

/// The two sides of an exchange as an application saw them: what it sent, and what it got. Of imported traffic that is
/// what came from upstream.
fn sides(exchange: &Exchange) -> (&Request, Option<&Response>) {
    let upstream = || exchange.attempts.first().and_then(|attempt| attempt.response.as_ref());
    (&exchange.downstream.request, exchange.downstream.response.as_ref().or_else(upstream))
}

fn absolute(url: &str) -> String {
    if url.contains("://") { url.to_owned() } else { format!("{BASE}{url}") }
}

/// What the importer makes of what was exported, without anything of our own: the one exchange.
fn read_back(read: Result<Vec<Exchange>, ImportError>) -> Option<Exchange> {
    read.ok()?.into_iter().next()
}
