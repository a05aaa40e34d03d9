//! Cassettes in other tools' formats: vcrpy and HAR 1.2. Data that those can't express goes into a member of toolmark's own,
//! which other tools ignore, so that importing the file gives the same exchanges again. Pure.

pub mod extension;
pub mod har;
pub mod vcr;

use super::import::ImportError;
use crate::format::{RecordedExchange, RecordedRequest, RecordedResponse};

/// Base URL for requests recorded without a host: toolmark's default address.
const BASE: &str = "http://127.0.0.1:8787";

/// Request and response of an exchange as the application saw them. For imported traffic, the response is the upstream's.
fn sides(exchange: &RecordedExchange) -> (&RecordedRequest, Option<&RecordedResponse>) {
    let upstream = || exchange.attempts.first().and_then(|attempt| attempt.response.as_ref());
    (&exchange.downstream.request, exchange.downstream.response.as_ref().or_else(upstream))
}

fn absolute(url: &str) -> String {
    if url.contains("://") { url.to_owned() } else { format!("{BASE}{url}") }
}

/// The single exchange read back from an export that has no member of toolmark's own.
fn read_back(read: Result<Vec<RecordedExchange>, ImportError>) -> Option<RecordedExchange> {
    read.ok()?.into_iter().next()
}
