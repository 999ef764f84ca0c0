//! Channels of a training job, or of `fit`, as the splits of a job.

use serde_json::{Map, Value};

use crate::draft::Draft;
use crate::rule::unknown;
use crate::shared::TABLES;
use crate::values::shown;

/// The folder of SageMaker's container that has a folder for each channel.
pub(super) const FOLDER: &str = "/opt/ml/input/data/";

/// Ending of the files that `save_to_disk` writes.
const USUAL: &str = "arrow";
/// Endings of files by the content type of a channel.
const CONTENT: [(&str, &str); 6] = [
    ("text/csv", "csv"),
    ("application/json", "json"),
    ("application/jsonlines", "jsonl"),
    ("application/x-parquet", "parquet"),
    ("application/vnd.apache.parquet", "parquet"),
    ("text/plain", "txt"),
];

/// Arguments of a `TrainingInput`.
const ARGUMENTS: [&str; 13] = [
    "attribute_names",
    "compression",
    "content_type",
    "distribution",
    "hub_access_config",
    "input_mode",
    "instance_groups",
    "model_access_config",
    "record_wrapping",
    "s3_data",
    "s3_data_type",
    "shuffle_config",
    "target_attribute_name",
];

/// A channel with its places.
struct Channel {
    name: String,
    places: Vec<String>,
    /// Ending of the files below a prefix, where the content type says it.
    ending: Option<String>,
}

/// The channels that settings have.
pub(super) struct Channels(Vec<Channel>);

impl Channels {
    /// Channels of a description's `InputDataConfig`, or of the `inputs` of `fit`.
    pub(super) fn of(outer: &Map<String, Value>, draft: &mut Draft) -> Self {
        let mut found = Vec::new();
        let usual = outer.get("input_format").map_or(USUAL.to_owned(), shown);
        match outer.get("inputs") {
            Some(Value::Object(inputs)) => {
                found.extend(inputs.iter().filter_map(|(name, it)| input(name, it, draft)));
            }
            Some(Value::Null) | None => {}
            Some(one) => found.extend(input("train", one, draft)),
        }
        let described = outer.get("InputDataConfig").and_then(Value::as_array);
        found.extend(described.into_iter().flatten().filter_map(|it| described_channel(it, draft)));
        for channel in &mut found {
            channel.ending.get_or_insert(usual.clone());
        }
        Self(found)
    }

    /// The address of a file that the container would find in the folder of a channel.
    pub(super) fn file(&self, value: &Value) -> Option<String> {
        let rest = value.as_str()?.strip_prefix(FOLDER)?;
        let (name, file) = rest.split_once('/').unwrap_or((rest, ""));
        let channel = self.0.iter().find(|channel| channel.name == name)?;
        let [place] = channel.places.as_slice() else { return None };
        Some(if file.is_empty() { place.clone() } else { format!("{place}/{file}") })
    }

    /// Sets the splits. A prefix of a bucket stands for the files below it.
    pub(super) fn splits(&self, draft: &mut Draft) {
        let is_validation = |channel: &Channel| split_of(&channel.name) == Some("validation");
        let has_validation = self.0.iter().any(is_validation);
        for channel in &self.0 {
            let key = format!("inputs.{}", channel.name);
            let path = match split_of(&channel.name) {
                Some("test") if !has_validation => "data.validation",
                Some("test") => "data.test",
                Some("validation") => "data.validation",
                Some(_) => "data.train",
                None => {
                    let splits = ["train", "validation", "test"];
                    let names = splits.iter().flat_map(|split| &TABLES.channels[*split]);
                    let names: Vec<&str> = names.map(String::as_str).collect();
                    let text = format!(
                        "is not a split; the channels are {}: give it one of these names, or leave it out",
                        names.join(", ")
                    );
                    draft.refuse(&key, text);
                    continue;
                }
            };
            if !draft.is_given(path) {
                channel.set(path, &key, draft);
            }
        }
    }
}

impl Channel {
    fn set(&self, path: &str, key: &str, draft: &mut Draft) {
        let ending = self.ending.as_deref().unwrap_or(USUAL);
        let file = |place: &String| match is_prefix(place) {
            true => Value::from(format!("{place}/*.{ending}")),
            false => place.as_str().into(),
        };
        if self.places.iter().any(|place| is_prefix(place)) {
            let text = format!(
                "the files below the prefix that end in .{ending}; give others by --set, such as \
                s3://bucket/train/*.csv"
            );
            draft.note(key, text);
        }
        let mut files: Vec<Value> = self.places.iter().map(file).collect();
        let value = if files.len() == 1 { files.remove(0) } else { files.into() };
        draft.set(path, value, key);
    }
}

/// Refuses a folder of the container that no channel has, unless the data are given.
pub(super) fn refuse_folder(key: &str, value: &Value, draft: &mut Draft) {
    if draft.get("data.train").is_none() {
        let text = format!(
            "{} is a folder of SageMaker's container; give data.train and data.validation by --set",
            shown(value)
        );
        draft.refuse(key, text);
    }
}

fn split_of(name: &str) -> Option<&'static str> {
    let split = TABLES.channels.iter().find(|(_, names)| names.iter().any(|known| known == name));
    split.map(|(split, _)| split.as_str())
}

/// Whether a place is a prefix of a bucket, rather than a file.
fn is_prefix(place: &str) -> bool {
    let last = place.rsplit('/').next().unwrap_or_default();
    place.starts_with("s3://") && !last.contains('.') && !place.contains(['*', '?', '['])
}

/// A channel of `fit`: a place or several, or a `TrainingInput` with its arguments.
fn input(name: &str, value: &Value, draft: &mut Draft) -> Option<Channel> {
    let key = format!("inputs.{name}");
    check_arguments(&key, value, draft);
    let (value, content) = match value {
        Value::Object(arguments) => match arguments.get("s3_data") {
            Some(place) => (place, arguments.get("content_type")),
            None => {
                draft.refuse(&key, "has no s3_data; give a place such as s3://bucket/train");
                return None;
            }
        },
        value => (value, None),
    };
    let places: Option<Vec<String>> = match value {
        Value::Array(places) => places.iter().map(|it| it.as_str().map(place)).collect(),
        value => value.as_str().map(|it| vec![place(it)]),
    };
    if places.is_none() {
        let text = format!("must be a place such as s3://bucket/train, not {}", shown(value));
        draft.refuse(&key, text);
    }
    Some(Channel { name: name.to_owned(), places: places?, ending: ending(content) })
}

fn check_arguments(key: &str, value: &Value, draft: &mut Draft) {
    let names = value.as_object().into_iter().flat_map(Map::keys);
    for name in names.filter(|name| !ARGUMENTS.contains(&name.as_str())) {
        draft.refuse(&format!("{key}.{name}"), unknown(name, ARGUMENTS, "leave it out"));
    }
}

/// A channel as the service describes it.
fn described_channel(value: &Value, draft: &mut Draft) -> Option<Channel> {
    let name = value.get("ChannelName")?.as_str()?;
    let key = format!("InputDataConfig.{name}");
    let source = value.pointer("/DataSource/S3DataSource");
    let Some(url) = source.and_then(|it| it.get("S3Uri")?.as_str()) else {
        draft.refuse(
            &key,
            "names no S3Uri; give its files as data.train or data.validation by --set",
        );
        return None;
    };
    let given = |key: &str| source.and_then(|it| it.get(key)).map(shown).unwrap_or_default();
    if given("S3DataType") == "ManifestFile" || given("S3DataType") == "AugmentedManifestFile" {
        draft.refuse(&key, "is a manifest, which is not read; give its files by --set");
    }
    if given("S3DataDistributionType") == "ShardedByS3Key" {
        draft.note(
            &key,
            "ShardedByS3Key: all hosts read all files, and each trains on its share of the rows",
        );
    }
    if value.get("ShuffleConfig").is_some_and(|it| !it.is_null()) {
        draft.note(
            &key,
            "ShuffleConfig: rows are drawn in a new order each epoch, by train.data_seed",
        );
    }
    let ending = ending(value.get("ContentType"));
    Some(Channel { name: name.to_owned(), places: vec![place(url)], ending })
}

fn place(text: &str) -> String {
    text.trim_start_matches("file://").trim_end_matches('/').to_owned()
}

fn ending(content: Option<&Value>) -> Option<String> {
    let content = content.map(shown)?;
    let kind = content.split(';').next().unwrap_or_default();
    CONTENT.iter().find(|(known, _)| *known == kind).map(|(_, ending)| (*ending).to_owned())
}
