//! The two kinds of repositories, whose addresses differ.

use std::fmt;

/// The prefix of a data set's address.
pub(crate) const DATA_SETS: &str = "hf://datasets/";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Model,
    DataSet,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    pub kind: Kind,
    /// `org/name`, or `name` alone.
    pub id: String,
}

impl Repository {
    pub(crate) fn model(id: &str) -> Repository {
        Repository { kind: Kind::Model, id: id.to_owned() }
    }

    pub(crate) fn data_set(id: &str) -> Repository {
        Repository { kind: Kind::DataSet, id: id.to_owned() }
    }

    /// The name of its folder in the cache, which is `huggingface_hub`'s.
    pub(crate) fn folder_name(&self) -> String {
        format!("{}--{}", self.plural(), self.id.replace('/', "--"))
    }

    /// The kind in paths of the hub's API.
    pub(crate) fn plural(&self) -> &'static str {
        match self.kind {
            Kind::Model => "models",
            Kind::DataSet => "datasets",
        }
    }

    /// The segments before the id in paths of files.
    pub(crate) fn path_prefix(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::Model => &[],
            Kind::DataSet => &["datasets"],
        }
    }
}

/// The name that a job file uses.
impl fmt::Display for Repository {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Model => formatter.write_str(&self.id),
            Kind::DataSet => write!(formatter, "{DATA_SETS}{}", self.id),
        }
    }
}
