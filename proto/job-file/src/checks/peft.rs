//! Checks of adapters and of frozen weights against the rest of the job.

use crate::problems::{Problems, join};
use crate::schema::JobFile;
use crate::schema::model::WeightDtype;
use crate::section::given;
use crate::values::TargetModules;

const SECTION: &str = "peft";
/// The keys that an adapter's own config does not replace.
const BESIDE_A_CONFIG: [&str; 3] = ["method", "adapter_name_or_path", "merge"];

pub(crate) fn check(job: &JobFile, problems: &mut Problems) {
    let peft = &job.peft;
    if peft.method.is_none() && !given(peft, SECTION, problems).is_empty() {
        problems.violation("peft.method", "is required in this section, for example `lora`");
    }
    if peft.adapter_name_or_path.is_some() {
        let given = given(peft, SECTION, problems);
        for key in given.iter().filter(|key| !BESIDE_A_CONFIG.contains(&key.as_str())) {
            let description = "is set by the adapter of peft.adapter_name_or_path; leave it out";
            problems.violation(&join(SECTION, key), description);
        }
    }
    if peft.layers_to_transform.is_some() && peft.target_modules == Some(TargetModules::AllLinear) {
        let description = "cannot be combined with `all-linear`: name the modules";
        problems.violation("peft.layers_to_transform", description);
    }
    if peft.trainable_token_indices.is_some() && job.parallel.tensor > 1 {
        let description =
            "cannot be combined with parallel.tensor, which divides the rows of embeddings";
        problems.violation("peft.trainable_token_indices", description);
    }
    if peft.method.is_some() && job.model.from_config && !peft.merge {
        let description =
            "initializes random weights, which adapters alone would not save; set peft.merge";
        problems.violation("model.from_config", description);
    }
    if peft.method.is_some() && !job.train.freeze.is_empty() {
        let description = "has no effect beside adapters, which freeze all other weights";
        problems.violation("train.freeze", description);
    }
    if job.model.dtype != WeightDtype::Float32 && !job.freezes() {
        let description = "applies to weights that are not trained, and all are: set peft or \
            train.freeze; train.bf16 computes in bfloat16";
        problems.violation("model.dtype", description);
    }
}
