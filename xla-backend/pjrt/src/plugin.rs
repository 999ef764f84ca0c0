//! Loading a plugin, and the one function through which all calls go.
#![allow(unsafe_code)]

use crate::api_version::ApiVersion;
use crate::error::{Error, ErrorCode, Result};
use crate::ffi::custom_call::{
    EXTENSION_FFI, ExtensionBase, FfiExtension, Handler, REGISTER_HANDLER_SIZE, RegisterHandlerArgs,
};
use crate::ffi::{
    self, Api, Args, CStruct, ErrorDestroyArgs, ErrorGetCodeArgs, ErrorMessageArgs, EventAwaitArgs,
    PluginAttributesArgs, PluginInitializeArgs, Query, RawError, copy_string,
};
use crate::kernel::{self, DeferredKernel, Kernel};
use crate::value::{self, Attributes, Value};
use libloading::Library;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The version of the C API that this crate speaks.
///
/// AWS Neuron's plugin 3.0 and later serves several versions and asks for the one
/// that is wanted in [`NEURON_API_VERSION_VARIABLE`], as `major.minor`. Set it to
/// `API_VERSION.to_string()` before the process starts threads, and before
/// [`Plugin::load`]; other plugins ignore it.
pub const API_VERSION: ApiVersion = ApiVersion { major: ffi::API_MAJOR, minor: ffi::API_MINOR };

/// See [`API_VERSION`].
pub const NEURON_API_VERSION_VARIABLE: &str = "NEURON_INTERNAL_PJRT_C_API_VERSION";

/// A loaded PJRT plugin. Copies are the same plugin; it stays loaded until the
/// process ends, because plugins start threads that nothing stops.
#[derive(Clone, Copy)]
pub struct Plugin(&'static Loaded);

struct Loaded {
    path: PathBuf,
    api: Api,
    attributes: OnceLock<Attributes>,
    /// The custom calls that were registered, with their platform.
    kernels: Mutex<HashSet<(&'static str, String)>>,
}

// SAFETY: the table is read-only, and PJRT's functions may be called from any
// thread. The chain of extensions is as constant as the table.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

impl Plugin {
    /// Loads and initializes the plugin at `path`. Loading the same file again
    /// gives the same plugin. The file's code runs in this process: it is trusted.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        static LOADED: OnceLock<Mutex<HashMap<PathBuf, Plugin>>> = OnceLock::new();
        let path = path.as_ref();
        let path =
            path.canonicalize().map_err(|_| Error::PluginNotFound { path: path.to_path_buf() })?;
        // The map only ever gains finished entries, so a panic leaves it whole.
        let mut loaded =
            LOADED.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plugin) = loaded.get(&path) {
            return Ok(*plugin);
        }
        let plugin = Self::load_new(&path)?;
        loaded.insert(path, plugin);
        Ok(plugin)
    }

    fn load_new(path: &Path) -> Result<Self> {
        let api = load_api(path)?;
        let version = ApiVersion {
            major: api.pjrt_api_version.major_version,
            minor: api.pjrt_api_version.minor_version,
        };
        if version.major != API_VERSION.major {
            return Err(Error::VersionMismatch {
                path: path.to_path_buf(),
                found: version,
                expected: API_VERSION,
            });
        }
        let plugin = Plugin(Box::leak(Box::new(Loaded {
            path: path.to_path_buf(),
            api,
            attributes: OnceLock::new(),
            kernels: Mutex::default(),
        })));
        if !plugin.has::<EventAwaitArgs>() {
            // Memory that the plugin writes to is kept until it says that it is done.
            let path = path.to_path_buf();
            return Err(Error::NotAPlugin { path, reason: "it has no PJRT_Event_Await" });
        }
        // SAFETY: the call takes nothing but its own struct.
        match unsafe { plugin.call(&mut PluginInitializeArgs::new()) } {
            // A plugin with nothing to set up may leave the entry out.
            Ok(()) | Err(Error::Unimplemented { .. }) => Ok(plugin),
            Err(error) => Err(error),
        }
    }

    /// Returns the library that the plugin was loaded from.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The version of the API that the plugin was built with.
    pub fn api_version(&self) -> ApiVersion {
        let version = &self.0.api.pjrt_api_version;
        ApiVersion { major: version.major_version, minor: version.minor_version }
    }

    /// The plugin's attributes, `xla_version` for example. Empty where
    /// it says nothing.
    pub fn attributes(&self) -> Result<&'static Attributes> {
        if let Some(attributes) = self.0.attributes.get() {
            return Ok(attributes);
        }
        let mut args = PluginAttributesArgs::new();
        // SAFETY: the struct has no inputs.
        let attributes = match unsafe { self.call(&mut args) } {
            // SAFETY: the attributes live as long as the process.
            Ok(()) => unsafe { value::from_raw_list(args.attributes, args.num_attributes) },
            Err(error) if error.is_unimplemented() => Attributes::new(),
            Err(error) => return Err(error),
        };
        Ok(self.0.attributes.get_or_init(|| attributes))
    }

    /// The newest StableHLO version that the plugin reads, `[major, minor, patch]`.
    pub fn stablehlo_current_version(&self) -> Result<Option<[i64; 3]>> {
        Ok(match self.attributes()?.get("stablehlo_current_version") {
            Some(Value::Int64List(version)) => version.as_slice().try_into().ok(),
            _ => None,
        })
    }

    /// The version of XLA's own interfaces, where the plugin reports it.
    pub fn xla_version(&self) -> Result<Option<i64>> {
        Ok(match self.attributes()?.get("xla_version") {
            Some(Value::Int64(version)) => Some(*version),
            _ => None,
        })
    }

    /// Lets programs for `platform`, whose devices work in host memory, call `K` by its name.
    /// False where the plugin takes no custom calls. XLA drops registrations that it does
    /// not like without an error: [`crate::Capabilities::custom_calls`] says whether they work.
    pub fn register_kernel<K: Kernel>(&self, platform: &str) -> Result<bool> {
        self.register_handler(K::NAME, kernel::handler::<K>, platform)
    }

    /// Lets programs for `platform` call `K`, a kernel whose results arrive later, as
    /// [`register_kernel`](Self::register_kernel) does for others.
    pub(crate) fn register_deferred_kernel<K: DeferredKernel>(
        &self,
        platform: &str,
    ) -> Result<bool> {
        self.register_handler(K::NAME, kernel::deferred_handler::<K>, platform)
    }

    fn register_handler(
        &self,
        name: &'static str,
        handler: Handler,
        platform: &str,
    ) -> Result<bool> {
        const CALL: &str = "PJRT_FFI_Register_Handler";
        let Some(register) = self.ffi_extension().and_then(|ffi| ffi.register_handler) else {
            return Ok(false);
        };
        let mut kernels = self.0.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if !kernels.insert((name, platform.to_owned())) {
            return Ok(true);
        }
        let mut args = RegisterHandlerArgs {
            struct_size: REGISTER_HANDLER_SIZE,
            target_name: name.as_ptr().cast(),
            target_name_size: name.len(),
            handler,
            platform_name: platform.as_ptr().cast(),
            platform_name_size: platform.len(),
            traits: 0,
        };
        // SAFETY: the entry takes these arguments, and copies both names. The handler is a
        // function of this program, which lives as long as the process.
        let error = unsafe { register(&mut args) };
        // SAFETY: the plugin gave us this error to own.
        unsafe { self.take_error(CALL, error) }.map(|()| true)
    }

    /// The kinds of the plugin's extensions, by their numbers in the header of the C API.
    pub fn extension_kinds(&self) -> Vec<i32> {
        let mut kinds = Vec::new();
        let mut extension = self.0.api.extension_start.cast::<ExtensionBase>();
        // SAFETY: the plugin's extensions live as long as it does, and the last one has no successor.
        while let Some(base) = unsafe { extension.as_ref() } {
            kinds.push(base.kind);
            extension = base.next;
        }
        kinds
    }

    fn ffi_extension(&self) -> Option<&'static FfiExtension> {
        let mut extension = self.0.api.extension_start.cast::<ExtensionBase>();
        // SAFETY: the plugin's extensions live as long as it does, the last one has no
        // successor, and what says that it is this kind and this large is it.
        unsafe {
            while let Some(base) = extension.as_ref() {
                if base.kind == EXTENSION_FFI && base.struct_size >= size_of::<FfiExtension>() {
                    return extension.cast::<FfiExtension>().as_ref();
                }
                extension = base.next;
            }
        }
        None
    }

    /// Returns whether the function table has the entry that takes `A`.
    pub(crate) fn has<A: Args>(&self) -> bool {
        A::entry(&self.0.api).is_some()
    }

    /// The checked call: is the entry present, call it, turn its error into ours.
    ///
    /// # Safety
    /// The memory that `args` points to is valid for this call, as the header asks.
    pub(crate) unsafe fn call<A: Args>(&self, args: &mut A) -> Result<()> {
        let entry = A::entry(&self.0.api).ok_or(Error::Unimplemented { call: A::CALL })?;
        // SAFETY: the entry takes a pointer to `A`; the rest is the caller's promise.
        let error = unsafe { entry(args) };
        // SAFETY: the plugin gave us this error to own.
        unsafe { self.take_error(A::CALL, error) }
    }

    /// A call that asks about `subject`.
    ///
    /// # Safety
    /// `subject` is live.
    pub(crate) unsafe fn query<A: Query>(&self, subject: NonNull<A::Subject>) -> Result<A> {
        let mut args = A::about(subject.as_ptr());
        // SAFETY: the subject is live, and a query reads nothing else.
        unsafe { self.call(&mut args) }?;
        Ok(args)
    }

    /// Turns an error into ours and frees it. Null is success.
    ///
    /// # Safety
    /// `error` is null or an error of this plugin that nobody else frees.
    pub(crate) unsafe fn take_error(&self, call: &'static str, error: *mut RawError) -> Result<()> {
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: the error is live until it is destroyed below.
        let (code, message) = unsafe { (self.error_code(error), self.error_message(error)) };
        if let Some(destroy) = self.0.api.PJRT_Error_Destroy {
            // SAFETY: the error is ours, and not used after this.
            unsafe { destroy(&mut ErrorDestroyArgs { error, ..ErrorDestroyArgs::new() }) };
        }
        Err(Error::Plugin { call, code, message })
    }

    /// # Safety
    /// `error` is live.
    unsafe fn error_message(&self, error: *const RawError) -> String {
        let mut args = ErrorMessageArgs { error, ..ErrorMessageArgs::new() };
        let Some(entry) = self.0.api.PJRT_Error_Message else {
            return "the plugin has no PJRT_Error_Message".to_owned();
        };
        // SAFETY: the error is live, and its message lives as long as it does.
        unsafe {
            entry(&mut args);
            copy_string(args.message, args.message_size)
        }
    }

    /// # Safety
    /// `error` is live.
    unsafe fn error_code(&self, error: *const RawError) -> ErrorCode {
        let mut args = ErrorGetCodeArgs { error, ..ErrorGetCodeArgs::new() };
        let Some(entry) = self.0.api.PJRT_Error_GetCode else {
            return ErrorCode::Unknown;
        };
        // SAFETY: the error is live. This call's own error says nothing that we
        // could report, and leaves the code at zero.
        let nested = unsafe { entry(&mut args) };
        if nested.is_null() { ErrorCode::from_raw(args.code) } else { ErrorCode::Unknown }
    }
}

impl PartialEq for Plugin {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin")
            .field("path", &self.0.path)
            .field("api_version", &self.api_version())
            .finish()
    }
}

/// Opens the library, never to close it, and copies its function table.
fn load_api(path: &Path) -> Result<Api> {
    check_whole(path)?;
    // SAFETY: running the file's initializers is what loading a plugin means, and
    // the caller trusts the file.
    let library = unsafe { Library::new(path) }.map_err(|error| Error::NotALibrary {
        path: path.to_path_buf(),
        reason: error.to_string(),
    })?;
    let not_a_plugin = |reason| Error::NotAPlugin { path: path.to_path_buf(), reason };
    // SAFETY: this is the signature that PJRT gives the symbol.
    let get_api = unsafe { library.get::<unsafe extern "C" fn() -> *const Api>(b"GetPjrtApi\0") }
        .map_err(|_| not_a_plugin("it does not export GetPjrtApi"))?;
    // SAFETY: it takes nothing and returns a table that lives as long as the library.
    let table = unsafe { get_api() };
    if table.is_null() {
        return Err(not_a_plugin("GetPjrtApi returned null"));
    }
    // SAFETY: the plugin made the table.
    let api = unsafe { Api::copy_from(table) };
    let _never_unloaded = ManuallyDrop::new(library);
    Ok(api)
}

/// Refuses an ELF file that ends before its section table does: the loader maps
/// such a file without complaint, and the process dies of SIGBUS.
fn check_whole(path: &Path) -> Result<()> {
    let mut header = [0; 64];
    let bytes = std::fs::File::open(path).and_then(|mut file| {
        std::io::Read::read_exact(&mut file, &mut header)?;
        Ok(file.metadata()?.len())
    });
    // Whatever is no 64-bit little-endian ELF file, the loader refuses itself.
    let (Ok(bytes), true) = (bytes, header.starts_with(b"\x7fELF\x02\x01")) else {
        return Ok(());
    };
    let number = |at: usize, size: usize| {
        let digits = header[at..at + size].iter().rev();
        digits.fold(0u64, |number, &byte| number << 8 | u64::from(byte))
    };
    let (offset, entry_size, entries) = (number(40, 8), number(58, 2), number(60, 2));
    if offset.saturating_add(entry_size * entries) <= bytes {
        return Ok(());
    }
    let reason = format!("it is cut short at {bytes} bytes");
    Err(Error::NotALibrary { path: path.to_path_buf(), reason })
}
