//! The arguments of those entries that the twin looks into, by the header 0.81 of the C API.

use std::ffi::{c_char, c_int, c_void};

/// The head of every argument.
type Head = [usize; 2];

#[repr(C)]
pub(super) struct OfError {
    head: Head,
    pub error: *const c_void,
    /// The message and its size; the code in the first of them.
    pub text: *const c_char,
    pub size: usize,
}

#[repr(C)]
pub(super) struct ErrorCode {
    head: Head,
    pub error: *const c_void,
    pub code: c_int,
}

/// An option of a client.
#[repr(C)]
pub(super) struct NamedValue {
    pub head: Head,
    pub name: *const c_char,
    pub name_size: usize,
    pub kind: c_int,
    pub value: i64,
    pub value_size: usize,
}

#[repr(C)]
pub(super) struct ClientCreate {
    head: Head,
    pub options: *const NamedValue,
    pub count: usize,
}

/// A subject, then a text or a list with its size.
#[repr(C)]
pub(super) struct SubjectText {
    head: Head,
    pub subject: *mut c_void,
    pub text: *const c_char,
    pub size: usize,
}

#[repr(C)]
pub(super) struct Memories {
    head: Head,
    pub device: *mut c_void,
    pub memories: *const *mut c_void,
    pub count: usize,
}

#[repr(C)]
pub(super) struct SubjectPointer {
    pub head: Head,
    pub subject: *mut c_void,
    pub result: *mut c_void,
}

impl SubjectPointer {
    pub(super) fn of(subject: *mut c_void) -> SubjectPointer {
        let head = [size_of::<SubjectPointer>(), 0];
        SubjectPointer { head, subject, result: std::ptr::null_mut() }
    }
}

#[repr(C)]
pub(super) struct SubjectNumber {
    head: Head,
    pub subject: *mut c_void,
    pub number: c_int,
}

impl SubjectNumber {
    pub(super) fn of(subject: *mut c_void) -> SubjectNumber {
        // Without the bytes that align it.
        let size = std::mem::offset_of!(SubjectNumber, number) + size_of::<c_int>();
        SubjectNumber { head: [size, 0], subject, number: 0 }
    }
}

/// A subject and a list of pointers with its size.
#[repr(C)]
pub(super) struct SubjectList {
    head: Head,
    subject: *mut c_void,
    pub items: *const *mut c_void,
    pub count: usize,
}

impl SubjectList {
    pub(super) fn of(subject: *mut c_void) -> SubjectList {
        let head = [size_of::<SubjectList>(), 0];
        SubjectList { head, subject, items: std::ptr::null(), count: 0 }
    }
}

#[repr(C)]
pub(super) struct MemoryStats {
    head: Head,
    pub device: *mut c_void,
    pub in_use: i64,
    before: [i64; 6],
    pub limit: i64,
    pub has_limit: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Program {
    head: Head,
    pub code: *const u8,
    pub size: usize,
    format: *const c_char,
    format_size: usize,
}

#[repr(C)]
pub(super) struct Compile {
    head: Head,
    client: *mut c_void,
    pub program: *const Program,
}
