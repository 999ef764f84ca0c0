//! Random job files and messages, which the daemon must survive.

use prost::Message;
use tonic::Request;
use traind_proto::v1;

use super::{Random, count};
use crate::security::matrix::calls;
use crate::support::host::Host;
use crate::support::raw::Raw;
use crate::support::runner::STOPS_WHEN_ASKED;

/// Changes, drops, doubles or adds a few bytes.
fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() as u64 + 1) as usize;
        match random.below(4) {
            0 if at < bytes.len() => bytes[at] = random.below(256) as u8,
            1 if at < bytes.len() => drop(bytes.remove(at)),
            2 => bytes.insert(at, random.below(256) as u8),
            _ => {
                let end = (at + random.below(16) as usize).min(bytes.len());
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
        }
    }
}

#[tokio::test]
async fn the_daemon_survives_garbage() {
    let host = Host::started(1, STOPS_WHEN_ASKED).await;
    let sound = host.request("garbage", 1);
    let mut random = Random(11);
    let paths: Vec<String> = calls()
        .into_iter()
        .map(|call| call.path)
        .filter(|path| !path.ends_with("/Drain"))
        .collect();
    let channel = host.channel().await;
    let messages = count("TRAIND_SOAK_MESSAGES", 300);
    for number in 0..messages {
        let mut bytes = match random.below(3) {
            0 => sound.encode_to_vec(),
            1 => v1::GetJobRequest { job_id: "garbage".into() }.encode_to_vec(),
            _ => v1::ListJobsRequest { page_size: 5, ..Default::default() }.encode_to_vec(),
        };
        mutate(&mut random, &mut bytes);
        let path = paths[number % paths.len()].parse().unwrap();
        let mut client = tonic::client::Grpc::new(channel.clone());
        client.ready().await.unwrap();
        let call = client.server_streaming(Request::new(bytes), path, Raw);
        // The result does not matter, as long as the daemon survives.
        let _ = tokio::time::timeout(std::time::Duration::from_secs(5), call).await;
    }
    let files = count("TRAIND_SOAK_FILES", 300);
    for _ in 0..files {
        let mut bytes = sound.job_file.clone().into_bytes();
        mutate(&mut random, &mut bytes);
        let job_file = String::from_utf8_lossy(&bytes).into_owned();
        // Planned, not submitted, so that no jobs are left behind.
        let request = v1::PlanJobRequest {
            job_file,
            base_dir: sound.base_dir.clone(),
            overrides: sound.overrides.clone(),
            search: None,
        };
        let _ = host.jobs().await.plan_job(request).await;
    }
    let list = v1::ListJobsRequest::default();
    host.jobs().await.list_jobs(list).await.unwrap();
    println!("{messages} messages and {files} job files: the daemon lives");
    assert!(!host.log().contains("panicked"), "{}", host.log());
}
