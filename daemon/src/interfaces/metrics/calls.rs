//! The daemon's own calls: how many ended how, and how long they took.
//!
//! A call that the daemon does not serve is counted without its name: clients choose names,
//! and a series for each would let any of them fill the memory.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use prost::Message;
use prost_types::FileDescriptorSet;
use tonic::Code;

/// One of the daemon's calls, as the gRPC middlewares label it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Call {
    grpc_service: String,
    grpc_method: String,
    grpc_type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Handled {
    grpc_service: String,
    grpc_method: String,
    grpc_type: &'static str,
    grpc_code: String,
}

const SERVER_STREAM: &str = "server_stream";

type Seconds = Family<Call, Histogram, fn() -> Histogram>;

pub(crate) struct Calls {
    /// By path.
    known: HashMap<String, Call>,
    registry: Registry,
    handled: Family<Handled, Counter>,
    seconds: Seconds,
}

impl Default for Calls {
    fn default() -> Calls {
        let handled = Family::default();
        let seconds: Seconds = Family::new_with_constructor(histogram);
        let mut registry = Registry::default();
        let help = "Calls answered, by how they ended";
        registry.register("grpc_server_handled", help, handled.clone());
        let help = "Time until calls were answered to the end";
        registry.register("grpc_server_handling_seconds", help, seconds.clone());
        Calls { known: known(), registry, handled, seconds }
    }
}

impl Calls {
    pub(crate) fn named(&self, path: &str) -> Call {
        self.known.get(path).cloned().unwrap_or_else(|| Call::new("unknown", "unknown", "unary"))
    }

    /// Whether the call's answer may last.
    pub(crate) fn streams(&self, path: &str) -> bool {
        self.known.get(path).is_some_and(|call| call.grpc_type == SERVER_STREAM)
    }

    pub(crate) fn ended(&self, call: &Call, code: Code, took: Duration) {
        let handled = Handled {
            grpc_service: call.grpc_service.clone(),
            grpc_method: call.grpc_method.clone(),
            grpc_type: call.grpc_type,
            grpc_code: format!("{code:?}"),
        };
        self.handled.get_or_create(&handled).inc();
        self.seconds.get_or_create(call).observe(took.as_secs_f64());
    }

    pub(super) fn encode(&self, text: &mut String) -> fmt::Result {
        encode_registry(text, &self.registry)
    }
}

impl Call {
    fn new(service: &str, method: &str, grpc_type: &'static str) -> Call {
        Call { grpc_service: service.to_owned(), grpc_method: method.to_owned(), grpc_type }
    }
}

/// From 0.25 ms, what the store takes, to 8 s.
fn histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.000_25, 2.0, 16))
}

fn known() -> HashMap<String, Call> {
    let mut known = HashMap::new();
    for set in [traind_proto::FILE_DESCRIPTOR_SET, tonic_health::pb::FILE_DESCRIPTOR_SET] {
        // Both are made by the build; one that is broken leaves its calls without names.
        for file in FileDescriptorSet::decode(set).unwrap_or_default().file {
            for service in &file.service {
                let name = format!("{}.{}", file.package(), service.name());
                for method in &service.method {
                    let kind = if method.server_streaming() { SERVER_STREAM } else { "unary" };
                    let path = format!("/{name}/{}", method.name());
                    known.insert(path, Call::new(&name, method.name(), kind));
                }
            }
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_code_and_strangers_share_one_series() {
        let calls = Calls::default();
        let took = Duration::from_millis(3);
        calls.ended(&calls.named("/traind.v1.Jobs/GetJob"), Code::NotFound, took);
        calls.ended(&calls.named("/traind.v1.Jobs/WatchJob"), Code::Ok, took);
        for index in 0..100 {
            calls.ended(&calls.named(&format!("/evil/{index}")), Code::Unimplemented, took);
        }
        let mut text = String::new();
        calls.encode(&mut text).unwrap();
        for line in [
            r#"grpc_server_handled_total{grpc_service="traind.v1.Jobs",grpc_method="GetJob",grpc_type="unary",grpc_code="NotFound"} 1"#,
            r#"grpc_server_handled_total{grpc_service="traind.v1.Jobs",grpc_method="WatchJob",grpc_type="server_stream",grpc_code="Ok"} 1"#,
            r#"grpc_server_handled_total{grpc_service="unknown",grpc_method="unknown",grpc_type="unary",grpc_code="Unimplemented"} 100"#,
            r#"grpc_server_handling_seconds_count{grpc_service="traind.v1.Jobs",grpc_method="GetJob",grpc_type="unary"} 1"#,
            r#"grpc_server_handling_seconds_bucket{le="0.004",grpc_service="traind.v1.Jobs",grpc_method="GetJob",grpc_type="unary"} 1"#,
        ] {
            assert!(text.contains(line), "{line}\nis not in\n{text}");
        }
        assert!(!text.contains("evil"));
    }
}
