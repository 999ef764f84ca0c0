//! The errors of the binding: call, code and argument.

use crate::api_version::ApiVersion;
use crate::dtype::{DType, Shape};
use std::fmt;
use std::path::PathBuf;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of a plugin, or of a call that a plugin was not given.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// The plugin itself reported an error.
    #[error("{call}: {code}: {message}")]
    Plugin {
        /// The API's function.
        call: &'static str,
        /// The plugin's code.
        code: ErrorCode,
        /// The plugin's message.
        message: String,
    },

    /// The plugin's function table has no such entry.
    #[error("{call}: the plugin does not implement it")]
    Unimplemented {
        /// The API's function.
        call: &'static str,
    },

    /// The plugin broke the API's contract, by a null pointer for example.
    #[error("{call}: the plugin broke the PJRT contract: {what}")]
    Contract {
        /// The API's function.
        call: &'static str,
        /// The part of the contract.
        what: &'static str,
    },

    /// The path of a plugin has no file.
    #[error("PJRT plugin {} does not exist", path.display())]
    PluginNotFound {
        /// The file.
        path: PathBuf,
    },

    /// The dynamic linker refuses a file.
    #[error("{} cannot be loaded as a library: {reason}", path.display())]
    NotALibrary {
        /// The file.
        path: PathBuf,
        /// The linker's message.
        reason: String,
    },

    /// A library has no table of PJRT functions.
    #[error("{} is not a PJRT plugin: {reason}", path.display())]
    NotAPlugin {
        /// The library.
        path: PathBuf,
        /// The symbol or the field that is missing.
        reason: &'static str,
    },

    /// A plugin has another major version of the API.
    #[error("{} has PJRT API {found}, and this program needs major version {}", path.display(), expected.major)]
    VersionMismatch {
        /// The library.
        path: PathBuf,
        /// The plugin's version.
        found: ApiVersion,
        /// The version of this crate.
        expected: ApiVersion,
    },

    /// A compile option has no value that the plugin can read.
    #[error("compile option {field}: {reason}")]
    CompileOption {
        /// The option.
        field: &'static str,
        /// The problem.
        reason: String,
    },

    /// A program was given arguments for another number of devices.
    #[error(
        "execute: the program runs on {expected} devices, and {found} argument lists were given"
    )]
    DeviceCount {
        /// The devices that it was compiled for.
        expected: usize,
        /// The lists of arguments.
        found: usize,
    },

    /// Devices of one execution were given different numbers of arguments.
    #[error("execute: device 0 got {expected} arguments, and device {device} got {found}")]
    ArgumentCount {
        /// The device, by its place among those of the execution.
        device: usize,
        /// The arguments of the first device.
        expected: usize,
        /// The arguments of this device.
        found: usize,
    },

    /// The argument was deleted or donated to an earlier execution.
    #[error("execute: argument {argument} of device {device} was deleted or donated before")]
    ArgumentDeleted {
        /// The device, by its place among those of the execution.
        device: usize,
        /// The argument, counted from 0.
        argument: usize,
    },

    /// The buffer was deleted or donated to an execution.
    #[error("{call}: the buffer was deleted or donated before")]
    BufferDeleted {
        /// The API's function.
        call: &'static str,
    },

    /// A handle of one client was given to another.
    #[error("{call}: the {what} belongs to another client")]
    ForeignHandle {
        /// The API's function.
        call: &'static str,
        /// The kind of handle.
        what: &'static str,
    },

    /// The devices of one execution must agree, or some would wait for the others.
    /// Devices of one execution were given arguments of different shapes.
    #[error(
        "execute: argument {argument} is {expected} on device 0, and {found} on device {device}"
    )]
    ArgumentShape {
        /// The device, by its place among those of the execution.
        device: usize,
        /// The argument, counted from 0.
        argument: usize,
        /// The shape on the first device.
        expected: Shape,
        /// The shape on this device.
        found: Shape,
    },

    /// An argument is on another device than the one that runs the program.
    #[error("execute: argument {argument} of device {device} is on another device, {found}")]
    ArgumentDevice {
        /// The device, by its place among those of the execution.
        device: usize,
        /// The argument, counted from 0.
        argument: usize,
        /// The device of the argument.
        found: String,
    },

    /// See [`Executable::execute`](crate::Executable::execute).
    #[error(
        "execute: the client starts no more programs of several devices, since one failed to start: {cause}"
    )]
    LaunchFailedBefore {
        /// The error of the launch that failed.
        cause: String,
    },

    /// Host data do not fill a shape.
    #[error("{shape} needs {expected} bytes, and the host data has {found}")]
    HostSize {
        /// The shape of the buffer.
        shape: Shape,
        /// The bytes of that shape.
        expected: usize,
        /// The bytes that were given.
        found: usize,
    },

    /// The bytes of a shape overflow an address.
    #[error("{shape} is larger than memory can be")]
    ShapeTooLarge {
        /// The shape.
        shape: Shape,
    },

    /// A buffer was read as another element type than it holds.
    #[error("the buffer holds {found}, not {expected}")]
    DTypeMismatch {
        /// The type that was asked for.
        expected: DType,
        /// The type of the buffer.
        found: DType,
    },

    /// A plugin reports an element type that this crate does not know.
    #[error("{call}: element type {raw} is not supported")]
    UnknownDType {
        /// The API's function.
        call: &'static str,
        /// The API's number of the type.
        raw: i32,
    },

    /// A device has no memory of a kind.
    #[error("the device has no memory of kind {kind:?}, only {available:?}")]
    NoSuchMemory {
        /// The kind.
        kind: String,
        /// The kinds that the device has.
        available: Vec<String>,
    },

    /// An optimized program cannot be read.
    #[error("optimized program in format {format:?} cannot be decoded: {reason}")]
    ProgramFormat {
        /// The format that the plugin names.
        format: String,
        /// The problem.
        reason: String,
    },
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
            $(
                #[doc = concat!("`", $text, "` of `absl::StatusCode`.")]
                $name,
            )*
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
