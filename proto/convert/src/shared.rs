//! The tables that the estimator in Python reads too: scripts with their arguments, SageMaker's names,
//! instances, and data sets by the names that examples have for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::rule::{Change, Rule, ValueProblem};
use crate::values::{is_off, parse, shown};

const TEXT: &str = include_str!("../../python/src/traind/sagemaker/tables.json");

/// The content of `tables.json`.
pub(crate) static TABLES: LazyLock<Tables> =
    LazyLock::new(|| serde_json::from_str(TEXT).expect("a test reads tables.json"));

/// Keys with their rules, in the shape of a table that is written in code.
pub(crate) type Keys = LazyLock<Vec<(&'static str, Rule)>>;

/// Whether the values of a field are texts, such as names of columns.
pub(crate) fn is_text(path: &str) -> bool {
    TABLES.texts.contains(path)
}

/// Keys of example scripts, hyperparameters and TrainingArguments whose values are texts.
static TEXT_KEYS: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
    let ScriptArguments { model, data, seq2seq_lm, image_classification } = &TABLES.arguments;
    let rules = [model, data, seq2seq_lm, image_classification, &TABLES.hyperparameters];
    let fields = rules.into_iter().flat_map(|rules| &rules.fields);
    let of_fields = fields.filter(|(_, path)| is_text(path)).map(|(key, _)| key.as_str());
    let paths = TABLES.texts.iter().map(String::as_str);
    let of_train = paths.clone().filter_map(|path| path.strip_prefix("train."));
    let own = TABLES.text_arguments.iter().map(String::as_str);
    of_fields.chain(of_train).chain(paths).chain(own).collect()
});

/// A word as the value of a key: `True`, `3`, `5e-5`, else text. So is `007` if the values of the key are texts.
pub(crate) fn parse_of(key: &str, word: &str) -> Value {
    match parse(word) {
        Value::Number(_) | Value::Bool(_) if TEXT_KEYS.contains(key) => word.into(),
        value => value,
    }
}

/// The value of a key that a program may have as text.
pub(crate) fn plain_of(key: &str, value: &Value) -> Value {
    value.as_str().map_or_else(|| value.clone(), |word| parse_of(key, word))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tables {
    /// transformers' example scripts.
    pub(crate) scripts: BTreeMap<String, ExampleScript>,
    /// The model and data arguments of scripts.
    pub(crate) arguments: ScriptArguments,
    /// Names of hyperparameters that scripts of notebooks have, and SageMaker's own.
    pub(crate) hyperparameters: Rules,
    /// Names that TrainingArguments had in earlier versions.
    pub(crate) former: Rules,
    /// Arguments of optimum-neuron's trainers besides TrainingArguments.
    pub(crate) neuron: Rules,
    /// Arguments of SageMaker's estimator.
    pub(crate) estimator: Rules,
    /// Arguments of its `fit`.
    pub(crate) fit: Rules,
    /// Names in the description of a training job.
    pub(crate) description: Rules,
    /// Entries of `distribution`.
    pub(crate) distribution: Distribution,
    /// Parameters of SageMaker's model-parallel library.
    pub(crate) model_parallel: Rules,
    /// Families of instances.
    pub(crate) instances: BTreeMap<String, Instances>,
    /// Names of channels by split.
    pub(crate) channels: BTreeMap<String, Vec<String>>,
    /// Short names of data sets on the hub, with their ids.
    pub(crate) data_sets: BTreeMap<String, String>,
    /// Arguments of scripts whose values are texts, such as names of columns, and that are read by themselves.
    pub(crate) text_arguments: BTreeSet<String>,
    /// Fields of the job file whose values are texts.
    pub(crate) texts: BTreeSet<String>,
    /// GLUE's tasks, with their columns of text and the number of labels.
    pub(crate) glue: BTreeMap<String, (Vec<String>, u32)>,
    /// Columns of source and target of data sets.
    pub(crate) summaries: BTreeMap<String, [String; 2]>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExampleScript {
    /// Task, by its name in the job file; empty for scripts that are not supported.
    #[serde(default)]
    pub(crate) task: String,
    /// Why it cannot be converted.
    pub(crate) unsupported: Option<String>,
    /// The script's own defaults by field, where the job file has others.
    #[serde(default)]
    pub(crate) defaults: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct ScriptArguments {
    pub(crate) model: Rules,
    pub(crate) data: Rules,
    pub(crate) seq2seq_lm: Rules,
    pub(crate) image_classification: Rules,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Distribution {
    /// Entries that start one process a device.
    pub(crate) launchers: Vec<String>,
    /// Keys of such an entry.
    pub(crate) launcher_options: Vec<String>,
    /// Entries of `smdistributed`.
    pub(crate) libraries: Vec<String>,
    /// Keys of such an entry.
    pub(crate) library_options: Vec<String>,
    /// Keys that have no equivalent, with the reason.
    pub(crate) dropped: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Instances {
    pub(crate) platform: String,
    /// Cores by size.
    pub(crate) cores: BTreeMap<String, u32>,
}

/// Keys by what becomes of them.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Rules {
    /// The field with the same value.
    fields: BTreeMap<String, String>,
    /// The field with another value, and the name of the change.
    changed: BTreeMap<String, (String, String)>,
    /// The field and its value where the key is on; nothing where it is off.
    switches: BTreeMap<String, (String, Value)>,
    /// Reason, and the keys that say nothing here.
    dropped: Vec<(String, Vec<String>)>,
    /// The replacement, and the keys that cannot be had.
    refused: Vec<(String, Vec<String>)>,
    /// Keys that are read by themselves.
    own: Vec<String>,
    /// Keys that are passed over.
    silent: Vec<String>,
}

impl Rules {
    /// The keys with their rules.
    pub(crate) fn keys(&'static self) -> Vec<(&'static str, Rule)> {
        let fields = self.fields.iter().map(|(key, path)| (key.as_str(), Rule::Field(path)));
        let changed = self.changed.iter().map(|(key, (path, name))| {
            let change = change(name).expect("a test reads the names of changes");
            (key.as_str(), Rule::Changed(path, change, ""))
        });
        let switches = self.switches.iter();
        let switches =
            switches.map(|(key, (path, value))| (key.as_str(), Rule::Switch(path, value)));
        let of = |rule: fn(&'static str) -> Rule, groups: &'static [(String, Vec<String>)]| {
            let keys = groups.iter().flat_map(|(text, keys)| keys.iter().map(move |k| (k, text)));
            keys.map(move |(key, text)| (key.as_str(), rule(text))).collect::<Vec<_>>()
        };
        let own = self.own.iter().chain(&self.silent).map(|key| (key.as_str(), Rule::Own));
        let dropped = of(Rule::Dropped, &self.dropped);
        let refused = of(Rule::Refused, &self.refused);
        fields.chain(changed).chain(switches).chain(dropped).chain(refused).chain(own).collect()
    }
}

/// A change by its name in `tables.json`.
fn change(name: &str) -> Option<Change> {
    Some(match name {
        "pairs" => pairs,
        "regression" => regression,
        _ => return None,
    })
}

/// `a=1,b=x` as a mapping.
fn pairs(value: &Value) -> Result<Value, ValueProblem> {
    if value.is_object() {
        return Ok(value.clone());
    }
    let text = shown(value);
    let pairs = text.split(',').map(|pair| {
        let not_a_pair = || ValueProblem::NotAPair { pair: pair.to_owned() };
        let (key, value) = pair.split_once('=').ok_or_else(not_a_pair)?;
        Ok((key.trim().to_owned(), parse(value.trim())))
    });
    pairs.collect::<Result<Map<_, _>, ValueProblem>>().map(Value::Object)
}

fn regression(value: &Value) -> Result<Value, ValueProblem> {
    let is_regression = !is_off(value);
    Ok(if is_regression { "regression" } else { "single_label_classification" }.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::is_field;

    fn all() -> [(&'static str, &'static Rules); 11] {
        let tables = &*TABLES;
        [
            ("model", &tables.arguments.model),
            ("data", &tables.arguments.data),
            ("seq2seq-lm", &tables.arguments.seq2seq_lm),
            ("image-classification", &tables.arguments.image_classification),
            ("hyperparameters", &tables.hyperparameters),
            ("former", &tables.former),
            ("neuron", &tables.neuron),
            ("estimator", &tables.estimator),
            ("fit", &tables.fit),
            ("description", &tables.description),
            ("model_parallel", &tables.model_parallel),
        ]
    }

    #[test]
    fn every_key_has_one_rule_and_every_field_is_one() {
        for (table, rules) in all() {
            let mut keys: Vec<&str> = rules.keys().into_iter().map(|(key, _)| key).collect();
            let count = keys.len();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), count, "{table} has a key twice");
            for (key, rule) in rules.keys() {
                let set = match rule {
                    Rule::Field(path) | Rule::Changed(path, ..) | Rule::Switch(path, _) => path,
                    _ => continue,
                };
                assert!(is_field(set), "{table}: {key} is {set}, which is no field");
            }
        }
    }

    #[test]
    fn fields_of_texts_are_texts_in_the_job_file() {
        let fields = traind_job_file::fields().into_iter();
        let texts: BTreeSet<String> =
            fields.filter(|field| field.type_name == "text").map(|field| field.path).collect();
        assert!(TABLES.texts.is_subset(&texts), "{:?}", TABLES.texts.difference(&texts));
        for (table, rules) in all() {
            for path in rules.fields.values().filter(|path| texts.contains(*path)) {
                assert!(TABLES.texts.contains(path), "{table}: {path} is a text");
            }
        }
    }

    #[test]
    fn scripts_have_a_task_or_a_reason() {
        for (name, script) in &TABLES.scripts {
            assert_eq!(script.task.is_empty(), script.unsupported.is_some(), "{name}");
            for path in script.defaults.keys() {
                assert!(is_field(path), "{name}: {path} is no field");
            }
        }
    }

    #[test]
    fn changes_read_values_of_both_kinds() {
        use serde_json::json;
        assert_eq!(pairs(&json!("a=1,b=x")).unwrap(), json!({"a": 1, "b": "x"}));
        assert_eq!(pairs(&json!({"a": 1})).unwrap(), json!({"a": 1}));
        assert!(pairs(&json!("a")).is_err());
        assert_eq!(regression(&json!(true)).unwrap(), "regression");
    }
}
