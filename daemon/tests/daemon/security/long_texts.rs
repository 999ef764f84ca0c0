//! Overlong texts in every field of every request: each gets an answer that a client accepts, and none fills the log.

use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};
use tonic::{Code, Request};

use crate::support::host::Host;
use crate::support::raw::Raw;
use crate::support::runner::STOPS_WHEN_ASKED;

/// The size of a long text, below that at which a message is refused as a whole.
const BYTES: usize = 1 << 20;
/// Far above a line with clipped texts.
const LINE_BYTES_MAX: usize = 16 << 10;

/// The requests of all calls with one field that is overlong.
fn overlong_requests() -> Vec<(String, String, Vec<u8>)> {
    let files = FileDescriptorSet::decode(traind_proto::FILE_DESCRIPTOR_SET).unwrap().file;
    let messages: Vec<&DescriptorProto> = files.iter().flat_map(|it| &it.message_type).collect();
    let mut requests = Vec::new();
    for file in files.iter().filter(|file| file.package() == "traind.v1") {
        for service in file.service.iter().filter(|service| service.name() != "Runner") {
            for method in &service.method {
                let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                let wanted = method.input_type().rsplit('.').next();
                let request = messages.iter().find(|it| Some(it.name()) == wanted).unwrap();
                for field in &request.field {
                    if let Some(bytes) = overlong(field) {
                        requests.push((path.clone(), field.name().to_owned(), bytes));
                    }
                }
            }
        }
    }
    requests
}

/// A message with a long text in a field, or as key and value of an entry, if it takes any.
fn overlong(field: &FieldDescriptorProto) -> Option<Vec<u8>> {
    let text = "\u{1b}x".repeat(BYTES / 2);
    let mut bytes = Vec::new();
    match field.r#type() {
        Type::String | Type::Bytes => delimited(field.number() as u32, text.as_bytes(), &mut bytes),
        Type::Message if field.type_name().ends_with("OverridesEntry") => {
            let mut entry = Vec::new();
            delimited(1, &text.as_bytes()[..BYTES / 2], &mut entry);
            delimited(2, &text.as_bytes()[..BYTES / 2], &mut entry);
            delimited(field.number() as u32, &entry, &mut bytes);
        }
        _ => return None,
    }
    Some(bytes)
}

fn delimited(number: u32, content: &[u8], bytes: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, bytes);
    encode_varint(content.len() as u64, bytes);
    bytes.extend_from_slice(content);
}

#[tokio::test]
async fn overlong_texts_in_any_field_get_answers_and_do_not_fill_the_log() {
    let mut host = Host::started(1, STOPS_WHEN_ASKED).await;
    let channel = host.channel().await;
    let requests = overlong_requests();
    assert!(requests.len() > 20, "{}", requests.len());
    for (path, field, message) in requests {
        let mut client = tonic::client::Grpc::new(channel.clone());
        client.ready().await.unwrap();
        let call = client.server_streaming(Request::new(message), path.parse().unwrap(), Raw);
        let Err(status) = call.await else { continue };
        let expected = [Code::InvalidArgument, Code::NotFound, Code::FailedPrecondition];
        assert!(expected.contains(&status.code()), "{path} with {field}: {status:?}");
    }
    host.stop_daemon().await;
    let log = host.log();
    let longest = log.lines().map(str::len).max().unwrap_or_default();
    assert!(longest < LINE_BYTES_MAX, "a line of {longest} bytes");
    host.start().await;
    assert!(host.cli(&["audit", "--verify"]).status.success());
}
