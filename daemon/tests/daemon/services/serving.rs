//! Services besides jobs: health, reflection, cores and plugins.

use std::os::unix::fs::PermissionsExt;

use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use traind_proto::v1::plugins_client::PluginsClient;
use traind_proto::v1::{self, CoreUsage, JobState, Phase};

use crate::support::answers::answer_as_runner;
use crate::support::host::{Host, PATIENCE, lives, until, until_file};
use crate::support::runner::{COMPLETES, STOPS_WHEN_ASKED};

#[tokio::test]
async fn the_socket_is_for_the_daemons_user_and_group() {
    let host = Host::started(1, COMPLETES).await;
    let mode = std::fs::metadata(host.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
}

#[tokio::test]
async fn health_is_reported_for_every_service() {
    let host = Host::started(1, COMPLETES).await;
    let mut health = HealthClient::new(host.channel().await);
    for service in ["", "traind.v1.Admin", "traind.v1.Jobs", "traind.v1.Cores", "traind.v1.Plugins"]
    {
        let request = HealthCheckRequest { service: service.to_owned() };
        let reply = health.check(request).await.unwrap().into_inner();
        assert_eq!(reply.status, 1, "{service}");
    }
}

#[tokio::test]
async fn reflection_describes_the_services() {
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
    let host = Host::started(1, COMPLETES).await;
    let mut client = ServerReflectionClient::new(host.channel().await);
    let request = tonic_reflection::pb::v1::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let stream = client.server_reflection_info(tokio_stream::once(request)).await.unwrap();
    let reply = stream.into_inner().message().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = reply.message_response else {
        panic!("{reply:?}");
    };
    let names: Vec<String> = list.service.into_iter().map(|service| service.name).collect();
    for name in ["traind.v1.Jobs", "traind.v1.Cores", "grpc.health.v1.Health"] {
        assert!(names.iter().any(|known| known == name), "{names:?}");
    }
}

#[tokio::test]
async fn an_oversized_request_is_refused_and_the_next_one_succeeds() {
    let host = Host::started(1, COMPLETES).await;
    let mut request = host.request("first", 1);
    request.job_file.push_str(&"# filler\n".repeat(200_000));
    let status = host.create(request).await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
    host.submit("second", 1).await;
}

#[tokio::test]
async fn plugins_are_listed_with_instructions() {
    let host = Host::started(2, COMPLETES).await;
    let mut plugins = PluginsClient::new(host.channel().await);
    let list = plugins.list_plugins(v1::ListPluginsRequest {}).await.unwrap().into_inner().plugins;
    let cpu = list.iter().find(|plugin| plugin.platform == "cpu").unwrap();
    assert!(cpu.available && cpu.path.ends_with("cpu-0.0.1/xla_cpu_pjrt.so"), "{cpu:?}");
    assert_eq!(cpu.core_count, 2);
    let neuron = list.iter().find(|plugin| plugin.platform == "neuron").unwrap();
    assert!(neuron.available || neuron.detail.contains("TRAIND_PLUGIN_NEURON"), "{neuron:?}");
}

#[tokio::test]
async fn cores_show_their_job_and_its_runners_status() {
    let host = Host::started(2, STOPS_WHEN_ASKED).await;
    let job = host.submit("first", 1).await;
    host.until_state(&job.id, JobState::Running).await;
    let usage = CoreUsage {
        core: 0,
        utilization_percent_1s: 87.5,
        phase: Phase::Compute.into(),
        step: 7,
        ..Default::default()
    };
    answer_as_runner(&host, &job.id, usage);

    let mut client = host.cores().await;
    let list = client.list_cores(v1::ListCoresRequest::default()).await.unwrap().into_inner().cores;
    let shown: Vec<_> =
        list.iter().map(|core| (core.core, core.job_name.as_str(), core.usage)).collect();
    assert_eq!(shown, [(0, "first", Some(usage)), (1, "", None)]);

    let request = v1::WatchCoresRequest { period_ms: 100, ..Default::default() };
    let mut readings = client.watch_cores(request).await.unwrap().into_inner();
    for _ in 0..3 {
        let reading = tokio::time::timeout(PATIENCE, readings.message());
        let reading = reading.await.unwrap().unwrap().unwrap();
        assert_eq!(reading.cores[0].usage, Some(usage));
    }
}

#[tokio::test]
async fn a_runner_that_does_not_answer_does_not_block_the_list_of_cores() {
    let host = Host::started(1, STOPS_WHEN_ASKED).await;
    let job = host.submit("first", 1).await;
    host.until_state(&job.id, JobState::Running).await;
    // Accepts connections and never answers.
    let _listener =
        std::os::unix::net::UnixListener::bind(host.run_dir(&job.id).join("runner.sock")).unwrap();
    let mut client = host.cores().await;
    let list = client.list_cores(v1::ListCoresRequest::default());
    let list = tokio::time::timeout(PATIENCE, list).await.unwrap().unwrap();
    let core = &list.get_ref().cores[0];
    assert_eq!((core.job_id.as_str(), core.usage), (job.id.as_str(), None));
}

#[tokio::test]
async fn systemd_is_notified_of_readiness_watchdog_and_stop() {
    let host = Host::new(1, COMPLETES);
    let socket = tokio::net::UnixDatagram::bind(host.path("notify.sock")).unwrap();
    let mut command = host.serve();
    command.env("NOTIFY_SOCKET", host.path("notify.sock")).env("WATCHDOG_USEC", "200000");
    let mut daemon = command.spawn().unwrap();
    let mut heard = Vec::new();
    while heard.iter().filter(|word| *word == "WATCHDOG=1").count() < 3 {
        heard.push(hear(&socket).await);
    }
    assert_eq!(heard[0], "READY=1", "{heard:?}");
    let pid = rustix::process::Pid::from_child(&daemon);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    while hear(&socket).await != "STOPPING=1" {}
    assert_eq!(daemon.wait().unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_notified_command_ends_with_the_daemon_and_with_all_that_it_started() {
    let mut host = Host::started(1, COMPLETES).await;
    let started = host.path("started");
    let script =
        format!("sleep 1000 & echo $! > {0}.part; mv {0}.part {0}; wait", started.display());
    let mut request = host.request("first", 1);
    request.job_file += &format!("notify: {{command: [/bin/sh, -c, '{script}']}}\n");
    host.create(request).await.unwrap();
    until_file(&started).await;
    let pid = std::fs::read_to_string(started).unwrap().trim().to_owned();
    assert!(lives(&pid));
    assert_eq!(host.stop_daemon().await, Some(0));
    until("the process of the command has ended", || !lives(&pid)).await;
}

async fn hear(socket: &tokio::net::UnixDatagram) -> String {
    let mut bytes = [0; 256];
    let received = tokio::time::timeout(crate::support::host::PATIENCE, socket.recv(&mut bytes));
    let length = received.await.unwrap().unwrap();
    String::from_utf8_lossy(&bytes[..length]).trim().to_owned()
}

#[test]
fn the_systemd_unit_is_valid() {
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/systemd/traind.service");
    let text = std::fs::read_to_string(unit).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("traind.service");
    let installed = text.replace("/usr/bin/traind", env!("CARGO_BIN_EXE_traind"));
    assert_ne!(installed, text);
    std::fs::write(&copy, installed).unwrap();
    let verify = std::process::Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(&copy)
        .output();
    // A machine without systemd has nothing to check it with.
    let Ok(output) = verify else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    // Older versions of systemd ignore this key with a warning.
    let said: String =
        said.lines().filter(|line| !line.contains("'DelegateSubgroup' in")).collect();
    assert!(output.status.success() && !said.contains("traind.service"), "{said}");
}
