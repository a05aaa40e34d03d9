//! Imports other tools' recordings as cassettes. No data of the source is lost. Pure.

pub mod har;
pub mod jsonl;
pub mod vcr;
pub mod yaml;

use std::io::Read as _;

use bytes::Bytes;
use serde_json::Value;

use super::body::RecordedBody;
use crate::{
    export::extension,
    format::{ImportSource, RecordedAttempt, RecordedDownstream, RecordedExchange, RecordedRequest, RecordedResponse, VERSION},
};

/// A body that unpacks to more bytes stays packed.
const UNPACKED_BYTES_MAX: u64 = 256 << 20;

/// Error of importing a file, with the place in it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ImportError(pub String);

/// A format that can be imported.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Format {
    /// vcrpy's and pytest-recording's cassettes: YAML, or JSON.
    Vcr,
    /// HAR 1.2.
    Har,
    /// JSON lines with `request_body` and `response_body`.
    Exchanges,
}

/// Reads a file's exchanges.
///
/// # Errors
/// [`ImportError`], with the place.
pub fn read(format: Format, text: &str) -> Result<Vec<RecordedExchange>, ImportError> {
    match format {
        Format::Vcr => vcr::read(text),
        Format::Har => har::read(text),
        Format::Exchanges => jsonl::read(text),
    }
}

/// One exchange of a source, before it has an id.
struct Imported {
    format: &'static str,
    at_ms: Option<u64>,
    request: RecordedRequest,
    response: Option<RecordedResponse>,
    /// Data of the source that has no place in an exchange.
    rest: Value,
    /// The patch written by toolmark's own export.
    own: Option<Value>,
}

impl Imported {
    /// Builds the exchange. `place`: its position in the source, from 0.
    fn exchange(self, place: usize) -> Result<RecordedExchange, ImportError> {
        let Self { format, at_ms, request, response, rest, own } = self;
        let rest = if rest.as_object().is_some_and(serde_json::Map::is_empty) { Value::Null } else { rest };
        let attempts =
            response.map(|response| RecordedAttempt { response: Some(response), ..RecordedAttempt::default() }).into_iter().collect();
        let mut exchange = RecordedExchange {
            cassette: VERSION,
            id: String::new(),
            at_ms,
            scope: None,
            policy: None,
            downstream: RecordedDownstream { request, response: None },
            attempts,
            verdict: None,
            moments: Vec::new(),
            mcp: None,
            redactions: 0,
            origin: Some(ImportSource { format: format.to_owned(), rest }),
        };
        if let Some(own) = own {
            return extension::applied(&exchange, &own).map_err(|error| ImportError(format!("exchange {}: {error}", place + 1)));
        }
        exchange.id = id_of(&exchange, place);
        Ok(exchange)
    }
}

/// An id derived from content and position, so that a repeated import gives the same one.
fn id_of(exchange: &RecordedExchange, place: usize) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(place as u64).to_le_bytes()).update(exchange.line().as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string()
}

/// The body, unpacked by its content encoding, and the encoding that was removed, if any.
fn unpacked(bytes: Vec<u8>, encoding: Option<&str>) -> (RecordedBody, Option<String>) {
    let encoding = encoding.map(|encoding| encoding.trim().to_ascii_lowercase());
    let unpacked = match encoding.as_deref() {
        Some("gzip" | "x-gzip") if bytes.starts_with(&[0x1f, 0x8b]) => inflate(flate2::read::MultiGzDecoder::new(&bytes[..])),
        Some("deflate") => {
            inflate(flate2::read::ZlibDecoder::new(&bytes[..])).or_else(|| inflate(flate2::read::DeflateDecoder::new(&bytes[..])))
        }
        _ => None,
    };
    match unpacked {
        Some(plain) => (RecordedBody::of_bytes(plain.into()), encoding),
        None => (RecordedBody::of_bytes(bytes.into()), None),
    }
}

fn inflate(reader: impl std::io::Read) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let read = reader.take(UNPACKED_BYTES_MAX + 1).read_to_end(&mut out).ok()?;
    (read as u64 <= UNPACKED_BYTES_MAX).then_some(out)
}

/// A text as a body; `None` if it is empty.
fn of_text(text: String) -> Option<RecordedBody> {
    (!text.is_empty()).then(|| RecordedBody::of_bytes(Bytes::from(text)))
}

/// Unix milliseconds of an RFC 3339 time with any offset.
fn millis(time: &str) -> Option<u64> {
    let (local, offset) = match time.strip_suffix(['Z', 'z']) {
        Some(local) => (local, 0),
        None => {
            let at = time.len().checked_sub(6)?;
            let (local, zone) = (time.get(..at)?, time.get(at..)?);
            let (hours, minutes) = zone.get(1..)?.split_once(':')?;
            let seconds = hours.parse::<i64>().ok()? * 3600 + minutes.parse::<i64>().ok()? * 60;
            (local, if zone.starts_with('-') { -seconds } else { seconds })
        }
    };
    let since = humantime::parse_rfc3339_weak(&format!("{local}Z")).ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    u64::try_from(i64::try_from(since.as_millis()).ok()? - offset * 1000).ok()
}

#[cfg(test)]
mod tests;
