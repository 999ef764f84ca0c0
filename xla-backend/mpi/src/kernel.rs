//! The custom call by which a program reduces across hosts.

use traind_pjrt::{DType, DeferredCall, DeferredKernel, KernelCall, KernelError};

use crate::abi::Handle;
use crate::engine::{Exchange, Order};
use crate::error::Error;
use crate::world::World;

/// Operand 0 to result 0, combined element by element with those of the same device of all other
/// processes. Further operands are not read: through them a call depends on the one before.
#[derive(Clone, Copy, Debug)]
pub struct AllReduce {
    device: usize,
    reduction: Reduction,
}

/// The combination of values, by the number that programs give in the attribute `reduction`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i64)]
pub enum Reduction {
    Sum = 0,
    Min = 1,
    Max = 2,
}

impl Reduction {
    const ALL: [Reduction; 3] = [Reduction::Sum, Reduction::Min, Reduction::Max];

    /// `MPI_SUM`, `MPI_MIN`, `MPI_MAX`.
    pub(crate) fn handle(self) -> Handle {
        Handle(0x21 + self as usize)
    }
}

impl DeferredKernel for AllReduce {
    const NAME: &'static str = "traind.mpi_all_reduce";

    fn of_call(call: &KernelCall<'_>) -> Result<AllReduce, KernelError> {
        let number = call.attribute::<i64>("reduction")?;
        let reduction = Reduction::ALL.into_iter().find(|&it| it as i64 == number);
        let reduction = reduction.ok_or_else(|| format!("there is no reduction {number}"))?;
        let (device, world) = (call.device_ordinal()?, current()?);
        if device < world.devices() {
            return Ok(AllReduce { device, reduction });
        }
        Err(refusal(Error::Device { device, devices: world.devices() }))
    }

    fn start(self, call: DeferredCall) {
        let AllReduce { device, reduction } = self;
        // An order that cannot be given drops the call, which fails the execution.
        let _ = World::current()
            .and_then(|world| world.order(Order::Exchange(Exchange { device, reduction, call })));
    }
}

fn current() -> Result<&'static World, KernelError> {
    World::current().map_err(refusal)
}

pub(crate) fn refusal(error: Error) -> KernelError {
    KernelError(error.to_string())
}

/// `MPI_FLOAT` and so on, for the types that MPI adds.
pub(crate) fn datatype(dtype: DType) -> Option<Handle> {
    Some(Handle(match dtype {
        DType::F32 => 0x210,
        DType::F64 => 0x214,
        DType::S32 => 0x250,
        DType::U32 => 0x251,
        DType::S64 => 0x258,
        _ => return None,
    }))
}
