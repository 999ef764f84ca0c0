//! Which daemon on another host to talk to, and what to show it. A token comes from a file
//! or the environment, never from the arguments, which everybody on a host can read.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use tokio_rustls::rustls::ClientConfig;
use tonic::metadata::AsciiMetadataValue;

use crate::tls::{self, KeyPair};

/// The variable that holds a token.
pub(crate) const TOKEN: &str = "TRAIND_TOKEN";

#[derive(clap::Args, Clone)]
pub(crate) struct Remote {
    /// A daemon on the network instead of the socket's
    #[arg(long, global = true, env = "TRAIND_ADDRESS", value_name = "HOST:PORT")]
    pub(crate) address: Option<String>,
    /// Authorities that vouch for that daemon, PEM [default: the system's]
    #[arg(long, global = true, env = "TRAIND_CA", value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Certificate that says who calls, PEM
    #[arg(long, global = true, env = "TRAIND_CLIENT_CERT", value_name = "FILE")]
    client_cert: Option<PathBuf>,
    /// Its key, PEM
    #[arg(long, global = true, env = "TRAIND_CLIENT_KEY", value_name = "FILE")]
    client_key: Option<PathBuf>,
    /// File with the token that says who calls [default: the token itself in $TRAIND_TOKEN]
    #[arg(long, global = true, env = "TRAIND_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl Remote {
    /// How to trust the daemon.
    pub(crate) fn tls(&self) -> anyhow::Result<Arc<ClientConfig>> {
        let own = match (&self.client_cert, &self.client_key) {
            (Some(certificate), Some(key)) => {
                Some(KeyPair { certificate: certificate.clone(), key: key.clone() })
            }
            (None, None) => None,
            _ => anyhow::bail!("--client-cert and --client-key go together"),
        };
        Ok(tls::client(self.ca.as_deref(), own.as_ref())?)
    }

    /// The header that says who calls.
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
        let mut header: AsciiMetadataValue = header.context("the token has odd characters")?;
        header.set_sensitive(true);
        Ok(Some(header))
    }
}
