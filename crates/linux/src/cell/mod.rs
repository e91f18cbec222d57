//! Cells: a set of namespaces (user, mount, pid, ipc, uts, cgroup, and net when asked) with a file tree of their own, an
//! init, and programs in them. No privilege is needed (user_namespaces(7)).
//!
//! Three kinds of short code run between fork and exec, in this order:
//!
//! * the *maker* unshares, maps the account to itself, starts init and the program, builds the tree ([`view`]) and tells
//!   the program to go; for further programs an *enterer* joins the namespaces and starts them. Both end at once.
//! * *init*, process 1 of the cell, makes the cell's /proc (only a process of the pid namespace can), hands it to the
//!   maker, and then waits for the end of a pipe whose other end we hold: when we are gone, however, it ends, and the
//!   kernel then kills every process of the cell (pid_namespaces(7)). It ignores SIGCHLD, so that orphans leave no
//!   zombies (wait(2)).
//! * the *program* gives up every right, which takes as long as building the tree and is done beside it, and executes
//!   ([`program`]). It is started with CLONE_PARENT, so that it is our own child: its end is seen by us directly, with no
//!   one between.
//!
//! The code of these processes allocates nothing and takes no lock: the process they were forked from may have threads.
//! Not here: which paths and rules (kumiko-sandbox).

mod cover;
pub(crate) mod program;
pub(crate) mod report;
mod rules;
mod seccomp;
mod view;

pub use cover::{Cover, Covered, Open, With, Without};
pub use program::{Program, Role, Streams};
pub(crate) use report::Reports;
pub use report::{Failure, Stage};
pub use rules::guest_filter;
pub use seccomp::{Filter, Verdict, takes_filters};
pub use view::{Source, Step, View};

use crate::process;
use program::Ready;
use report::{Message, Told};
use rustix::fs::{Mode, OFlags};
use rustix::thread::{ThreadNameSpaceType, UnshareFlags};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The namespaces that every cell has.
const SPACES: UnshareFlags = UnshareFlags::NEWUSER
    .union(UnshareFlags::NEWNS)
    .union(UnshareFlags::NEWPID)
    .union(UnshareFlags::NEWIPC)
    .union(UnshareFlags::NEWUTS)
    .union(UnshareFlags::NEWCGROUP);

/// The longest start of a further program. Slow disks take a second; a program of the cell that stops all it can
/// (kill(-1, SIGSTOP)) would hold us up for ever, since the new one is of the same account until it executes.
const START_WITHIN: Duration = Duration::from_secs(10);

/// A running cell, of a process that does not ignore SIGCHLD. Dropping it kills what is left in it and waits for
/// nothing; init ends after the last of our children in the cell is reaped.
#[derive(Debug)]
pub struct Cell {
    init: OwnedFd,
    init_pid: i32,
    /// Init reads the other end; never written.
    _life: OwnedFd,
    /// What to join in it.
    spaces: UnshareFlags,
    /// Still taking off the old root when the program runs already; reaped with the cell.
    maker: i32,
}

/// A program that was started: a child of this process.
#[derive(Debug)]
pub struct Child {
    pub pid: i32,
    pub pidfd: OwnedFd,
    /// The master of the terminal that was asked for.
    pub terminal: Option<OwnedFd>,
}

impl Cell {
    /// Makes a cell with this view and starts a program in it. `network`: leave the host's network to it.
    pub fn start(
        view: &View,
        network: bool,
        program: &Program<'_>,
    ) -> Result<(Cell, Child), Failure> {
        Cell::make(view, network, program, None)
    }

    /// The same, of which programs may be dumped and restored: the account is root inside (without its rights), the numbers that its processes have among each other begin
    /// behind `last`, so that those of a dump are free elsewhere; and no user namespace can be made in it, which is what a
    /// guest's filter sees to otherwise.
    pub fn start_numbered(
        view: &View,
        network: bool,
        program: &Program<'_>,
        last: i32,
    ) -> Result<(Cell, Child), Failure> {
        let last = last.to_string();
        Cell::make(view, network, program, Some(last.as_bytes()))
    }

    fn make(
        view: &View,
        network: bool,
        program: &Program<'_>,
        last_number: Option<&[u8]>,
    ) -> Result<(Cell, Child), Failure> {
        let kernel = |error: io::Error| Failure::new(Stage::Prepare, &error);
        let (init_end, life) = crate::spooling::pipe().map_err(kernel)?;
        let (reports, report_end) = report::pair().map_err(kernel)?;
        let maps = match last_number {
            Some(_) => Maps::as_root(),
            None => Maps::of_this_account(),
        };
        let mut slots = view.slots();
        let ready = program.ready();
        // SAFETY: the child runs `maker` alone, which allocates nothing and takes no lock.
        let maker = unsafe {
            fork(0, || {
                maker(Maker {
                    view,
                    slots: &mut slots,
                    network,
                    maps: &maps,
                    life: life.as_raw_fd(),
                    init_end: init_end.as_fd(),
                    reports: report_end.as_fd(),
                    program: &ready,
                    last_number,
                })
            })
        }
        .map_err(kernel)?;
        drop((report_end, init_end));
        let told = reports.collect();
        let Some(init) = told.init else {
            reap_helper(maker);
            return Err(told.failure.unwrap_or(Failure::LOST));
        };
        let cell = Cell {
            init: process::pidfd(init).map_err(kernel)?,
            init_pid: init,
            _life: life,
            spaces: spaces(network),
            maker,
        };
        let child = child(told, program)?;
        Ok((cell, child))
    }

    /// Starts one more program in the cell. One that is held up kills the cell.
    pub fn start_more(&self, program: &Program<'_>) -> Result<Child, Failure> {
        let kernel = |error: io::Error| Failure::new(Stage::Prepare, &error);
        let (reports, report_end) = report::pair().map_err(kernel)?;
        let mut ready = program.ready();
        // SAFETY: the child runs `enterer` alone, which allocates nothing and takes no lock.
        let forked = unsafe { fork(0, || enterer(self, report_end.as_fd(), &mut ready)) };
        let enterer = forked.map_err(kernel)?;
        drop(report_end);
        if !reports.over_within(START_WITHIN) {
            self.kill();
        }
        let told = reports.collect();
        reap_helper(enterer);
        child(told, program)
    }

    /// The processes in it that are seen now, but for its init: their numbers here and in the cell.
    pub fn processes(&self) -> io::Result<Vec<(i32, i32)>> {
        let mut all = process::in_namespace_of(self.init_pid)?;
        all.retain(|(here, _)| *here != self.init_pid);
        Ok(all)
    }

    /// The root of its view, by a path that holds while it lives.
    pub fn root(&self) -> std::path::PathBuf {
        format!("/proc/{}/root", self.init_pid).into()
    }

    /// Kills every process of the cell; returns at once.
    pub fn kill(&self) {
        // No error is possible but its being dead already.
        let _ = process::signal(self.init.as_fd(), libc::SIGKILL);
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        self.kill();
        let mut ending = ENDING.lock().unwrap_or_else(PoisonError::into_inner);
        ending.extend([self.maker, self.init_pid]);
        reap_ended(&mut ending);
    }
}

/// Helpers of dropped cells that are about to end, and are reaped when they have: nobody waits for a kernel that takes
/// down namespaces.
static ENDING: Mutex<Vec<i32>> = Mutex::new(Vec::new());

fn reap_ended(ending: &mut Vec<i32>) {
    // SAFETY: no status is asked for; these children are ours, and waited for here alone.
    ending.retain(|pid| unsafe { libc::waitpid(*pid, std::ptr::null_mut(), libc::WNOHANG) } == 0);
}

/// Can this account make a cell's namespaces? A child process tries and ends.
pub fn try_namespaces() -> io::Result<()> {
    let maps = Maps::of_this_account();
    let (reports, report_end) = report::pair()?;
    // SAFETY: the child allocates nothing and takes no lock.
    let child = unsafe {
        fork(0, || {
            let unshared =
                rustix::thread::unshare_unsafe(SPACES).map_err(Failure::at(Stage::Unshare));
            if let Err(failure) =
                unshared.and_then(|()| maps.write().map_err(Failure::at(Stage::Map)))
            {
                Reports::tell(report_end.as_fd(), &Message::failed(&failure));
            }
        })
    }?;
    drop(report_end);
    let told = reports.collect();
    reap_helper(child);
    told.failure.map_or(Ok(()), |failure| Err(failure.cause()))
}

/// The program's child, or why there is none; one that failed before its exec is reaped here.
fn child(told: Told, program: &Program<'_>) -> Result<Child, Failure> {
    match (told.program, told.failure) {
        (Some(pid), None) => {
            let pidfd =
                process::pidfd(pid).map_err(|error| Failure::new(Stage::Prepare, &error))?;
            let wanted = matches!(program.streams, Streams::Terminal { .. });
            if wanted && told.terminal.is_none() {
                // The kernel drops what a process has no room for (MSG_CTRUNC, recvmsg(2)).
                let _ = process::signal(pidfd.as_fd(), libc::SIGKILL);
                reap_helper(pid);
                return Err(Failure::at(Stage::Terminal)(rustix::io::Errno::MFILE));
            }
            Ok(Child {
                pid,
                pidfd,
                terminal: told.terminal,
            })
        }
        (pid, failure) => {
            if let Some(pid) = pid {
                reap_helper(pid);
            }
            Err(failure.unwrap_or(Failure::LOST))
        }
    }
}

/// Waits for a child that ends by itself at once.
pub(crate) fn reap_helper(pid: i32) {
    loop {
        // SAFETY: no status is asked for; the child is ours and not waited for elsewhere.
        let done = unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
        if done >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return;
        }
    }
}

/// Dropped at the end of a copy of this process, by a panic too: what follows it in the source is the original's.
pub(crate) struct EndOfCopy;

impl Drop for EndOfCopy {
    fn drop(&mut self) {
        // SAFETY: ends the copy, without the handlers and buffers of the process it was copied from.
        unsafe { libc::_exit(0) }
    }
}

/// Runs `child` in a copy of this process, with all signals blocked so that no handler of ours runs there.
/// `flags`: of clone(2), beside SIGCHLD.
///
/// # Safety
/// `child` must not allocate, lock or panic: another thread may have held a lock when the copy was made.
pub(crate) unsafe fn fork(flags: libc::c_int, child: impl FnOnce()) -> io::Result<i32> {
    // SAFETY: both sets are locals that the calls fill in before they are read.
    let (all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { std::mem::zeroed() };
    let mut all = all;
    // SAFETY: as above.
    unsafe {
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
    }
    let flags = libc::c_long::from(flags | libc::SIGCHLD);
    // SAFETY: without CLONE_VM and with no stack given this is fork(2); the child does as promised above.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    if pid == 0 {
        let _end = EndOfCopy;
        child();
    }
    let error = io::Error::last_os_error();
    // SAFETY: `before` was filled in above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    if pid < 0 { Err(error) } else { Ok(pid as i32) }
}

struct Maker<'a> {
    view: &'a View,
    slots: &'a mut [Option<OwnedFd>],
    network: bool,
    maps: &'a Maps,
    life: libc::c_int,
    init_end: BorrowedFd<'a>,
    reports: BorrowedFd<'a>,
    program: &'a Ready<'a>,
    /// In digits.
    last_number: Option<&'a [u8]>,
}

fn maker(job: Maker<'_>) {
    // SAFETY: this copy's own descriptor of our end of the pipe; nobody here uses it again. Init must not inherit it,
    // or it would keep itself alive.
    unsafe { libc::close(job.life) };
    let reports = job.reports;
    if let Err(failure) = make(job) {
        return Reports::tell(reports, &Message::failed(&failure));
    }
    // Whoever waits for the end of these descriptors, the program's output among them, need not wait for what follows.
    // SAFETY: this copy uses none of its descriptors again.
    unsafe { libc::close_range(0, libc::c_uint::MAX, 0) };
    view::take_off_old_root();
}

fn make(job: Maker<'_>) -> Result<(), Failure> {
    let Maker {
        view,
        slots,
        network,
        maps,
        init_end,
        reports,
        program,
        last_number,
        ..
    } = job;
    let flags = spaces(network);
    // SAFETY: a process with one thread and nothing shared: no other thread can miss what it thought it had.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(Failure::at(Stage::Unshare))?;
    maps.write().map_err(Failure::at(Stage::Map))?;
    let starting = |error: io::Error| Failure::new(Stage::Init, &error);
    let (from_init, to_maker) = report::pair().map_err(starting)?;
    let ours = from_init.end().as_raw_fd();
    let numbering = last_number.map(|last| Ok((last, crate::spooling::pipe()?)));
    let numbering = numbering.transpose().map_err(starting)?;
    // SAFETY: the child runs `init` alone, which allocates nothing and takes no lock.
    let init = unsafe {
        fork(libc::CLONE_PARENT, || {
            let number = numbering.as_ref();
            let number = number.map(|(last, (_, told))| (*last, told.as_fd()));
            init(init_end, to_maker.as_fd(), number)
        })
    }
    .map_err(starting)?;
    Reports::tell(reports, &Message::init(init));
    if let Some((_, (numbered, tells))) = numbering {
        drop(tells);
        // The program's own number is one of those.
        if rustix::io::read(&numbered, &mut [0u8; 1]) != Ok(1) {
            return Err(Failure::at(Stage::Init)(rustix::io::Errno::PERM));
        }
    }
    // SAFETY: the child runs `become_program` alone, which allocates nothing and takes no lock.
    let started = unsafe {
        fork(libc::CLONE_PARENT, || {
            // SAFETY: this copy's own descriptor; nobody here uses it again. Held here, it would hide the maker's end.
            libc::close(ours);
            program.become_program(reports, to_maker.as_fd());
        })
    };
    let program = started.map_err(|error| Failure::new(Stage::Program, &error))?;
    Reports::tell(reports, &Message::program(program));
    drop(to_maker);
    if !network {
        loopback_up().map_err(Failure::at(Stage::Loopback))?;
    }
    view::build(view, slots, &from_init)?;
    Reports::tell(from_init.end(), &Message::go());
    Ok(())
}

fn enterer(cell: &Cell, reports: BorrowedFd<'_>, program: &mut Ready<'_>) {
    let kinds = ThreadNameSpaceType::from_bits_truncate(cell.spaces.bits());
    // The account made the user namespace of init, which is what lets it join the rest.
    match rustix::thread::move_into_thread_name_spaces(cell.init.as_fd(), kinds) {
        Ok(()) => run_program(reports, program),
        Err(errno) => Reports::tell(reports, &Message::failed(&Failure::at(Stage::Enter)(errno))),
    }
}

fn run_program(reports: BorrowedFd<'_>, program: &mut Ready<'_>) {
    let message = match program.start(reports) {
        Ok(pid) => Message::program(pid),
        Err(errno) => Message::failed(&Failure::at(Stage::Program)(errno)),
    };
    Reports::tell(reports, &message);
}

/// What a cell joins and leaves: the host's network stays, or is left too.
fn spaces(network: bool) -> UnshareFlags {
    if network {
        SPACES
    } else {
        SPACES | UnshareFlags::NEWNET
    }
}

/// Process 1 of the cell.
fn init(end: BorrowedFd<'_>, maker: BorrowedFd<'_>, number: Option<(&[u8], BorrowedFd<'_>)>) {
    let handed = view::processes().and_then(|all| {
        if let Some((last, told)) = number {
            settle(all.as_fd(), c"sys/kernel/ns_last_pid", last)?;
            settle(all.as_fd(), c"sys/user/max_user_namespaces", b"0")?;
            rustix::io::write(told, &[0])?;
        }
        Ok(all)
    });
    if let Err(errno) = handed.and_then(|all| Reports::tell_fd(maker, all.as_fd())) {
        Reports::tell(maker, &Message::failed(&Failure::at(Stage::Mount)(errno)));
    }
    // Further programs join by our pidfd, which the kernel grants for what may be traced (ptrace(2), "access mode").
    // Programs of the cell may not trace us all the same: we have capabilities that they have not.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable);
    let end = end.as_raw_fd();
    // SAFETY: this process uses no descriptor but `end` from here on; names and dispositions are its own.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"init".as_ptr());
        libc::setsid();
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        if end > 0 {
            libc::close_range(0, end as libc::c_uint - 1, 0);
        }
        libc::close_range(end as libc::c_uint + 1, libc::c_uint::MAX, 0);
        let mut byte = 0u8;
        // All signals are blocked (see `fork`), and the kernel keeps those of the cell from its init: nothing ends this
        // read but the end of the pipe.
        while libc::read(end, (&raw mut byte).cast(), 1) > 0 {}
    }
}

/// Writes one of the kernel's settings that belong to the cell's own namespaces (proc(5)).
fn settle(proc: BorrowedFd<'_>, name: &CStr, value: &[u8]) -> Result<(), rustix::io::Errno> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(proc, name, flags, Mode::empty())?;
    rustix::io::write(&file, value).map(drop)
}

/// Lines for /proc/self/uid_map and gid_map: the account is itself inside (or root), and nobody else is anybody.
struct Maps {
    uid: String,
    gid: String,
}

impl Maps {
    fn of_this_account() -> Maps {
        let (uid, gid) = account();
        Maps {
            uid: format!("{uid} {uid} 1\n"),
            gid: format!("{gid} {gid} 1\n"),
        }
    }

    /// The account is root inside, which is whom CRIU becomes before all else.
    fn as_root() -> Maps {
        let (uid, gid) = account();
        Maps {
            uid: format!("0 {uid} 1\n"),
            gid: format!("0 {gid} 1\n"),
        }
    }

    fn write(&self) -> Result<(), rustix::io::Errno> {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // The files of a process that is not dumpable belong to root (proc(5)).
        set_dumpable_behavior(DumpableBehavior::Dumpable)?;
        for (file, line) in [
            (c"/proc/self/setgroups", "deny"),
            (c"/proc/self/gid_map", &self.gid),
            (c"/proc/self/uid_map", &self.uid),
        ] {
            let file = rustix::fs::open(file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
            rustix::io::write(&file, line.as_bytes())?;
        }
        set_dumpable_behavior(DumpableBehavior::NotDumpable)
    }
}

fn account() -> (u32, u32) {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    (uid.as_raw(), gid.as_raw())
}

/// A new network namespace has its loopback down.
fn loopback_up() -> Result<(), rustix::io::Errno> {
    let socket = rustix::net::socket_with(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: all zeros is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(*b"lo") {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the request is a live local of the type that SIOCSIFFLAGS reads (netdevice(7)).
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if result == 0 {
        Ok(())
    } else {
        Err(report::errno())
    }
}
