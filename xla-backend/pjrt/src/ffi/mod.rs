//! The part of the PJRT C API that we use, declared by hand after
//! `pjrt_c_api.h` 0.81. Every struct is declared through [`c_structs!`], which
//! also records its layout, so that `header_check` compares all of them with the
//! C compiler's view of the plugin's own header.
#![allow(unsafe_code)]

#[macro_use]
mod layout;
mod api;
mod buffer;
mod client;
#[macro_use]
mod core;
pub(crate) mod custom_call;
mod device;
mod enums;
mod event;
mod executable;
#[cfg(test)]
mod header_check;
mod queries;
mod read;
mod topology;

pub(crate) use api::{Api, Args};
pub use api::{STRUCTURES, TABLE};
pub(crate) use buffer::*;
pub(crate) use client::*;
pub(crate) use core::*;
pub(crate) use device::*;
pub(crate) use enums::*;
pub(crate) use event::*;
pub(crate) use executable::*;
pub(crate) use layout::CStruct;
pub(crate) use queries::Query;
pub(crate) use read::{copy_bytes, copy_slice, copy_string};
pub(crate) use topology::*;
