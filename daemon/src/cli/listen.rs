//! What `traind serve` is told about the network: all that takes to keep strangers out,
//! or nothing.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;

use crate::settings::Network;
use crate::tls::{KeyPair, LiveServer, ServerFiles};

#[derive(clap::Args)]
pub(crate) struct Listen {
    /// Serve on the network too, through TLS. Needs --tls-cert, --tls-key, --access, --allow-root
    /// and --tls-client-ca or --tokens
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// The daemon's certificate and its chain, PEM
    #[arg(long, value_name = "FILE", requires = "listen")]
    tls_cert: Option<PathBuf>,
    /// The certificate's key, PEM
    #[arg(long, value_name = "FILE", requires = "listen")]
    tls_key: Option<PathBuf>,
    /// Authorities whose certificates name callers by their common names, PEM
    #[arg(long, value_name = "FILE", requires = "listen")]
    tls_client_ca: Option<PathBuf>,
    /// Accept bearer tokens: see `traind token`
    #[arg(long, requires = "listen")]
    tokens: bool,
}

impl Listen {
    /// Refuses a network that strangers could use. `fenced`: there are an access file and
    /// roots for the paths of jobs.
    pub(crate) fn resolve(
        self,
        has_access: bool,
        has_roots: bool,
    ) -> anyhow::Result<Option<Network>> {
        let Some(address) = self.listen else { return Ok(None) };
        let (Some(certificate), Some(key)) = (self.tls_cert, self.tls_key) else {
            bail!("--listen {address} takes TLS: give --tls-cert and --tls-key");
        };
        if self.tls_client_ca.is_none() && !self.tokens {
            bail!(
                "--listen {address} would let anybody in: give --tls-client-ca FILE for client \
                 certificates, --tokens for bearer tokens, or both"
            );
        }
        if !has_access {
            bail!("--listen {address} takes --access FILE, which says who may do what");
        }
        if !has_roots {
            bail!(
                "--listen {address} takes --allow-root DIR: without it jobs from the network \
                 could read and write whatever this user can"
            );
        }
        let tls = LiveServer::load(ServerFiles {
            own: KeyPair { certificate, key },
            client_authority: self.tls_client_ca,
            required: !self.tokens,
        })?;
        Ok(Some(Network { address, tls: Arc::new(tls), tokens: self.tokens }))
    }
}
