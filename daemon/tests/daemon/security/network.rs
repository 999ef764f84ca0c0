//! The daemon on the network: TLS, certificates, tokens and roles.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Request, Status, Streaming};
use tower::service_fn;
use traind_proto::v1;
use traind_proto::v1::cores_client::CoresClient;
use traind_proto::v1::jobs_client::JobsClient;
use traind_proto::v1::tokens_client::TokensClient;

use crate::jobs::adopting::{Run, forge};
use crate::security::access::code_over;
use crate::services::web::Browser;
use crate::support::host::{Host, PATIENCE, until_logged};
use crate::support::runner::COMPLETES;

/// An authority and what it signed, as PEM files in a folder.
struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(folder: &Path, name: &str) -> Authority {
        let folder = folder.join(name);
        fs::create_dir_all(&folder).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        fs::write(folder.join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Authority { folder, issuer: Issuer::new(params, key) }
    }

    fn ca(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// A certificate for a host or a user; returns the paths of it and its key.
    fn sign(&self, name: &str) -> (PathBuf, PathBuf) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        let paths =
            (self.folder.join(format!("{name}.pem")), self.folder.join(format!("{name}.key")));
        fs::write(&paths.0, signed.pem()).unwrap();
        fs::write(&paths.1, key.serialize_pem()).unwrap();
        paths
    }
}

pub(crate) const ACCESS: &str = "users: {ann: admin, sue: submitter, vic: viewer}\n";

/// A host whose daemon is on the network.
pub(crate) struct Networked {
    pub(crate) host: Host,
    authority: Authority,
    port: u16,
}

impl Networked {
    async fn started(options: &[&str]) -> Networked {
        Networked::prepared(COMPLETES, &own_user_too(ACCESS), options).await
    }

    /// `access` is the access file.
    pub(crate) async fn prepared(script: &str, access: &str, options: &[&str]) -> Networked {
        Networked::of(Host::new(1, script), access, options).await
    }

    /// Puts the daemon of a host that was prepared on the network.
    pub(crate) async fn of(mut host: Host, access: &str, options: &[&str]) -> Networked {
        let authority = Authority::new(&host.path(""), "authority");
        fs::write(host.path("access.yaml"), access).unwrap();
        let port = free_port();
        host.options = listen_options(&host, &authority, port);
        host.options.extend(options.iter().map(|option| (*option).to_owned()));
        if options.is_empty() {
            host.options.push(format!("--tls-client-ca={}", authority.ca().display()));
        }
        host.start().await;
        Networked { host, authority, port }
    }

    pub(crate) async fn channel(
        &self,
        own: Option<(PathBuf, PathBuf)>,
    ) -> Result<Channel, tonic::transport::Error> {
        let config = client_config(&self.authority.ca(), own);
        let port = self.port;
        let connector = service_fn(move |_: Uri| {
            let config = config.clone();
            async move {
                let stream = TcpStream::connect(("127.0.0.1", port)).await?;
                let name = ServerName::try_from("localhost").unwrap();
                let stream = TlsConnector::from(config).connect(name, stream).await?;
                Ok::<_, std::io::Error>(TokioIo::new(stream))
            }
        });
        Endpoint::from_static("http://traind").connect_with_connector(connector).await
    }

    /// A certificate for a user; returns the paths of it and its key.
    pub(crate) fn sign(&self, name: &str) -> (PathBuf, PathBuf) {
        self.authority.sign(name)
    }

    /// A `traind` command of a user on another host.
    pub(crate) fn remote(
        &self,
        arguments: &[&str],
        environment: &[(&str, String)],
    ) -> (bool, String) {
        let mut command = self.host.traind();
        command.env_remove("TRAIND_SOCKET").env("TRAIND_CA", self.authority.ca());
        command.env("TRAIND_ADDRESS", format!("localhost:{}", self.port));
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let output = command.args(arguments).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    }

    pub(crate) fn new_token(&self, arguments: &[&str]) -> String {
        let output = self.host.cli(&[&["token", "create"], arguments].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

fn listen_options(host: &Host, authority: &Authority, port: u16) -> Vec<String> {
    let (certificate, key) = authority.sign("server");
    vec![
        format!("--listen=127.0.0.1:{port}"),
        format!("--tls-cert={}", certificate.display()),
        format!("--tls-key={}", key.display()),
        format!("--access={}", host.path("access.yaml").display()),
        format!("--allow-root={}", host.path("").display()),
    ]
}

/// Adds this user as an admin, since tests create tokens over the socket, and as the account of all
/// callers from the network.
pub(crate) fn own_user_too(access: &str) -> String {
    let user = crate::security::access::own_user();
    own_admin_too(access) + &format!("default_account: {user}\n")
}

/// Adds this user as an admin alone.
pub(crate) fn own_admin_too(access: &str) -> String {
    let user = crate::security::access::own_user();
    access.replace("users: {", &format!("users: {{{user}: admin, "))
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}

fn client_config(ca: &Path, own: Option<(PathBuf, PathBuf)>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
    let provider = Arc::new(crypto::aws_lc_rs::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.unwrap().with_root_certificates(roots);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from_pem_file(certificate).unwrap()];
            builder
                .with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap())
                .unwrap()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}

#[test]
fn a_network_without_access_control_is_refused() {
    let host = Host::new(1, COMPLETES);
    let authority = Authority::new(&host.path(""), "authority");
    fs::write(host.path("access.yaml"), ACCESS).unwrap();
    let all = listen_options(&host, &authority, free_port());
    // Without credentials, then without each of the other options.
    let cases = [
        (None, "--tls-client-ca"),
        (Some("--tls-cert"), "--tls-cert"),
        (Some("--tls-key"), "--tls-key"),
        (Some("--access"), "--access"),
        (Some("--allow-root"), "--allow-root"),
    ];
    for (left_out, named) in cases {
        let kept =
            all.iter().filter(|option| left_out.is_none_or(|name| !option.starts_with(name)));
        let mut command = host.serve();
        command.args(kept).args(left_out.map(|_| "--tokens"));
        assert_eq!(command.status().unwrap().code(), Some(1), "without {left_out:?}");
        let last = host.log().lines().last().unwrap_or_default().to_owned();
        assert!(last.contains(named) && last.starts_with("error: --listen"), "{last}");
    }
}

#[tokio::test]
async fn clients_without_a_certificate_of_the_authority_are_refused() {
    let network = Networked::started(&[]).await;
    let stranger = Authority::new(&network.host.path(""), "stranger");
    for own in [None, Some(stranger.sign("ann"))] {
        // With TLS 1.3 a client learns of its refusal with the first response.
        let code = match network.channel(own).await {
            Err(_) => Code::Unavailable,
            Ok(channel) => code_over(channel, "/traind.v1.Jobs/ListJobs").await,
        };
        assert!(matches!(code, Code::Unavailable | Code::Unknown | Code::Cancelled), "{code:?}");
    }
    let (certificate, key) = network.authority.sign("ann");
    let own = [
        ("TRAIND_CLIENT_CERT", certificate.display().to_string()),
        ("TRAIND_CLIENT_KEY", key.display().to_string()),
    ];
    let (done, said) = network.remote(&["ls"], &own);
    assert!(done && said.contains("NAME"), "{said}");
}

#[tokio::test]
async fn a_token_works_until_it_is_revoked() {
    let network = Networked::started(&["--tokens"]).await;
    let (done, said) = network.remote(&["ls"], &[]);
    assert!(!done && said.contains("the caller is unknown"), "{said}");

    let secret = network.new_token(&["sue"]);
    let token = [("TRAIND_TOKEN", secret.clone())];
    fs::write(network.host.path("job.yaml"), network.host.request("first", 1).job_file).unwrap();
    let (done, said) = network.remote(&["submit", "job.yaml", "--watch"], &token);
    assert!(done, "{said}");
    assert_eq!(network.host.get("first").await.owner, "sue");

    let lesser = network.new_token(&["sue", "--role", "viewer", "--days", "1"]);
    let (done, said) = network.remote(&["submit", "job.yaml"], &[("TRAIND_TOKEN", lesser)]);
    assert!(!done && said.contains("requires the role submitter, and sue is viewer"), "{said}");

    fs::write(network.host.path("token"), format!("{secret}\n")).unwrap();
    let file = [("TRAIND_TOKEN_FILE", network.host.path("token").display().to_string())];
    assert!(network.remote(&["ls"], &file).0);

    let id = secret.split('_').nth(1).unwrap();
    let listed = String::from_utf8(network.host.cli(&["token", "ls"]).stdout).unwrap();
    assert!(listed.contains(id) && listed.contains("viewer"), "{listed}");
    assert!(network.host.cli(&["token", "revoke", id]).status.success());
    let (done, said) = network.remote(&["ls"], &token);
    assert!(!done && said.contains("the token is not valid"), "{said}");
}

#[tokio::test]
async fn a_run_of_another_user_is_adopted_by_admins_alone() {
    let network = Networked::started(&["--tokens"]).await;
    let run = Run::begin(&network.host.path("out"));
    let folder = run.folder.display().to_string();
    let token = [("TRAIND_TOKEN", network.new_token(&["sue"]))];
    let (done, said) = network.remote(&["adopt", &folder], &token);
    assert!(!done && said.contains("only that user or an admin may adopt the run"), "{said}");
    assert!(network.host.cli(&["adopt", &folder]).status.success());
}

/// The command would run with the daemon's rights.
#[tokio::test]
async fn an_adopted_run_of_another_user_has_no_command() {
    let network = Networked::started(&["--tokens"]).await;
    let run = Run::begin(&network.host.path("out"));
    let marker = network.host.path("marker").display().to_string();
    forge(&run, |spec| {
        spec["job"]["notify"] = serde_json::json!({"command": ["/usr/bin/touch", marker]})
    });
    let folder = run.folder.display().to_string();
    let (done, said) =
        network.remote(&["adopt", &folder], &[("TRAIND_TOKEN", network.new_token(&["ann"]))]);
    assert!(done, "{said}");
    let jobs = network.host.jobs().await.list_jobs(v1::ListJobsRequest::default()).await.unwrap();
    let job = network.host.get(&jobs.into_inner().jobs[0].id).await;
    assert!(job.warnings.iter().any(|it| it.code == "NOTIFICATIONS_IGNORED"), "{job:?}");
    let store = rusqlite::Connection::open(network.host.path("state/traind.db")).unwrap();
    let count = |sql| store.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM notifications"), 0);
    assert_eq!(count("SELECT count(*) FROM jobs WHERE receivers LIKE '%touch%'"), 0);
}

#[tokio::test]
async fn a_secret_is_not_stored_and_survives_a_restart() {
    let mut network = Networked::started(&["--tokens"]).await;
    let secret = network.new_token(&["vic"]);
    let random = secret.rsplit('_').next().unwrap().as_bytes();
    assert!(network.remote(&["ls"], &[("TRAIND_TOKEN", secret.clone())]).0);
    network.host.kill_daemon();
    network.host.start().await;
    assert!(network.remote(&["ls"], &[("TRAIND_TOKEN", secret.clone())]).0);
    for entry in fs::read_dir(network.host.path("state")).unwrap().flatten() {
        let bytes = fs::read(entry.path()).unwrap_or_default();
        let found = bytes.windows(random.len()).any(|window| window == random);
        assert!(!found, "{}", entry.path().display());
    }
    assert!(!network.host.log().contains(&secret));
}

#[tokio::test]
async fn tokens_have_roles_and_wrong_ones_are_refused() {
    let network = Networked::started(&["--tokens"]).await;
    let mut tokens = TokensClient::new(network.host.channel().await);
    let request = v1::CreateTokenRequest { user: "two words".into(), ..Default::default() };
    let refused = tokens.create_token(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let channel = network.channel(None).await.unwrap();
    let list = async |secret: &str| {
        let mut request = Request::new(v1::ListTokensRequest {});
        let header = format!("Bearer {secret}").parse().unwrap();
        request.metadata_mut().insert("authorization", header);
        TokensClient::new(channel.clone()).list_tokens(request).await.map_err(|s| s.code())
    };
    let (viewer, admin) = (network.new_token(&["vic"]), network.new_token(&["ann"]));
    assert_eq!(list(&viewer).await.unwrap_err(), Code::PermissionDenied);
    assert_eq!(list(&admin).await.unwrap().into_inner().tokens.len(), 2);
    for wrong in ["", "traind_", &admin[..admin.len() - 1], &admin.replace("traind", "trained")] {
        assert_eq!(list(wrong).await.unwrap_err(), Code::Unauthenticated, "{wrong}");
    }
    // A proxy's words about the caller are anyone's.
    for own in [None, Some(&viewer)] {
        let mut request = Request::new(v1::ListTokensRequest {});
        for name in ["x-forwarded-user", "x-remote-user", "x-forwarded-client-cert", "forwarded"] {
            request.metadata_mut().insert(name, "ann".parse().unwrap());
        }
        if let Some(own) = own {
            request
                .metadata_mut()
                .insert("authorization", format!("Bearer {own}").parse().unwrap());
        }
        let refused = TokensClient::new(channel.clone()).list_tokens(request).await.unwrap_err();
        let expect = if own.is_some() { Code::PermissionDenied } else { Code::Unauthenticated };
        assert_eq!(refused.code(), expect);
    }
}

/// A stream of cores as a bearer of `secret`, after its first reading.
async fn watching(network: &Networked, secret: &str) -> Streaming<v1::WatchCoresResponse> {
    let mut request = Request::new(v1::WatchCoresRequest { period_ms: 100, ..Default::default() });
    request.metadata_mut().insert("authorization", format!("Bearer {secret}").parse().unwrap());
    let channel = network.channel(None).await.unwrap();
    let mut stream = CoresClient::new(channel).watch_cores(request).await.unwrap().into_inner();
    stream.message().await.unwrap().unwrap();
    stream
}

/// The status that ends a stream.
async fn end_of(mut stream: Streaming<v1::WatchCoresResponse>) -> Status {
    let read = async {
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the stream ended without a status"),
                Err(status) => return status,
            }
        }
    };
    tokio::time::timeout(PATIENCE, read).await.expect("the stream ends")
}

#[tokio::test]
async fn streams_and_sessions_end_with_their_token() {
    let network = Networked::started(&["--tokens", "--web-address", "127.0.0.1:0"]).await;
    let (secret, other) = (network.new_token(&["vic"]), network.new_token(&["vic"]));
    let (done, login) = network.remote(&["web"], &[("TRAIND_TOKEN", secret.clone())]);
    assert!(done, "{login}");
    let address = login.lines().find(|line| line.starts_with("http://")).unwrap();
    let browser = Browser::with_address(&network.host, address).await;
    assert_eq!(browser.get("/api/overview").await.status, 200);
    let (stream, mut unharmed) =
        (watching(&network, &secret).await, watching(&network, &other).await);
    let id = secret.split('_').nth(1).unwrap();
    assert!(network.host.cli(&["token", "revoke", id]).status.success());
    let status = end_of(stream).await;
    assert_eq!(status.code(), Code::Unauthenticated);
    assert!(status.message().contains("revoked"), "{status:?}");
    assert_eq!(browser.get("/api/overview").await.status, 401);
    assert!(unharmed.message().await.unwrap().is_some(), "another token's stream continues");
}

#[tokio::test]
async fn roles_and_certificates_can_be_reloaded() {
    let mut network = Networked::started(&["--tokens"]).await;
    let (secret, viewer) = (network.new_token(&["sue"]), network.new_token(&["vic"]));
    let stream = watching(&network, &secret).await;
    let mut unharmed = watching(&network, &viewer).await;
    let access = network.host.path("access.yaml");
    fs::write(&access, "users: {ann: nonsense}\n").unwrap();
    network.host.hang_up();
    until_logged(&network.host, "keeping the previous access file").await;
    assert!(
        network.remote(&["ls"], &[("TRAIND_TOKEN", secret.clone())]).0,
        "an invalid file is ignored"
    );

    fs::write(&access, own_user_too("users: {ann: admin, vic: viewer}\n")).unwrap();
    let former = network.authority;
    network.authority = Authority::new(&network.host.path(""), "another");
    let (certificate, key) = network.sign("server");
    fs::copy(certificate, former.folder.join("server.pem")).unwrap();
    fs::copy(key, former.folder.join("server.key")).unwrap();
    network.host.hang_up();
    let status = end_of(stream).await;
    assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
    assert!(unharmed.message().await.unwrap().is_some(), "a kept role keeps its stream");
    until_logged(&network.host, "reloaded the access file and the certificates").await;
    let (done, said) = network.remote(&["ls"], &[("TRAIND_TOKEN", secret)]);
    assert!(!done && said.contains("sue has none"), "{said}");
    let (done, said) = network.remote(&["ls"], &[("TRAIND_TOKEN", viewer)]);
    assert!(done, "with a certificate of the new authority: {said}");
}

#[tokio::test]
async fn a_refused_certificate_has_an_error_with_the_reason() {
    let network = Networked::started(&[]).await;
    let stranger = Authority::new(&network.host.path(""), "stranger");
    let (certificate, key) = stranger.sign("ann");
    let shown = [
        ("TRAIND_CLIENT_CERT", certificate.display().to_string()),
        ("TRAIND_CLIENT_KEY", key.display().to_string()),
    ];
    let (done, said) = network.remote(&["ls"], &shown);
    assert!(!done && said.contains("the authority of --client-cert"), "{said}");
    assert!(said.contains("fatal alert"), "the reason of TLS: {said}");
}

#[tokio::test]
async fn a_name_with_control_characters_is_refused() {
    let network = Networked::started(&[]).await;
    let channel = network.channel(Some(network.sign("ann\u{1b}[31m"))).await.unwrap();
    let listed = JobsClient::new(channel).list_jobs(v1::ListJobsRequest::default()).await;
    assert_eq!(listed.unwrap_err().code(), Code::Unauthenticated);
}
