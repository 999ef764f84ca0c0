//! The records of W&B's log, as far as traind writes them. The field numbers are W&B's.

use prost::{Message, Oneof};
use prost_types::Timestamp;
use serde_json::Value;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Record {
    /// The position in the log, from 1.
    #[prost(int64, tag = "1")]
    pub num: i64,
    #[prost(oneof = "Content", tags = "2, 3, 12, 17, 18, 21, 26")]
    pub content: Option<Content>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Content {
    #[prost(message, tag = "2")]
    History(History),
    #[prost(message, tag = "3")]
    Summary(Updates),
    #[prost(message, tag = "12")]
    Metric(Metric),
    #[prost(message, tag = "17")]
    Run(Run),
    #[prost(message, tag = "18")]
    Exit(Exit),
    #[prost(message, tag = "21")]
    Header(Header),
    #[prost(message, tag = "26")]
    Environment(Environment),
}

/// The first record: the program that writes the log, and the oldest one that can read it.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Header {
    #[prost(message, optional, tag = "1")]
    pub version: Option<Version>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Version {
    #[prost(string, tag = "1")]
    pub producer: String,
    #[prost(string, tag = "2")]
    pub min_consumer: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Run {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, tag = "3")]
    pub project: String,
    #[prost(message, optional, tag = "4")]
    pub config: Option<Updates>,
    #[prost(string, tag = "8")]
    pub display_name: String,
    #[prost(string, tag = "13")]
    pub host: String,
    #[prost(message, optional, tag = "17")]
    pub start: Option<Timestamp>,
}

/// Keys of the config or of the summary that change.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Updates {
    #[prost(message, repeated, tag = "1")]
    pub updates: Vec<Item>,
}

/// One row: what `wandb.log` is called with.
#[derive(Clone, PartialEq, Message)]
pub(super) struct History {
    #[prost(message, repeated, tag = "1")]
    pub items: Vec<Item>,
    #[prost(message, optional, tag = "2")]
    pub step: Option<RowNumber>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RowNumber {
    #[prost(int64, tag = "1")]
    pub number: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Item {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "16")]
    pub value_json: String,
}

/// Names the metric over which others are drawn.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Metric {
    #[prost(string, tag = "1")]
    pub name: String,
    /// A pattern of names, instead of one.
    #[prost(string, tag = "2")]
    pub glob_name: String,
    #[prost(string, tag = "4")]
    pub step_metric: String,
    #[prost(message, optional, tag = "6")]
    pub options: Option<MetricOptions>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MetricOptions {
    #[prost(bool, tag = "1")]
    pub step_sync: bool,
    #[prost(bool, tag = "3")]
    pub defined: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Environment {
    #[prost(string, tag = "1")]
    pub os: String,
    #[prost(message, optional, tag = "3")]
    pub started_at: Option<Timestamp>,
    #[prost(string, tag = "6")]
    pub program: String,
    #[prost(string, tag = "11")]
    pub root: String,
    #[prost(string, tag = "12")]
    pub host: String,
    #[prost(string, tag = "199")]
    pub writer_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Exit {
    #[prost(int32, tag = "1")]
    pub exit_code: i32,
    #[prost(int32, tag = "2")]
    pub runtime_seconds: i32,
}

impl Item {
    pub(super) fn new(key: impl Into<String>, value: &Value) -> Item {
        Item { key: key.into(), value_json: value.to_string() }
    }
}
