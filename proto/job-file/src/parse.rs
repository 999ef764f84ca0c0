//! Parses a job file's text into a resolved job.

use std::collections::BTreeMap;
use std::path::Path;

use crate::field_type::FieldType;
use crate::node::{Node, Value};
use crate::problems::Problems;
use crate::schema::JobFile;
use crate::schema::train::EvalStrategy;
use crate::violation::{Violation, Warning};
use crate::{aliases, checks, foreign, overrides, paths, schema, supported, training_arguments};

/// A valid job file.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The job, resolved.
    pub job: JobFile,
    /// Warnings for the user.
    pub warnings: Vec<Warning>,
}

impl JobFile {
    /// Parses, validates and resolves a job file. Relative paths are taken from
    /// `base_dir`, which must be absolute. On failure, returns all violations.
    pub fn parse(yaml: &str, base_dir: &Path) -> Result<Parsed, Vec<Violation>> {
        Self::parse_with_overrides(yaml, &BTreeMap::new(), base_dir)
    }

    /// Parses as `parse`, after replacing values by field path: "train.learning_rate" ->
    /// "3e-5", the value being YAML.
    pub fn parse_with_overrides(
        yaml: &str,
        values: &BTreeMap<String, String>,
        base_dir: &Path,
    ) -> Result<Parsed, Vec<Violation>> {
        let mut root = parse_root(yaml).map_err(|violation| vec![violation])?;
        if let Some(tool) = foreign::tool_of_document(&root) {
            return Err(vec![Violation::new("", tool.advice(), root.at)]);
        }
        if let Some(advice) = foreign::advice_on_document(&root) {
            return Err(vec![Violation::new("", advice, root.at)]);
        }
        let bad_overrides = overrides::apply(&mut root, values);
        let mut problems = Problems::of(&root, schema::field_paths);
        for (field, description) in bad_overrides {
            problems.violation(&field, description);
        }
        aliases::apply(&mut root, &mut problems);
        training_arguments::apply(&mut root, &mut problems);
        let mut job = Self::read(&root, "", &mut problems);
        if let Some(job) = &mut job {
            checks::check(job, &mut problems);
            supported::check(job, &mut problems);
            resolve(job, base_dir, &mut problems);
            checks::check_models(job, &mut problems);
            checks::check_data_sets(job, &mut problems);
        }
        match (job, problems.finish()) {
            (Some(job), Ok(warnings)) => Ok(Parsed { job, warnings }),
            (_, Err(violations)) => Err(violations),
            // A value that is not read is always reported.
            (None, Ok(_)) => Err(vec![Violation::new("", "cannot be read", None)]),
        }
    }
}

fn parse_root(yaml: &str) -> Result<Node, Violation> {
    let root = Node::parse(yaml)?;
    match &root.value {
        Value::Map(_) => Ok(root),
        Value::Null => Err(Violation::new("", "is empty", None)),
        Value::Text(text) => Err(Violation::new("", foreign::advice_on_text(text), root.at)),
        other => {
            let found = other.describe();
            let description = format!("must be a mapping of keys to values, not {found}");
            Err(Violation::new("", description, root.at))
        }
    }
}

/// Fills in what other fields decide and makes paths absolute.
fn resolve(job: &mut JobFile, base_dir: &Path, problems: &mut Problems) {
    let classes = job.data.label_map.as_ref().map(|map| map.classes().len());
    let classes = classes.and_then(|count| u32::try_from(count).ok());
    job.model.num_labels = job.model.num_labels.or(classes);
    job.parallel.data = Some(job.data_parallel_size());
    if job.train.eval_strategy == EvalStrategy::Steps {
        job.train.eval_steps = job.train.eval_steps.or(Some(job.train.logging_steps));
    }
    paths::resolve(job, base_dir, problems);
}
