//! Threads for the rare long computation: an exchange with much to compute leaves its worker until its next wait.
//!
//! A worker serves thousands of exchanges in turn, and none may keep it for longer than [`STEP_MAX`] of its processor's
//! time. Between two waits an exchange computes for a time at most proportional to its input, so that only large ones can
//! take longer: they call [`step`] first. From there to the next wait they are polled by one of a few threads instead.
//! Only the future itself is moved, so that no code of an exchange depends on where it runs. In debug builds a watchdog
//! measures each step on a worker; the tests fail if one was too long.

use std::{
    any::Any,
    cell::Cell,
    future::{Future, poll_fn},
    mem,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::Pin,
    sync::{Arc, Mutex, OnceLock, PoisonError, mpsc},
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::runtime::Handle;

/// Time of its processor that an exchange may keep a worker for at a stretch.
pub const STEP_MAX: Duration = Duration::from_millis(50);
/// Bytes of a request or an answer above which an exchange steps aside.
pub const BYTES_MAX: usize = 512 << 10;
/// Threads for exchanges that stepped aside.
const THREADS_MAX: usize = 4;

type Running<T> = Pin<Box<dyn Future<Output = T> + Send>>;

#[derive(Clone, Copy, Eq, PartialEq)]
enum ThreadPlacement {
    /// In no exchange that could be moved.
    Elsewhere,
    /// On its worker.
    Worker,
    /// On its worker, and asks to be moved.
    Leaves,
    /// On one of the threads here.
    Aside,
}

thread_local! {
    static PLACE: Cell<ThreadPlacement> = const { Cell::new(ThreadPlacement::Elsewhere) };
}

/// Moves the exchange to another thread until its next wait. To be called before long computations.
pub async fn step() {
    let mut asked = false;
    poll_fn(|_| {
        if mem::replace(&mut asked, true) || PLACE.get() != ThreadPlacement::Worker {
            return Poll::Ready(());
        }
        PLACE.set(ThreadPlacement::Leaves);
        Poll::Pending
    })
    .await;
}

/// [`step`], if more than [`BYTES_MAX`] bytes are to be processed.
pub async fn step_for(bytes: usize) {
    if bytes > BYTES_MAX {
        step().await;
    }
}

/// An exchange that can [`step`] aside.
pub struct Movable<T> {
    running: Option<Running<T>>,
    away: Option<Away<T>>,
}

type Away<T> = Arc<Mutex<HandoverSlot<T>>>;

/// Slot in which an exchange is handed between its worker and another thread.
enum HandoverSlot<T> {
    /// It runs on another thread; the waker of its worker's task.
    Out(Waker),
    /// It waits for I/O.
    Back(Running<T>),
    /// It has ended.
    Done(T),
    /// It panicked.
    Panicked(Box<dyn Any + Send>),
}

impl<T: Send + 'static> Movable<T> {
    /// Wraps an exchange.
    pub fn new(exchange: impl Future<Output = T> + Send + 'static) -> Self {
        Self::made(|| exchange)
    }

    /// Wraps the exchange that `make` returns: it is made in the memory where it stays, as moving it there would copy some kilobytes.
    #[inline]
    pub fn made<F: Future<Output = T> + Send + 'static>(make: impl FnOnce() -> F) -> Self {
        let exchange = Box::write(Box::<F>::new_uninit(), make());
        Self { running: Some(Box::into_pin(exchange)), away: None }
    }

    fn leave(&mut self, waker: &Waker) {
        let Some(running) = self.running.take() else { return };
        let away = Arc::new(Mutex::new(HandoverSlot::Out(waker.clone())));
        self.away = Some(away.clone());
        let (handle, waker) = (Handle::current(), waker.clone());
        run_aside(Box::new(move || {
            let _entered = handle.enter();
            let mut running = running;
            PLACE.set(ThreadPlacement::Aside);
            let polled = catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(&mut Context::from_waker(&waker))));
            PLACE.set(ThreadPlacement::Elsewhere);
            let slot = match polled {
                Ok(Poll::Ready(done)) => HandoverSlot::Done(done),
                Ok(Poll::Pending) => HandoverSlot::Back(running),
                Err(payload) => HandoverSlot::Panicked(payload),
            };
            let before = mem::replace(&mut *away.lock().unwrap_or_else(PoisonError::into_inner), slot);
            if let HandoverSlot::Out(waker) = before {
                waker.wake();
            }
            // Whoever gave it up meanwhile: it is dropped here, where its timers can be.
            drop(away);
        }));
    }
}

impl<T: Send + 'static> Future for Movable<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        if let Some(away) = self.away.take() {
            let slot = mem::replace(&mut *away.lock().unwrap_or_else(PoisonError::into_inner), HandoverSlot::Out(context.waker().clone()));
            match slot {
                HandoverSlot::Out(_) => {
                    self.away = Some(away);
                    return Poll::Pending;
                }
                HandoverSlot::Back(running) => self.running = Some(running),
                HandoverSlot::Done(done) => return Poll::Ready(done),
                HandoverSlot::Panicked(payload) => resume_unwind(payload),
            }
        }
        let Some(running) = &mut self.running else { return Poll::Pending };
        let outer = PLACE.replace(ThreadPlacement::Worker);
        let begun = watchdog::now();
        let polled = running.as_mut().poll(context);
        watchdog::check(begun);
        let leaves = PLACE.replace(outer) == ThreadPlacement::Leaves;
        if polled.is_pending() && leaves {
            self.leave(context.waker());
        }
        polled
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// Gives a job to one of the threads, which take jobs in turn.
fn run_aside(job: Job) {
    static QUEUE: OnceLock<Option<mpsc::Sender<Job>>> = OnceLock::new();
    let start = || {
        let (sender, receiver) = mpsc::channel::<Job>();
        let receiver = Arc::new(Mutex::new(receiver));
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        let started = (0..threads).filter(|number| {
            let receiver = receiver.clone();
            let work = move || {
                loop {
                    let job = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(job) = job else { return };
                    job();
                }
            };
            std::thread::Builder::new().name(format!("aside-{number}")).spawn(work).is_ok()
        });
        (started.count() > 0).then_some(sender)
    };
    match QUEUE.get_or_init(start) {
        Some(queue) => {
            if let Err(mpsc::SendError(job)) = queue.send(job) {
                job();
            }
        }
        // Without threads it takes the worker's time after all.
        None => job(),
    }
}

/// Measures the steps of exchanges on their workers, in debug builds.
#[cfg(debug_assertions)]
pub mod watchdog {
    use std::{
        sync::atomic::{AtomicU64, Ordering},
        time::Duration,
    };

    /// Factor by which a step may take longer in a debug build: unoptimised code takes up to thirty times as long, and the
    /// first exchange of a process also builds what all others share. The limit is meant for steps whose time grows with
    /// the input, which exceed any limit.
    pub const DEBUG_FACTOR: u32 = 60;

    static LONGEST_NS: AtomicU64 = AtomicU64::new(0);

    /// CPU time of the current thread; zero where the system doesn't tell it.
    pub fn now() -> Duration {
        #[cfg(unix)]
        {
            use rustix::time::{ClockId, clock_gettime};
            let time = clock_gettime(ClockId::ThreadCPUTime);
            Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), u32::try_from(time.tv_nsec).unwrap_or_default())
        }
        #[cfg(not(unix))]
        Duration::ZERO
    }

    /// Records a step that started at this CPU time and has ended.
    pub fn check(begun: Duration) {
        let step = now().saturating_sub(begun);
        LONGEST_NS.fetch_max(u64::try_from(step.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Longest step since the last call.
    pub fn longest() -> Duration {
        Duration::from_nanos(LONGEST_NS.swap(0, Ordering::Relaxed))
    }
}

/// Nothing is measured.
#[cfg(not(debug_assertions))]
mod watchdog {
    pub fn now() {}
    pub fn check((): ()) {}
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        thread,
    };

    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    fn name() -> String {
        thread::current().name().unwrap_or_default().to_owned()
    }

    #[test]
    fn what_is_long_runs_aside_and_comes_back() {
        let own = name();
        let names = block_on(Movable::new(async {
            let mut names = vec![name()];
            step().await;
            names.push(name());
            tokio::time::sleep(Duration::from_millis(1)).await;
            names.push(name());
            step_for(1).await;
            names.push(name());
            step_for(BYTES_MAX + 1).await;
            step().await;
            names.push(name());
            names
        }));
        assert!(names[1].starts_with("aside-") && names[4].starts_with("aside-"), "{names:?}");
        assert_eq!([&names[0], &names[2], &names[3]], [&own; 3]);
        // In no exchange it is nothing.
        block_on(step());
    }

    #[test]
    fn others_go_on_meanwhile() {
        let (sender, receiver) = mpsc::channel::<()>();
        block_on(async {
            let long = tokio::spawn(Movable::new(async move {
                step().await;
                // Would wait for ever, did it keep the worker.
                receiver.recv().unwrap();
                7
            }));
            tokio::task::yield_now().await;
            sender.send(()).unwrap();
            assert_eq!(long.await.unwrap(), 7);
        });
    }

    #[test]
    fn panics_come_back_and_who_gives_up_drops() {
        static DROPPED: AtomicUsize = AtomicUsize::new(0);
        struct Noted;
        impl Drop for Noted {
            fn drop(&mut self) {
                DROPPED.fetch_add(1, Ordering::SeqCst);
            }
        }
        block_on(async {
            let broken = tokio::spawn(Movable::new(async {
                step().await;
                resume_unwind(Box::new("broken"));
            }));
            assert!(broken.await.unwrap_err().is_panic());
            let (sender, receiver) = mpsc::channel::<()>();
            let given_up = tokio::spawn(Movable::new(async move {
                let _noted = Noted;
                step().await;
                let _ended = receiver.recv();
                tokio::time::sleep(Duration::from_secs(60)).await;
            }));
            tokio::task::yield_now().await;
            given_up.abort();
            assert!(given_up.await.unwrap_err().is_cancelled());
            drop(sender);
        });
        while DROPPED.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
    }
}
