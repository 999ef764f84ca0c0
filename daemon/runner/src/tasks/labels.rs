//! The class ids of labels.

use traind_job_file::{Data, JobFile};
use traind_loader::{LabelEncoder, LabelKind, LabelTarget};
use traind_models::ModelConfig;

use crate::error::RunResult;

/// Returns how labels get class ids: by the job's `label_map`, by the model's names where it is not
/// trained, or where the data have the same ones, else by the order in the data.
pub(super) fn class_kind(job: &JobFile, config: &ModelConfig) -> RunResult<LabelKind> {
    let num_labels = job.model.num_labels;
    if let Some(map) = &job.data.label_map {
        let entries = label_targets(&map.iter().collect::<Vec<_>>());
        return Ok(LabelKind::Encoder(LabelEncoder::from_map(&entries, num_labels)?));
    }
    let names = config.labels()?;
    if job.train.do_train {
        return Ok(LabelKind::InferNamed { names, num_labels });
    }
    if names_are_numbers(&names) {
        return Ok(LabelKind::Infer { num_labels: Some(names.len() as u32) });
    }
    Ok(LabelKind::Encoder(LabelEncoder::of_model(names)))
}

/// The labels whose rows, or words, are left out.
pub(super) fn ignored(data: &Data) -> Vec<String> {
    data.ignored_labels.iter().map(ToString::to_string).collect()
}

/// Sets the classes in the config. Names that are only numbers do not replace the config's, which stays as it is where
/// it has the classes already.
pub(super) fn configure(config: &mut ModelConfig, encoder: Option<&LabelEncoder>) {
    match encoder {
        Some(encoder) if config.labels().is_ok_and(|names| names == encoder.id2label()) => {}
        Some(encoder) if names_are_numbers(encoder.id2label()) => {
            config.set_num_labels(encoder.id2label().len());
        }
        Some(encoder) => config.set_labels(encoder.id2label()),
        None => {}
    }
}

/// Class names are class ids where all are numbers.
fn label_targets(entries: &[(&str, &str)]) -> Vec<(String, LabelTarget)> {
    let numbered = entries.iter().all(|(_, class)| class.parse::<u32>().is_ok());
    let target = |class: &str| match class.parse() {
        Ok(id) if numbered => LabelTarget::Id(id),
        _ => LabelTarget::Name(class.to_owned()),
    };
    entries.iter().map(|(label, class)| ((*label).to_owned(), target(class))).collect()
}

fn names_are_numbers(names: &[String]) -> bool {
    names.iter().enumerate().all(|(id, name)| *name == format!("LABEL_{id}"))
}
