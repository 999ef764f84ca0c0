//! Options for a daemon on another host. Tokens come from a file or the environment, never from
//! the arguments, which all users of a host can read.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use tokio_rustls::rustls::ClientConfig;
use tonic::metadata::AsciiMetadataValue;

use crate::tls::{self, KeyPair};

/// The variable that holds a token.
pub(crate) const TOKEN: &str = "TRAIND_TOKEN";

#[derive(clap::Args, Clone, Default)]
pub(crate) struct Remote {
    /// Connect to a daemon on the network instead of the socket
    #[arg(long, global = true, env = "TRAIND_ADDRESS", value_name = "HOST:PORT", value_parser = address)]
    pub(crate) address: Option<String>,
    /// Certificate authorities of that daemon, PEM [default: the system's]
    #[arg(long, global = true, env = "TRAIND_CA", value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Client certificate, PEM
    #[arg(long, global = true, env = "TRAIND_CLIENT_CERT", value_name = "FILE")]
    client_cert: Option<PathBuf>,
    /// Key of the client certificate, PEM
    #[arg(long, global = true, env = "TRAIND_CLIENT_KEY", value_name = "FILE")]
    client_key: Option<PathBuf>,
    /// File that contains the token [default: the token in $TRAIND_TOKEN]
    #[arg(long, global = true, env = "TRAIND_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// Checks the form of an address; names are resolved when it is used.
fn address(text: &str) -> Result<String, String> {
    let port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    match text.rsplit_once(':') {
        Some((host, after)) if !host.is_empty() && !host.contains('/') && port(after) => Ok(text.to_owned()),
        _ => Err("must be HOST:PORT, such as trn1.example.com:7443; --socket (TRAIND_SOCKET) takes a path".to_owned()),
    }
}

impl Remote {
    /// Resolves the TLS configuration.
    pub(crate) fn tls(&self) -> anyhow::Result<Arc<ClientConfig>> {
        let own = match (&self.client_cert, &self.client_key) {
            (Some(certificate), Some(key)) => {
                Some(KeyPair { certificate: certificate.clone(), key: key.clone() })
            }
            (None, None) => None,
            _ => anyhow::bail!("--client-cert and --client-key require each other"),
        };
        Ok(tls::client(self.ca.as_deref(), own.as_ref())?)
    }

    /// Resolves the authorization header, if there is a token.
    pub(crate) fn authorization(&self) -> anyhow::Result<Option<AsciiMetadataValue>> {
        let secret = match &self.token_file {
            Some(path) => Some(
                std::fs::read_to_string(path)
                    .with_context(|| format!("read the token in {}", path.display()))?,
            ),
            None => std::env::var(TOKEN).ok(),
        };
        let Some(secret) = secret.filter(|secret| !secret.trim().is_empty()) else {
            return Ok(None);
        };
        let header = format!("Bearer {}", secret.trim()).parse();
        let mut header: AsciiMetadataValue =
            header.context("the token contains invalid characters")?;
        header.set_sensitive(true);
        Ok(Some(header))
    }
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        for known in ["localhost:7443", "10.0.0.7:1", "[::1]:7443", "trn1.example.com:65535"] {
            assert_eq!(address(known).as_deref(), Ok(known));
        }
        let others = [
            "unix:/run/traind/socket",
            "https://trn1:7443",
            "trn1",
            "trn1:",
            ":7443",
            "trn1:0",
            "trn1:70000",
        ];
        for other in others {
            assert!(address(other).is_err_and(|error| error.contains("TRAIND_SOCKET")), "{other}");
        }
    }
}
