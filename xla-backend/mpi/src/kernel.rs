//! The custom call by which a program exchanges data across hosts.

use traind_pjrt::{DeferredCall, DeferredKernel, KernelCall, KernelError};

use crate::collective::Collective;
use crate::engine::{Exchange, Order};
use crate::error::{Error, refusal};
use crate::world::World;

/// Operand 0 to result 0, by a collective of the same device of all processes. Further operands are not read: through
/// them a call depends on the one before.
#[derive(Clone, Copy, Debug)]
pub struct HostCollective {
    device: usize,
    collective: Collective,
}

impl DeferredKernel for HostCollective {
    const NAME: &'static str = "traind.mpi_collective";

    fn of_call(call: &KernelCall<'_>) -> Result<HostCollective, KernelError> {
        let number = |attribute| call.attribute::<i64>(attribute);
        let collective = Collective::of_numbers([number("collective")?, number("reduction")?])?;
        let (device, world) = (call.device_ordinal()?, current()?);
        if device < world.devices() {
            return Ok(HostCollective { device, collective });
        }
        Err(refusal(Error::Device { device, devices: world.devices() }))
    }

    fn start(self, call: DeferredCall) {
        let HostCollective { device, collective } = self;
        // An order that cannot be given drops the call, which fails the execution.
        let _ = World::current()
            .and_then(|world| world.order(Order::Exchange(Exchange { device, collective, call })));
    }
}

fn current() -> Result<&'static World, KernelError> {
    World::current().map_err(refusal)
}
