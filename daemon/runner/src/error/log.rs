//! The codes that compiler and runtime wrote to the log of the runner, where the plugin's error has none.

use std::sync::{Mutex, PoisonError};

use traind_neuron::{Explanation, LogPlace};

static PLACE: Mutex<Option<LogPlace>> = Mutex::new(None);

/// Leaves out what was written until here: that of earlier attempts, and of programs that try what a core can do.
pub(crate) fn leave_out_earlier_lines() {
    *PLACE.lock().unwrap_or_else(PoisonError::into_inner) = LogPlace::of_stderr();
}

/// Explains the error of a device by its code, or by that of the log: then with the line.
pub(super) fn explained(message: &str) -> Option<(Explanation, Option<String>)> {
    let own = traind_neuron::explain(message);
    if own.as_ref().is_some_and(|it| !it.code.is_empty()) {
        return own.map(|it| (it, None));
    }
    let place = PLACE.lock().unwrap_or_else(PoisonError::into_inner);
    let of_log = place.as_ref().and_then(LogPlace::explained);
    of_log.map(|(meaning, line)| (meaning, Some(line))).or(own.map(|it| (it, None)))
}
