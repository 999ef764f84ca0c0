//! Secrets passed to the daemon and the command line in every supported way must not appear in
//! logs, events, the store, job folders or command lines of processes.

use std::fs;
use std::path::Path;

use crate::security::access::own_user;
use crate::security::network::Networked;
use crate::support::host::Host;
use crate::support::runner;

/// Prints its environment, as a crashing runner might, and fails.
const PRINTS_ENVIRONMENT: &str =
    "env > environment; say started; env >&2; say_steps 1 3; kill -ABRT $$";

/// Secrets in the daemon's environment.
const OF_THE_DAEMON: [(&str, &str); 6] = [
    ("HF_TOKEN", "hf_MARKERdaemonhub"),
    ("HUGGING_FACE_HUB_TOKEN", "hf_MARKERdaemonoldhub"),
    ("AWS_ACCESS_KEY_ID", "AKIAMARKERDAEMON"),
    ("AWS_SECRET_ACCESS_KEY", "MARKERdaemonaws"),
    ("AWS_SESSION_TOKEN", "MARKERdaemonsession"),
    ("TRAIND_TOKEN", "traind_MARKERdaemon_token"),
];
/// Secrets in the client's environment.
const OF_THE_CLIENT: [(&str, &str); 3] = [
    ("HF_TOKEN", "hf_MARKERclienthub"),
    ("AWS_SECRET_ACCESS_KEY", "MARKERclientaws"),
    ("AWS_SESSION_TOKEN", "MARKERclientsession"),
];

/// Every file below `folder` that contains a secret, except those in `kept`.
fn found(folder: &Path, secrets: &[String], kept: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            found.extend(self::found(&path, secrets, kept));
        } else if !kept.iter().any(|name| path.ends_with(name)) {
            let bytes = fs::read(&path).unwrap_or_default();
            found.extend(
                held(&bytes, secrets).map(|secret| format!("{secret} in {}", path.display())),
            );
        }
    }
    found
}

fn held<'a>(bytes: &'a [u8], secrets: &'a [String]) -> impl Iterator<Item = &'a String> {
    let holds = |secret: &str| bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
    secrets.iter().filter(move |secret| holds(secret))
}

/// The command lines of all processes.
fn command_lines() -> Vec<u8> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.flat_map(|entry| fs::read(entry.path().join("cmdline")).unwrap_or_default()).collect()
}

#[tokio::test]
async fn secrets_do_not_leak() {
    let mut host = Host::new(1, PRINTS_ENVIRONMENT);
    host.environment = OF_THE_DAEMON.map(|(name, value)| (name.into(), value.into())).into();
    // The most verbose log.
    host.environment.push(("RUST_LOG".into(), "trace".into()));
    let own = own_user();
    let access =
        format!("default_role: submitter\nusers: {{{own}: admin}}\ndefault_account: {own}\n");
    let network = Networked::of(host, &access, &["--tokens", "--web-address=127.0.0.1:0"]).await;
    let host = &network.host;
    let token = network.new_token(&["sue"]);
    let mut secrets: Vec<String> = OF_THE_DAEMON
        .iter()
        .chain(&OF_THE_CLIENT)
        .map(|(_, secret)| (*secret).to_owned())
        .collect();
    // The token without its public id.
    secrets.push(token.rsplit('_').next().unwrap().to_owned());
    fs::write(host.path("token"), format!("{token}\n")).unwrap();
    fs::write(host.path("job.yaml"), host.request("first", 1).job_file).unwrap();

    let mut said = String::new();
    let mut environment: Vec<(&str, String)> =
        OF_THE_CLIENT.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    environment.push(("TRAIND_TOKEN", token.clone()));
    environment.push(("RUST_LOG", "trace".to_owned()));
    let submit = ["submit", "job.yaml", "--watch", "--set", "output_dir=out/one"];
    said += &network.remote(&submit, &environment).1;
    let file = [("TRAIND_TOKEN_FILE", host.path("token").display().to_string())];
    for arguments in [&["get", "first", "-o", "json"][..], &["logs", "first"], &["ls"], &["web"]] {
        said += &network.remote(arguments, &file).1;
    }
    said += &network.remote(&["ls"], &[("TRAIND_TOKEN", format!("{token}x"))]).1;
    assert!(said.contains("first") && said.contains("the token is not valid"), "{said}");
    let running = host.submit("second", 1).await;
    said += &format!("{:?}", host.events(&running.id, 1).await);
    assert_eq!(held(said.as_bytes(), &secrets).next(), None, "{said}");
    assert_eq!(held(&command_lines(), &secrets).next(), None);
    let found = found(&host.path(""), &secrets, &["token"]);
    assert!(found.is_empty(), "{found:#?}");
    assert!(host.log().contains("TRACE"), "the log has the lowest level");
    assert_eq!(runner::pids(&host.path("state/jobs")), []);
}
