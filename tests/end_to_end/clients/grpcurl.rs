//! `grpcurl`, if installed, calls the daemon by server reflection.

use std::process::Command;

use traind_tests::{CommandOutput, Host};

#[tokio::test(flavor = "multi_thread")]
async fn grpcurl_lists_the_services_and_calls_one() {
    if Command::new("grpcurl").arg("-version").output().is_err() {
        eprintln!("skipped: no grpcurl on PATH");
        return;
    }
    let host = Host::started(2).await;
    let grpcurl = |arguments: &[&str]| {
        let mut command = Command::new("grpcurl");
        command.args(["-plaintext", "-unix"]).arg(host.socket()).args(arguments);
        CommandOutput::of(command.output().unwrap())
    };
    let services = grpcurl(&["list"]);
    for name in ["traind.v1.Jobs", "traind.v1.Cores", "grpc.health.v1.Health"] {
        assert!(services.stdout.contains(name), "{services:?}");
    }
    let cores = grpcurl(&["traind.v1.Cores/ListCores"]);
    assert_eq!((cores.code, cores.stdout.matches("\"cpu\"").count()), (Some(0), 2), "{cores:?}");
}
