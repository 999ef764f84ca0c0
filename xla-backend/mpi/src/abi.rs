//! The functions of MPI that the engine calls, by the ABI of MPI 5.0 (chapter 20): opaque pointers
//! for handles, whose predefined values are constants.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::path::Path;
use std::ptr;

use libloading::Library;

use crate::error::{Error, Result};
use crate::message::Peer;

const SUCCESS: c_int = 0;
const THREAD_FUNNELED: c_int = 1024;
const ERROR_STRING_MAX: usize = 512;
pub(crate) const COMM_WORLD: Handle = Handle(0x101);
const ERRORS_RETURN: Handle = Handle(0x143);
const REQUEST_NULL: Handle = Handle(0x180);
const BYTE: Handle = Handle(0x247);

/// Any of MPI's handles: `MPI_Comm`, `MPI_Datatype`, `MPI_Op`, `MPI_Request`.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Handle(pub(crate) usize);

/// `MPI_Count`.
type Count = i64;

macro_rules! functions {
    ($($field:ident = $name:literal: fn($($argument:ty),*);)*) => {
        /// The functions, in a library that stays loaded.
        pub(crate) struct Functions {
            $($field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Functions {
            fn of(library: &Library, path: &Path) -> Result<Functions> {
                Ok(Functions {
                    $($field: {
                        // SAFETY: this is the signature that the standard gives the symbol.
                        let found = unsafe { library.get(concat!($name, "\0").as_bytes()) };
                        *found.map_err(|_| Error::NotTheAbi {
                            path: path.to_owned(),
                            symbol: $name,
                        })?
                    },)*
                })
            }
        }
    };
}

functions! {
    abi_get_version = "MPI_Abi_get_version": fn(*mut c_int, *mut c_int);
    init_thread = "MPI_Init_thread": fn(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int);
    finalize = "MPI_Finalize": fn();
    comm_rank = "MPI_Comm_rank": fn(Handle, *mut c_int);
    comm_size = "MPI_Comm_size": fn(Handle, *mut c_int);
    comm_dup = "MPI_Comm_dup": fn(Handle, *mut Handle);
    comm_split = "MPI_Comm_split": fn(Handle, c_int, c_int, *mut Handle);
    comm_set_errhandler = "MPI_Comm_set_errhandler": fn(Handle, Handle);
    iallreduce = "MPI_Iallreduce_c":
        fn(*const c_void, *mut c_void, Count, Handle, Handle, Handle, *mut Handle);
    isend = "MPI_Isend_c":
        fn(*const c_void, Count, Handle, c_int, c_int, Handle, *mut Handle);
    irecv = "MPI_Irecv_c":
        fn(*mut c_void, Count, Handle, c_int, c_int, Handle, *mut Handle);
    ireduce_scatter_block = "MPI_Ireduce_scatter_block_c":
        fn(*const c_void, *mut c_void, Count, Handle, Handle, Handle, *mut Handle);
    iallgather = "MPI_Iallgather_c":
        fn(*const c_void, Count, Handle, *mut c_void, Count, Handle, Handle, *mut Handle);
    test = "MPI_Test": fn(*mut Handle, *mut c_int, *mut c_void);
    error_string = "MPI_Error_string": fn(c_int, *mut c_char, *mut c_int);
}

/// A collective or a message whose memory MPI may still be reading or writing.
pub(crate) struct Request(Handle);

/// The memory of a collective.
pub(crate) struct Operands {
    pub from: *const c_void,
    pub to: *mut c_void,
    /// The elements of a process: of the result, where that is a part of the operand, and else of the operand.
    pub count: usize,
    pub datatype: Handle,
}

/// The operation by which processes combine their operands.
#[derive(Clone, Copy)]
pub(crate) enum Call {
    /// Each gets the combination of all.
    AllReduce { operation: Handle },
    /// Each gets its part of the combination of all.
    ReduceScatter { operation: Handle },
    /// Each gets all, one behind the other.
    AllGather,
}

impl Call {
    /// The function's name in errors.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Call::AllReduce { .. } => "MPI_Iallreduce",
            Call::ReduceScatter { .. } => "MPI_Ireduce_scatter_block",
            Call::AllGather => "MPI_Iallgather",
        }
    }
}

impl Functions {
    /// Loads a library, never to unload it.
    pub(crate) fn load(path: &Path) -> Result<Functions> {
        // SAFETY: running the file's initializers is what loading a library means, and the caller
        // trusts the file.
        let library = unsafe { Library::new(path) }
            .map_err(|error| Error::Library { path: path.to_owned(), reason: error.to_string() })?;
        let library = ManuallyDrop::new(library);
        let functions = Functions::of(&library, path)?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: it takes two integers, before MPI is started too.
        let code = unsafe { (functions.abi_get_version)(&mut major, &mut minor) };
        functions.check("MPI_Abi_get_version", code)?;
        match major {
            1 => Ok(functions),
            _ => Err(Error::NotTheAbi { path: path.to_owned(), symbol: "version 1" }),
        }
    }

    /// Joins the processes that the launcher has started. Only the calling thread may call MPI
    /// afterwards.
    pub(crate) fn start(&self) -> Result<()> {
        let mut provided = 0;
        // SAFETY: the standard lets both arguments of `main` be null.
        let code = unsafe {
            (self.init_thread)(ptr::null_mut(), ptr::null_mut(), THREAD_FUNNELED, &mut provided)
        };
        self.check("MPI_Init_thread", code)?;
        if provided < THREAD_FUNNELED {
            let message = "the library supports no threads".to_owned();
            return Err(Error::Call { call: "MPI_Init_thread", message });
        }
        // SAFETY: both are predefined handles.
        let code = unsafe { (self.comm_set_errhandler)(COMM_WORLD, ERRORS_RETURN) };
        self.check("MPI_Comm_set_errhandler", code)
    }

    /// The number of this process, and of all.
    pub(crate) fn place(&self) -> Result<(usize, usize)> {
        let (mut rank, mut size) = (0, 0);
        // SAFETY: MPI is started, and each takes an integer.
        unsafe {
            self.check("MPI_Comm_rank", (self.comm_rank)(COMM_WORLD, &mut rank))?;
            self.check("MPI_Comm_size", (self.comm_size)(COMM_WORLD, &mut size))?;
        }
        Ok((rank.unsigned_abs() as usize, size.unsigned_abs() as usize))
    }

    /// The number of processes of a communicator.
    pub(crate) fn size(&self, of: Handle) -> Result<usize> {
        let mut size = 0;
        // SAFETY: MPI is started, and the call takes an integer.
        self.check("MPI_Comm_size", unsafe { (self.comm_size)(of, &mut size) })?;
        Ok(size.unsigned_abs() as usize)
    }

    /// A communicator of the processes of another one, whose messages meet no others. All of them call this.
    pub(crate) fn communicator(&self, of: Handle) -> Result<Handle> {
        let mut communicator = of;
        // SAFETY: MPI is started; the copy has the error handler of the original.
        let code = unsafe { (self.comm_dup)(of, &mut communicator) };
        self.check("MPI_Comm_dup", code)?;
        Ok(communicator)
    }

    /// A communicator of the processes that give the same `group`. All processes call this.
    pub(crate) fn group(&self, group: usize, rank: usize) -> Result<Handle> {
        let mut communicator = COMM_WORLD;
        // SAFETY: MPI is started, and both handles are the standard's or of its making.
        unsafe {
            let (color, key) = (group as c_int, rank as c_int);
            let code = (self.comm_split)(COMM_WORLD, color, key, &mut communicator);
            self.check("MPI_Comm_split", code)?;
            let code = (self.comm_set_errhandler)(communicator, ERRORS_RETURN);
            self.check("MPI_Comm_set_errhandler", code)?;
        }
        Ok(communicator)
    }

    /// Begins a collective.
    ///
    /// # Safety
    /// `from` and `to` hold `count` elements of `datatype`, apart from each other, or `count` for each process where
    /// all of them have one part of it. Nobody else writes to `from` or uses `to` until the request is complete.
    pub(crate) unsafe fn begin(
        &self,
        call: Call,
        operands: &Operands,
        communicator: Handle,
    ) -> Result<Request> {
        let Operands { from, to, count, datatype } = *operands;
        let (count, mut request) = (count as Count, REQUEST_NULL);
        // SAFETY: the caller's promise, and the handles are those of the standard.
        let code = unsafe {
            match call {
                Call::AllReduce { operation } => (self.iallreduce)(
                    from,
                    to,
                    count,
                    datatype,
                    operation,
                    communicator,
                    &mut request,
                ),
                Call::ReduceScatter { operation } => (self.ireduce_scatter_block)(
                    from,
                    to,
                    count,
                    datatype,
                    operation,
                    communicator,
                    &mut request,
                ),
                Call::AllGather => (self.iallgather)(
                    from,
                    count,
                    datatype,
                    to,
                    count,
                    datatype,
                    communicator,
                    &mut request,
                ),
            }
        };
        self.check(call.name(), code)?;
        Ok(Request(request))
    }

    /// Begins to send bytes to a process of `communicator`.
    ///
    /// # Safety
    /// Nobody writes to `bytes` or frees them until the request is complete.
    pub(crate) unsafe fn send(
        &self,
        bytes: &[u8],
        peer: Peer,
        communicator: Handle,
    ) -> Result<Request> {
        let mut request = REQUEST_NULL;
        let (count, [to, tag]) = (bytes.len() as Count, peer.numbers());
        // SAFETY: the caller's promise, and the handles are those of the standard.
        let code = unsafe {
            (self.isend)(bytes.as_ptr().cast(), count, BYTE, to, tag, communicator, &mut request)
        };
        self.check("MPI_Isend", code)?;
        Ok(Request(request))
    }

    /// Begins to receive as many bytes as `bytes` holds, or fewer, from a process of `communicator`.
    ///
    /// # Safety
    /// Nobody uses `bytes` or frees them until the request is complete.
    pub(crate) unsafe fn receive(
        &self,
        bytes: &mut [u8],
        peer: Peer,
        communicator: Handle,
    ) -> Result<Request> {
        let mut request = REQUEST_NULL;
        let (count, [from, tag]) = (bytes.len() as Count, peer.numbers());
        let to = bytes.as_mut_ptr().cast();
        // SAFETY: the caller's promise, and the handles are those of the standard.
        let code = unsafe { (self.irecv)(to, count, BYTE, from, tag, communicator, &mut request) };
        self.check("MPI_Irecv", code)?;
        Ok(Request(request))
    }

    /// Makes progress; returns whether the request is complete. After an error too, MPI does not
    /// use its memory any more.
    pub(crate) fn is_complete(&self, request: &mut Request) -> Result<bool> {
        let mut flag = 0;
        // SAFETY: the request is one of ours, and the standard lets the status be null.
        let code = unsafe { (self.test)(&mut request.0, &mut flag, ptr::null_mut()) };
        self.check("MPI_Test", code)?;
        Ok(flag != 0)
    }

    /// Leaves the other processes. All of them call this.
    pub(crate) fn finish(&self) -> Result<()> {
        // SAFETY: MPI is started, and no request is under way.
        self.check("MPI_Finalize", unsafe { (self.finalize)() })
    }

    fn check(&self, call: &'static str, code: c_int) -> Result<()> {
        if code == SUCCESS {
            return Ok(());
        }
        let mut text: [c_char; ERROR_STRING_MAX] = [0; ERROR_STRING_MAX];
        let mut length = 0;
        // SAFETY: the text has the length that the standard asks for.
        unsafe { (self.error_string)(code, text.as_mut_ptr(), &mut length) };
        let bytes = text.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0);
        let message = String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned();
        Err(Error::Call { call, message: format!("{message} (code {code})") })
    }
}
