//! Compile options, encoded as XLA's `CompileOptionsProto`. The messages declare
//! only the fields that we set.

use crate::client::Client;
use crate::error::{Error, Result};
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};

/// One program on `num_replicas` devices, without partitioning: collectives are
/// in the program.
#[derive(Debug, Clone, PartialEq)]
pub struct CompileOptions {
    /// 1 or more, over all processes of the job.
    pub num_replicas: usize,
    /// The id of each replica's device, be it this process's or another's; `None` is
    /// the first ones of [`Client::job_devices`].
    pub device_ids: Option<Vec<i32>>,
    /// XLA flags by name, for this compilation. An unknown one is an error.
    pub env_option_overrides: BTreeMap<String, OptionOverride>,
}

/// The value of an XLA flag. Its type must be the flag's.
#[derive(Debug, Clone, PartialEq)]
pub enum OptionOverride {
    /// A text.
    String(String),
    /// A switch.
    Bool(bool),
    /// A whole number.
    Int64(i64),
    /// A number.
    Double(f64),
}

impl Default for CompileOptions {
    fn default() -> Self {
        Self::replicas(1)
    }
}

impl CompileOptions {
    /// A program of `num_replicas` replicas on the first devices.
    pub fn replicas(num_replicas: usize) -> Self {
        Self { num_replicas, device_ids: None, env_option_overrides: BTreeMap::new() }
    }

    /// Places replica `i` on the device with the id `device_ids[i]`.
    #[must_use]
    pub fn on_devices(mut self, device_ids: impl IntoIterator<Item = i32>) -> Self {
        self.device_ids = Some(device_ids.into_iter().collect());
        self
    }

    /// Sets a flag of the compiler, such as `xla_gpu_autotune_level`, for this program alone.
    #[must_use]
    pub fn with_override(mut self, flag: impl Into<String>, value: OptionOverride) -> Self {
        self.env_option_overrides.insert(flag.into(), value);
        self
    }

    /// The options as the plugin reads them, checked against the job's devices.
    /// Equal options give equal bytes, so that they can be part of a cache key.
    pub fn encode(&self, client: &Client) -> Result<Vec<u8>> {
        let known: Vec<i32> = client.job_devices().iter().map(|device| device.id).collect();
        self.encode_for(&known)
    }

    /// Encodes as [`CompileOptions::encode`], for devices with the ids `known`.
    pub(crate) fn encode_for(&self, known: &[i32]) -> Result<Vec<u8>> {
        let device_ids = self.resolve_device_ids(known)?;
        let assignment = DeviceAssignmentProto {
            replica_count: self.num_replicas as i32,
            computation_count: 1,
            computation_devices: vec![ComputationDevice {
                replica_device_ids: device_ids.into_iter().map(i64::from).collect(),
            }],
        };
        let build = ExecutableBuildOptionsProto {
            device_ordinal: -1,
            num_replicas: self.num_replicas as i64,
            num_partitions: 1,
            device_assignment: Some(assignment),
        };
        let overrides = self.env_option_overrides.iter();
        let options = CompileOptionsProto {
            executable_build_options: Some(build),
            env_option_overrides: overrides.map(|(k, v)| (k.clone(), v.into())).collect(),
        };
        Ok(options.encode_to_vec())
    }

    /// XLA aborts the process on some wrong counts: they are refused here.
    fn resolve_device_ids(&self, known: &[i32]) -> Result<Vec<i32>> {
        if self.num_replicas == 0 || self.num_replicas > known.len() {
            let reason = format!("{} is not in 1..={}", self.num_replicas, known.len());
            return Err(Error::CompileOption { field: "num_replicas", reason });
        }
        let Some(device_ids) = &self.device_ids else {
            return Ok(known[..self.num_replicas].to_vec());
        };
        let refuse = |reason| Err(Error::CompileOption { field: "device_ids", reason });
        if device_ids.len() != self.num_replicas {
            return refuse(format!("{device_ids:?} are not {} devices", self.num_replicas));
        }
        let mut seen = BTreeSet::new();
        match device_ids.iter().find(|id| !known.contains(id) || !seen.insert(**id)) {
            Some(id) => refuse(format!("{id} is given twice or is not one of {known:?}")),
            None => Ok(device_ids.clone()),
        }
    }
}

#[derive(Clone, PartialEq, Message)]
struct CompileOptionsProto {
    #[prost(message, optional, tag = "3")]
    executable_build_options: Option<ExecutableBuildOptionsProto>,
    #[prost(btree_map = "string, message", tag = "7")]
    env_option_overrides: BTreeMap<String, OptionOverrideProto>,
}

#[derive(Clone, PartialEq, Message)]
struct ExecutableBuildOptionsProto {
    #[prost(int64, tag = "1")]
    device_ordinal: i64,
    #[prost(int64, tag = "4")]
    num_replicas: i64,
    #[prost(int64, tag = "5")]
    num_partitions: i64,
    #[prost(message, optional, tag = "9")]
    device_assignment: Option<DeviceAssignmentProto>,
}

#[derive(Clone, PartialEq, Message)]
struct DeviceAssignmentProto {
    #[prost(int32, tag = "1")]
    replica_count: i32,
    #[prost(int32, tag = "2")]
    computation_count: i32,
    #[prost(message, repeated, tag = "3")]
    computation_devices: Vec<ComputationDevice>,
}

#[derive(Clone, PartialEq, Message)]
struct ComputationDevice {
    #[prost(int64, repeated, tag = "1")]
    replica_device_ids: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct OptionOverrideProto {
    #[prost(oneof = "OverrideValue", tags = "1, 2, 3, 4")]
    value: Option<OverrideValue>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum OverrideValue {
    #[prost(string, tag = "1")]
    String(String),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(int64, tag = "3")]
    Int64(i64),
    #[prost(double, tag = "4")]
    Double(f64),
}

impl From<&OptionOverride> for OptionOverrideProto {
    fn from(value: &OptionOverride) -> Self {
        let value = match value {
            OptionOverride::String(text) => OverrideValue::String(text.clone()),
            OptionOverride::Bool(flag) => OverrideValue::Bool(*flag),
            OptionOverride::Int64(number) => OverrideValue::Int64(*number),
            OptionOverride::Double(number) => OverrideValue::Double(*number),
        };
        Self { value: Some(value) }
    }
}
