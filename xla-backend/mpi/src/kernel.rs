//! The custom call by which a program exchanges data across hosts.

use traind_pjrt::{DType, DeferredCall, DeferredKernel, KernelCall, KernelError};

use crate::abi::{Call, Handle};
use crate::engine::{Exchange, Order};
use crate::error::Error;
use crate::world::World;

/// Operand 0 to result 0, by a collective of the same device of all processes. Further operands are not read: through
/// them a call depends on the one before.
#[derive(Clone, Copy, Debug)]
pub struct HostCollective {
    device: usize,
    collective: Collective,
}

/// The collective of a call. Programs give it in the attribute `collective` as a number, and the reduction
/// in the attribute `reduction`, which a gather has too and does not use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Collective {
    /// Each gets the combination of all, element by element.
    AllReduce(Reduction),
    /// Each gets its part of that.
    ReduceScatter(Reduction),
    /// Each gets the operands of all, one behind the other.
    AllGather,
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

impl Collective {
    /// The numbers of the attributes `collective` and `reduction`.
    pub fn numbers(self) -> [i64; 2] {
        match self {
            Collective::AllReduce(reduction) => [0, reduction as i64],
            Collective::ReduceScatter(reduction) => [1, reduction as i64],
            Collective::AllGather => [2, 0],
        }
    }

    fn of_numbers([collective, reduction]: [i64; 2]) -> Result<Collective, KernelError> {
        let found = Reduction::ALL.into_iter().find(|&it| it as i64 == reduction);
        let reduction = found.ok_or_else(|| format!("there is no reduction {reduction}"))?;
        match collective {
            0 => Ok(Collective::AllReduce(reduction)),
            1 => Ok(Collective::ReduceScatter(reduction)),
            2 => Ok(Collective::AllGather),
            other => Err(format!("there is no collective {other}").into()),
        }
    }

    pub(crate) fn call(self) -> Call {
        match self {
            Collective::AllReduce(reduction) => Call::AllReduce { operation: reduction.handle() },
            Collective::ReduceScatter(reduction) => {
                Call::ReduceScatter { operation: reduction.handle() }
            }
            Collective::AllGather => Call::AllGather,
        }
    }
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

pub(crate) fn refusal(error: Error) -> KernelError {
    KernelError(error.to_string())
}

/// `MPI_BYTE`.
pub(crate) const BYTE: Handle = Handle(0x247);

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
