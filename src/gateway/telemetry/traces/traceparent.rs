//! The `traceparent` header of callers' and upstream requests. Pure.
//!
//! Source: W3C Trace Context, "traceparent Header". An invalid value is ignored.

use std::fmt;

/// Content of a `traceparent` header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TraceParent {
    /// The trace's id.
    pub trace: u128,
    /// Id of the span that caused the request.
    pub span: u64,
    /// The flag `sampled`: the trace is recorded.
    pub sampled: bool,
}

impl TraceParent {
    /// Parses a header; `None` if it is invalid.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?.trim();
        let mut parts = text.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let hex = |part: &str, digits: usize| {
            part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        };
        if !hex(version, 2) || version == "ff" || !hex(trace, 32) || !hex(span, 16) || !hex(flags, 2) {
            return None;
        }
        // Later versions may have more parts; this one may not.
        if version == "00" && parts.next().is_some() {
            return None;
        }
        let (trace, span) = (u128::from_str_radix(trace, 16).ok()?, u64::from_str_radix(span, 16).ok()?);
        let sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
        (trace != 0 && span != 0).then_some(Self { trace, span, sampled })
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.sampled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents() {
        let fine = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(TraceParent::parse(fine.as_bytes()).unwrap().to_string(), fine);
        for (text, read) in [
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", true),
            ("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03-later", true),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", false),
            ("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false),
            ("00-00000000000000000000000000000000-b7ad6b7169203331-01", false),
            ("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", false),
            ("00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false),
            ("00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01", false),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331", false),
            ("", false),
            ("\u{fc}", false),
        ] {
            assert_eq!(TraceParent::parse(text.as_bytes()).is_some(), read, "{text}");
        }
    }
}
