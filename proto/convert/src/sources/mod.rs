//! A file for each tool, with the tables of its keys.

mod adapters;
pub(crate) mod axolotl;
pub(crate) mod deepspeed;
mod entries;
pub(crate) mod examples;
pub(crate) mod hub;
pub(crate) mod llama_factory;
pub(crate) mod sagemaker;
mod sentence_transformers;
pub(crate) mod training_arguments;
pub(crate) mod trl;
mod validation;

use serde_json::{Map, Value};

use crate::draft::Draft;
use crate::{Refused, Source};

/// Reads the settings of a tool; `files` returns the text of a file that they refer to.
pub(crate) fn read(
    source: Source,
    settings: &mut Map<String, Value>,
    files: examples::Files,
    draft: &mut Draft,
) -> Result<(), Refused> {
    let ships_files = matches!(source, Source::Axolotl | Source::LlamaFactory);
    deepspeed::resolve(settings, ships_files, files, draft);
    match source {
        Source::TrainingArguments => training_arguments::read(settings, draft),
        Source::Axolotl => axolotl::read(settings, draft),
        Source::LlamaFactory => {
            let info = llama_factory::info(settings, files)?;
            llama_factory::read(settings, info.as_ref(), draft);
        }
        Source::SageMaker => sagemaker::read(settings, draft),
        Source::Trl => trl::read(None, settings, draft),
    }
    Ok(())
}
