//! The collectives that programs name by numbers, as MPI takes them.

use traind_pjrt::{DType, KernelError};

use crate::abi::{Call, Handle};

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

    pub(crate) fn of_numbers([collective, reduction]: [i64; 2]) -> Result<Collective, KernelError> {
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
