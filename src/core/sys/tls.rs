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
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let checked = match roots {
        TrustedRoots::Platform => builder.with_platform_verifier()?,
        TrustedRoots::None => builder.with_root_certificates(rustls::RootCertStore::empty()),
    };
    Ok(checked.with_no_client_auth())
}

/// TLS settings of a `reqwest` client, which has no provider of its own: as [`client_config`], with HTTP/2 where the server has it.
///
/// # Errors
/// [`rustls::Error`] if roots are needed and the platform has none.
pub fn http_client_config(roots: TrustedRoots) -> Result<rustls::ClientConfig, rustls::Error> {
    let mut config = client_config(roots)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
