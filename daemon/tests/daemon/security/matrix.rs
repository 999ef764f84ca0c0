//! Every call of the schema under every role, for each kind of credentials, and every call with a
//! job id for another user's job. Expectations come from the schema, so that new calls are
//! tested, too.

use std::collections::BTreeMap;
use std::fs;

use hyper::http::uri::PathAndQuery;
use prost::Message;
use prost_types::{DescriptorProto, FileDescriptorSet, MethodDescriptorProto};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use tonic::transport::Channel;
use tonic::{Code, Request};

use crate::security::access::own_user;
use crate::security::network::Networked;
use crate::support::host::{Host, try_connect};
use crate::support::raw::Raw;
use crate::support::runner::STOPS_WHEN_ASKED;

const ROLES: [&str; 4] = ["none", "viewer", "submitter", "admin"];
/// A user for each role, by number and by name.
const USERS: [(u32, &str); 4] = [(4240, "nat"), (4241, "vic"), (4242, "sue"), (4243, "ann")];

/// A call as the schema describes it.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) path: String,
    /// Index into [`ROLES`].
    role: usize,
    /// The number of the request's field `job_id`, if it has one.
    job_id: Option<u32>,
}

/// All calls that the daemon serves; Drain, which stops the daemon, is last.
pub(crate) fn calls() -> Vec<Call> {
    let files = FileDescriptorSet::decode(traind_proto::FILE_DESCRIPTOR_SET).unwrap().file;
    let messages: BTreeMap<String, DescriptorProto> = files
        .iter()
        .flat_map(|file| {
            let name =
                |message: &DescriptorProto| format!(".{}.{}", file.package(), message.name());
            file.message_type.iter().map(move |message| (name(message), message.clone()))
        })
        .collect();
    let mut calls = Vec::new();
    for file in files.iter().filter(|file| file.package() == "traind.v1") {
        let locations = &file.source_code_info.as_ref().unwrap().location;
        for (s, service) in file.service.iter().enumerate() {
            for (m, method) in service.method.iter().enumerate() {
                let path = [6, s as i32, 2, m as i32];
                let location = locations.iter().find(|location| location.path == path).unwrap();
                if service.name() != "Runner" {
                    let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                    let role = declared(location.leading_comments(), &path);
                    calls.push(Call { path, role, job_id: job_id(method, &messages) });
                }
            }
        }
    }
    calls.sort_by_key(|call| call.path.ends_with("/Drain"));
    calls
}

fn declared(comment: &str, path: &str) -> usize {
    let role = comment.lines().find_map(|line| line.trim().strip_prefix("Role: "));
    let role = role.unwrap_or_else(|| panic!("{path} declares no role")).trim_end_matches('.');
    ROLES.iter().position(|known| *known == role).unwrap()
}

fn job_id(
    method: &MethodDescriptorProto,
    messages: &BTreeMap<String, DescriptorProto>,
) -> Option<u32> {
    let request = &messages[method.input_type()];
    let field = request.field.iter().find(|field| field.name() == "job_id")?;
    Some(field.number() as u32)
}

/// The code of a call with this message.
pub(crate) async fn code_of(
    channel: &Channel,
    path: &str,
    message: Vec<u8>,
    token: Option<&str>,
) -> Code {
    let mut client = tonic::client::Grpc::new(channel.clone());
    if client.ready().await.is_err() {
        return Code::Unavailable;
    }
    let mut request = Request::new(message);
    if let Some(token) = token {
        let header = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", header);
    }
    let path: PathAndQuery = path.parse().unwrap();
    let call = client.server_streaming(request, path, Raw);
    call.await.map_or_else(|status| status.code(), |_| Code::Ok)
}

/// Makes every call with a role. Every call can decode an empty message.
async fn check_roles(kind: &str, role: usize, channel: &Channel, token: Option<&str>) -> usize {
    let calls = calls();
    assert!(calls.len() > 10, "{calls:?}");
    for Call { path, role: wanted, .. } in &calls {
        let code = code_of(channel, path, Vec::new(), token).await;
        let denied = code == Code::PermissionDenied;
        let name = ROLES[role];
        assert_eq!(denied, role < *wanted, "{path} as {name}, known by a {kind}: {code:?}");
    }
    calls.len()
}

/// Makes every call with a job id, for another user's `job`.
async fn check_jobs(kind: &str, role: usize, channel: &Channel, token: Option<&str>, job: &str) {
    let takers: Vec<Call> = calls().into_iter().filter(|call| call.job_id.is_some()).collect();
    assert!(takers.len() >= 4, "{takers:?}");
    for Call { path, role: wanted, job_id } in takers.iter().filter(|call| role >= call.role) {
        // A length-delimited field.
        let mut message = Vec::new();
        prost::encoding::string::encode(job_id.unwrap(), &job.to_owned(), &mut message);
        let code = code_of(channel, path, message, token).await;
        let hidden = code == Code::NotFound;
        let name = ROLES[role];
        assert_eq!(hidden, role < 3, "{path} ({wanted}) of another's job as {name} by {kind}");
    }
}

fn access_file() -> String {
    let own = own_user();
    let mut lines = vec![format!("default_account: {own}"), "users:".to_owned()];
    lines.push(format!("  {own}: admin"));
    for ((uid, name), role) in USERS.iter().zip(ROLES).skip(1) {
        lines.extend([format!("  '{uid}': {role}"), format!("  {name}: {role}")]);
    }
    lines.join("\n") + "\n"
}

#[tokio::test]
async fn roles_and_owners_hold_for_users_of_the_host() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: calling as other users requires root");
    }
    let mut host = Host::new(1, STOPS_WHEN_ASKED);
    fs::write(host.path("access.yaml"), access_file()).unwrap();
    host.options = vec![
        format!("--access={}", host.path("access.yaml").display()),
        "--socket-group=users".to_owned(),
        "--run-as=daemon".to_owned(),
    ];
    host.start().await;
    let job = host.submit("roots", 1).await.id;
    for (role, (uid, _)) in USERS.into_iter().enumerate() {
        let (socket, job) = (host.socket(), job.clone());
        let call = move || {
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(100));
            set_thread_groups(&[]).unwrap();
            set_thread_res_gid(gid, gid, gid).unwrap();
            set_thread_res_uid(uid, uid, uid).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let channel = try_connect(socket).await.unwrap();
                check_jobs("uid", role, &channel, None, &job).await;
                check_roles("uid", role, &channel, None).await;
            });
        };
        tokio::task::spawn_blocking(|| std::thread::spawn(call).join().unwrap()).await.unwrap();
    }
}

#[tokio::test]
async fn roles_and_owners_hold_for_certificates() {
    let network = Networked::prepared(STOPS_WHEN_ASKED, &access_file(), &[]).await;
    let job = network.host.submit("roots", 1).await.id;
    for (role, (_, name)) in USERS.into_iter().enumerate() {
        let channel = network.channel(Some(network.sign(name))).await.unwrap();
        check_jobs("certificate", role, &channel, None, &job).await;
        check_roles("certificate", role, &channel, None).await;
    }
}

#[tokio::test]
async fn roles_and_owners_hold_for_tokens() {
    let network = Networked::prepared(STOPS_WHEN_ASKED, &access_file(), &["--tokens"]).await;
    let job = network.host.submit("roots", 1).await.id;
    let tokens = USERS.map(|(_, name)| network.new_token(&[name]));
    // An admin's tokens with lower roles.
    let lesser: Vec<String> =
        ROLES[1..3].iter().map(|role| network.new_token(&["ann", "--role", role])).collect();
    let channel = network.channel(None).await.unwrap();
    for (role, token) in (1..).zip(&lesser) {
        check_jobs("lesser token", role, &channel, Some(token), &job).await;
        check_roles("lesser token", role, &channel, Some(token)).await;
    }
    for (role, token) in tokens.iter().enumerate() {
        check_jobs("token", role, &channel, Some(token), &job).await;
        check_roles("token", role, &channel, Some(token)).await;
    }
}
