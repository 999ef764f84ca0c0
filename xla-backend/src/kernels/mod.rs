//! Kernels that programs for CPU devices call where XLA's own code is slow: each binds a
//! function of `traind-kernels` to the name by which operations lower to it. Programs
//! contain the name alone, so that an executable from a cache runs this process's code.

mod attention;
pub(crate) mod attributes;
mod available;
mod bf16_product;
mod column_sums;
mod cross_entropy;
mod dropout_keys;
mod gated;
mod gelu;
mod library;
mod meeting;
mod norm;
mod optimizer;
mod product;
mod rotary;
mod shard_sums;
mod sharded_adamw;
mod sums;
mod table_of_rows;

use std::thread::available_parallelism;

use traind_kernels::are_supported;
use traind_mpi::{Collective, HostCollective, World};
use traind_pjrt::{Client, DeferredKernel, Kernel};

use crate::error::{Error, Result};
use crate::mesh::Mesh;

pub use available::{GpuOptions, Kernels};

pub(crate) use attention::{AttentionBackward, AttentionForward};
pub(crate) use bf16_product::Bf16Product;
pub(crate) use column_sums::ColumnSums;
pub(crate) use cross_entropy::{CrossEntropyBackward, CrossEntropyForward};
pub(crate) use dropout_keys::DropoutKeys;
pub(crate) use gated::{GatedBackward, GatedForward};
pub(crate) use gelu::{GeluBackward, GeluForward};
pub(crate) use library::LibraryCall;
pub(crate) use norm::{NormBackward, NormForward};
pub(crate) use optimizer::{AdamW, AddSquareSums, SquareSum, SquareSumOfRows};
pub(crate) use product::{BiasedProduct, Product, product};
pub(crate) use rotary::Rotary;
pub(crate) use shard_sums::ShardSums;
pub(crate) use sharded_adamw::ShardedAdamW;
pub(crate) use sums::Sums;
pub(crate) use table_of_rows::TableOfRows;

/// The platform whose devices are processors of the host.
const IN_HOST_MEMORY: &str = "cpu";
const CUDA: &str = "cuda";

/// The version that compiled programs depend on besides their text.
pub const KERNELS_VERSION: &str = traind_kernels::VERSION;

/// The kernels to which the operations of programs for `client` lower, of which ours are then
/// registered: unless [`traind_choices::KERNELS`] is off, where the client [can call
/// them](register_kernels).
pub fn enable_kernels(client: &Client, options: GpuOptions) -> Kernels {
    match expected_kernels(client.platform_name(), options) {
        Kernels::Own if !register_kernels(client) => Kernels::None,
        kernels => kernels,
    }
}

/// Registers the kernels where programs for `client` can call them: the platform calls
/// functions in host memory, and the processor has fast vector instructions.
pub fn register_kernels(client: &Client) -> bool {
    let capable = || client.capabilities().is_ok_and(|found| found.custom_calls);
    are_supported() && capable() && register_all(client)
}

/// Predicts the answer of [`enable_kernels`] for a client of `platform` on this host, as far as
/// that is known without one.
pub fn expected_kernels(platform: &str, options: GpuOptions) -> Kernels {
    match platform {
        _ if are_switched_off() => Kernels::None,
        IN_HOST_MEMORY if are_supported() => Kernels::Own,
        CUDA if options.cudnn_attention => Kernels::CudnnAttention,
        _ => Kernels::None,
    }
}

/// Predicts the answer of [`enable_kernels`] for CPU devices of this host.
pub fn expected_cpu_kernels() -> Kernels {
    expected_kernels(IN_HOST_MEMORY, GpuOptions::default())
}

/// Whether programs for so many CPU devices on this host multiply by kernels in all layouts.
pub fn products_are_kernels(cores: usize) -> bool {
    expected_cpu_kernels() == Kernels::Own && are_all_processors(cores)
}

/// Whether so many cores are all processors of the host. Where they are fewer, XLA uses the others for its products.
pub(crate) fn are_all_processors(cores: usize) -> bool {
    cores >= available_parallelism().map_or(1, usize::from)
}

/// Lets programs for `client` exchange data with the other hosts of `mesh` where they do so by MPI. Fails if MPI is
/// needed, there or between stages on different hosts, and this process has not joined the others' [`World`].
pub(crate) fn enable_hosts(client: &Client, mesh: &Mesh) -> Result<()> {
    let (hosts, by_programs) = (mesh.grid().count(), client.platform_name() == IN_HOST_MEMORY);
    if hosts == 1 || !(by_programs || mesh.grid().pipeline > 1) {
        return Ok(());
    }
    let world = World::current()?;
    let (found, expected) = ((world.rank(), world.size()), (mesh.host(), hosts));
    if found != expected {
        let problem = format!("MPI has started process {} of {}", found.0, found.1);
        return Err(Error::Mesh { axes: mesh.to_string(), problem });
    }
    if !by_programs {
        return Ok(());
    }
    match client.register_deferred_kernel::<HostCollective>()? {
        true => Ok(()),
        false => Err(Error::NoHosts { platform: client.platform_name().to_owned() }),
    }
}

/// The reason for which programs for `client` call no kernels, where its platform could.
pub fn reason_without_kernels(client: &Client) -> Option<&'static str> {
    if client.platform_name() != IN_HOST_MEMORY {
        return None;
    }
    if are_switched_off() {
        return Some("TRAIND_KERNELS is off");
    }
    if !are_supported() {
        return Some("the processor lacks AVX2 and FMA");
    }
    (!register_kernels(client)).then_some("the plugin cannot call functions of its host")
}

fn are_switched_off() -> bool {
    !traind_choices::KERNELS.is_on()
}

fn register_all(client: &Client) -> bool {
    fn register<K: Kernel>(client: &Client) -> bool {
        client.register_kernel::<K>().unwrap_or(false)
    }
    fn register_deferred<K: DeferredKernel>(client: &Client) -> bool {
        client.register_deferred_kernel::<K>().unwrap_or(false)
    }
    register::<AttentionForward>(client)
        && register::<AttentionBackward>(client)
        && register::<GeluForward>(client)
        && register::<GeluBackward>(client)
        && register::<GatedForward>(client)
        && register::<GatedBackward>(client)
        && register::<Rotary>(client)
        && register::<Product>(client)
        && register::<BiasedProduct>(client)
        && register::<ColumnSums>(client)
        && register::<Bf16Product>(client)
        && register::<NormForward>(client)
        && register::<NormBackward>(client)
        && register::<CrossEntropyForward>(client)
        && register::<CrossEntropyBackward>(client)
        && register::<DropoutKeys>(client)
        && register::<TableOfRows>(client)
        && register::<SquareSum>(client)
        && register::<AddSquareSums>(client)
        && register::<SquareSumOfRows>(client)
        && register::<AdamW>(client)
        && register_deferred::<ShardedAdamW>(client)
        && register_deferred::<Sums>(client)
        && register_deferred::<ShardSums>(client)
}

/// A call of a kernel, as lowering writes it.
#[derive(Debug)]
pub(crate) struct KernelUse {
    pub(crate) target: &'static str,
    /// `name = value : type`, separated by commas.
    pub(crate) attributes: String,
    /// The floating-point operations of its products.
    pub(crate) flops: f64,
    /// Results that are in the memory of operands: pairs of result and operand.
    pub(crate) in_place: Vec<[usize; 2]>,
}

impl KernelUse {
    /// A collective by MPI.
    pub(crate) fn across_hosts(collective: Collective) -> KernelUse {
        let [collective, reduction] =
            collective.numbers().map(|number| attributes::integer(number as usize));
        let attributes = format!("collective = {collective}, reduction = {reduction}");
        KernelUse::of_deferred::<HostCollective>(attributes)
    }

    pub(crate) fn of_deferred<K: DeferredKernel>(attributes: String) -> KernelUse {
        KernelUse::new(K::NAME, attributes)
    }

    pub(crate) fn of<K: Kernel>(attributes: String) -> KernelUse {
        KernelUse::new(K::NAME, attributes)
    }

    fn new(target: &'static str, attributes: String) -> KernelUse {
        KernelUse { target, attributes, flops: 0.0, in_place: Vec::new() }
    }

    /// Each result of a pair is in the memory of its operand.
    pub(crate) fn in_place(self, pairs: Vec<[usize; 2]>) -> KernelUse {
        KernelUse { in_place: pairs, ..self }
    }

    pub(crate) fn with_flops(self, flops: f64) -> KernelUse {
        KernelUse { flops, ..self }
    }
}
