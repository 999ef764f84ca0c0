//! A client: the process's connection to all devices of one platform.
#![allow(unsafe_code)]

use crate::capabilities::Capabilities;
use crate::create_options::CreateOptions;
use crate::error::Result;
use crate::ffi::{
    CStruct, ClientAddressableDevicesArgs, ClientCreateArgs, ClientDevicesArgs,
    ClientPlatformNameArgs, ClientPlatformVersionArgs, ClientProcessIndexArgs, RawClient,
    copy_slice, copy_string,
};
use crate::handle::{Borrowed, Handle};
use crate::kernel::{DeferredKernel, Kernel};
use crate::key_value_store::{self, KeyValueStore};
use crate::plugin::Plugin;
use crate::records::{self, DeviceRecord, JobDevice};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The platform whose devices work in host memory.
const HOST_MEMORY: &str = "cpu";

/// A cheap handle: clones are the same client, freed after the last buffer,
/// executable, device and event of it.
#[derive(Clone)]
pub struct Client(pub(crate) Arc<ClientInner>);

pub(crate) struct ClientInner {
    pub(crate) handle: Handle<RawClient>,
    pub(crate) devices: Vec<DeviceRecord>,
    pub(crate) capabilities: OnceLock<Capabilities>,
    /// Why a program of several devices failed to start, once one did.
    pub(crate) launch_failure: OnceLock<String>,
    platform_name: String,
    platform_version: String,
    process_index: i32,
    job_devices: Vec<JobDevice>,
}

impl ClientInner {
    pub(crate) fn plugin(&self) -> Plugin {
        self.handle.plugin()
    }
}

impl Client {
    /// Creates a client of the plugin, which takes the devices that `options` leave it.
    pub fn new(plugin: Plugin, options: &CreateOptions) -> Result<Self> {
        Client::create(plugin, options, None)
    }

    /// A client that several processes have together, which find each other by `store`. For GPUs the
    /// options have `node_id` and `num_nodes`. Returns when all processes have called this.
    pub fn with_store(
        plugin: Plugin,
        options: &CreateOptions,
        store: Arc<dyn KeyValueStore>,
    ) -> Result<Self> {
        Client::create(plugin, options, Some(store))
    }

    fn create(
        plugin: Plugin,
        options: &CreateOptions,
        store: Option<Arc<dyn KeyValueStore>>,
    ) -> Result<Self> {
        let handle = create(plugin, options, store)?;
        let name = handle.query::<ClientPlatformNameArgs>()?;
        let version = handle.query::<ClientPlatformVersionArgs>()?;
        // SAFETY: both strings come with their length and live as the client does.
        let (platform_name, platform_version) = unsafe {
            (
                copy_string(name.platform_name, name.platform_name_size),
                copy_string(version.platform_version, version.platform_version_size),
            )
        };
        Ok(Self(Arc::new(ClientInner {
            devices: read_devices(&handle)?,
            job_devices: read_job_devices(&handle)?,
            process_index: handle.query::<ClientProcessIndexArgs>()?.process_index,
            capabilities: OnceLock::new(),
            launch_failure: OnceLock::new(),
            platform_name,
            platform_version,
            handle,
        })))
    }

    /// Returns the plugin that the client belongs to.
    pub fn plugin(&self) -> Plugin {
        self.0.plugin()
    }

    /// `cpu`, `cuda`, `neuron` ...
    pub fn platform_name(&self) -> &str {
        &self.0.platform_name
    }

    /// A text in a form of the plugin's own.
    pub fn platform_version(&self) -> &str {
        &self.0.platform_version
    }

    /// Lets the programs of this client call `K` by its name, in a custom call with
    /// `api_version = 4`. False where the platform takes none: only CPU devices work in
    /// host memory. See [`Capabilities::custom_calls`].
    pub fn register_kernel<K: Kernel>(&self) -> Result<bool> {
        match self.platform_name() {
            HOST_MEMORY => self.plugin().register_kernel::<K>(HOST_MEMORY),
            _ => Ok(false),
        }
    }

    /// Lets the programs of this client call `K`, a kernel whose results arrive later, as
    /// [`register_kernel`](Self::register_kernel) does for others.
    pub fn register_deferred_kernel<K: DeferredKernel>(&self) -> Result<bool> {
        match self.platform_name() {
            HOST_MEMORY => self.plugin().register_deferred_kernel::<K>(HOST_MEMORY),
            _ => Ok(false),
        }
    }

    /// The number of this process among those of the job; 0 where there is one.
    pub fn process_index(&self) -> i32 {
        self.0.process_index
    }

    /// The devices of all processes that form the platform together; [`Client::devices`] are among
    /// them.
    pub fn job_devices(&self) -> &[JobDevice] {
        &self.0.job_devices
    }
}

impl PartialEq for Client {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("platform_name", &self.0.platform_name)
            .field("devices", &self.0.devices.len())
            .finish()
    }
}

fn create(
    plugin: Plugin,
    options: &CreateOptions,
    store: Option<Arc<dyn KeyValueStore>>,
) -> Result<Handle<RawClient>> {
    let raw = options.to_raw();
    let mut args = ClientCreateArgs {
        create_options: raw.as_ptr(),
        num_options: raw.len(),
        ..ClientCreateArgs::new()
    };
    if let Some(store) = store {
        key_value_store::set_callbacks(&mut args, store);
    }
    // SAFETY: `raw` points into `options`, and both outlive the call.
    unsafe { plugin.call(&mut args) }?;
    // SAFETY: the plugin gave us this client to own.
    unsafe { Handle::new::<ClientCreateArgs>(plugin, args.client) }
}

fn read_devices(handle: &Handle<RawClient>) -> Result<Vec<DeviceRecord>> {
    let args = handle.query::<ClientAddressableDevicesArgs>()?;
    // SAFETY: the list comes with its length and lives as the client does.
    let pointers = unsafe { copy_slice(args.addressable_devices, args.num_addressable_devices) };
    pointers
        .into_iter()
        .map(|pointer| {
            // SAFETY: the client owns the device, and keeps the record.
            let raw =
                unsafe { Borrowed::new::<ClientAddressableDevicesArgs>(handle.plugin(), pointer) }?;
            records::read(handle.plugin(), raw)
        })
        .collect()
}

fn read_job_devices(handle: &Handle<RawClient>) -> Result<Vec<JobDevice>> {
    let args = handle.query::<ClientDevicesArgs>()?;
    // SAFETY: the list comes with its length and lives as the client does.
    let pointers = unsafe { copy_slice(args.devices, args.num_devices) };
    pointers
        .into_iter()
        .map(|pointer| {
            // SAFETY: the client owns the device, and the handle is dropped first.
            let raw = unsafe { Borrowed::new::<ClientDevicesArgs>(handle.plugin(), pointer) }?;
            records::read_job_device(handle.plugin(), &raw)
        })
        .collect()
}
