//! Checks of an execution's arguments. The plugin believes the counts it is given
//! and follows any pointer; and see [`Executable::execute`] for what happens when
//! it refuses one device of several.

use crate::buffer::Buffer;
use crate::dtype::Shape;
use crate::error::{Error, Result};
use crate::ffi::{Args, LoadedExecutableExecuteArgs};
use crate::program::Executable;
use std::borrow::Borrow;
use std::sync::Arc;

pub(crate) fn check<L, B>(executable: &Executable, arguments: &[L]) -> Result<()>
where
    L: AsRef<[B]>,
    B: Borrow<Buffer>,
{
    check_counts(executable, arguments)?;
    for (device, list) in arguments.iter().enumerate() {
        for (argument, buffer) in list.as_ref().iter().enumerate() {
            check_home(executable, device, argument, buffer.borrow())?;
        }
    }
    if executable.num_devices() > 1 {
        if let Some(cause) = executable.client.launch_failure.get() {
            return Err(Error::LaunchFailedBefore { cause: cause.clone() });
        }
        check_shapes(arguments)?;
        find_deleted(arguments).map_or(Ok(()), Err)?;
    }
    Ok(())
}

fn check_counts<L, B>(executable: &Executable, arguments: &[L]) -> Result<()>
where
    L: AsRef<[B]>,
{
    let (expected, found) = (executable.num_devices(), arguments.len());
    if expected != found {
        return Err(Error::DeviceCount { expected, found });
    }
    let counts = arguments.iter().map(|list| list.as_ref().len());
    let expected = counts.clone().next().unwrap_or(0);
    match counts.enumerate().find(|&(_, found)| found != expected) {
        Some((device, found)) => Err(Error::ArgumentCount { device, expected, found }),
        None => Ok(()),
    }
}

/// The buffer must be of the executable's client, and on the right device.
fn check_home(
    executable: &Executable,
    device: usize,
    argument: usize,
    buffer: &Buffer,
) -> Result<()> {
    if !Arc::ptr_eq(&buffer.client, &executable.client) {
        let call = LoadedExecutableExecuteArgs::CALL;
        return Err(Error::ForeignHandle { call, what: "argument" });
    }
    if buffer.device_index != executable.device_indices[device] {
        let found = buffer.device().debug_string().to_owned();
        return Err(Error::ArgumentDevice { device, argument, found });
    }
    Ok(())
}

/// Every device must get what device 0 gets.
fn check_shapes<L, B>(arguments: &[L]) -> Result<()>
where
    L: AsRef<[B]>,
    B: Borrow<Buffer>,
{
    let Some((first, others)) = arguments.split_first() else { return Ok(()) };
    for (device, list) in (1..).zip(others) {
        let pairs = first.as_ref().iter().zip(list.as_ref());
        for (argument, (expected, found)) in pairs.enumerate() {
            let (expected, found) = (&expected.borrow().shape, &found.borrow().shape);
            // Outputs of one executable share their shapes.
            if !Arc::ptr_eq(expected, found) && expected != found {
                let (expected, found) = (Shape::clone(expected), Shape::clone(found));
                return Err(Error::ArgumentShape { device, argument, expected, found });
            }
        }
    }
    Ok(())
}

/// The first argument that was deleted or donated before, as an error.
pub(crate) fn find_deleted<L, B>(arguments: &[L]) -> Option<Error>
where
    L: AsRef<[B]>,
    B: Borrow<Buffer>,
{
    arguments.iter().enumerate().find_map(|(device, list)| {
        let mut buffers = list.as_ref().iter();
        let argument = buffers.position(|it| it.borrow().is_deleted().unwrap_or(false))?;
        Some(Error::ArgumentDeleted { device, argument })
    })
}
