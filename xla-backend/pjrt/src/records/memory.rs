//! The constant properties of a memory, read once when the client starts.
#![allow(unsafe_code)]

use crate::error::{Result, if_implemented};
use crate::ffi::{MemoryDebugStringArgs, MemoryIdArgs, MemoryKindArgs, RawMemory, copy_string};
use crate::handle::Borrowed;

pub(crate) struct MemoryRecord {
    pub(crate) raw: Borrowed<RawMemory>,
    pub(crate) id: i32,
    pub(crate) kind: String,
    pub(crate) debug_string: String,
}

pub(crate) fn read(raw: Borrowed<RawMemory>) -> Result<MemoryRecord> {
    let kind = raw.query::<MemoryKindArgs>()?;
    let debug = if_implemented(raw.query::<MemoryDebugStringArgs>())?;
    // SAFETY: strings come with their length and live as the memory does.
    let (kind, debug) = unsafe {
        (
            copy_string(kind.kind, kind.kind_size),
            debug.map(|debug| copy_string(debug.debug_string, debug.debug_string_size)),
        )
    };
    Ok(MemoryRecord {
        id: raw.query::<MemoryIdArgs>()?.id,
        debug_string: debug.unwrap_or_else(|| kind.clone()),
        kind,
        raw,
    })
}
