//! The network options of `traind serve`, which are valid only with TLS and access control.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;

use crate::settings::Network;
use crate::tls::{KeyPair, LiveServer, ServerFiles};

#[derive(clap::Args)]
pub(super) struct Listen {
    /// Also serve on the network, with TLS; requires --tls-cert, --tls-key, --access, --allow-root
    /// and --tls-client-ca or --tokens
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = crate::cli::address::address)]
    listen: Option<SocketAddr>,
    /// The daemon's certificate and its chain, PEM
    #[arg(long, value_name = "FILE", requires = "listen")]
    tls_cert: Option<PathBuf>,
    /// The certificate's key, PEM
    #[arg(long, value_name = "FILE", requires = "listen")]
    tls_key: Option<PathBuf>,
    /// Certificate authorities of clients, whose certificates' common names are user names, PEM
    #[arg(long, value_name = "FILE", requires = "listen")]
    tls_client_ca: Option<PathBuf>,
    /// Accept bearer tokens: see `traind token`
    #[arg(long, requires = "listen")]
    tokens: bool,
}

impl Listen {
    /// Refuses a network that unknown callers could use. `has_access`: there is an access file.
    /// `has_roots`: the paths of jobs are restricted.
    pub(super) fn resolve(
        self,
        has_access: bool,
        has_roots: bool,
    ) -> anyhow::Result<Option<Network>> {
        let Some(address) = self.listen else { return Ok(None) };
        let (Some(certificate), Some(key)) = (self.tls_cert, self.tls_key) else {
            bail!("--listen {address} requires TLS: set --tls-cert and --tls-key");
        };
        if self.tls_client_ca.is_none() && !self.tokens {
            bail!(
                "--listen {address} requires authentication: set --tls-client-ca FILE for client \
                 certificates, --tokens for bearer tokens, or both"
            );
        }
        if !has_access {
            bail!("--listen {address} requires --access FILE, which sets the roles of users");
        }
        if !has_roots {
            bail!(
                "--listen {address} requires --allow-root DIR: otherwise jobs from the network \
                 could read and write all files of this user"
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
