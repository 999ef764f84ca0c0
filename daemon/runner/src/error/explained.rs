//! The errors of commands, which are explained as the failures of jobs are.

use traind_models::Error as ModelError;
use traind_pjrt::Error as PjrtError;
use traind_proto::error_chain::error_chain;
use traind_trainer::Error as TrainerError;
use traind_xla::Error as XlaError;

use super::{RunError, log};

/// The error with its causes, behind the code, core, meaning and remedy of a device's error. Where that has no code,
/// the line of standard error which has one follows.
pub(crate) fn explained(error: &anyhow::Error) -> String {
    let message = error_chain(error.as_ref());
    match log::explained(&message).filter(|_| is_of_device(error)) {
        Some((meaning, Some(line))) => format!("{meaning}\n{message}\n{line}"),
        Some((meaning, None)) => format!("{meaning}\n{message}"),
        None => message,
    }
}

fn is_of_device(error: &anyhow::Error) -> bool {
    error.is::<XlaError>()
        || error.is::<PjrtError>()
        || error.downcast_ref().is_some_and(RunError::is_of_device)
        || matches!(error.downcast_ref(), Some(ModelError::Xla(_)))
        || matches!(
            error.downcast_ref(),
            Some(TrainerError::Device(_) | TrainerError::Model(ModelError::Xla(_)))
        )
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;
    use traind_pjrt::ErrorCode;

    use super::*;

    fn busy() -> PjrtError {
        let message = "NRT:nrt_allocate_neuron_cores NeuronCore(s) not available - Requested:nc1-nc1 Available:0";
        PjrtError::Plugin {
            call: "PJRT_Client_Create",
            code: ErrorCode::ResourceExhausted,
            message: message.to_owned(),
        }
    }

    #[test]
    fn errors_of_devices_have_code_core_meaning_and_remedy_whatever_wraps_them() {
        let errors: Vec<anyhow::Error> = vec![
            busy().into(),
            XlaError::from(busy()).into(),
            RunError::from(busy()).into(),
            ModelError::from(XlaError::from(busy())).into(),
            RunError::from(ModelError::from(XlaError::from(busy()))).into(),
            TrainerError::from(XlaError::from(busy())).into(),
            Err::<(), _>(busy()).context("open the cores").context("generate").unwrap_err(),
        ];
        for error in errors {
            let text = explained(&error);
            let (first, raw) = text.split_once('\n').unwrap();
            assert!(first.starts_with("NRT 4 (RESOURCE) on nc1-nc1: "), "{text}");
            assert!(first.contains("neuron-ls") && raw.contains("Available:0"), "{text}");
        }
    }

    #[test]
    fn what_is_no_error_of_a_device_has_its_own_words_alone() {
        let error = anyhow::anyhow!("row 3 has the text \"NRT_RESOURCE\"").context("read rows");
        assert_eq!(explained(&error), "read rows: row 3 has the text \"NRT_RESOURCE\"");
    }
}
