//! The error of a run for each of the trainer, in the words of the job file.

use traind_job_file::Optim;
use traind_loader::Error as LoaderError;
use traind_trainer::{Division, Error};

use super::RunError;

impl From<Error> for RunError {
    fn from(error: Error) -> RunError {
        match error {
            Error::Model(error) => RunError::Model(error),
            Error::Device(error) => RunError::Device(error),
            Error::TooManyParts { layers, stages, interleave } => {
                too_many_parts(layers, stages, interleave)
            }
            Error::WholeParameters { optimizer, division } => {
                whole_parameters(&optimizer, division)
            }
            Error::MissingDevices { found, cores } => RunError::MissingDevices { found, cores },
            Error::InexactIntegers { platform } => RunError::Field {
                name: "resources.platform",
                value: platform,
                problem: "computes 32-bit integers inexactly, on which random numbers depend: \
                          update neuronx-cc to 2.25 or newer"
                    .to_owned(),
            },
            Error::OldStablehlo { ref platform, .. } => RunError::Field {
                name: "resources.platform",
                value: platform.clone(),
                problem: error.to_string(),
            },
            Error::Abandoned => LoaderError::Abandoned.into(),
            Error::NoSuchInput { name, dtype } => RunError::NoSuchInput { name, dtype },
            Error::InputType { name, expected, found } => {
                RunError::InputType { name, expected, found }
            }
            Error::NoCache => RunError::NoCache,
            Error::OtherSlots { folder, problem } => {
                RunError::CheckpointMismatch { path: folder, problem }
            }
            Error::Thread(error) => RunError::Thread(error),
            Error::Panicked(message) => RunError::Panicked(message),
            // The loader makes a run's batches, and the runner all of its inputs.
            error @ (Error::UnknownInput { .. }
            | Error::DuplicateInput { .. }
            | Error::Elements { .. }
            | Error::ArrayShape { .. }
            | Error::InputValue { .. }
            | Error::Rows { .. }
            | Error::RowsPerCore { .. }
            | Error::NoBatch
            | Error::Number { .. }
            | Error::Count { .. }
            | Error::NoSuchSet { .. }
            | Error::LoadState { .. }
            | Error::SaveState { .. }
            | Error::Unsupported { .. }
            | Error::GroupsBesideOwn { .. }) => RunError::Panicked(error.to_string()),
            Error::Observer(error) => match error.downcast::<RunError>() {
                Ok(error) => *error,
                Err(error) => RunError::Panicked(error.to_string()),
            },
        }
    }
}

fn too_many_parts(layers: usize, stages: usize, interleave: usize) -> RunError {
    let count = stages * interleave;
    RunError::Field {
        name: "parallel.pipeline",
        value: stages.to_string(),
        problem: format!(
            "the model has {layers} layers, and {count} parts of it (pipeline x \
             pipeline_interleave) need one each; the largest pipeline is {layers}"
        ),
    }
}

fn whole_parameters(optim: &str, division: Division) -> RunError {
    let (name, value, part, whole) = match division {
        Division::Tensor { cores } => {
            ("parallel.tensor", cores.to_string(), "part", "parallel.tensor: 1 keeps them whole")
        }
        Division::Shards(fsdp) => {
            ("parallel.fsdp", fsdp.to_string(), "shard", "parallel.fsdp: no keeps parameters whole")
        }
    };
    let parts = Optim::AdamwTorch;
    let problem = format!(
        "train.optim: {optim} reads whole parameters, of which each core would have a {part}; \
         {parts} reads {part}s, or {whole}"
    );
    RunError::Field { name, value, problem }
}

#[cfg(test)]
mod tests {
    use traind_proto::reasons;

    use super::*;
    use traind_trainer::state::Fsdp;

    fn failure(error: Error) -> (String, Option<String>, String) {
        let failure = RunError::from(error).failure();
        (failure.reason, failure.field, failure.message)
    }

    #[test]
    fn a_job_with_too_few_devices_fails_with_a_reason_of_its_own() {
        let (reason, field, message) = failure(Error::MissingDevices { found: 1, cores: 2 });
        assert_eq!((reason.as_str(), field), (reasons::DEVICE_NOT_FOUND, None));
        assert!(message.ends_with("1 of 2"), "{message}");
    }

    #[test]
    fn settings_that_do_not_fit_are_those_of_the_job_file() {
        let optimizer = "adafactor".to_owned();
        let tensor = Division::Tensor { cores: 2 };
        let errors = [
            (Error::TooManyParts { layers: 2, stages: 3, interleave: 1 }, "parallel.pipeline"),
            (
                Error::WholeParameters { optimizer: optimizer.clone(), division: tensor },
                "parallel.tensor",
            ),
            (
                Error::WholeParameters { optimizer, division: Division::Shards(Fsdp::FullShard) },
                "parallel.fsdp",
            ),
            (Error::InexactIntegers { platform: "neuron".to_owned() }, "resources.platform"),
            (
                Error::OldStablehlo { platform: "neuron".to_owned(), newest: [0, 20, 1] },
                "resources.platform",
            ),
        ];
        for (error, expect) in errors {
            let (reason, field, message) = failure(error);
            assert_eq!(
                (reason.as_str(), field.as_deref()),
                (reasons::JOB_FILE_INVALID, Some(expect))
            );
            // A number is a value, and no name.
            let is_number = matches!(expect, "parallel.pipeline" | "parallel.tensor");
            let verb = if is_number { "is" } else { "names" };
            assert!(message.starts_with(&format!("{expect} of the job file {verb} ")), "{message}");
        }
    }

    /// An observer is the run's own, so its error is what the run fails with.
    #[test]
    fn the_error_of_an_observer_is_that_of_the_run() {
        let error = Error::of_observer(RunError::OnlyInBucket { url: "s3://a".to_owned() });
        assert!(matches!(RunError::from(error), RunError::OnlyInBucket { .. }));
        let error = RunError::from(Error::of_observer("the disk is full"));
        assert!(error.to_string().contains("the disk is full"), "{error}");
    }
}
