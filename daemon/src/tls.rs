//! TLS configuration of the daemon and its clients from PEM files, and the user name in a
//! client's certificate.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore, ServerConfig};
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::der::asn1::{PrintableStringRef, Utf8StringRef};
use x509_cert::der::oid::db::rfc4519::COMMON_NAME;

/// gRPC needs HTTP/2, and nothing else is served.
const PROTOCOL: &[u8] = b"h2";

#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("read {path}: {source}", path = .path.display())]
    Pem { path: PathBuf, source: pem::Error },
    #[error("{path} contains no certificate", path = .path.display())]
    NoCertificate { path: PathBuf },
    #[error("use the certificates in {path}: {source}", path = .path.display())]
    Authority { path: PathBuf, source: VerifierBuilderError },
    #[error("use this certificate and key: {0}")]
    Config(#[from] rustls::Error),
    #[error("find this system's certificate authorities: {0}")]
    System(io::Error),
}

/// PEM files of a certificate with its chain, and of its key.
#[derive(Clone, Debug)]
pub(crate) struct KeyPair {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl KeyPair {
    fn load(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|source| TlsError::Pem { path: self.key.clone(), source })?;
        Ok((certificates(&self.certificate)?, key))
    }
}

/// The daemon's side of TLS, whose certificates can be reloaded.
#[derive(Debug)]
pub(crate) struct LiveServer {
    files: ServerFiles,
    now: RwLock<Arc<ServerConfig>>,
}

/// Files of the daemon's side. Certificates that `client_authority` signed identify callers;
/// `required`: callers without one are refused.
#[derive(Debug)]
pub(crate) struct ServerFiles {
    pub own: KeyPair,
    pub client_authority: Option<PathBuf>,
    pub required: bool,
}

impl LiveServer {
    pub(crate) fn load(files: ServerFiles) -> Result<LiveServer, TlsError> {
        let now = RwLock::new(files.load()?);
        Ok(LiveServer { files, now })
    }

    /// Reloads the files, for new connections. Invalid files change nothing.
    pub(crate) fn reload(&self) -> Result<(), TlsError> {
        let read = self.files.load()?;
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = read;
        Ok(())
    }

    pub(crate) fn now(&self) -> Arc<ServerConfig> {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ServerFiles {
    fn load(&self) -> Result<Arc<ServerConfig>, TlsError> {
        server(&self.own, self.client_authority.as_deref(), self.required)
    }
}

fn server(
    own: &KeyPair,
    client_authority: Option<&Path>,
    required: bool,
) -> Result<Arc<ServerConfig>, TlsError> {
    let builder =
        ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let builder = match client_authority {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let roots = Arc::new(roots(path)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
            let verifier = if required { verifier } else { verifier.allow_unauthenticated() };
            let verifier = verifier.build();
            builder.with_client_cert_verifier(
                verifier.map_err(|source| TlsError::Authority { path: path.to_owned(), source })?,
            )
        }
    };
    let (chain, key) = own.load()?;
    let mut config = builder.with_single_cert(chain, key)?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(Arc::new(config))
}

/// A client's side. Without `authority`, the system's authorities are trusted.
pub(crate) fn client(
    authority: Option<&Path>,
    own: Option<&KeyPair>,
) -> Result<Arc<ClientConfig>, TlsError> {
    let roots = authority.map_or_else(system_roots, roots)?;
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let (chain, key) = own.load()?;
            builder.with_client_auth_cert(chain, key)?
        }
    };
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(Arc::new(config))
}

/// A client's side for web addresses, trusting the system's authorities.
pub(crate) fn web_client() -> Result<Arc<ClientConfig>, TlsError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(system_roots()?);
    Ok(Arc::new(builder.with_no_client_auth()))
}

/// The provider of cryptography, named explicitly: with two in the dependency graph, the implicit one panics.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate)?;
    }
    Ok(roots)
}

fn system_roots() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    if let (true, Some(error)) = (found.certs.is_empty(), found.errors.into_iter().next()) {
        return Err(TlsError::System(io::Error::other(error)));
    }
    let mut roots = RootCertStore::empty();
    // Systems contain odd certificates; the valid ones are enough.
    roots.add_parsable_certificates(found.certs);
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let error = |source| TlsError::Pem { path: path.to_owned(), source };
    let found = CertificateDer::pem_file_iter(path).map_err(error)?;
    let found: Vec<_> = found.collect::<Result<_, _>>().map_err(error)?;
    match found.is_empty() {
        true => Err(TlsError::NoCertificate { path: path.to_owned() }),
        false => Ok(found),
    }
}

/// Returns the common name of a certificate's subject. Does not verify the certificate.
pub(crate) fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let mut attributes = certificate.tbs_certificate.subject.0.iter().flat_map(|set| set.0.iter());
    let value = &attributes.find(|attribute| attribute.oid == COMMON_NAME)?.value;
    let utf8 = value.decode_as::<Utf8StringRef<'_>>().map(|text| text.as_str().to_owned());
    utf8.or_else(|_| value.decode_as::<PrintableStringRef<'_>>().map(|t| t.as_str().to_owned()))
        .ok()
}
