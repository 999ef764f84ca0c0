//! Mutual TLS by one certificate, which both sides derive from the job's key.
//!
//! Each side trusts this certificate alone. The key is 32 random bytes, and the certificate's private key is
//! the Ed25519 key whose seed they are, so that it never has to be copied.

use std::fmt;
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName,
};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::error::{RendezvousError, Result};

/// The name in the certificate, whatever the host's name is.
const NAME: &str = "traind-rendezvous";
/// gRPC needs HTTP/2, and nothing else is served.
const PROTOCOL: &[u8] = b"h2";
/// PKCS #8 of an Ed25519 key up to its seed (RFC 8410).
const ED25519_PKCS8: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// The secret of a job's hosts.
#[derive(Clone, PartialEq, Eq)]
pub struct JobKey([u8; 32]);

/// Text that is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key must be 64 hexadecimal digits, as `openssl rand -hex 32` prints them")]
pub struct NoKey;

impl JobKey {
    /// Makes a random key.
    pub fn generate() -> Result<JobKey> {
        let mut seed = [0; 32];
        let flags = rustix::rand::GetRandomFlags::empty();
        let length = rustix::rand::getrandom(&mut seed[..], flags)
            .map_err(|error| RendezvousError::Key(error.to_string()))?;
        match length == seed.len() {
            true => Ok(JobKey(seed)),
            false => Err(RendezvousError::Key("the system has too few random bytes".to_owned())),
        }
    }

    /// Reads 64 hexadecimal digits.
    pub fn parse(text: &str) -> std::result::Result<JobKey, NoKey> {
        let digits = text.trim().as_bytes();
        if digits.len() != 64 {
            return Err(NoKey);
        }
        let mut seed = [0; 32];
        for (byte, pair) in seed.iter_mut().zip(digits.chunks(2)) {
            let [high, low] = [pair[0], pair[1]].map(|digit| char::from(digit).to_digit(16));
            *byte = (high.ok_or(NoKey)? * 16 + low.ok_or(NoKey)?) as u8;
        }
        Ok(JobKey(seed))
    }

    /// Returns the key as [`JobKey::parse`] reads it.
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(crate) fn server_config(&self) -> Result<Arc<ServerConfig>> {
        let (certificate, key) = self.certificate()?;
        let verifier =
            WebPkiClientVerifier::builder_with_provider(roots(&certificate)?, provider());
        let verifier = verifier.build().map_err(tls_error)?;
        let builder = ServerConfig::builder_with_provider(provider());
        let builder = builder.with_safe_default_protocol_versions().map_err(tls_error)?;
        let builder = builder.with_client_cert_verifier(verifier);
        let mut config = builder.with_single_cert(vec![certificate], key).map_err(tls_error)?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(Arc::new(config))
    }

    pub(crate) fn client_config(&self) -> Result<Arc<ClientConfig>> {
        let (certificate, key) = self.certificate()?;
        let builder = ClientConfig::builder_with_provider(provider());
        let builder = builder.with_safe_default_protocol_versions().map_err(tls_error)?;
        let builder = builder.with_root_certificates(roots(&certificate)?);
        let config = builder.with_client_auth_cert(vec![certificate], key);
        let mut config = config.map_err(tls_error)?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(Arc::new(config))
    }

    /// The certificate, which is the same on all hosts, and its private key.
    fn certificate(&self) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>)> {
        let der = [&ED25519_PKCS8[..], &self.0[..]].concat();
        let key = KeyPair::try_from(der.as_slice()).map_err(tls_error)?;
        let parameters = CertificateParams::new([NAME.to_owned()]).map_err(tls_error)?;
        let certificate = parameters.self_signed(&key).map_err(tls_error)?;
        Ok((certificate.der().clone(), PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(der))))
    }
}

/// Writes the key without its secret.
impl fmt::Debug for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobKey")
    }
}

/// The name that clients expect in the server's certificate.
pub(crate) fn server_name() -> Result<ServerName<'static>> {
    ServerName::try_from(NAME).map_err(tls_error)
}

/// The provider of cryptography, named explicitly: with two in the dependency graph, the implicit one panics.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn roots(certificate: &CertificateDer<'static>) -> Result<Arc<RootCertStore>> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).map_err(tls_error)?;
    Ok(Arc::new(roots))
}

fn tls_error(error: impl fmt::Display) -> RendezvousError {
    RendezvousError::Key(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_hosts_derive_the_same_certificate_from_a_key() {
        let key = JobKey::generate().unwrap();
        let copy = JobKey::parse(&format!("{}\n", key.to_hex())).unwrap();
        assert_eq!(copy.certificate().unwrap().0, key.certificate().unwrap().0);
        let other = JobKey::generate().unwrap();
        assert_ne!(other.certificate().unwrap().0, key.certificate().unwrap().0);
        assert_eq!(format!("{key:?}"), "JobKey");
    }

    #[test]
    fn other_texts_are_no_keys() {
        for text in ["", "12", &"g".repeat(64), &"ä".repeat(32)] {
            assert_eq!(JobKey::parse(text), Err(NoKey), "{text}");
        }
    }
}
