//! The compiler's statistics of a compiled program.
#![allow(unsafe_code)]

use crate::buffer::{dims_from_raw, dtype_from_raw};
use crate::dtype::Shape;
use crate::error::{Result, if_implemented};
use crate::ffi::{
    ExecutableCodeSizeArgs, ExecutableCostAnalysisArgs, ExecutableFingerprintArgs,
    ExecutableMemoryStatsArgs, ExecutableNameArgs, ExecutableOutputDimensionsArgs,
    ExecutableOutputTypesArgs, copy_slice, copy_string,
};
use crate::program::CompiledProgram;
use crate::value::{self, Attributes};

/// Bytes that the program takes on each of its devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompiledMemoryStats {
    /// The program's code.
    pub generated_code_bytes: i64,
    /// The arguments of a run.
    pub argument_bytes: i64,
    /// The results of a run, those that reuse arguments included.
    pub output_bytes: i64,
    /// Argument bytes that outputs reuse, by donation.
    pub alias_bytes: i64,
    /// The values that only exist during a run.
    pub temp_bytes: i64,
    /// The most bytes at one time of a run.
    pub peak_bytes: i64,
    /// The part of the program's code that is in host memory.
    pub host_generated_code_bytes: i64,
    /// The arguments that are in host memory.
    pub host_argument_bytes: i64,
    /// The results that are in host memory.
    pub host_output_bytes: i64,
    /// The argument bytes in host memory that outputs reuse.
    pub host_alias_bytes: i64,
    /// The values of a run that are in host memory.
    pub host_temp_bytes: i64,
}

impl CompiledProgram {
    /// The module's name.
    pub fn name(&self) -> Result<String> {
        let args = self.handle.query::<ExecutableNameArgs>()?;
        // SAFETY: the string comes with its length and lives as the executable does.
        Ok(unsafe { copy_string(args.executable_name, args.executable_name_size) })
    }

    /// Equal for equal compilations. `None` where the platform has none.
    pub fn fingerprint(&self) -> Result<Option<String>> {
        let args = if_implemented(self.handle.query::<ExecutableFingerprintArgs>())?;
        // SAFETY: the string comes with its length and lives as the executable does.
        Ok(args.map(|args| unsafe {
            copy_string(args.executable_fingerprint, args.executable_fingerprint_size)
        }))
    }

    /// Bytes of machine code; `None` where the platform does not report it.
    pub fn generated_code_bytes(&self) -> Result<Option<i64>> {
        let args = if_implemented(self.handle.query::<ExecutableCodeSizeArgs>())?;
        Ok(args.map(|args| args.size_in_bytes).filter(|&bytes| bytes >= 0))
    }

    /// The compiler's estimates by name, `flops` and `bytes accessed` among them.
    /// `None` where the platform makes none.
    pub fn cost_analysis(&self) -> Result<Option<Attributes>> {
        let args = if_implemented(self.handle.query::<ExecutableCostAnalysisArgs>())?;
        // SAFETY: the list comes with its length and lives as the executable does.
        Ok(args.map(|args| unsafe { value::from_raw_list(args.properties, args.num_properties) }))
    }

    /// The memory that the program takes; `None` where the platform does not report it.
    pub fn compiled_memory_stats(&self) -> Result<Option<CompiledMemoryStats>> {
        let args = if_implemented(self.handle.query::<ExecutableMemoryStatsArgs>())?;
        Ok(args.map(|args| CompiledMemoryStats {
            generated_code_bytes: args.generated_code_size_in_bytes,
            argument_bytes: args.argument_size_in_bytes,
            output_bytes: args.output_size_in_bytes,
            alias_bytes: args.alias_size_in_bytes,
            temp_bytes: args.temp_size_in_bytes,
            peak_bytes: args.peak_memory_in_bytes,
            host_generated_code_bytes: args.host_generated_code_size_in_bytes,
            host_argument_bytes: args.host_argument_size_in_bytes,
            host_output_bytes: args.host_output_size_in_bytes,
            host_alias_bytes: args.host_alias_size_in_bytes,
            host_temp_bytes: args.host_temp_size_in_bytes,
        }))
    }

    /// The shapes of the outputs of one device.
    pub fn output_shapes(&self) -> Result<Vec<Shape>> {
        let types = self.handle.query::<ExecutableOutputTypesArgs>()?;
        let shapes = self.handle.query::<ExecutableOutputDimensionsArgs>()?;
        // SAFETY: lists come with their lengths, and live as the executable does;
        // `dims` is all shapes in a row.
        let (types, ranks, dims) = unsafe {
            let ranks = copy_slice(shapes.dim_sizes, shapes.num_outputs);
            let dims = copy_slice(shapes.dims, ranks.iter().sum());
            (copy_slice(types.output_types, types.num_output_types), ranks, dims)
        };
        let mut rest = dims.as_slice();
        types
            .into_iter()
            .zip(ranks)
            .map(|(raw, rank)| {
                let (dims, tail) = rest.split_at(rank);
                rest = tail;
                Ok(Shape {
                    dtype: dtype_from_raw::<ExecutableOutputTypesArgs>(raw)?,
                    dims: dims_from_raw::<ExecutableOutputDimensionsArgs>(dims)?,
                })
            })
            .collect()
    }
}
