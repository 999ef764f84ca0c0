//! Kernels of ours inside a plugin's programs: a custom call whose code is a Rust
//! function over slices in host memory.
//!
//! The plugin calls [`handler`] with a frame of pointers. What reaches the kernel
//! is checked first: types, sizes, alignment, and that no slice which is written
//! to shares memory with another.
#![allow(unsafe_code)]

mod deferred;
mod timing;

use crate::dtype::{DType, Element};
use crate::ffi::custom_call::{
    ATTRIBUTE_SCALAR, BUFFER, CallFrame, DEVICE_ORDINAL_GET_SIZE, ERROR_CREATE_SIZE,
    ERROR_INTERNAL, ERROR_INVALID_ARGUMENT, EXTENSION_METADATA, FFI_API_VERSION, FFI_BF16,
    FFI_FUTURES_VERSION, FfiApi, FfiBuffer, FfiDeviceOrdinalGetArgs, FfiError, FfiErrorCreateArgs,
    FfiList, FfiRunIdGetArgs, FfiScalar, MetadataExtension, STAGE_EXECUTE,
};
use std::any::Any;
use std::ffi::{CString, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

pub(crate) use deferred::deferred_handler;
pub use deferred::{DeferredCall, DeferredKernel, UpdatedArrays, WrittenArrays};
use timing::Timer;
pub use timing::{CALL_NUMBER, KernelTime, KernelTimes, RecordedTimes};

/// The code of a custom call. Programs name it by [`Kernel::NAME`]; it may run on
/// several threads at once.
pub trait Kernel: 'static {
    /// The name under which programs call the kernel.
    const NAME: &'static str;

    /// Computes the results from the operands. A panic becomes an error of the execution.
    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError>;
}

/// Why a kernel refuses a call, which fails the execution with this text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KernelError(pub String);

impl<T: Into<String>> From<T> for KernelError {
    fn from(text: T) -> KernelError {
        KernelError(text.into())
    }
}

/// One call: operands, results and attributes.
pub struct KernelCall<'a> {
    frame: &'a CallFrame,
    /// A bit for each result that was handed out.
    taken: u64,
}

/// An operand or a result, checked.
#[derive(Clone, Copy)]
struct Array<'a> {
    data: *mut u8,
    bytes: usize,
    dims: &'a [i64],
}

impl Array<'_> {
    fn overlaps(&self, other: &Array<'_>) -> bool {
        let (start, end) = (self.data as usize, self.data as usize + self.bytes);
        let (other_start, other_end) = (other.data as usize, other.data as usize + other.bytes);
        self.bytes > 0 && other.bytes > 0 && start < other_end && other_start < end
    }
}

impl<'a> KernelCall<'a> {
    /// Returns the number of operands.
    pub fn operand_count(&self) -> usize {
        count(&self.frame.operands)
    }

    /// Returns the number of results.
    pub fn result_count(&self) -> usize {
        count(&self.frame.results)
    }

    /// The elements of an operand, row-major. One that shares its memory with a
    /// result is taken with [`KernelCall::updated`].
    pub fn operand<T: Element>(&self, index: usize) -> Result<&'a [T], KernelError> {
        let operand = self.array(&self.frame.operands, index, T::DTYPE)?;
        for result in 0..self.result_count() {
            if operand.overlaps(&self.any_array(&self.frame.results, result)?) {
                return Err(format!("operand {index} shares memory with result {result}").into());
            }
        }
        // SAFETY: the plugin keeps operands alive and unchanged during the call, `array` has
        // checked type, size and alignment, and no result is in the same memory.
        Ok(unsafe { slice(&operand) })
    }

    /// Returns the dimensions of an operand, which counts from 0.
    pub fn operand_dims(&self, index: usize) -> Result<Vec<usize>, KernelError> {
        Ok(dims(&self.any_array(&self.frame.operands, index)?))
    }

    /// The elements of a result, to be written; what they hold before is unspecified.
    /// Each result can be taken once.
    pub fn result<T: Element>(&mut self, index: usize) -> Result<&'a mut [T], KernelError> {
        let result = self.take::<T>(index)?;
        for operand in 0..self.operand_count() {
            if result.overlaps(&self.any_array(&self.frame.operands, operand)?) {
                return Err(format!("result {index} shares memory with operand {operand}").into());
            }
        }
        // SAFETY: the plugin lets the handler write to results, `array` has checked type, size
        // and alignment, and nothing else of this call is in the same memory.
        Ok(unsafe { slice_mut(&result) })
    }

    /// Returns the dimensions of a result, which counts from 0.
    pub fn result_dims(&self, index: usize) -> Result<Vec<usize>, KernelError> {
        Ok(dims(&self.any_array(&self.frame.results, index)?))
    }

    /// The sizes of all operands and results.
    fn bytes(&self) -> u64 {
        let sizes = |list: &'a FfiList| {
            let arrays = (0..count(list)).filter_map(|index| self.any_array(list, index).ok());
            arrays.map(|array| array.bytes as u64).sum::<u64>()
        };
        sizes(&self.frame.operands) + sizes(&self.frame.results)
    }

    /// A result that starts as a copy of an operand of the same size, or is in its memory.
    pub fn updated<T: Element>(
        &mut self,
        operand: usize,
        result: usize,
    ) -> Result<&'a mut [T], KernelError> {
        let to = self.take::<T>(result)?;
        let from = self.array(&self.frame.operands, operand, T::DTYPE)?;
        if from.bytes != to.bytes {
            return Err(format!("operand {operand} and result {result} differ in size").into());
        }
        for other in (0..self.operand_count()).filter(|&other| other != operand) {
            if to.overlaps(&self.any_array(&self.frame.operands, other)?) {
                return Err(format!("result {result} shares memory with operand {other}").into());
            }
        }
        if from.data != to.data {
            // SAFETY: both are valid for this many bytes. `copy` lets them overlap.
            unsafe { ptr::copy(from.data, to.data, to.bytes) };
        }
        // SAFETY: as in `result`; `operand` refuses the operand where it is in this memory.
        Ok(unsafe { slice_mut(&to) })
    }

    /// The scalar attribute `name`, of exactly the type `T`.
    pub fn attribute<T: Element>(&self, name: &str) -> Result<T, KernelError> {
        let attributes = &self.frame.attributes;
        for index in 0..usize::try_from(attributes.count).unwrap_or(0) {
            // SAFETY: the three lists have `count` entries, each name comes with its length,
            // and an entry of this kind points to a scalar, whose type is checked before
            // it is read.
            unsafe {
                let span = &**attributes.names.add(index);
                let found = std::slice::from_raw_parts(span.data.cast::<u8>(), span.size);
                if found != name.as_bytes() {
                    continue;
                }
                let scalar = (*attributes.items.add(index)).cast::<FfiScalar>();
                if *attributes.kinds.add(index) == ATTRIBUTE_SCALAR
                    && (*scalar).dtype == raw_dtype(T::DTYPE)
                {
                    return Ok((*scalar).value.cast::<T>().read_unaligned());
                }
                return Err(format!("attribute {name} is not a scalar of type {}", T::DTYPE).into());
            }
        }
        Err(format!("there is no attribute {name}").into())
    }

    /// The number of the device, among those of its client, whose program makes the call.
    pub fn device_ordinal(&self) -> Result<usize, KernelError> {
        let api = self.recent_api()?;
        let get = api.device_ordinal_get.ok_or("the plugin does not number devices")?;
        let mut args = FfiDeviceOrdinalGetArgs {
            struct_size: DEVICE_ORDINAL_GET_SIZE,
            extension_start: ptr::null_mut(),
            context: self.frame.context,
            device_ordinal: -1,
        };
        // SAFETY: the entry takes these arguments, with the context of this call.
        let error = unsafe { get(&mut args) };
        match usize::try_from(args.device_ordinal) {
            Ok(ordinal) if error.is_null() => Ok(ordinal),
            _ => Err("the plugin does not know the device of the call".into()),
        }
    }

    /// The number of the execution that makes the call: the same on all its devices, and no other execution's in this
    /// process.
    pub fn run_id(&self) -> Result<i64, KernelError> {
        let api = self.recent_api()?;
        let get = api.run_id_get.ok_or("the plugin does not number executions")?;
        let mut args = FfiRunIdGetArgs {
            struct_size: size_of::<FfiRunIdGetArgs>(),
            extension_start: ptr::null_mut(),
            context: self.frame.context,
            run_id: -1,
        };
        // SAFETY: the entry takes these arguments, with the context of this call.
        let error = unsafe { get(&mut args) };
        if error.is_null() { Ok(args.run_id) } else { Err("the execution has no number".into()) }
    }

    /// The table of a plugin that has all entries which ours declares.
    fn recent_api(&self) -> Result<&'a FfiApi, KernelError> {
        // SAFETY: the frame of an execution has the table, which lives as long as the process.
        let api = unsafe { self.frame.api.as_ref() }.ok_or("the call has no table of functions")?;
        let version = (api.api_version.major_version, api.api_version.minor_version);
        if version.0 == FFI_FUTURES_VERSION.0 && version.1 >= FFI_FUTURES_VERSION.1 {
            return Ok(api);
        }
        Err(format!("the plugin's interface for custom calls is too old: {version:?}").into())
    }

    fn take<T: Element>(&mut self, index: usize) -> Result<Array<'a>, KernelError> {
        let array = self.array(&self.frame.results, index, T::DTYPE)?;
        let bit = u32::try_from(index).ok().and_then(|index| 1u64.checked_shl(index));
        let bit = bit.ok_or("has more results than can be told apart")?;
        if self.taken & bit != 0 {
            return Err(format!("result {index} was taken before").into());
        }
        for other in (0..self.result_count()).filter(|&other| other != index) {
            if array.overlaps(&self.any_array(&self.frame.results, other)?) {
                return Err(format!("results {index} and {other} share memory").into());
            }
        }
        self.taken |= bit;
        Ok(array)
    }

    fn array(&self, list: &FfiList, index: usize, dtype: DType) -> Result<Array<'a>, KernelError> {
        let (array, found) = self.raw_array(list, index)?;
        if found != raw_dtype(dtype) {
            return Err(format!("buffer {index} does not hold {dtype}").into());
        }
        if !(array.data as usize).is_multiple_of(dtype.size_bytes()) {
            return Err(format!("buffer {index} is not aligned").into());
        }
        Ok(array)
    }

    fn any_array(&self, list: &FfiList, index: usize) -> Result<Array<'a>, KernelError> {
        Ok(self.raw_array(list, index)?.0)
    }

    fn raw_array(&self, list: &FfiList, index: usize) -> Result<(Array<'a>, c_int), KernelError> {
        if index >= count(list) {
            return Err(format!("there is no buffer {index}").into());
        }
        // SAFETY: the lists have `count` entries, an entry of this kind points to a buffer, and
        // a buffer has `rank` dimensions. All of it lives as long as the frame.
        let (buffer, dims) = unsafe {
            if *list.kinds.add(index) != BUFFER {
                return Err(format!("argument {index} is not a buffer").into());
            }
            let buffer = &*(*list.items.add(index)).cast::<FfiBuffer>();
            let rank = usize::try_from(buffer.rank).unwrap_or(0);
            let dims: &'a [i64] = match rank {
                0 => &[],
                rank => std::slice::from_raw_parts(buffer.dims, rank),
            };
            (buffer, dims)
        };
        let dtype = (DType::ALL.iter()).find(|&&dtype| raw_dtype(dtype) == buffer.dtype);
        let unit = dtype.ok_or("has a buffer of an unknown type")?.size_bytes();
        let bytes = dims.iter().try_fold(unit, |bytes, &dim| {
            usize::try_from(dim).ok().and_then(|dim| bytes.checked_mul(dim))
        });
        let bytes = bytes.ok_or("has a buffer of an impossible size")?;
        Ok((Array { data: buffer.data.cast(), bytes, dims }, buffer.dtype))
    }
}

fn count(list: &FfiList) -> usize {
    usize::try_from(list.count).unwrap_or(0)
}

fn dims(array: &Array<'_>) -> Vec<usize> {
    array.dims.iter().map(|&dim| dim as usize).collect()
}

/// XLA's number of a type, which is PJRT's but for those that XLA numbers later; of these a
/// kernel takes bfloat16 alone.
fn raw_dtype(dtype: DType) -> c_int {
    const NO_DTYPE: c_int = -1;
    match dtype {
        DType::Bf16 => FFI_BF16,
        dtype if dtype.to_raw() <= DType::F64.to_raw() => dtype.to_raw(),
        _ => NO_DTYPE,
    }
}

/// # Safety
/// `array` is valid for reads for `'a`, aligned for `T`, and nobody writes to it.
unsafe fn slice<'a, T: Element>(array: &Array<'a>) -> &'a [T] {
    if array.bytes == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(array.data.cast(), array.bytes / size_of::<T>()) }
}

/// # Safety
/// `array` is valid for reads and writes for `'a`, aligned for `T`, and nobody else uses it.
unsafe fn slice_mut<'a, T: Element>(array: &Array<'a>) -> &'a mut [T] {
    if array.bytes == 0 {
        return &mut [];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(array.data.cast(), array.bytes / size_of::<T>()) }
}

/// The function that a plugin calls for `K`.
///
/// # Safety
/// `frame` is one that XLA hands to a handler.
pub(crate) unsafe extern "C" fn handler<K: Kernel>(frame: *mut CallFrame) -> *mut FfiError {
    // SAFETY: the caller's promise.
    unsafe { respond(frame, K::NAME, run::<K>) }
}

fn run<K: Kernel>(frame: &CallFrame) -> Result<(), KernelError> {
    let mut call = KernelCall { frame, taken: 0 };
    let timer = Timer::start(K::NAME, &call);
    let outcome = K::run(&mut call);
    if let Some(timer) = timer {
        timer.end();
    }
    outcome
}

/// Answers XLA; calls `run` if the call is to execute a kernel, and turns its outcome into XLA's.
///
/// # Safety
/// `frame` is one that XLA hands to a handler.
unsafe fn respond(
    frame: *mut CallFrame,
    name: &str,
    run: impl FnOnce(&CallFrame) -> Result<(), KernelError>,
) -> *mut FfiError {
    // SAFETY: XLA keeps the frame, and all that it points to, alive during the call.
    let frame = unsafe { &*frame };
    // SAFETY: as above.
    if unsafe { answer_metadata(frame) } || frame.stage != STAGE_EXECUTE {
        return ptr::null_mut();
    }
    let (code, problem) = match catch_unwind(AssertUnwindSafe(|| run(frame))) {
        Ok(Ok(())) => return ptr::null_mut(),
        Ok(Err(KernelError(problem))) => (ERROR_INVALID_ARGUMENT, problem),
        Err(panic) => (ERROR_INTERNAL, format!("panicked: {}", panic_text(&*panic))),
    };
    // SAFETY: the frame of an execution has the table of functions.
    unsafe { error(frame.api, code, &format!("kernel {name}: {problem}")) }
}

/// Answers a call that only asks which version the handler speaks. XLA does not register a
/// handler that leaves the answer out.
///
/// # Safety
/// The frame's list of extensions is live.
unsafe fn answer_metadata(frame: &CallFrame) -> bool {
    let mut extension = frame.extension_start;
    // SAFETY: the list ends with null; an extension of this kind has the metadata to be
    // filled in.
    unsafe {
        while !extension.is_null() {
            if (*extension).kind == EXTENSION_METADATA {
                let metadata = (*extension.cast::<MetadataExtension>()).metadata;
                ((*metadata).api_version.major_version, (*metadata).api_version.minor_version) =
                    FFI_API_VERSION;
                return true;
            }
            extension = (*extension).next;
        }
    }
    false
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text")
}

/// # Safety
/// `api` is null or XLA's table of functions.
#[expect(clippy::print_stderr, clippy::disallowed_methods, reason = "XLA takes no other answer")]
unsafe fn error(api: *const FfiApi, code: c_int, text: &str) -> *mut FfiError {
    let message = CString::new(text.replace('\0', " ")).unwrap_or_default();
    let mut args = FfiErrorCreateArgs {
        struct_size: ERROR_CREATE_SIZE,
        extension_start: ptr::null_mut(),
        message: message.as_ptr(),
        code,
    };
    // SAFETY: the caller's promise.
    let create = unsafe { api.as_ref() }.and_then(|api| api.error_create);
    match create {
        // SAFETY: the entry takes these arguments and copies the message.
        Some(create) => unsafe { create(&mut args) },
        None => {
            // Wrong results are the only other answer.
            eprintln!("{text}");
            std::process::abort()
        }
    }
}
