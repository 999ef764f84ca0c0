//! The program after XLA's optimizations. Plugins give it as a serialized module;
//! the messages here declare only what it takes to list the instructions.
#![allow(unsafe_code)]

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::ffi::{CStruct, ExecutableOptimizedProgramArgs, Program, copy_string};
use crate::program::CompiledProgram;
use prost::Message;

/// A serialized program and what it is serialized as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptimizedProgram {
    /// `hlo_with_config` or `hlo`.
    pub format: String,
    /// The serialized program.
    pub code: Vec<u8>,
}

/// One instruction of an optimized program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// The computation that the instruction belongs to.
    pub computation: String,
    /// The name of its result.
    pub name: String,
    /// The name as XLA writes it: `all-reduce`, `dot`, `fusion` ...
    pub opcode: String,
    /// Bytes of the result, or of all results.
    pub result_bytes: u64,
    /// The function that a custom call calls; empty for other instructions.
    pub custom_call_target: String,
    /// The replicas that exchange data with each other in a collective, group by group; empty for other instructions.
    pub replica_groups: Vec<Vec<i64>>,
}

impl CompiledProgram {
    /// The program after the compiler's passes.
    pub fn optimized_program(&self) -> Result<OptimizedProgram> {
        let mut program = Program::new();
        // SAFETY: without a buffer the call only reports the size.
        unsafe { self.fill_program(&mut program) }?;
        let mut code = vec![0; program.code_size];
        program.code = code.as_mut_ptr().cast();
        // SAFETY: the buffer has the size that was asked for.
        unsafe { self.fill_program(&mut program) }?;
        // SAFETY: the plugin set the format, which lives as the executable does.
        let format = unsafe { copy_string(program.format, program.format_size) };
        Ok(OptimizedProgram { format, code })
    }

    /// # Safety
    /// `program.code` is null or writable for `program.code_size` bytes.
    unsafe fn fill_program(&self, program: &mut Program) -> Result<()> {
        let mut args = ExecutableOptimizedProgramArgs {
            executable: self.handle.as_ptr(),
            program,
            ..ExecutableOptimizedProgramArgs::new()
        };
        // SAFETY: the executable is live, and the caller answers for the program.
        unsafe { self.handle.plugin().call(&mut args) }
    }
}

impl OptimizedProgram {
    /// All instructions, computation by computation, each in the order in which the compiler scheduled its
    /// instructions, if it did.
    pub fn instructions(&self) -> Result<Vec<Instruction>> {
        let HloModuleProto { computations, schedule } = self.module()?;
        let mut schedule = schedule.unwrap_or_default().sequences;
        let instructions = computations.into_iter().flat_map(|computation| {
            let order = schedule.remove(&computation.id).unwrap_or_default();
            let name = computation.name.clone();
            computation.in_order(&order).into_iter().map(move |it| it.read(name.clone()))
        });
        Ok(instructions.collect())
    }

    fn module(&self) -> Result<HloModuleProto> {
        let refuse = |reason| Error::ProgramFormat { format: self.format.clone(), reason };
        let decoded = match self.format.as_str() {
            "hlo" => HloModuleProto::decode(self.code.as_slice()),
            "hlo_with_config" => HloModuleProtoWithConfig::decode(self.code.as_slice())
                .map(|module| module.hlo_module.unwrap_or_default()),
            _ => {
                return Err(refuse("the format is not one of hlo, hlo_with_config".to_owned()));
            }
        };
        decoded.map_err(|error| refuse(error.to_string()))
    }
}

#[derive(Clone, PartialEq, Message)]
struct HloModuleProtoWithConfig {
    #[prost(message, optional, tag = "1")]
    hlo_module: Option<HloModuleProto>,
}

#[derive(Clone, PartialEq, Message)]
struct HloModuleProto {
    #[prost(message, repeated, tag = "3")]
    computations: Vec<HloComputationProto>,
    #[prost(message, optional, tag = "7")]
    schedule: Option<HloScheduleProto>,
}

/// The schedules of computations by the numbers of these.
#[derive(Clone, PartialEq, Message)]
struct HloScheduleProto {
    #[prost(map = "int64, message", tag = "1")]
    sequences: HashMap<i64, InstructionSequenceProto>,
}

#[derive(Clone, PartialEq, Message)]
struct InstructionSequenceProto {
    #[prost(int64, repeated, tag = "1")]
    instruction_ids: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct HloComputationProto {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    instructions: Vec<HloInstructionProto>,
    #[prost(int64, tag = "5")]
    id: i64,
}

impl HloComputationProto {
    /// The instructions in the order of a schedule; those that it lacks come first.
    fn in_order(self, schedule: &InstructionSequenceProto) -> Vec<HloInstructionProto> {
        let places = schedule.instruction_ids.iter().zip(1..);
        let places: HashMap<i64, usize> = places.map(|(id, place)| (*id, place)).collect();
        let mut instructions = self.instructions;
        instructions.sort_by_key(|it| places.get(&it.id).copied().unwrap_or(0));
        instructions
    }
}

#[derive(Clone, PartialEq, Message)]
struct HloInstructionProto {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    opcode: String,
    #[prost(message, optional, tag = "3")]
    shape: Option<ShapeProto>,
    #[prost(string, tag = "28")]
    custom_call_target: String,
    #[prost(int64, tag = "35")]
    id: i64,
    /// The device of older plugins, which have no list of devices.
    #[prost(message, repeated, tag = "49")]
    replica_groups: Vec<ReplicaGroupProto>,
    #[prost(message, optional, tag = "87")]
    device_list: Option<DeviceListProto>,
}

impl HloInstructionProto {
    fn read(self, computation: String) -> Instruction {
        let listed = self.device_list.map(|list| list.replica_groups);
        let groups = listed.filter(|groups| !groups.is_empty()).unwrap_or(self.replica_groups);
        Instruction {
            computation,
            name: self.name,
            opcode: self.opcode,
            result_bytes: self.shape.map_or(0, |shape| shape.bytes()),
            custom_call_target: self.custom_call_target,
            replica_groups: groups.into_iter().map(|group| group.replica_ids).collect(),
        }
    }
}

#[derive(Clone, PartialEq, Message)]
struct ReplicaGroupProto {
    #[prost(int64, repeated, tag = "1")]
    replica_ids: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct DeviceListProto {
    #[prost(message, repeated, tag = "1")]
    replica_groups: Vec<ReplicaGroupProto>,
}

#[derive(Clone, PartialEq, Message)]
struct ShapeProto {
    #[prost(int32, tag = "2")]
    element_type: i32,
    #[prost(int64, repeated, tag = "3")]
    dimensions: Vec<i64>,
    #[prost(message, repeated, tag = "4")]
    tuple_shapes: Vec<ShapeProto>,
}

impl ShapeProto {
    fn bytes(&self) -> u64 {
        let parts: u64 = self.tuple_shapes.iter().map(ShapeProto::bytes).sum();
        parts + self.element_bytes() * self.dimensions.iter().map(|&it| it as u64).product::<u64>()
    }

    /// The bytes of an element by XLA's `PrimitiveType`; 0 for tuples, and for types that we do not use.
    fn element_bytes(&self) -> u64 {
        match self.element_type {
            1 | 2 | 6 => 1,
            3 | 7 | 10 | 16 => 2,
            4 | 8 | 11 => 4,
            5 | 9 | 12 => 8,
            _ => 0,
        }
    }
}
