//! LLaMA-Factory's `dataset` and `eval_dataset`: names in `dataset_info.json`, or files.

use serde_json::{Map, Value, json};

use super::published;
use crate::draft::Draft;
use crate::rule::unknown;
use crate::sources::entries::{self, Entry, Split};
use crate::sources::hub;
use crate::values::{is_off, shown};

/// The default of `dataset_dir`.
const FOLDER: &str = "data";
const REMOTE: &str = "REMOTE:";
/// The kind of rows that a stage trains on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Texts,
    Conversations,
    Pairs,
    /// Conversations whose last answers are good or bad.
    Answers,
}

/// Where entries are looked up.
pub(super) struct Catalog<'a> {
    /// The user's `dataset_info.json`, where it was found.
    pub(super) info: Option<&'a Map<String, Value>>,
    /// `dataset_dir`.
    pub(super) folder: String,
}

impl<'a> Catalog<'a> {
    pub(super) fn new(settings: &Map<String, Value>, info: Option<&'a Map<String, Value>>) -> Self {
        let folder = settings.get("dataset_dir").filter(|value| !is_off(value));
        Self { info, folder: folder.map_or(FOLDER.to_owned(), shown) }
    }

    fn entry(&self, name: &str) -> Option<Map<String, Value>> {
        let own = self.info.and_then(|info| info.get(name)?.as_object().cloned());
        own.or_else(|| published::entry(name))
    }

    /// The path of a file of the folder.
    fn path(&self, file: &str) -> String {
        match self.folder.strip_prefix(REMOTE) {
            Some(id) => format!("hf://datasets/{id}/{file}"),
            None => format!("{}/{file}", self.folder.trim_end_matches('/')),
        }
    }
}

/// The data sets of both keys.
pub(super) fn read(
    stage: Stage,
    settings: &Map<String, Value>,
    catalog: &Catalog<'_>,
    draft: &mut Draft,
) {
    let mut splits = Vec::new();
    for (key, path) in [("dataset", "data.train"), ("eval_dataset", "data.validation")] {
        let Some(value) = settings.get(key).filter(|value| !is_off(value)) else { continue };
        let is_given = draft.get(path).is_some();
        let names: Vec<String> = match value {
            Value::Array(names) => names.iter().map(shown).collect(),
            other => shown(other).split(',').map(|name| name.trim().to_owned()).collect(),
        };
        let weights = weights(settings, names.len());
        let mut entries = Vec::new();
        for (place, name) in names.iter().enumerate() {
            // Files that the caller gives need no entry.
            if is_given && catalog.entry(name).is_none() {
                continue;
            }
            let Some(mut entry) = entry(stage, key, path, name, catalog, draft) else { continue };
            if let Some(weights) = weights.as_ref().filter(|_| key == "dataset") {
                entry.settings.insert("weight".to_owned(), weights[place].clone());
            }
            entries.push(entry);
        }
        splits.push(Split { path, key, entries, is_given });
    }
    entries::write(splits, draft);
}

/// The probabilities of `interleave_probs`.
fn weights(settings: &Map<String, Value>, count: usize) -> Option<Vec<Value>> {
    let given = settings.get("interleave_probs").filter(|value| !is_off(value))?;
    let weights: Vec<Value> = match given {
        Value::Array(weights) => weights.clone(),
        other => shown(other).split(',').map(|text| crate::values::parse(text.trim())).collect(),
    };
    (weights.len() == count && count > 1).then_some(weights)
}

fn entry(
    stage: Stage,
    key: &str,
    path: &str,
    name: &str,
    catalog: &Catalog<'_>,
    draft: &mut Draft,
) -> Option<Entry> {
    let is_path = hub::is_file(name) || name.contains('/');
    let found = match catalog.entry(name) {
        Some(found) => found,
        None if is_path => return Some(of_path(stage, name)),
        None => {
            let text = format!(
                "`{name}` is an entry of dataset_info.json, which is not in {}; give its file or hub \
                 id by --set {path}=…",
                catalog.folder
            );
            draft.refuse(key, text);
            return None;
        }
    };
    let made = check_keys(&found).and_then(|()| {
        let place = place(&found, catalog).ok_or(NO_PLACE)?;
        Ok(Entry { paths: vec![place], settings: layout(stage, &found)? })
    });
    made.map_err(|problem| draft.refuse(key, format!("`{name}` {problem}"))).ok()
}

/// A file without an entry has rows in the usual columns.
fn of_path(stage: Stage, path: &str) -> Entry {
    let settings = match stage {
        Stage::Texts => Map::from_iter([("format".to_owned(), json!("completion"))]),
        Stage::Conversations | Stage::Pairs | Stage::Answers => {
            Map::from_iter([("format".to_owned(), json!("alpaca"))])
        }
    };
    Entry { paths: vec![path.to_owned()], settings }
}

/// Keys of an entry that are read.
const KNOWN: [&str; 13] = [
    "hf_hub_url",
    "ms_hub_url",
    "om_hub_url",
    "script_url",
    "cloud_file_name",
    "file_name",
    "formatting",
    "ranking",
    "subset",
    "split",
    "folder",
    "columns",
    "tags",
];
const FORMATTINGS: [&str; 3] = ["alpaca", "sharegpt", "openai"];
const NO_PLACE: &str =
    "names neither file_name, cloud_file_name nor hf_hub_url; add one of them to its entry";

/// Reports a key that would be lost.
fn check_keys(entry: &Map<String, Value>) -> Result<(), String> {
    if entry.get("num_samples").is_some_and(|value| !is_off(value)) {
        return Err(
            "takes rows at random (num_samples); set max_samples for the first rows, and leave \
            num_samples out"
                .to_owned(),
        );
    }
    let found = entry.keys().find(|key| !KNOWN.contains(&key.as_str()) && *key != "num_samples");
    found.map_or(Ok(()), |key| {
        let problem = unknown(key, KNOWN, "remove it, if the rows do not need it");
        Err(format!("has the key {key}, which {problem}"))
    })
}

fn place(entry: &Map<String, Value>, catalog: &Catalog<'_>) -> Option<String> {
    let given = |key: &str| entry.get(key).filter(|value| !is_off(value)).map(shown);
    if let Some(id) = given("hf_hub_url").or_else(|| given("ms_hub_url")) {
        return Some(match given("folder") {
            Some(folder) => format!("hf://datasets/{id}/{folder}/*"),
            None => id,
        });
    }
    given("cloud_file_name").or_else(|| given("file_name").map(|file| catalog.path(&file)))
}

/// The layout of an entry's rows, with the settings that are its own.
fn layout(stage: Stage, entry: &Map<String, Value>) -> Result<Map<String, Value>, String> {
    let columns = entry.get("columns").and_then(Value::as_object);
    let has = |name: &str| columns.is_some_and(|columns| columns.contains_key(name));
    if ["images", "videos", "audios"].into_iter().any(has) {
        return Err("has pictures, sound or films, which conversations do not have here".to_owned());
    }
    if entry.contains_key("script_url") {
        return Err("is read by a script, and no code of data sets is run".to_owned());
    }
    check_stage(stage, entry, has("kto_tag"))?;
    let formatting = entry.get("formatting").filter(|value| !is_off(value)).map(shown);
    if let Some(other) = formatting.as_deref().filter(|it| !FORMATTINGS.contains(it)) {
        return Err(format!(
            "has the formatting {other}, which is not known here; use one of {}",
            FORMATTINGS.join(", ")
        ));
    }
    let mut settings = match (stage, formatting.as_deref()) {
        (Stage::Texts, _) => texts(columns),
        (_, Some("sharegpt")) => messages("sharegpt", entry, columns),
        (_, Some("openai")) => messages("messages", entry, columns),
        _ => instructions(columns),
    };
    if let Some(split) = entry.get("split").filter(|split| *split != "train") {
        settings.insert("split".to_owned(), split.clone());
    }
    if let Some(subset) = entry.get("subset").filter(|value| !is_off(value)) {
        settings.insert("dataset_config_name".to_owned(), subset.clone());
    }
    let renamed =
        [("chosen", "chosen"), ("rejected", "rejected"), ("tools", "tools"), ("kto_tag", "label")];
    for (name, usual) in renamed {
        let column = columns.and_then(|columns| columns.get(name)).map(shown);
        if let Some(column) = column.filter(|column| column != usual) {
            rename(&mut settings, &column, usual);
        }
    }
    Ok(settings)
}

/// Refuses rows that a stage does not train on.
fn check_stage(stage: Stage, entry: &Map<String, Value>, has_tag: bool) -> Result<(), String> {
    let ranks = entry.get("ranking").is_some_and(|value| !is_off(value));
    let problem = match (stage, ranks) {
        (Stage::Answers, false) if has_tag => return Ok(()),
        (_, false) if has_tag => {
            "has answers that are good or bad by themselves, which `stage: kto` trains on"
        }
        (Stage::Answers, false) => "has no column that says which answers are good (kto_tag)",
        (Stage::Pairs, false) => "has no pairs of answers (ranking)",
        (Stage::Conversations | Stage::Texts | Stage::Answers, true) => {
            "has pairs of answers, which `stage: dpo` trains on"
        }
        _ => return Ok(()),
    };
    Err(problem.to_owned())
}

/// The columns of instructions; those that an entry with columns does not name are not read.
fn instructions(columns: Option<&Map<String, Value>>) -> Map<String, Value> {
    let column = |name: &str, usual: Option<&str>| match columns {
        Some(columns) => columns.get(name).cloned().unwrap_or(Value::Null),
        None => usual.map_or(Value::Null, Value::from),
    };
    let mut fields = Map::new();
    for (field, name, usual) in [
        ("instruction", "prompt", Some("instruction")),
        ("input", "query", Some("input")),
        ("output", "response", Some("output")),
        ("history", "history", None),
        ("system", "system", None),
    ] {
        let value = column(name, usual);
        let is_required = ["instruction", "output"].contains(&field);
        let is_usual = value == field || (is_required && value.is_null());
        if !is_usual {
            fields.insert(field.to_owned(), value);
        }
    }
    Map::from_iter([
        ("format".to_owned(), json!("alpaca")),
        ("fields".to_owned(), Value::Object(fields)),
    ])
}

fn messages(
    format: &str,
    entry: &Map<String, Value>,
    columns: Option<&Map<String, Value>>,
) -> Map<String, Value> {
    let column = |name: &str| columns.and_then(|columns| columns.get(name)).cloned();
    let mut settings = Map::from_iter([("format".to_owned(), json!(format))]);
    let messages = column("messages").map_or("conversations".to_owned(), |name| shown(&name));
    settings.insert("messages".to_owned(), messages.into());
    let system = column("system").unwrap_or(Value::Null);
    settings.insert("fields".to_owned(), json!({"system": system}));
    let tags = entry.get("tags").and_then(Value::as_object);
    let tag = |name: &str, usual: &str| match tags {
        Some(tags) => tags.get(name).map(shown),
        None => Some(usual.to_owned()),
    };
    let names = [("role", tag("role_tag", "from")), ("content", tag("content_tag", "value"))];
    let names = names.into_iter().filter_map(|(to, from)| Some((to.to_owned(), from?.into())));
    settings.insert("message_property_mappings".to_owned(), Value::Object(names.collect()));
    let mut roles = Map::new();
    for (role, name, usual) in [
        ("user", "user_tag", "human"),
        ("assistant", "assistant_tag", "gpt"),
        ("observation", "observation_tag", "observation"),
        ("function", "function_tag", "function_call"),
        ("system", "system_tag", "system"),
    ] {
        if let Some(name) = tag(name, usual) {
            roles.insert(role.to_owned(), json!([name]));
        }
    }
    settings.insert("roles".to_owned(), Value::Object(roles));
    settings
}

/// Plain texts are in the column of prompts.
fn texts(columns: Option<&Map<String, Value>>) -> Map<String, Value> {
    let column = columns.and_then(|columns| columns.get("prompt"));
    let column = column.map_or("instruction".to_owned(), shown);
    let mut settings = Map::from_iter([("format".to_owned(), json!("completion"))]);
    if column != "text" {
        rename(&mut settings, &column, "text");
    }
    settings
}

/// Renames a column of an entry.
fn rename(settings: &mut Map<String, Value>, from: &str, to: &str) {
    let columns = settings.entry("columns").or_insert_with(|| json!({"rename": {}}));
    columns["rename"][from] = to.into();
}
