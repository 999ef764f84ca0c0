//! Programs that Neuron's compiler refuses. A compile takes minutes, and one with the same key would fail again: it is
//! refused at once, until compiler, flags or program change.

use traind_neuron::LogPlace;
use traind_pjrt::Error as PjrtError;

use super::ExecutableCache;
use crate::error::{Error, Result};
use crate::stablehlo::Program;
use crate::verify::neuron::locate;

/// The call whose errors are those of compilers.
const COMPILE: &str = "PJRT_Client_Compile";

/// Compiles the program of `key`, unless a compiler refused it before.
pub(super) fn compile_once<T>(
    cache: Option<&ExecutableCache>,
    key: &str,
    compile: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let Some(cache) = cache else { return compile() };
    if let Some((text, path)) = cache.refusal(key) {
        let message = format!(
            "{text}\nThe compiler was not started: it refused the same program before. Remove {} to try again",
            path.display()
        );
        let code = traind_pjrt::ErrorCode::Internal;
        return Err(PjrtError::Plugin { call: COMPILE, code, message }.into());
    }
    let compiled = compile();
    if let Err(Error::Pjrt(PjrtError::Plugin { call: COMPILE, message, .. })) = &compiled
        && traind_neuron::explain(message).is_some_and(|it| it.is_refusal())
    {
        // Without the file, the program is compiled once more.
        let _ = cache.put_refusal(key, message);
    }
    compiled
}

/// The error with the layer and the operation at fault, where the program shows them. `kind`: that of its cores; `log`:
/// where the compiler began to write.
pub(super) fn located(
    error: Error,
    program: &Program,
    kind: &str,
    log: Option<&LogPlace>,
) -> Error {
    let Some(core) = traind_neuron::core_kind(kind) else { return error };
    match error {
        Error::Pjrt(PjrtError::Plugin { call: COMPILE, code, message }) => {
            let message = with_code(message, log);
            let place = locate(&message, &program.text, &program.origins, core);
            let place = place.map(|place| format!("\nAt fault is {place}")).unwrap_or_default();
            PjrtError::Plugin { call: COMPILE, code, message: message + &place }.into()
        }
        other => other,
    }
}

/// The message of a compiler, with the line of the log that has the code if the message has none.
fn with_code(message: String, log: Option<&LogPlace>) -> String {
    if traind_neuron::explain(&message).is_some_and(|it| !it.code.is_empty()) {
        return message;
    }
    match log.and_then(LogPlace::explained) {
        Some((_, line)) => format!("{message}\n{line}"),
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(message: &str) -> Error {
        let code = traind_pjrt::ErrorCode::Internal;
        PjrtError::Plugin { call: COMPILE, code, message: message.to_owned() }.into()
    }

    #[test]
    fn a_program_is_refused_once_and_then_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ExecutableCache::open(folder.path()).unwrap();
        let compile = |key: &str, outcome: Result<u32>| {
            let mut ran = false;
            let compiled = compile_once(Some(&cache), key, || {
                ran = true;
                outcome
            });
            (compiled.map_err(|error| error.to_string()), ran)
        };
        let refused = || Err(failed("[ERROR] [NCC_EOOM002] Maximum peak HBM usage of 18.12GB"));
        assert!(compile("a", refused()).1);
        let (error, ran) = compile("a", Ok(1));
        let error = error.unwrap_err();
        assert!(!ran && error.contains("NCC_EOOM002") && error.contains(".refused"), "{error}");
        // Other flags, another compiler or another program have another key.
        assert_eq!(compile("b", Ok(1)), (Ok(1), true));
        // A compiler that was killed, or busy cores, say nothing about the program.
        for passing in [
            "RunNeuronCCImpl: neuronx-cc returned non-zero exit status -9",
            "NeuronCore(s) not available - Requested:nc1-nc1 Available:0",
            "[NLA001] Unhandled exception: No space left on device",
        ] {
            assert!(compile("c", Err(failed(passing))).1);
            assert_eq!(compile("c", Ok(1)), (Ok(1), true), "{passing}");
        }
    }
}
