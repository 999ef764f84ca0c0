//! The rule from raw label to class id.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use traind_choices::may_be_no_label;

use super::one_hot::LabelFormat;
use super::raw::RawLabel;
use crate::error::{Error, LabelProblem, Result, remedy_of};
use crate::source::truth_of_text;

/// The most classes: more are taken for a mistake (a wrong column, say) and not for the size of a classifier.
pub(super) const CLASSES_MAX: usize = 1 << 16;

/// The names that an error lists at most.
const NAMES_SHOWN: usize = 20;

/// The right side of a `label_map` entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelTarget {
    /// The name of a class.
    Name(String),
    /// The id of a class.
    Id(u32),
}

/// A fixed rule from raw label to class id, with the name of each id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelEncoder {
    names: Vec<String>,
    rule: Rule,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Rule {
    /// The raw label is the id.
    Integers,
    /// `label_map`: raw labels and their ids.
    Map(Vec<(String, u32)>),
    /// The raw label is the name.
    Names,
    /// Rows have one number a class.
    OneHot,
    /// The raw label is the name, or all labels of the column are ids.
    NamesOrIds,
}

impl LabelEncoder {
    /// Makes an encoder of `label_map`, whose entries all lead to names or all to ids, in the job file's order.
    pub fn from_map(map: &[(String, LabelTarget)], num_labels: Option<u32>) -> Result<Self> {
        let bad = |message: String| Error::BadOption { field: "data.label_map", message };
        let distinct: BTreeSet<&String> = map.iter().map(|(raw, _)| raw).collect();
        if map.is_empty() || distinct.len() < map.len() {
            return Err(bad("must have at least one entry, and each label once".to_owned()));
        }
        let named = map.iter().filter_map(|(raw, target)| match target {
            LabelTarget::Name(name) => Some((raw, name)),
            LabelTarget::Id(_) => None,
        });
        let numbered = map.iter().filter_map(|(raw, target)| match target {
            LabelTarget::Id(id) => Some((raw.clone(), *id)),
            LabelTarget::Name(_) => None,
        });
        let (named, numbered): (Vec<_>, Vec<_>) = (named.collect(), numbered.collect());
        let encoder = match (named.is_empty(), numbered.is_empty()) {
            (false, true) => Self::of_names(&named),
            (true, false) => Self::of_ids(numbered)?,
            _ => return Err(bad("mixes names and ids".to_owned())),
        };
        encoder.widened(num_labels, "data.label_map")
    }

    fn of_names(map: &[(&String, &String)]) -> Self {
        let mut names: Vec<String> = Vec::new();
        let mut entries = Vec::new();
        for (raw, name) in map {
            let id = names.iter().position(|known| known == *name).unwrap_or(names.len());
            if id == names.len() {
                names.push((*name).clone());
            }
            entries.push(((*raw).clone(), id as u32));
        }
        Self { names, rule: Rule::Map(entries) }
    }

    /// An id that one raw label leads to takes its name.
    fn of_ids(entries: Vec<(String, u32)>) -> Result<Self> {
        let largest = entries.iter().map(|(_, id)| *id).max().unwrap_or(0);
        if largest as usize >= CLASSES_MAX {
            let message = format!("id {largest} is too large");
            return Err(Error::BadOption { field: "data.label_map", message });
        }
        let name = |id: u32| {
            let mut of_id = entries.iter().filter(|(_, other)| *other == id);
            match (of_id.next(), of_id.next()) {
                (Some((raw, _)), None) => raw.clone(),
                _ => default_name(id),
            }
        };
        Ok(Self { names: (0..=largest).map(name).collect(), rule: Rule::Map(entries) })
    }

    /// The rule for labels without a map. `class_names` are those that files have for numbers.
    pub(super) fn infer<'raw>(
        labels: impl Iterator<Item = &'raw RawLabel> + Clone,
        class_names: &[String],
        num_labels: Option<u32>,
    ) -> Self {
        let is_noted = |label: &RawLabel| {
            label.integer().is_some() || class_names.contains(&label.to_string())
        };
        if !class_names.is_empty() && labels.clone().all(is_noted) {
            return Self::of_model(class_names.to_vec());
        }
        let integers: Option<BTreeSet<i64>> = labels.clone().map(RawLabel::integer).collect();
        let Some(integers) = integers else {
            return Self::named(distinct_names(labels));
        };
        match num_labels.or_else(|| count_of_ids(&integers)) {
            Some(count) => {
                Self { names: (0..count).map(default_name).collect(), rule: Rule::Integers }
            }
            None => Self::named(integers.iter().map(i64::to_string)),
        }
    }

    /// The rule for classes that have names already: labels are these, or the numbers of the classes. A
    /// column of both is refused.
    pub fn of_model(names: Vec<String>) -> Self {
        Self { names, rule: Rule::NamesOrIds }
    }

    /// Fails where a column has both names and numbers of classes, by a rule that takes either.
    pub(super) fn check_column(&self, column: &str, labels: &[RawLabel]) -> Result<()> {
        if self.rule != Rule::NamesOrIds {
            return Ok(());
        }
        let lookup = self.lookup();
        let is_name = |label: &&RawLabel| lookup.knows(label);
        let name = labels.iter().find(is_name);
        let number = labels.iter().find(|label| !is_name(label) && label.integer().is_some());
        match (name, number) {
            (Some(name), Some(number)) => Err(Error::NamesAndNumbers {
                column: column.to_owned(),
                name: name.to_string(),
                number: number.to_string(),
            }),
            _ => Ok(()),
        }
    }

    /// The rule for one number a class, with `names` of the first classes.
    pub(super) fn one_hot(names: &[String], classes: usize) -> Result<Self> {
        let encoder = Self { names: names.to_vec(), rule: Rule::OneHot };
        if classes > CLASSES_MAX {
            let message = format!("lists of {classes} numbers are too long");
            return Err(Error::BadOption { field: "data.label", message });
        }
        encoder.widened(Some(classes as u32), "model.num_labels")
    }

    /// The meaning of lists of labels by this rule.
    pub(super) fn list_format(&self) -> LabelFormat {
        match self.rule {
            Rule::OneHot => LabelFormat::OneHot,
            _ => LabelFormat::Classes,
        }
    }

    /// Takes the ids of a model's classes `model`, if it has all of the names, in whatever case. As in
    /// `run_glue`, names keep the case that they have in the data.
    pub(super) fn ordered_as(self, model: &[String]) -> Self {
        if self.rule == Rule::Integers {
            return if self.names.len() > model.len() { self } else { Self::numbers_of(model) };
        }
        if !matches!(self.rule, Rule::Names | Rule::NamesOrIds) || self.names == model {
            return self;
        }
        let of_model = Self::of_model(model.to_vec());
        let lookup = of_model.lookup();
        let ids: Option<Vec<u32>> = self.names.iter().map(|name| lookup.find(name)).collect();
        let Some(ids) = ids.filter(|ids| ids.iter().collect::<BTreeSet<_>>().len() == ids.len())
        else {
            return self.numbered_as(model);
        };
        let mut names = model.to_vec();
        for (name, id) in self.names.into_iter().zip(ids) {
            names[id as usize] = name;
        }
        Self { names, rule: Rule::Names }
    }

    /// Takes numbers, which need not be consecutive, as the ids of a model's classes, if it has all of them.
    fn numbered_as(self, model: &[String]) -> Self {
        let is_id = |name: &String| name.parse().is_ok_and(|id: usize| id < model.len());
        match self.rule == Rule::Names && self.names.iter().all(is_id) {
            true => Self::numbers_of(model),
            false => self,
        }
    }

    /// The rule for labels that are the ids of a model's classes, which have its names.
    fn numbers_of(model: &[String]) -> Self {
        Self { names: model.to_vec(), rule: Rule::Integers }
    }

    fn named(names: impl IntoIterator<Item = String>) -> Self {
        Self { names: names.into_iter().collect(), rule: Rule::Names }
    }

    /// Adds names up to `num_labels`; fails where there already are more.
    pub(super) fn widened(mut self, num_labels: Option<u32>, field: &'static str) -> Result<Self> {
        let (found, expected) = (self.num_labels(), num_labels.unwrap_or(self.num_labels()));
        if found > expected {
            let names = shown(&self.names);
            let remedy = self.names.iter().find(|name| may_be_no_label(name));
            let remedy = remedy.map(|name| remedy_of(name)).unwrap_or_default();
            let message =
                format!("num_labels is {expected}, but there are {found} labels: {names}{remedy}");
            return Err(Error::BadOption { field, message });
        }
        self.names.extend((found..expected).map(default_name));
        Ok(self)
    }

    /// Whether the labels of rows, and nothing else, define the classes.
    pub(super) fn is_of_data(&self) -> bool {
        self.rule == Rule::Names
    }

    /// The name of each id (`id2label`).
    pub fn id2label(&self) -> &[String] {
        &self.names
    }

    /// How many classes there are.
    pub fn num_labels(&self) -> u32 {
        self.names.len() as u32
    }

    /// The class of a word's further tokens: `I-X` where the word's is `B-X` and there is one.
    pub(super) fn continued(&self, id: i32) -> i32 {
        let inside = self.names.get(id as usize).and_then(|name| name.strip_prefix("B-"));
        let inside = inside.map(|entity| format!("I-{entity}"));
        let inside = self.names.iter().position(|name| Some(name) == inside.as_ref());
        inside.map_or(id, |inside| inside as i32)
    }

    pub(super) fn lookup(&self) -> Lookup<'_> {
        let ids = match &self.rule {
            Rule::Integers | Rule::OneHot => HashMap::new(),
            Rule::Map(entries) => entries.iter().map(|(raw, id)| (raw.as_str(), *id)).collect(),
            Rule::Names | Rule::NamesOrIds => {
                self.names.iter().map(String::as_str).zip(0..).collect()
            }
        };
        let ids_in_any_case = match self.rule {
            Rule::NamesOrIds => ids_in_lower_case(&self.names),
            _ => HashMap::new(),
        };
        Lookup { encoder: self, ids, ids_in_any_case }
    }
}

/// The names in their order. In a column of truth values, each is one class however files write it, and false comes
/// first.
fn distinct_names<'raw>(labels: impl Iterator<Item = &'raw RawLabel>) -> Vec<String> {
    let mut names: Vec<&RawLabel> = labels.collect();
    names.sort_by_cached_key(|label| label.to_string());
    if names.iter().all(|label| label.truth().is_some()) {
        names.sort_by_key(|label| label.truth());
        names.dedup_by_key(|label| label.truth());
    }
    names.dedup();
    names.into_iter().map(RawLabel::to_string).collect()
}

/// The id of each name in lower case that only one name has.
fn ids_in_lower_case(names: &[String]) -> HashMap<String, u32> {
    let mut ids: HashMap<String, Option<u32>> = HashMap::new();
    for (name, id) in names.iter().zip(0..) {
        let is_new = !ids.contains_key(&name.to_lowercase());
        ids.insert(name.to_lowercase(), is_new.then_some(id));
    }
    ids.into_iter().filter_map(|(name, id)| Some((name, id?))).collect()
}

/// An encoder made ready for many labels.
pub(super) struct Lookup<'encoder> {
    encoder: &'encoder LabelEncoder,
    ids: HashMap<&'encoder str, u32>,
    /// The ids of names that a model has, which data often write in another case.
    ids_in_any_case: HashMap<String, u32>,
}

impl Lookup<'_> {
    pub(super) fn id(&self, label: &RawLabel) -> Result<i32, LabelProblem> {
        let integer = label.integer().or_else(|| self.number_of_truth(label));
        let id = match (&self.encoder.rule, integer) {
            (Rule::Integers, _) => self.integer_id(integer.ok_or_else(|| not_a_class(label))?)?,
            (Rule::NamesOrIds, _) => match integer {
                Some(integer) if !self.knows(label) => self.integer_id(integer)?,
                _ => self.text_id(&label.to_string())?,
            },
            // A map may have the text as it stands in the file.
            (_, Some(integer)) if !self.knows(label) => self.text_id(&integer.to_string())?,
            _ => self.text_id(&label.to_string())?,
        };
        Ok(id as i32)
    }

    pub(super) fn knows(&self, label: &RawLabel) -> bool {
        self.find(&label.to_string()).is_some()
    }

    fn find(&self, name: &str) -> Option<u32> {
        let exact = self.ids.get(name);
        let found = exact.or_else(|| self.ids_in_any_case.get(&name.to_lowercase())).copied();
        found.or_else(|| self.id_of_truth(name))
    }

    /// The id of the truth value that a name is, where a class is the same in another spelling.
    fn id_of_truth(&self, name: &str) -> Option<u32> {
        let truth = truth_of_text(name)?;
        let ids = self.ids.iter().filter(|(known, _)| truth_of_text(known) == Some(truth));
        ids.map(|(_, id)| *id).min()
    }

    /// The number of the truth value that a text is, where classes are numbers, as those of booleans are.
    fn number_of_truth(&self, label: &RawLabel) -> Option<i64> {
        let number = label.truth()?;
        let is_class = match self.encoder.rule {
            Rule::Integers | Rule::NamesOrIds => true,
            _ => self.ids.contains_key(number.to_string().as_str()),
        };
        (is_class && !self.knows(label)).then_some(number)
    }

    /// Whether the name of a class counts, and not its number or its truth.
    pub(super) fn takes_name(&self, name: &RawLabel) -> bool {
        matches!(self.encoder.rule, Rule::Names) || self.knows(name)
    }

    /// Whether a name is that of a class.
    pub(super) fn knows_any(&self, names: &[String]) -> bool {
        names.iter().any(|name| self.find(name).is_some())
    }

    /// The problem of a name that is none of a class's.
    pub(super) fn unknown_class(&self, class: &RawLabel) -> LabelProblem {
        let class = class.to_string();
        match (&self.encoder.rule, self.text_id(&class)) {
            (Rule::Map(_), Err(problem)) => problem,
            _ => LabelProblem::UnknownClass { class, known: shown(&self.encoder.names) },
        }
    }

    fn integer_id(&self, label: i64) -> Result<u32, LabelProblem> {
        let num_labels = self.encoder.num_labels();
        let id = u32::try_from(label).ok().filter(|&id| id < num_labels);
        let problem = match label < 0 {
            true => LabelProblem::Negative { label },
            false => LabelProblem::OutOfRange { label, num_labels },
        };
        id.ok_or(problem)
    }

    fn text_id(&self, label: &str) -> Result<u32, LabelProblem> {
        let problem = || match &self.encoder.rule {
            Rule::Map(entries) => LabelProblem::NotInMap {
                label: label.to_owned(),
                known: shown(entries.iter().map(|(raw, _)| raw)),
            },
            Rule::NamesOrIds => {
                let known = shown(&self.encoder.names);
                LabelProblem::NotOfModel { label: label.to_owned(), known }
            }
            Rule::Names | Rule::Integers | Rule::OneHot => {
                LabelProblem::Unseen { label: label.to_owned(), known: shown(&self.encoder.names) }
            }
        };
        self.find(label).ok_or_else(problem)
    }
}

fn not_a_class(label: &RawLabel) -> LabelProblem {
    LabelProblem::NotAClass { found: format!("{:?}", label.to_string()) }
}

/// How many classes integers number that are ids: 0 and those that follow, without a gap.
fn count_of_ids(integers: &BTreeSet<i64>) -> Option<u32> {
    let (first, last) = (*integers.first()?, *integers.last()?);
    // One of two classes may be missing.
    let count = (integers.len() as u32).max(2);
    (first >= 0 && last < i64::from(count)).then_some(count)
}

/// The name transformers gives a label that has none.
fn default_name(id: u32) -> String {
    format!("LABEL_{id}")
}

fn shown<'name>(names: impl IntoIterator<Item = &'name String>) -> String {
    let mut names = names.into_iter();
    let first: Vec<&str> = names.by_ref().take(NAMES_SHOWN).map(String::as_str).collect();
    match names.count() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}
