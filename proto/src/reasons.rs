//! The machine-readable reasons of errors: `google.rpc.ErrorInfo.reason` of a
//! refused call, and `Failure.reason` of a failed job. Clients match on them,
//! so a reason, once released, keeps its spelling and its meaning.

/// `google.rpc.ErrorInfo.domain` of every reason.
pub const DOMAIN: &str = "traind";

/// Defines each reason as a constant whose value is its name.
macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident)+) => {
        $($(#[doc = $doc])+ pub const $name: &str = stringify!($name);)+

        /// Every reason with its description.
        pub const ALL: &[(&str, &str)] = &[$(($name, concat!($($doc),+))),+];
    };
}

reasons! {
    /// A field of the request has no legal value.
    REQUEST_INVALID
    /// The job file is refused; the field violations say why.
    JOB_FILE_INVALID
    /// No job has this id.
    JOB_NOT_FOUND
    /// The ids of several jobs begin like this.
    JOB_AMBIGUOUS
    /// The job has ended, so there is nothing to cancel.
    JOB_ENDED
    /// A job that has not ended writes the same output folder.
    OUTPUT_DIR_IN_USE
    /// The output folder has files that the job would replace and that it did not write.
    OUTPUT_DIR_OCCUPIED
    /// The request_id belongs to a job made from another job file.
    REQUEST_ID_REUSED
    /// The page token is not one that ListJobs returned.
    PAGE_TOKEN_INVALID
    /// The host has no device of this platform.
    PLATFORM_UNAVAILABLE
    /// The job asks for more cores than the host has.
    CORES_EXCEEDED
    /// The group of the job's user is at one of its quotas; the message says which.
    QUOTA_EXCEEDED
    /// The daemon is stopping and takes no more jobs.
    SHUTTING_DOWN
    /// The caller's role does not allow this.
    PERMISSION_DENIED
    /// The caller did not say who it is in a way that the daemon believes.
    UNAUTHENTICATED
    /// The daemon has as many calls or connections as it takes; `RetryInfo` says when to ask again.
    BUSY
    /// A core of this host has too little memory for the job; the message states what would fit.
    MEMORY_EXCEEDED
    /// The disk has too little room for the job's output.
    DISK_EXCEEDED
    /// The resources of the job cannot be determined; the message says why.
    PLAN_FAILED
    /// No texts can be generated with the job's model; the message says why.
    GENERATION_FAILED
    /// The steps of the job cannot be recorded; the message says why.
    PROFILE_FAILED
    /// No token has this id.
    TOKEN_NOT_FOUND
    /// The daemon serves no web page.
    WEB_DISABLED
    /// The daemon could not read or write its store.
    STORE_FAILED
    /// The run directory could not be made or written.
    RUN_DIRECTORY_FAILED
    /// The platform has no jobs of as many cores.
    CORE_COUNT_INVALID
    /// The runner could not be started.
    RUNNER_START_FAILED
    /// This host cannot hand jobs over to the cluster; the message says what is missing.
    ENGINE_UNAVAILABLE
    /// The cluster refused the job; the message is the cluster's.
    SUBMISSION_REFUSED
    /// The runner ended without saying how; the message names the signal or code.
    RUNNER_DIED
    /// The runner was alive but made no progress; the message names its phase, step and cores.
    RUNNER_HUNG
    /// A host of the job died, did not respond or fell behind; the message names its cores, phase and step.
    HOST_LOST
    /// The hosts of the job did not all reach one another within the time for it, or their launcher's variables
    /// are wrong.
    HOSTS_NOT_MET
    /// The hosts of the job have different job files, data, models or folders.
    HOSTS_DIFFER
    /// The job ran longer than its resources.max_run_seconds.
    MAX_RUN_EXCEEDED
    /// The runner's event log has a frame whose checksum is wrong.
    EVENT_LOG_CORRUPT
    /// No PJRT plugin of the platform is installed.
    PLUGIN_NOT_FOUND
    /// The library is not a PJRT plugin, has an unsupported version, or does not fit the host's driver and settings.
    PLUGIN_INVALID
    /// The plugin has fewer devices than the job was given cores.
    DEVICE_NOT_FOUND
    /// A call of the device failed.
    DEVICE_FAILED
    /// The plugin refused to compile a program.
    COMPILE_FAILED
    /// Device or host memory ran out.
    OUT_OF_MEMORY
    /// The host's memory was full, which other jobs use too, so that its compiler was killed or the runtime got none.
    HOST_MEMORY_FULL
    /// A file does not exist, or no file matches the pattern.
    FILE_NOT_FOUND
    /// A file exists but cannot be read.
    FILE_UNREADABLE
    /// The name of a data file does not end in a known format.
    DATA_FORMAT_UNKNOWN
    /// A data file has no rows.
    DATA_EMPTY
    /// A data file is damaged or not of its format.
    DATA_CORRUPT
    /// A row has too many or too few fields.
    DATA_ROW_INVALID
    /// Text is not valid UTF-8.
    DATA_ENCODING_INVALID
    /// A data file lacks a column that the job file names.
    COLUMN_NOT_FOUND
    /// A column has a type that its use does not allow.
    COLUMN_TYPE_INVALID
    /// A label is outside label_map or num_labels.
    LABEL_INVALID
    /// tokenizer.json is damaged or of a kind that is not supported.
    TOKENIZER_INVALID
    /// The tokenizer has more tokens than the embedding has rows.
    VOCABULARY_TOO_LARGE
    /// config.json is damaged, or a value in it is out of range.
    MODEL_CONFIG_INVALID
    /// No such model family or task is implemented.
    MODEL_UNSUPPORTED
    /// The weights file is damaged.
    WEIGHTS_CORRUPT
    /// A tensor of the weights file has another shape than the model's.
    TENSOR_SHAPE_MISMATCH
    /// The weights lack a tensor that may not be initialized.
    TENSOR_MISSING
    /// The loss or the gradient norm became NaN or infinite.
    LOSS_NOT_FINITE
    /// The output folder could not be written.
    OUTPUT_FAILED
    /// The disk of the output folder has no room for what the job will write.
    DISK_FULL
    /// The bucket of output_dir or checkpoint_dir cannot be used; the message says why.
    BUCKET_FAILED
    /// The model could not be committed to the Hugging Face hub.
    HUB_FAILED
    /// There is no checkpoint to resume from.
    CHECKPOINT_NOT_FOUND
    /// A file of the checkpoint is damaged or missing.
    CHECKPOINT_CORRUPT
    /// The checkpoint is of another model or optimizer.
    CHECKPOINT_MISMATCH
    /// The metric for the best model is not computed.
    METRIC_NOT_FOUND
    /// A defect of traind.
    INTERNAL
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::ALL;

    #[test]
    fn reasons_are_distinct_and_upper_snake_case() {
        let names: BTreeSet<_> = ALL.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), ALL.len());
        for (name, doc) in ALL {
            let upper_snake = |c: char| c.is_ascii_uppercase() || c == '_';
            assert!(name.len() <= 63 && name.chars().all(upper_snake), "{name}");
            assert!(doc.trim().ends_with('.'), "{name}: {doc}");
        }
    }
}
