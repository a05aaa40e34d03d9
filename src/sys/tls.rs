//! TLS of connections that toolmark opens.

use std::sync::Arc;

use rustls_platform_verifier::BuilderVerifierExt as _;

/// TLS settings that check certificates against the platform's roots; without roots if `needed` is false, as no upstream uses https.
///
/// # Errors
/// [`rustls::Error`] if roots are needed and the platform has none.
pub fn client_config(needed: bool) -> Result<rustls::ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let checked = if needed { builder.with_platform_verifier()? } else { builder.with_root_certificates(rustls::RootCertStore::empty()) };
    Ok(checked.with_no_client_auth())
}
