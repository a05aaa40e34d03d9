//! Requests of all APIs: prepared or refused, never in between.

use super::{
    bench::{By, begin},
    input::{FuzzInput, bounded},
};
use crate::{
    openai::Api,
    translate::{self, Translation},
    wire::json::Document,
};

/// An accepted request is sent upstream as JSON with the same model; under a policy that changes nothing, unchanged. A request that can be
/// translated becomes one of the other API.
pub(super) fn request(data: &[u8]) {
    let Some(input) = FuzzInput::of(data) else { return };
    let Ok(document) = bounded("the JSON scanner", || Document::parse(data.get(3..).unwrap_or_default().to_vec().into())) else { return };
    let by = By::of(input.flags);
    for api in Api::ALL {
        let Some(begun) = bounded("the preparation of a request", || begin(by, api, &document)) else { continue };
        let body = begun.body.joined();
        let sent = Document::parse(body.clone());
        assert!(sent.is_ok(), "what goes upstream is no JSON: {}", String::from_utf8_lossy(&body));
        let Ok(sent) = sent else { continue };
        let model = |document: &Document| document.root().get("model").and_then(|model| Some(model.text()?.into_owned()));
        assert_eq!(model(&document), model(&sent), "another model is asked");
        if begun.context.observes() {
            assert_eq!(body, document.bytes(), "a policy that changes nothing changes the request");
        }
        for translation in Api::ALL.into_iter().filter_map(|upstream| Translation::between(api, upstream)) {
            if let Ok(translated) = bounded("the translation of a request", || translate::request::request(&sent, translation)) {
                let translated = Document::parse(translated);
                assert!(translated.is_ok_and(|translated| translated.root().get("messages").is_some()), "a translated request is none");
            }
        }
    }
}
