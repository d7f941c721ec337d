//! Handles `fork`: the child has one thread, no worker, and must not touch its parent's files.
//!
//! Before the fork, all locks of the crate are taken in their nesting order, so that no thread that
//! the child lacks holds one. In the child the engine is forgotten, not dropped, since dropping
//! would write its parent's buffers a second time. The next scope or mark starts the child's own
//! recorder ([`super::rearm_if_forked`]).

#[cfg(not(unix))]
pub(super) fn install() {}

#[cfg(all(unix, feature = "live"))]
pub(crate) use unix::{Hooks, set_hooks};
#[cfg(unix)]
pub(super) use unix::{install, spawn};

#[cfg(unix)]
#[expect(
    unsafe_code,
    reason = "only the C library reports when a process forks, and starts threads without the \
        standard library"
)]
mod unix {
    use std::any::Any;
    use std::cell::RefCell;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    use std::ffi::CString;
    use std::ffi::c_void;
    use std::io;
    use std::mem::MaybeUninit;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::{MutexGuard, Once, OnceLock};

    use super::super::marks::Marks;
    use super::super::{EngineGuard, FRAME_SETS, MARKS, SETTINGS, lock_engine, worker};
    use crate::hot::{callsite, record_state, shared, thread};
    use crate::metrics::{self, gpu};
    use crate::sync::lock;

    /// All locks, in the order in which they were taken.
    struct ForkLocks {
        _settings: Box<dyn Any>,
        engine: EngineGuard,
        marks: MutexGuard<'static, Marks>,
        _others: [Box<dyn Any>; 8],
        _hooks: Option<Box<dyn Any>>,
        _shared: Box<dyn Any>,
        own_open: Option<thread::OwnOpen>,
    }

    /// The functions of an upper room at a fork.
    #[cfg_attr(
        not(feature = "live"),
        allow(dead_code, reason = "only the room `live` has hooks")
    )]
    #[derive(Debug)]
    pub(crate) struct Hooks {
        /// Takes a lock, below which no other is taken, and returns its guard.
        pub(crate) lock: fn() -> Box<dyn Any>,
        /// Runs in the child, without the lock.
        pub(crate) in_child: fn(),
    }

    static HOOKS: OnceLock<Hooks> = OnceLock::new();

    /// Sets the hooks, once.
    #[cfg(feature = "live")]
    pub(crate) fn set_hooks(hooks: Hooks) {
        let _ = HOOKS.set(hooks);
    }

    thread_local! {
        /// The locks, on the thread that forks, during the fork.
        static FORK_LOCKS: RefCell<Option<ForkLocks>> = const { RefCell::new(None) };
    }

    pub(in super::super) fn install() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // SAFETY: the three functions have the C signature, do not unwind, and live as long as
            // the program.
            unsafe { libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child)) };
        });
    }

    unsafe extern "C" fn prepare() {
        // A sink that forks inside vor already holds some of these locks. Its child must not
        // record.
        if thread::is_busy() {
            return;
        }
        thread::while_busy(|| {
            let locks = ForkLocks {
                _settings: Box::new(lock(&SETTINGS)),
                engine: lock_engine(),
                marks: lock(&MARKS),
                _others: [
                    Box::new(lock(&FRAME_SETS)),
                    Box::new(gpu::lock_for_fork()),
                    Box::new(metrics::lock_for_fork()),
                    Box::new(thread::lock_for_fork()),
                    Box::new(metrics::lock_blocks_for_fork()),
                    Box::new(worker::lock_for_fork()),
                    Box::new(thread::lock_counted_for_fork()),
                    Box::new(callsite::lock()),
                ],
                _hooks: HOOKS.get().map(|hooks| (hooks.lock)()),
                _shared: Box::new(shared::lock_for_fork()),
                own_open: thread::own_open(),
            };
            // A thread that is ending has no place for them. They are released, and the child does
            // not record.
            let _ = FORK_LOCKS.try_with(|place| place.replace(Some(locks)));
        });
    }

    /// Starts a thread without the standard library, which keeps a list of its threads under a
    /// lock. If a thread of the parent is starting or ending during the fork, that lock stays
    /// locked in the child for ever, and each new thread takes it first.
    pub(in super::super) fn spawn(
        name: &'static str,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        type Run = Box<dyn FnOnce() + Send>;

        extern "C" fn begin(run: *mut c_void) -> *mut c_void {
            // SAFETY: this is the pointer made below, and the thread is started once.
            let run = unsafe { Box::from_raw(run.cast::<Run>()) };
            // A panic must not cross into the C library; the panic hook has already reported it.
            let _ = catch_unwind(AssertUnwindSafe(run));
            std::ptr::null_mut()
        }

        let run: Run = Box::new(move || {
            name_thread(name);
            run();
        });
        let run = Box::into_raw(Box::new(run));
        let mut thread = MaybeUninit::uninit();
        // SAFETY: no attributes means the default ones. `begin` has the C signature, does not
        // unwind, and takes ownership of the box.
        let error = unsafe {
            libc::pthread_create(thread.as_mut_ptr(), std::ptr::null(), begin, run.cast())
        };
        if error != 0 {
            // SAFETY: no thread was started, so this function still owns the box.
            drop(unsafe { Box::from_raw(run) });
            return Err(io::Error::from_raw_os_error(error));
        }
        // SAFETY: the call succeeded, so the handle is set; no other code joins or detaches it.
        unsafe { libc::pthread_detach(thread.assume_init()) };
        Ok(())
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn name_thread(name: &str) {
        if let Ok(name) = CString::new(name) {
            // SAFETY: the name ends with a zero and lives across the call, which names the calling
            // thread.
            unsafe { libc::pthread_setname_np(libc::pthread_self(), name.as_ptr()) };
        }
    }

    /// Other systems name threads in other ways, and nothing depends on the name.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn name_thread(_: &str) {}

    fn take() -> Option<ForkLocks> {
        FORK_LOCKS.try_with(|place| place.take()).ok().flatten()
    }

    unsafe extern "C" fn in_parent() {
        drop(take());
    }

    unsafe extern "C" fn in_child() {
        let Some(mut locks) = take() else {
            record_state::set_off_for_fork();
            return;
        };
        // The engine's sinks hold the parent's files and unwritten buffers.
        std::mem::forget(locks.engine.take());
        std::mem::forget(std::mem::take(&mut *locks.marks));
        let own_open = locks.own_open.take();
        drop(locks);
        shared::forget();
        if let Some(own_open) = own_open {
            own_open.restore();
        }
        if let Some(hooks) = HOOKS.get() {
            (hooks.in_child)();
        }
        worker::forget();
        gpu::forget();
        thread::forget_all();
        thread::while_busy(thread::forget_counted);
        thread::forget_current();
        super::super::WAITING.store(0, crate::sync::Ordering::SeqCst);
        // Metrics that the parent recorded since its last mark are in the parent's next frame.
        thread::while_busy(metrics::forget);
        record_state::set_forked(true);
    }
}
