//! The access file, and other users' jobs.

use std::fs;

use hyper::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Code, Request};
use tonic_prost::ProstCodec;
use traind_proto::v1::{self, JobState};

use crate::support::host::Host;
use crate::support::runner::STOPS_WHEN_ASKED;

pub(crate) fn own_user() -> String {
    let output = std::process::Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

async fn host_with(access: &str) -> Host {
    let mut host = Host::new(1, STOPS_WHEN_ASKED);
    fs::write(host.path("access.yaml"), access).unwrap();
    host.options = vec![format!("--access={}", host.path("access.yaml").display())];
    host.start().await;
    host
}

/// Calls with an empty message, which every call can decode.
pub(crate) async fn code_over(channel: Channel, path: &str) -> Code {
    let mut client = tonic::client::Grpc::new(channel);
    if client.ready().await.is_err() {
        return Code::Unavailable;
    }
    let codec = ProstCodec::<v1::ListPluginsRequest, v1::ListPluginsRequest>::default();
    let path: PathAndQuery = path.parse().unwrap();
    let request = Request::new(v1::ListPluginsRequest {});
    match client.server_streaming(request, path, codec).await {
        Ok(_) => Code::Ok,
        Err(status) => status.code(),
    }
}

#[tokio::test]
async fn another_users_job_is_hidden_except_from_admins() {
    let user = own_user();
    let mut host = host_with(&format!("users: {{{user}: submitter}}")).await;
    let own = host.submit("own", 1).await;
    let other = host.submit("other", 1).await;
    assert_eq!((own.owner.as_str(), other.owner.as_str()), (user.as_str(), user.as_str()));
    host.kill_daemon();
    let store = rusqlite::Connection::open(host.path("state/traind.db")).unwrap();
    store.execute("UPDATE jobs SET owner = 'somebody' WHERE name = 'other'", []).unwrap();
    drop(store);
    host.start().await;

    let get = |id: &str| v1::GetJobRequest { job_id: id.to_owned() };
    for reference in [other.id.as_str(), &other.id[..9], "other"] {
        let status = host.jobs().await.get_job(get(reference)).await.unwrap_err();
        assert_eq!(status.code(), Code::NotFound, "{reference}");
        let watch = v1::WatchJobRequest { job_id: reference.to_owned(), from_sequence: 0 };
        let status = host.jobs().await.watch_job(watch).await.unwrap_err();
        assert_eq!(status.code(), Code::NotFound, "{reference}");
        assert_eq!(host.cancel(reference).await.unwrap_err().code(), Code::NotFound);
    }
    let list = host.jobs().await.list_jobs(v1::ListJobsRequest::default()).await.unwrap();
    let names: Vec<_> = list.into_inner().jobs.into_iter().map(|job| job.name).collect();
    assert_eq!(names, ["own"]);

    host.kill_daemon();
    fs::write(host.path("access.yaml"), format!("users: {{{user}: admin}}")).unwrap();
    host.start().await;
    assert_eq!(host.get("other").await.id, other.id);
    host.cancel(&other.id).await.unwrap();
    host.until_state(&other.id, JobState::Cancelled).await;
}

#[tokio::test]
async fn an_access_file_that_cannot_be_read_keeps_the_daemon_from_starting() {
    let host = Host::new(1, STOPS_WHEN_ASKED);
    fs::write(host.path("access.yaml"), "users: {ann: root}").unwrap();
    let mut command = host.serve();
    let status = command.arg("--access").arg(host.path("access.yaml")).status().unwrap();
    assert_eq!(status.code(), Some(1));
    assert!(host.log().contains("access.yaml") && host.log().contains("root"), "{}", host.log());
}
