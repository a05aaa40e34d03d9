//! Files: other tools' recordings, cassettes, settings and policies.

use std::sync::LazyLock;

use super::{
    bench::By,
    input::{FuzzInput, bounded},
};
use crate::{
    cassette::{
        export,
        format::RecordedExchange,
        import::{self, Format},
    },
    policy::load,
    replay::rejudge,
    settings::{self, Environment, Flags},
};

/// A recording is read or refused; an exchange that was read survives its own line format and each export format.
pub(super) fn import(data: &[u8]) {
    let Some(input) = FuzzInput::of(data) else { return };
    let text = String::from_utf8_lossy(data.get(3..).unwrap_or_default());
    let format = [Format::Vcr, Format::Har, Format::Exchanges][usize::from(input.flags) % 3];
    let Ok(read) = bounded("the import of a recording", || import::read(format, &text)) else { return };
    for exchange in &read {
        let line = exchange.line();
        assert_eq!(RecordedExchange::parse(&line).ok().as_ref(), Some(exchange), "a line says something else: {line}");
    }
    let vcr = bounded("an export", || export::vcr::write(&read));
    assert_eq!(import::vcr::read(&vcr).ok().as_ref(), Some(&read), "through VCR it comes back as something else: {vcr}");
    let har = bounded("an export", || export::har::write(&read));
    assert_eq!(import::har::read(&har).ok().as_ref(), Some(&read), "through HAR it comes back as something else: {har}");
}

/// A line of a cassette is read or refused, survives a round trip, and gets the same verdict when it is judged again.
pub(super) fn cassette(data: &[u8]) {
    let Some(input) = FuzzInput::of(data) else { return };
    let text = String::from_utf8_lossy(data.get(3..).unwrap_or_default());
    let by = By::of(input.flags);
    for line in text.lines().take(8) {
        let Ok(exchange) = bounded("a line of a cassette", || RecordedExchange::parse(line)) else { continue };
        assert_eq!(RecordedExchange::parse(&exchange.line()).ok().as_ref(), Some(&exchange), "a line comes back as something else");
        let first = bounded("the judgement of a recording", || rejudge::judge(by.bench(), &exchange));
        let second = rejudge::judge(by.bench(), &exchange);
        assert_eq!(first, second, "judged again, it comes out differently");
    }
}

/// A settings file is accepted or refused with a message, and the same when it is read again.
pub(super) fn settings(data: &[u8]) {
    static PLACE: LazyLock<std::path::PathBuf> = LazyLock::new(|| {
        let name = format!("toolmark-fuzz-{}-{:?}.toml", std::process::id(), std::thread::current().id());
        std::env::temp_dir().join(name.replace(['(', ')'], ""))
    });
    let text = String::from_utf8_lossy(data);
    if std::fs::write(&*PLACE, &*text).is_err() {
        return;
    }
    let flags = Flags { config: Some(PLACE.clone()), ..Flags::default() };
    let environment = Environment::of(&[("OPENAI_API_KEY", "sk-1")]);
    let directory = PLACE.parent().unwrap_or(&PLACE);
    let load =
        || settings::load(&flags, &environment, directory).map(|settings| format!("{settings:?}")).map_err(|error| error.to_string());
    let first = bounded("the reading of settings", load);
    assert_eq!(first, load(), "read again, they say something else");
    assert!(first.err().is_none_or(|why| !why.trim().is_empty()), "refused without a word");
}

/// A policy is accepted or refused with a message.
pub(super) fn policy(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let loaded = bounded("the reading of a policy", || load::from_text(&text));
    assert!(loaded.err().is_none_or(|why| !why.to_string().trim().is_empty()), "refused without a word");
}
