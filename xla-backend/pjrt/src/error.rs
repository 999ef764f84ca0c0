//! The errors of the binding: call, code and argument.

use crate::api_version::ApiVersion;
use crate::dtype::{DType, Shape};
use std::fmt;
use std::path::PathBuf;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// The plugin itself reported an error.
    #[error("{call}: {code}: {message}")]
    Plugin { call: &'static str, code: ErrorCode, message: String },

    /// The plugin's function table has no such entry.
    #[error("{call}: the plugin does not implement it")]
    Unimplemented { call: &'static str },

    /// The plugin broke the API's contract, by a null pointer for example.
    #[error("{call}: the plugin broke the PJRT contract: {what}")]
    Contract { call: &'static str, what: &'static str },

    #[error("PJRT plugin {} does not exist", path.display())]
    PluginNotFound { path: PathBuf },

    #[error("{} cannot be loaded as a library: {reason}", path.display())]
    NotALibrary { path: PathBuf, reason: String },

    #[error("{} is not a PJRT plugin: {reason}", path.display())]
    NotAPlugin { path: PathBuf, reason: &'static str },

    #[error("{} has PJRT API {found}, and this program needs major version {}", path.display(), expected.major)]
    VersionMismatch { path: PathBuf, found: ApiVersion, expected: ApiVersion },

    #[error("compile option {field}: {reason}")]
    CompileOption { field: &'static str, reason: String },

    #[error(
        "execute: the program runs on {expected} devices, and {found} argument lists were given"
    )]
    DeviceCount { expected: usize, found: usize },

    #[error("execute: device 0 got {expected} arguments, and device {device} got {found}")]
    ArgumentCount { device: usize, expected: usize, found: usize },

    /// The argument was deleted or donated to an earlier execution.
    #[error("execute: argument {argument} of device {device} was deleted or donated before")]
    ArgumentDeleted { device: usize, argument: usize },

    /// The buffer was deleted or donated to an execution.
    #[error("{call}: the buffer was deleted or donated before")]
    BufferDeleted { call: &'static str },

    #[error("{call}: the {what} belongs to another client")]
    ForeignHandle { call: &'static str, what: &'static str },

    /// The devices of one execution must agree, or some would wait for the others.
    #[error(
        "execute: argument {argument} is {expected} on device 0, and {found} on device {device}"
    )]
    ArgumentShape { device: usize, argument: usize, expected: Shape, found: Shape },

    #[error("execute: argument {argument} of device {device} is on another device, {found}")]
    ArgumentDevice { device: usize, argument: usize, found: String },

    /// See [`Executable::execute`](crate::Executable::execute).
    #[error(
        "execute: the client starts no more programs of several devices, since one failed to start: {cause}"
    )]
    LaunchFailedBefore { cause: String },

    #[error("{shape} needs {expected} bytes, and the host data has {found}")]
    HostSize { shape: Shape, expected: usize, found: usize },

    #[error("{shape} is larger than memory can be")]
    ShapeTooLarge { shape: Shape },

    #[error("the buffer holds {found}, not {expected}")]
    DTypeMismatch { expected: DType, found: DType },

    #[error("{call}: element type {raw} is not supported")]
    UnknownDType { call: &'static str, raw: i32 },

    #[error("the device has no memory of kind {kind:?}, only {available:?}")]
    NoSuchMemory { kind: String, available: Vec<String> },

    #[error("optimized program in format {format:?} cannot be decoded: {reason}")]
    ProgramFormat { format: String, reason: String },
}

impl Error {
    /// The canonical code nearest to this error.
    pub fn code(&self) -> ErrorCode {
        match self {
            Error::Plugin { code, .. } => *code,
            Error::Unimplemented { .. } | Error::UnknownDType { .. } => ErrorCode::Unimplemented,
            Error::Contract { .. } | Error::ProgramFormat { .. } => ErrorCode::Internal,
            Error::PluginNotFound { .. } | Error::NoSuchMemory { .. } => ErrorCode::NotFound,
            Error::NotALibrary { .. }
            | Error::NotAPlugin { .. }
            | Error::VersionMismatch { .. }
            | Error::ArgumentDeleted { .. }
            | Error::LaunchFailedBefore { .. }
            | Error::BufferDeleted { .. } => ErrorCode::FailedPrecondition,
            Error::CompileOption { .. }
            | Error::DeviceCount { .. }
            | Error::ArgumentCount { .. }
            | Error::ArgumentShape { .. }
            | Error::ArgumentDevice { .. }
            | Error::ForeignHandle { .. }
            | Error::HostSize { .. }
            | Error::ShapeTooLarge { .. }
            | Error::DTypeMismatch { .. } => ErrorCode::InvalidArgument,
        }
    }

    /// The PJRT call that failed, where one did.
    pub fn call(&self) -> Option<&'static str> {
        match self {
            Error::Plugin { call, .. }
            | Error::Unimplemented { call }
            | Error::Contract { call, .. }
            | Error::BufferDeleted { call }
            | Error::ForeignHandle { call, .. }
            | Error::UnknownDType { call, .. } => Some(call),
            _ => None,
        }
    }

    /// Returns whether the plugin lacks this function, as opposed to a failure in it.
    pub fn is_unimplemented(&self) -> bool {
        self.code() == ErrorCode::Unimplemented
    }
}

/// `None` for what the plugin does not implement; other errors stay errors.
pub(crate) fn if_implemented<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Err(error) if error.is_unimplemented() => Ok(None),
        other => other.map(Some),
    }
}

macro_rules! error_codes {
    ($($name:ident = $value:literal $text:literal;)*) => {
        /// The canonical status codes of absl, gRPC and PJRT.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $($name,)*
            /// A code that this version does not know.
            Other(i32),
        }

        impl ErrorCode {
            pub(crate) fn from_raw(raw: i32) -> Self {
                match raw {
                    $($value => ErrorCode::$name,)*
                    other => ErrorCode::Other(other),
                }
            }

            pub(crate) fn to_raw(self) -> i32 {
                match self {
                    $(ErrorCode::$name => $value,)*
                    ErrorCode::Other(raw) => raw,
                }
            }
        }

        impl fmt::Display for ErrorCode {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(ErrorCode::$name => f.write_str($text),)*
                    ErrorCode::Other(raw) => write!(f, "code {raw}"),
                }
            }
        }

        #[cfg(test)]
        pub(crate) const ERROR_CODES: &[(&str, i32)] = &[
            $((concat!("PJRT_Error_Code_", $text), $value),)*
        ];
    };
}

error_codes! {
    Cancelled = 1 "CANCELLED";
    Unknown = 2 "UNKNOWN";
    InvalidArgument = 3 "INVALID_ARGUMENT";
    DeadlineExceeded = 4 "DEADLINE_EXCEEDED";
    NotFound = 5 "NOT_FOUND";
    AlreadyExists = 6 "ALREADY_EXISTS";
    PermissionDenied = 7 "PERMISSION_DENIED";
    ResourceExhausted = 8 "RESOURCE_EXHAUSTED";
    FailedPrecondition = 9 "FAILED_PRECONDITION";
    Aborted = 10 "ABORTED";
    OutOfRange = 11 "OUT_OF_RANGE";
    Unimplemented = 12 "UNIMPLEMENTED";
    Internal = 13 "INTERNAL";
    Unavailable = 14 "UNAVAILABLE";
    DataLoss = 15 "DATA_LOSS";
    Unauthenticated = 16 "UNAUTHENTICATED";
}
