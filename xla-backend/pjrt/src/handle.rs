//! Pointers to the plugin's objects: owned ones free themselves, borrowed ones
//! live as long as the client.
//!
//! Both are `Send` and `Sync`, because PJRT asks its implementations to be
//! thread-safe: clients, buffers, executables and events are used from any number
//! of threads without a lock of the caller's.
#![allow(unsafe_code)]

use crate::error::{Error, Result};
use crate::ffi::{
    Args, BufferDestroyArgs, ClientDestroyArgs, EventDestroyArgs, ExecutableDestroyArgs,
    LoadedExecutableDestroyArgs, Query, RawBuffer, RawClient, RawEvent, RawExecutable,
    RawLoadedExecutable, RawTopologyDescription, TopologyDestroyArgs,
};
use crate::plugin::Plugin;
use std::ptr::NonNull;

/// An object that we free.
pub(crate) trait Owned: Sized {
    type Destroy: Query<Subject = Self>;
}

macro_rules! owned {
    ($($raw:ty => $destroy:ty;)*) => {$(
        impl Owned for $raw {
            type Destroy = $destroy;
        }
    )*};
}

owned! {
    RawBuffer => BufferDestroyArgs;
    RawClient => ClientDestroyArgs;
    RawEvent => EventDestroyArgs;
    RawExecutable => ExecutableDestroyArgs;
    RawLoadedExecutable => LoadedExecutableDestroyArgs;
    RawTopologyDescription => TopologyDestroyArgs;
}

pub(crate) struct Handle<T: Owned> {
    plugin: Plugin,
    pointer: NonNull<T>,
}

// SAFETY: see the module's note; the pointer itself never changes.
unsafe impl<T: Owned> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T: Owned> Sync for Handle<T> {}

impl<T: Owned> Handle<T> {
    /// Takes ownership of what call `A` returned.
    ///
    /// # Safety
    /// `pointer` is null or a live object of `plugin` that nobody else frees.
    pub(crate) unsafe fn new<A: Args>(plugin: Plugin, pointer: *mut T) -> Result<Self> {
        let pointer = NonNull::new(pointer)
            .ok_or(Error::Contract { call: A::CALL, what: "a null object" })?;
        Ok(Self { plugin, pointer })
    }

    pub(crate) fn plugin(&self) -> Plugin {
        self.plugin
    }

    pub(crate) fn as_ptr(&self) -> *mut T {
        self.pointer.as_ptr()
    }

    pub(crate) fn query<A: Query<Subject = T>>(&self) -> Result<A> {
        // SAFETY: the object lives until this handle drops.
        unsafe { self.plugin.query(self.pointer) }
    }
}

impl<T: Owned> Drop for Handle<T> {
    fn drop(&mut self) {
        // A failed destruction leaves nothing to do: the object is lost either way.
        let _ = self.query::<T::Destroy>();
    }
}

/// An object that the client owns.
pub(crate) struct Borrowed<T> {
    plugin: Plugin,
    pointer: NonNull<T>,
}

// SAFETY: see the module's note; the pointer itself never changes.
unsafe impl<T> Send for Borrowed<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Borrowed<T> {}

impl<T> Borrowed<T> {
    /// # Safety
    /// `pointer` is null or an object of `plugin` that outlives the result.
    pub(crate) unsafe fn new<A: Args>(plugin: Plugin, pointer: *mut T) -> Result<Self> {
        let pointer = NonNull::new(pointer)
            .ok_or(Error::Contract { call: A::CALL, what: "a null object" })?;
        Ok(Self { plugin, pointer })
    }

    pub(crate) fn as_ptr(&self) -> *mut T {
        self.pointer.as_ptr()
    }

    pub(crate) fn query<A: Query<Subject = T>>(&self) -> Result<A> {
        // SAFETY: `new` was promised that the object outlives us.
        unsafe { self.plugin.query(self.pointer) }
    }
}
