//! Kernels whose results arrive later. The plugin runs other parts of the program meanwhile, and
//! none of its threads waits: a kernel that depends on other processes cannot starve what they
//! depend on.

use super::{Array, KernelCall, KernelError, Timer, raw_dtype, respond, slice, slice_mut};
use crate::dtype::{DType, Element};
use crate::ffi::custom_call::{
    CallFrame, ERROR_INTERNAL, FfiApi, FfiError, FfiFuture, FfiFutureCreateArgs,
    FfiFutureSetAvailableArgs, FfiFutureSetErrorArgs,
};
use std::ffi::c_int;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// The code of a custom call that finishes after it has returned. A value is one call's, made from
/// its attributes.
pub trait DeferredKernel: Sized + 'static {
    /// The name under which programs call the kernel.
    const NAME: &'static str;

    /// Reads the attributes of a call. An error or a panic fails the execution.
    fn of_call(call: &KernelCall<'_>) -> Result<Self, KernelError>;

    /// Begins the call and returns. Another thread may finish it.
    fn start(self, call: DeferredCall);
}

/// A call under way: its operands and results, which exist until it is finished. One that is
/// dropped fails the execution.
pub struct DeferredCall {
    name: &'static str,
    operands: Vec<Buffer>,
    results: Vec<Buffer>,
    api: &'static FfiApi,
    /// Null once the call is finished.
    future: *mut FfiFuture,
    /// Runs where calls are recorded.
    timer: Option<Timer>,
}

/// The elements of a call that updates some operands.
pub struct UpdatedArrays<'a, T> {
    /// The operands that the call changes, in their order.
    pub updated: Vec<&'a mut [T]>,
    /// The other operands, in their order.
    pub read: Vec<&'a [T]>,
}

/// The elements of a call whose results share no memory with operands.
pub struct WrittenArrays<'a, T> {
    /// The results, in their order.
    pub written: Vec<&'a mut [T]>,
    /// Some operands, in their order.
    pub read: Vec<&'a [T]>,
}

/// An operand or a result, checked.
struct Buffer {
    data: *mut u8,
    bytes: usize,
    dtype: c_int,
}

// SAFETY: the plugin keeps operands and results alive and to itself until the future is set, which
// may happen on any thread. The table is read-only.
unsafe impl Send for DeferredCall {}

impl DeferredCall {
    /// Creates the future of a call.
    fn of(call: &KernelCall<'_>, name: &'static str) -> Result<DeferredCall, KernelError> {
        let buffers = |list, count| {
            (0..count).map(|index| Buffer::of(call.raw_array(list, index)?)).collect()
        };
        let operands: Result<Vec<_>, KernelError> =
            buffers(&call.frame.operands, call.operand_count());
        let results: Result<Vec<_>, KernelError> =
            buffers(&call.frame.results, call.result_count());
        let (operands, results) = (operands?, results?);
        check_memory(&operands, &results)?;
        // SAFETY: the table lives as long as the process.
        let api: &'static FfiApi = unsafe { &*ptr::from_ref(call.recent_api()?) };
        let create = api.future_create.ok_or("the plugin waits for each call")?;
        let mut args = FfiFutureCreateArgs {
            struct_size: size_of::<FfiFutureCreateArgs>(),
            extension_start: ptr::null_mut(),
            future: ptr::null_mut(),
        };
        // SAFETY: the entry takes these arguments.
        let error = unsafe { create(&mut args) };
        if !error.is_null() || args.future.is_null() {
            return Err("the plugin creates no future".into());
        }
        let timer = Timer::start(name, call);
        Ok(DeferredCall { name, operands, results, api, future: args.future, timer })
    }

    /// The elements of an operand and of a result, which are to be written.
    pub fn buffers<T: Element>(
        &mut self,
        operand: usize,
        result: usize,
    ) -> Result<(&[T], &mut [T]), KernelError> {
        let from = buffer(&self.operands, operand, T::DTYPE)?;
        let to = buffer(&self.results, result, T::DTYPE)?;
        check_apart((operand, &from), (result, &to))?;
        // SAFETY: the plugin keeps both alive until the call is finished, which takes it by value.
        // Type, size and alignment were checked, and the result shares memory with nothing else.
        Ok(unsafe { (slice(&from), slice_mut(&to)) })
    }

    /// The elements of an operand that the call does not [update](Self::updated_arrays).
    pub fn operand<T: Element>(&self, operand: usize) -> Result<&[T], KernelError> {
        if operand < self.results.len() {
            return Err(format!("operand {operand} is updated").into());
        }
        let from = buffer(&self.operands, operand, T::DTYPE)?;
        // SAFETY: the plugin keeps it alive and unchanged until the call is finished, which takes it by value. Type,
        // size and alignment were checked, and no result is in the memory of an operand of another number.
        Ok(unsafe { slice(&from) })
    }

    /// The elements of all results, which begin as the operands of the same numbers, and of further operands.
    pub fn updated_arrays<T: Element>(
        &mut self,
        read: Range<usize>,
    ) -> Result<UpdatedArrays<'_, T>, KernelError> {
        let count = self.results.len();
        if read.start < count {
            return Err(format!("operand {} is updated", read.start).into());
        }
        let updated = (0..count).map(|index| {
            let from = buffer(&self.operands, index, T::DTYPE)?;
            let to = buffer(&self.results, index, T::DTYPE)?;
            if from.bytes != to.bytes {
                return Err(format!("operand and result {index} differ in size").into());
            }
            if from.data != to.data {
                // SAFETY: both are valid for this many bytes, and apart unless they are the same.
                unsafe { ptr::copy_nonoverlapping(from.data, to.data, to.bytes) };
            }
            // SAFETY: the plugin keeps it alive until the call is finished, which takes it by value. Type, size and
            // alignment were checked, and it shares memory with nothing else that is handed out.
            Ok(unsafe { slice_mut(&to) })
        });
        let updated = updated.collect::<Result<_, KernelError>>()?;
        let read = read.map(|index| {
            let from = buffer(&self.operands, index, T::DTYPE)?;
            // SAFETY: as above; no result is in the memory of an operand of another number.
            Ok(unsafe { slice(&from) })
        });
        Ok(UpdatedArrays { updated, read: read.collect::<Result<_, KernelError>>()? })
    }

    /// The elements of all results, which are to be written, and of some operands.
    pub fn written_arrays<T: Element>(
        &mut self,
        read: Range<usize>,
    ) -> Result<WrittenArrays<'_, T>, KernelError> {
        for (index, (operand, result)) in self.operands.iter().zip(&self.results).enumerate() {
            check_apart((index, &operand.array()), (index, &result.array()))?;
        }
        let written = (0..self.results.len()).map(|index| {
            let to = buffer(&self.results, index, T::DTYPE)?;
            // SAFETY: the plugin keeps it alive until the call is finished, which takes it by value. Type, size and
            // alignment were checked, and it shares memory with nothing else.
            Ok(unsafe { slice_mut(&to) })
        });
        let written = written.collect::<Result<_, KernelError>>()?;
        let read = read.map(|index| {
            let from = buffer(&self.operands, index, T::DTYPE)?;
            // SAFETY: as above.
            Ok(unsafe { slice(&from) })
        });
        Ok(WrittenArrays { written, read: read.collect::<Result<_, KernelError>>()? })
    }

    /// The memory of an operand and of a result of the same type, the latter of `result_bytes`, for code that
    /// exchanges data by pointers. Both are the call's until it is finished or dropped.
    pub fn raw_buffers(
        &mut self,
        operand: usize,
        result: usize,
        result_bytes: usize,
    ) -> Result<(*const u8, *mut u8), KernelError> {
        match (self.operands.get(operand), self.results.get(result)) {
            (Some(from), Some(to)) if (to.bytes, to.dtype) == (result_bytes, from.dtype) => {
                check_apart((operand, &from.array()), (result, &to.array()))?;
                Ok((from.data, to.data))
            }
            _ => Err(format!("result {result} is not of {result_bytes} bytes, or of another type than operand {operand}").into()),
        }
    }

    /// Returns the number of results.
    pub fn result_count(&self) -> usize {
        self.results.len()
    }

    /// The size of an operand; 0 where there is none.
    pub fn operand_bytes(&self, operand: usize) -> usize {
        self.operands.get(operand).map_or(0, |operand| operand.bytes)
    }

    /// The type of an operand, if kernels take it.
    pub fn operand_dtype(&self, operand: usize) -> Option<DType> {
        let operand = self.operands.get(operand)?;
        DType::ALL.iter().copied().find(|&dtype| raw_dtype(dtype) == operand.dtype)
    }

    /// Ends the call: the program continues, or fails with the error's text.
    pub fn finish(mut self, outcome: Result<(), KernelError>) {
        if let Some(timer) = self.timer.take() {
            timer.end();
        }
        match outcome {
            Ok(()) => self.succeed(),
            Err(KernelError(problem)) => self.fail(&problem),
        }
    }

    fn succeed(&mut self) {
        let mut args = FfiFutureSetAvailableArgs {
            struct_size: size_of::<FfiFutureSetAvailableArgs>(),
            extension_start: ptr::null_mut(),
            future: std::mem::replace(&mut self.future, ptr::null_mut()),
        };
        if let Some(set) = self.api.future_set_available {
            // SAFETY: the future is ours, and set once.
            unsafe { set(&mut args) };
        }
    }

    fn fail(&mut self, problem: &str) {
        let text = format!("kernel {}: {problem}", self.name);
        // SAFETY: this is XLA's table of functions.
        let error = unsafe { super::error(self.api, ERROR_INTERNAL, &text) };
        let mut args = FfiFutureSetErrorArgs {
            struct_size: size_of::<FfiFutureSetErrorArgs>(),
            extension_start: ptr::null_mut(),
            future: std::mem::replace(&mut self.future, ptr::null_mut()),
            error,
        };
        if let Some(set) = self.api.future_set_error {
            // SAFETY: the future is ours, and set once; the entry takes the error over.
            unsafe { set(&mut args) };
        }
    }
}

impl Drop for DeferredCall {
    fn drop(&mut self) {
        if !self.future.is_null() {
            self.fail("was abandoned");
        }
    }
}

impl Buffer {
    fn of((array, dtype): (Array<'_>, c_int)) -> Result<Buffer, KernelError> {
        Ok(Buffer { data: array.data, bytes: array.bytes, dtype })
    }

    fn array(&self) -> Array<'_> {
        Array { data: self.data, bytes: self.bytes, dims: &[] }
    }

    fn addresses(&self) -> Range<usize> {
        self.data as usize..self.data as usize + self.bytes
    }
}

/// The buffer `index`, if its elements are of `dtype`.
fn buffer<'a>(list: &'a [Buffer], index: usize, dtype: DType) -> Result<Array<'a>, KernelError> {
    let Some(buffer) = list.get(index) else {
        return Err(format!("there is no buffer {index}").into());
    };
    if buffer.dtype != raw_dtype(dtype) {
        return Err(format!("buffer {index} does not hold {dtype}").into());
    }
    if !(buffer.data as usize).is_multiple_of(dtype.size_bytes()) {
        return Err(format!("buffer {index} is not aligned").into());
    }
    Ok(buffer.array())
}

/// Refuses results that share memory with another buffer, but for a result that is in the memory of the operand of the
/// same number.
fn check_memory(operands: &[Buffer], results: &[Buffer]) -> Result<(), KernelError> {
    let addresses = |list: &[Buffer]| -> Vec<(usize, Range<usize>)> {
        let all = list.iter().map(Buffer::addresses).enumerate();
        all.filter(|(_, addresses)| !addresses.is_empty()).collect()
    };
    let mut written = addresses(results);
    written.sort_by_key(|(_, addresses)| addresses.start);
    for pair in written.windows(2) {
        let [(result, before), (other, behind)] = pair else { continue };
        if behind.start < before.end {
            return Err(format!("results {result} and {other} share memory").into());
        }
    }
    for (operand, read) in addresses(operands) {
        let first = written.partition_point(|(_, addresses)| addresses.end <= read.start);
        let shared = written[first..].iter().take_while(|(_, it)| it.start < read.end);
        for (result, addresses) in shared {
            if (*result, addresses) != (operand, &read) {
                return Err(format!("result {result} shares memory with operand {operand}").into());
            }
        }
    }
    Ok(())
}

/// Refuses an operand and a result in the same memory.
fn check_apart(
    (operand, from): (usize, &Array<'_>),
    (result, to): (usize, &Array<'_>),
) -> Result<(), KernelError> {
    if from.overlaps(to) {
        return Err(format!("result {result} shares memory with operand {operand}").into());
    }
    Ok(())
}

/// The function that a plugin calls for `K`.
///
/// # Safety
/// `frame` is one that XLA hands to a handler.
pub(crate) unsafe extern "C" fn deferred_handler<K: DeferredKernel>(
    frame: *mut CallFrame,
) -> *mut FfiError {
    let mut begun = None;
    let begin = |frame: &CallFrame| {
        let call = KernelCall { frame, taken: 0 };
        begun = Some((K::of_call(&call)?, DeferredCall::of(&call, K::NAME)?));
        Ok(())
    };
    // SAFETY: the caller's promise.
    let error = unsafe { respond(frame, K::NAME, begin) };
    let Some((kernel, call)) = begun else { return error };
    // SAFETY: a plugin that creates futures has the field in its frames, and nobody else uses the
    // frame now.
    unsafe { (*frame).future = call.future };
    // A panic drops the call, which fails the execution.
    let _ = catch_unwind(AssertUnwindSafe(|| kernel.start(call)));
    ptr::null_mut()
}
