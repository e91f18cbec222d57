//! `kumiko jojo watch`: shows what a Jojo program does while it runs (spec/jojo J21): one that runs already, one that it starts,
//! or a stream that was kept. On a terminal a screen, else lines; with --json the events as they come; with --report a page when
//! it is over. Not in it: what events mean (`history`), what they look like (`view`, `report`).

use crate::args::Jojo;
use crate::fail::{FAILED, Failure, While};
use crate::jojo::history::{History, LINE_MOST_BYTES, Told};
use crate::jojo::{java, report, view};
use clap::Parser;
use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Of what a program that has ended printed, and of its last events: nobody keeps these pipes open but it.
const LAST_MOST: Duration = Duration::from_secs(2);
/// Lines on a pipe are for people and logs: ticks come twice as often.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Shows what a program of Jojo does: nodes, messages, work, the best so far, who was lost.
#[derive(Debug, Parser)]
#[command(name = "kumiko jojo watch", no_binary_name = true)]
struct Options {
    /// The program's process; needed where several run.
    #[arg(long, conflicts_with_all = ["from", "program"])]
    pid: Option<u32>,
    /// A stream that --json gave, instead of a program.
    #[arg(long, value_name = "FILE", conflicts_with = "program")]
    from: Option<PathBuf>,
    /// Events as lines of JSON on stdout, instead of a view.
    #[arg(long)]
    json: bool,
    /// A page of HTML with plots, written when it is over.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// CONF [PROPS]: a program to start and watch, with its output and its status. Without: one that runs here already.
    #[arg(
        value_name = "CONF PROPS",
        trailing_var_arg = true,
        num_args = 0..=2
    )]
    program: Vec<OsString>,
}

/// What comes from any of the threads that read.
enum News {
    Event(String),
    /// Where events come from has an end.
    NoMore,
    Out(Vec<u8>),
    Err(Vec<u8>),
    /// The program has ended.
    Ended(std::process::ExitStatus),
    Broken(Failure),
}

pub fn watch(jojo: &Jojo, arguments: &[OsString]) -> Result<u8, Failure> {
    let options = match Options::try_parse_from(arguments) {
        Ok(options) => options,
        Err(error) => {
            let _ = error.print();
            return Ok(u8::try_from(error.exit_code()).unwrap_or(FAILED));
        }
    };
    let mut show = Show::new(&options)?;
    let status = if options.program.is_empty() {
        let (to, news) = channel();
        match &options.from {
            Some(file) => {
                let opened = File::open(file);
                events(opened.doing(|| format!("opening {}", file.display()))?, to);
            }
            None => events(running(options.pid)?, to),
        }
        look(&mut show, &news)?
    } else {
        start(jojo, &options, &mut show)?
    };
    show.finish()?;
    Ok(status)
}

/// Follows a program that somebody else started. Its status, as it told it.
fn look(show: &mut Show, news: &Receiver<News>) -> Result<u8, Failure> {
    for one in news {
        match one {
            News::Event(line) => show.event(&line)?,
            News::Broken(failure) => return Err(failure),
            News::NoMore => break,
            News::Out(_) | News::Err(_) | News::Ended(_) => {}
        }
    }
    match &show.history.end {
        Some(end) => Ok(end.status),
        None => {
            show.note("the program is gone, and did not say how it ended");
            Ok(FAILED)
        }
    }
}

/// Starts a program, and follows it to its end. Its status.
fn start(jojo: &Jojo, options: &Options, show: &mut Show) -> Result<u8, Failure> {
    let socket = folder()?.join(format!("watch-{}", std::process::id()));
    let _ = std::fs::remove_file(&socket);
    let listener =
        UnixListener::bind(&socket).doing(|| format!("listening at {}", socket.display()))?;
    let mut option = OsString::from("-Djojo.watch=");
    option.push(&socket);
    let spawned = java(jojo, &[option])?
        .args(&options.program)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = spawned.doing(|| "starting java".to_owned())?;
    let (to, news) = channel();
    pieces(child.stdout.take(), to.clone(), News::Out);
    pieces(child.stderr.take(), to.clone(), News::Err);
    accept(listener, socket.clone(), to.clone());
    waiting(child, to);
    let outcome = follow(show, &news);
    let _ = std::fs::remove_file(&socket);
    outcome
}

fn follow(show: &mut Show, news: &Receiver<News>) -> Result<u8, Failure> {
    let mut ended = None;
    // stdout and stderr; and events, from when there are any.
    let mut open = 2;
    let mut until: Option<Instant> = None;
    loop {
        let next = match until {
            None => news.recv().ok(),
            Some(until) => news
                .recv_timeout(until.saturating_duration_since(Instant::now()))
                .ok(),
        };
        match next {
            None => break,
            Some(News::Event(line)) => {
                if line.starts_with("{\"jojo\"") {
                    open += 1;
                }
                show.event(&line)?;
            }
            Some(News::Out(bytes)) => show.program(&bytes, true),
            Some(News::Err(bytes)) => show.program(&bytes, false),
            Some(News::NoMore) => open -= 1,
            Some(News::Broken(failure)) => return Err(failure),
            Some(News::Ended(status)) => {
                ended = Some(status);
                until = Some(Instant::now() + LAST_MOST);
            }
        }
        if ended.is_some() && open == 0 {
            break;
        }
    }
    let code = ended.and_then(|s| s.code().or_else(|| s.signal().map(|signal| 128 + signal)));
    Ok(code.and_then(|c| u8::try_from(c).ok()).unwrap_or(FAILED))
}

/// Of a program that is to be waited for.
fn waiting(mut child: Child, to: Sender<News>) {
    std::thread::spawn(move || {
        let news = match child.wait() {
            Ok(status) => News::Ended(status),
            Err(error) => News::Broken(Failure::from_text(format!("waiting for java: {error}"))),
        };
        let _ = to.send(news);
    });
}

/// The program that was started calls; nobody else can, the folder is its owner's alone.
fn accept(listener: UnixListener, socket: PathBuf, to: Sender<News>) {
    std::thread::spawn(move || {
        if let Ok((stream, _)) = listener.accept() {
            let _ = std::fs::remove_file(socket);
            read(stream, &to);
        }
    });
}

fn events(from: impl Read + Send + 'static, to: Sender<News>) {
    std::thread::spawn(move || read(from, &to));
}

fn read(from: impl Read, to: &Sender<News>) {
    let mut from = BufReader::new(from);
    loop {
        let mut line = String::new();
        let got = from.by_ref().take(LINE_MOST_BYTES).read_line(&mut line);
        let news = match got {
            // What was cut off in mid-line is as good as nothing.
            Ok(_) if !line.ends_with('\n') => News::NoMore,
            Ok(_) => News::Event(line.trim_end().to_owned()),
            Err(_) => News::NoMore,
        };
        let last = matches!(news, News::NoMore);
        if to.send(news).is_err() || last {
            return;
        }
    }
}

fn pieces(from: Option<impl Read + Send + 'static>, to: Sender<News>, news: fn(Vec<u8>) -> News) {
    std::thread::spawn(move || {
        let mut buffer = [0; 8192];
        if let Some(mut from) = from {
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                if to.send(news(buffer[..count].to_vec())).is_err() {
                    return;
                }
            }
        }
        let _ = to.send(News::NoMore);
    });
}

// -- which one --------------------------------------------------------------------------------------------------------

/// Where programs of this account listen (spec/jojo J21); made where it is not.
fn folder() -> Result<PathBuf, Failure> {
    let folder = place()?;
    let doing = || format!("making {}", folder.display());
    if let Some(parent) = folder.parent() {
        std::fs::create_dir_all(parent).doing(doing)?;
    }
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(error).doing(doing);
        }
        _ => {}
    }
    let is = std::fs::symlink_metadata(&folder).doing(doing)?;
    let own = std::fs::metadata("/proc/self").doing(doing)?.uid();
    if !is.is_dir() || is.uid() != own || is.mode() & 0o777 != 0o700 {
        return Err(Failure::from_text(format!(
            "{} is not a folder of yours alone: chmod 700 it, or remove it",
            folder.display()
        )));
    }
    Ok(folder)
}

fn place() -> Result<PathBuf, Failure> {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    if let Some(runtime) = absolute("XDG_RUNTIME_DIR") {
        return Ok(runtime.join("jojo"));
    }
    let home = absolute("HOME").map(|home| home.join(".cache/jojo-run"));
    home.ok_or_else(|| Failure::from_text("neither HOME nor XDG_RUNTIME_DIR names a folder, where programs of Jojo could be watched"))
}

/// The program that runs, or the one of this process.
fn running(pid: Option<u32>) -> Result<UnixStream, Failure> {
    let folder = folder()?;
    let files = std::fs::read_dir(&folder).doing(|| format!("reading {}", folder.display()))?;
    let mut names: Vec<String> = files
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.split('.').all(|n| n.parse::<u32>().is_ok()))
        .collect();
    names.sort();
    let mut open: Vec<(String, UnixStream)> = Vec::new();
    for name in names {
        let process = name.split('.').next().and_then(|n| n.parse::<u32>().ok());
        if pid.is_none() || process == pid {
            if let Some(stream) = call(&folder.join(&name)) {
                open.push((name, stream));
            }
        }
    }
    if open.len() > 1 {
        let names: Vec<&str> = open.iter().map(|(name, _)| name.as_str()).collect();
        return Err(Failure::misuse(format!(
            "several programs of Jojo run here: name one by --pid: {}",
            names.join(", ")
        )));
    }
    open.pop().map(|(_, stream)| stream).ok_or_else(|| {
        Failure::from_text(match pid {
            Some(pid) => format!(
                "process {pid} is no client of a Jojo program of yours ({} has no socket of it)",
                folder.display()
            ),
            None => format!(
                "no program of Jojo of yours runs on this host ({} has no socket): start one, or name its CONF and PROPS here",
                folder.display()
            ),
        })
    })
}

/// None where nobody answers: its process was killed.
fn call(socket: &Path) -> Option<UnixStream> {
    match UnixStream::connect(socket) {
        Ok(stream) => Some(stream),
        Err(error) => {
            if error.kind() == std::io::ErrorKind::ConnectionRefused {
                let _ = std::fs::remove_file(socket);
            }
            None
        }
    }
}

// -- what is shown ----------------------------------------------------------------------------------------------------

/// Where things go: the view where the program's own output does not.
struct Show {
    history: History,
    json: bool,
    /// The view is on stderr, because stdout is the program's.
    on_stderr: bool,
    /// As lines, without a screen.
    plain: bool,
    /// Lines of the screen that are there.
    drawn: usize,
    /// The last line of what the program printed has no end yet: nothing is drawn below it.
    open_line: bool,
    shown: Option<Instant>,
    /// Lines of events that came.
    lines: u64,
    /// Open from the beginning: whoever watched for hours is not told then that it cannot be.
    report: Option<(File, PathBuf)>,
}

impl Show {
    fn new(options: &Options) -> Result<Show, Failure> {
        let report = match options.report.clone() {
            Some(path) => {
                let made = File::create(&path);
                Some((made.doing(|| format!("making {}", path.display()))?, path))
            }
            None => None,
        };
        let on_stderr = !options.program.is_empty();
        let terminal = if on_stderr {
            std::io::stderr().is_terminal()
        } else {
            std::io::stdout().is_terminal()
        };
        Ok(Show {
            history: History::default(),
            json: options.json,
            on_stderr,
            plain: !terminal,
            drawn: 0,
            open_line: false,
            shown: None,
            lines: 0,
            report,
        })
    }

    fn event(&mut self, line: &str) -> Result<(), Failure> {
        self.lines += 1;
        let told = self.history.line(line).map_err(|wrong| {
            Failure::from_text(format!(
                "event {} cannot be read: {wrong}: {}",
                self.lines,
                view::printable(&line.chars().take(100).collect::<String>())
            ))
        })?;
        if self.json {
            let mut out = std::io::stdout().lock();
            // Who reads no more events wants no more of them.
            return writeln!(out, "{line}")
                .and_then(|()| out.flush())
                .doing(|| "writing events".to_owned());
        }
        if self.plain {
            self.lines(told);
        } else if told != Told::Begin && !self.open_line {
            self.erase();
            self.draw();
        }
        Ok(())
    }

    fn lines(&mut self, told: Told) {
        match told {
            Told::Begin => {}
            Told::Lost | Told::End => {
                if told == Told::End {
                    self.put(&format!("{}\n", view::line(&self.history)));
                }
                if let Some(event) = view::event(&self.history) {
                    self.put(&format!("{event}\n"));
                }
            }
            Told::Tick => {
                if self.shown.is_none_or(|at| at.elapsed() >= LINE_EVERY) {
                    self.shown = Some(Instant::now());
                    self.put(&format!("{}\n", view::line(&self.history)));
                }
            }
        }
    }

    /// A person's terminal may be gone; the program runs on all the same.
    fn put(&self, text: &str) {
        if self.on_stderr {
            let _ = std::io::stderr().write_all(text.as_bytes());
        } else {
            let mut out = std::io::stdout().lock();
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }
    }

    fn erase(&mut self) {
        if self.drawn > 0 {
            self.put(&format!("\x1b[{}F\x1b[J", self.drawn));
            self.drawn = 0;
        }
    }

    fn draw(&mut self) {
        let size = if self.on_stderr {
            kumiko_linux::terminal::size(std::io::stderr())
        } else {
            kumiko_linux::terminal::size(std::io::stdout())
        };
        // A terminal that does not know its size says 0.
        let (rows, columns) = match size {
            Ok((rows @ 1.., columns @ 1..)) => (rows.into(), columns.into()),
            _ => (24, 80),
        };
        let screen = view::screen(&self.history, rows, columns);
        self.drawn = screen.len();
        self.put(&(screen.join("\n") + "\n"));
    }

    /// What the program itself printed goes above the screen.
    fn program(&mut self, bytes: &[u8], stdout: bool) {
        if !self.json && !self.plain {
            self.erase();
            self.open_line = !bytes.ends_with(b"\n");
        }
        if stdout && !self.json {
            let mut out = std::io::stdout().lock();
            let _ = out.write_all(bytes).and_then(|()| out.flush());
        } else {
            let _ = std::io::stderr().write_all(bytes);
        }
    }

    fn note(&self, text: &str) {
        eprintln!("kumiko: {text}");
    }

    fn finish(&mut self) -> Result<(), Failure> {
        if let Some((file, path)) = &mut self.report {
            file.write_all(report::html(&self.history).as_bytes())
                .doing(|| format!("writing {}", path.display()))?;
        }
        Ok(())
    }
}
