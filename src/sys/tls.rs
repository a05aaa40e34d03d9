//! TLS of connections that toolmark opens.

use std::sync::Arc;

use rustls_platform_verifier::BuilderVerifierExt as _;

/// Certificates that are trusted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TrustedRoots {
    /// Those of the platform.
    Platform,
    /// None: nothing is reached over TLS.
    None,
}

/// TLS settings that check certificates against these roots.
///
/// # Errors
/// [`rustls::Error`] if roots are needed and the platform has none.
pub fn client_config(roots: TrustedRoots) -> Result<rustls::ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let checked = match roots {
        TrustedRoots::Platform => builder.with_platform_verifier()?,
        TrustedRoots::None => builder.with_root_certificates(rustls::RootCertStore::empty()),
    };
    Ok(checked.with_no_client_auth())
}
