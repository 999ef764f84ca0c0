//! The limit of an execution. The runtime ends one that takes longer; here it ends by itself, and then fails with the
//! runtime's text.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use super::behaviour::STARTED;
use super::failures::{late_error, time_limit};
use super::records::{Execute, OnReady, OnReadyCallback, SubjectPointer};
use super::table::{call, call_on};

/// Executions on a device by the events of their ends, until these are destroyed.
static WATCHED: LazyLock<Mutex<HashMap<usize, Arc<OnDevice>>>> = LazyLock::new(Mutex::default);
/// The latest end of an execution: the next one in the queue began no earlier.
static LAST_END: Mutex<Option<Instant>> = Mutex::new(None);

struct Execution {
    queued: Instant,
    began: OnceLock<Instant>,
}

struct OnDevice {
    execution: Arc<Execution>,
    is_late: OnceLock<bool>,
}

impl OnDevice {
    /// Whether it took longer than the limit. The first call is at its end.
    fn is_late(&self) -> bool {
        *self.is_late.get_or_init(|| {
            let (now, queued) = (Instant::now(), self.execution.queued);
            let before = lock(&LAST_END).replace(now).unwrap_or(queued);
            let began = *self.execution.began.get_or_init(|| before.max(queued));
            now.saturating_duration_since(began) > time_limit()
        })
    }
}

/// Notes when the devices end an execution that was queued at `queued`.
///
/// # Safety
/// `args` are those of `PJRT_LoadedExecutable_Execute`, which has succeeded.
pub(super) unsafe fn watch(args: &Execute, queued: Instant) {
    if args.events.is_null() {
        return;
    }
    let execution = Arc::new(Execution { queued, began: OnceLock::new() });
    for at in 0..args.devices {
        // SAFETY: the promise above: the list has an event for each device.
        let event = unsafe { *args.events.add(at) };
        let on_device =
            Arc::new(OnDevice { execution: Arc::clone(&execution), is_late: OnceLock::new() });
        lock(&WATCHED).insert(event as usize, Arc::clone(&on_device));
        let user = Arc::into_raw(on_device).cast_mut().cast();
        let mut args = OnReady::of(event, note_end, user);
        // SAFETY: these are the arguments of that entry; the callback takes `user`, and a call that fails makes none.
        unsafe {
            if let Err(error) = call("PJRT_Event_OnReady", (&raw mut args).cast()) {
                note_end(error, user);
            }
        }
    }
}

/// # Safety
/// `user` is an [`OnDevice`] of [`watch`], and `error` null or one of the wrapped plugin; neither is used afterwards.
unsafe extern "C" fn note_end(error: *mut c_void, user: *mut c_void) {
    // SAFETY: the promise above.
    unsafe {
        Arc::from_raw(user.cast_const().cast::<OnDevice>()).is_late();
        if !error.is_null() {
            let _ = call_on("PJRT_Error_Destroy", error);
        }
    }
}

/// Answers entries about events. `None` for those that are no end of an execution, and where there is nothing to add.
///
/// # Safety
/// `args` are the arguments of the entry `name`, which `pass_on` calls.
pub(super) unsafe fn answer(
    name: &str,
    args: *mut c_void,
    pass_on: impl Fn() -> *mut c_void,
) -> Option<*mut c_void> {
    // SAFETY: the promise above: the event is the first of all of these arguments.
    let event = unsafe { (*args.cast::<SubjectPointer>()).subject } as usize;
    if name == "PJRT_Event_Destroy" {
        lock(&WATCHED).remove(&event);
        return None;
    }
    let on_device = lock(&WATCHED).get(&event).cloned()?;
    if name == "PJRT_Event_OnReady" {
        // SAFETY: the promise above.
        return unsafe { tell_at_end(&*args.cast::<OnReady>(), on_device) };
    }
    let error = pass_on();
    Some(with_limit(error, &on_device))
}

/// The error of an execution that has ended with `error`, which may be null.
fn with_limit(error: *mut c_void, on_device: &OnDevice) -> *mut c_void {
    let started = STARTED.get().filter(|_| error.is_null() && on_device.is_late());
    started.map_or(error, late_error)
}

/// The callback of a client for the end of an execution.
struct Wanted {
    callback: OnReadyCallback,
    user: *mut c_void,
    on_device: Arc<OnDevice>,
}

/// # Safety
/// `args` are those of `PJRT_Event_OnReady`.
unsafe fn tell_at_end(args: &OnReady, on_device: Arc<OnDevice>) -> Option<*mut c_void> {
    let wanted = Wanted { callback: args.callback?, user: args.user, on_device };
    let user = Box::into_raw(Box::new(wanted));
    let mut own = OnReady::of(args.event, tell, user.cast());
    // SAFETY: these are the arguments of that entry; the callback takes the box, and a call that fails makes none.
    unsafe {
        let Err(error) = call("PJRT_Event_OnReady", (&raw mut own).cast()) else {
            return Some(std::ptr::null_mut());
        };
        drop(Box::from_raw(user));
        Some(error)
    }
}

/// # Safety
/// `user` is a box of [`tell_at_end`], which is not used afterwards.
unsafe extern "C" fn tell(error: *mut c_void, user: *mut c_void) {
    // SAFETY: the promise above; the client promised that its callback can be called with its pointer.
    unsafe {
        let wanted = Box::from_raw(user.cast::<Wanted>());
        (wanted.callback)(with_limit(error, &wanted.on_device), wanted.user);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
