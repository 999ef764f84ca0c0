//! The custom call of the wrapped plugin by which indices are compared while programs run.

use std::path::Path;

use traind_pjrt::{Kernel, KernelCall, KernelError, Plugin};

use super::behaviour::STARTED;
use super::failures::out_of_bounds;
use crate::indices::{GREATEST, INDICES};

/// The platform of the wrapped plugin.
const PLATFORM: &str = "cpu";

struct Indices;

impl Kernel for Indices {
    const NAME: &'static str = INDICES;

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        let greatest = call.attribute::<i64>(GREATEST)?;
        if !are_inside(call, greatest)? {
            let core = call.device_ordinal()?;
            return Err(STARTED.get().map(|it| out_of_bounds(it, core)).unwrap_or_default().into());
        }
        call.result::<i32>(0)?.fill(0);
        Ok(())
    }
}

/// Whether all indices are from 0 to `greatest`, whatever their type.
fn are_inside(call: &KernelCall<'_>, greatest: i64) -> Result<bool, KernelError> {
    let is_inside = |index: i64| (0..=greatest).contains(&index);
    if let Ok(indices) = call.operand::<i32>(0) {
        return Ok(indices.iter().all(|index| is_inside(i64::from(*index))));
    }
    if let Ok(indices) = call.operand::<u32>(0) {
        return Ok(indices.iter().all(|index| is_inside(i64::from(*index))));
    }
    Ok(call.operand::<i64>(0)?.iter().all(|index| is_inside(*index)))
}

/// Lets programs of the plugin at `path` make that call.
pub(super) fn register(path: &Path) -> Result<(), String> {
    let plugin = Plugin::load(path).map_err(|error| error.to_string())?;
    match plugin.register_kernel::<Indices>(PLATFORM) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("{} takes no custom calls", path.display())),
        Err(error) => Err(error.to_string()),
    }
}
