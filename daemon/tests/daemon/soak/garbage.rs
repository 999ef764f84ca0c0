//! Job files and messages that nobody means: the daemon refuses them and lives.

use hyper::body::Bytes;
use prost::Message;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Request, Status};
use traind_proto::v1;

use super::{Random, count};
use crate::access::calls;
use crate::host::Host;
use crate::runner::STOPS_WHEN_ASKED;

/// Sends bytes as they are and takes none.
#[derive(Clone, Copy)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = ();
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        bytes_into(buffer, Bytes::from(item));
        Ok(())
    }
}

fn bytes_into(buffer: &mut EncodeBuf<'_>, bytes: Bytes) {
    prost::bytes::BufMut::put(buffer, bytes);
}

impl Decoder for Raw {
    type Item = ();
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        let left = prost::bytes::Buf::remaining(buffer);
        prost::bytes::Buf::advance(buffer, left);
        Ok(Some(()))
    }
}

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
async fn garbage_is_refused_and_the_daemon_lives() {
    let host = Host::started(1, STOPS_WHEN_ASKED).await;
    let sound = host.request("garbage", 1);
    let mut random = Random(11);
    let paths: Vec<String> = calls().into_iter().filter(|path| !path.ends_with("/Drain")).collect();
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
        // A call may be answered, refused or go on as a stream: all that counts is the daemon.
        let _ = tokio::time::timeout(std::time::Duration::from_secs(5), call).await;
    }
    let files = count("TRAIND_SOAK_FILES", 300);
    for _ in 0..files {
        let mut bytes = sound.job_file.clone().into_bytes();
        mutate(&mut random, &mut bytes);
        let job_file = String::from_utf8_lossy(&bytes).into_owned();
        // Planned and not made: nothing of it is left behind.
        let request = v1::PlanJobRequest {
            job_file,
            base_dir: sound.base_dir.clone(),
            overrides: sound.overrides.clone(),
        };
        let _ = host.jobs().await.plan_job(request).await;
    }
    let list = v1::ListJobsRequest::default();
    host.jobs().await.list_jobs(list).await.unwrap();
    println!("{messages} messages and {files} job files: the daemon lives");
    assert!(!host.log().contains("panicked"), "{}", host.log());
}
