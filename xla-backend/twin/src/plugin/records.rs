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
    key_value_store: [*mut c_void; 4],
    pub client: *mut c_void,
}

/// A subject alone.
#[repr(C)]
pub(super) struct Subject {
    head: Head,
    subject: *mut c_void,
}

impl Subject {
    pub(super) fn of(subject: *mut c_void) -> Subject {
        Subject { head: [size_of::<Subject>(), 0], subject }
    }
}

/// A subject, then a text or a list with its size.
#[repr(C)]
pub(super) struct SubjectText {
    head: Head,
    pub subject: *mut c_void,
    pub text: *const c_char,
    pub size: usize,
}

impl SubjectText {
    pub(super) fn of(subject: *mut c_void) -> SubjectText {
        let head = [size_of::<SubjectText>(), 0];
        SubjectText { head, subject, text: std::ptr::null(), size: 0 }
    }
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
        // The size leaves out the bytes that align the record.
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

/// The lists of an execution have an entry for each device.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Execute {
    head: Head,
    pub executable: *mut c_void,
    pub options: *const c_void,
    pub arguments: *const *const *mut c_void,
    pub devices: usize,
    /// Arguments of each device.
    pub count: usize,
    pub outputs: *const *mut *mut c_void,
    pub events: *mut *mut c_void,
    device: *mut c_void,
}

/// A layout, in which another structure begins.
#[repr(C)]
pub(super) struct Layout {
    head: Head,
    pub tiled: Head,
}

/// A copy of a buffer to the host. Without `data`, it is asked for the size.
#[repr(C)]
pub(super) struct ToHost {
    head: Head,
    buffer: *mut c_void,
    pub layout: *mut c_void,
    pub data: *mut c_void,
    pub size: usize,
    pub event: *mut c_void,
}

impl ToHost {
    pub(super) fn of(buffer: *mut c_void) -> ToHost {
        let null = std::ptr::null_mut();
        let head = [size_of::<ToHost>(), 0];
        ToHost { head, buffer, layout: null, data: null, size: 0, event: null }
    }
}

/// A buffer made of the host's memory, which is copied during the call.
#[repr(C)]
pub(super) struct FromHost {
    head: Head,
    client: *mut c_void,
    data: *const c_void,
    kind: c_int,
    dims: *const i64,
    rank: usize,
    strides: *const i64,
    stride_count: usize,
    semantics: c_int,
    device: *mut c_void,
    memory: *mut c_void,
    layout: *mut c_void,
    pub done: *mut c_void,
    pub buffer: *mut c_void,
}

/// The type and the dimensions of a buffer.
pub(super) struct BufferShape {
    pub kind: c_int,
    pub dims: *const i64,
    pub rank: usize,
}

impl FromHost {
    pub(super) fn of(
        client: *mut c_void,
        device: *mut c_void,
        data: *const c_void,
        shape: BufferShape,
    ) -> FromHost {
        let BufferShape { kind, dims, rank } = shape;
        let null = std::ptr::null_mut();
        FromHost {
            head: [size_of::<FromHost>(), 0],
            client,
            data,
            kind,
            dims,
            rank,
            strides: std::ptr::null(),
            stride_count: 0,
            semantics: 0,
            device,
            memory: null,
            layout: null,
            done: null,
            buffer: null,
        }
    }
}

/// The bytes of an executable, which live until `deleter` takes `owner`.
#[repr(C)]
pub(super) struct Serialize {
    head: Head,
    executable: *mut c_void,
    pub bytes: *const u8,
    pub size: usize,
    pub owner: *mut c_void,
    pub deleter: Option<unsafe extern "C" fn(*mut c_void)>,
}

#[repr(C)]
pub(super) struct Deserialize {
    head: Head,
    client: *mut c_void,
    pub bytes: *const u8,
    pub size: usize,
    pub executable: *mut c_void,
}

/// A callback for the end of an event's work, which owns the error that it gets.
pub(super) type OnReadyCallback = unsafe extern "C" fn(error: *mut c_void, user: *mut c_void);

#[repr(C)]
pub(super) struct OnReady {
    head: Head,
    pub event: *mut c_void,
    pub callback: Option<OnReadyCallback>,
    pub user: *mut c_void,
}

impl OnReady {
    pub(super) fn of(event: *mut c_void, callback: OnReadyCallback, user: *mut c_void) -> OnReady {
        let head = [size_of::<OnReady>(), 0];
        OnReady { head, event, callback: Some(callback), user }
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
