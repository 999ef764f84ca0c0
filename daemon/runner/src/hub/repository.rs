//! What the hub has under one id: a model or a data set, which have addresses of their own.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Model,
    DataSet,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Repository {
    pub(super) kind: Kind,
    /// `org/name`, or `name` alone.
    pub(super) id: String,
}

impl Repository {
    pub(super) fn model(id: &str) -> Repository {
        Repository { kind: Kind::Model, id: id.to_owned() }
    }

    pub(super) fn data_set(id: &str) -> Repository {
        Repository { kind: Kind::DataSet, id: id.to_owned() }
    }

    /// As `huggingface_hub` calls its folder in the cache.
    pub(super) fn folder_name(&self) -> String {
        format!("{}--{}", self.plural(), self.id.replace('/', "--"))
    }

    /// In the paths of the hub's API.
    pub(super) fn plural(&self) -> &'static str {
        match self.kind {
            Kind::Model => "models",
            Kind::DataSet => "datasets",
        }
    }

    /// Before the id in the paths of its files.
    pub(super) fn prefix(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::Model => &[],
            Kind::DataSet => &["datasets"],
        }
    }
}

/// As people call it.
impl fmt::Display for Repository {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Model => formatter.write_str(&self.id),
            Kind::DataSet => write!(formatter, "{}{}", super::DATA_SETS, self.id),
        }
    }
}
