//! The attributes and classes that have a meaning here (MDS 2.2 "Schema Definitions"; RFC 4512): syntax, unit, and the
//! short names of the expression language. Others are welcome in entries and can be searched all the same; they are
//! just not declared.

/// How values of an attribute are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// Without regard to case.
    Text,
    Number,
    /// Generalized time in UTC, compared as text.
    Time,
    /// In no schema: a number where it looks like one, else text.
    Undeclared,
}

/// What a value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    None,
    /// 2^20 bytes, as MDS 2 counts.
    Mebibytes,
    Kibibytes,
    Bytes,
    Megahertz,
    /// A hundred is one CPU.
    Hundredths,
    Seconds,
}

impl Unit {
    /// How much of the base unit (bytes, hertz, one, seconds) one of this is.
    pub fn scale(self) -> f64 {
        match self {
            Unit::None | Unit::Bytes | Unit::Seconds => 1.0,
            Unit::Mebibytes => 1_048_576.0,
            Unit::Kibibytes => 1024.0,
            Unit::Megahertz => 1e6,
            Unit::Hundredths => 0.01,
        }
    }

    /// The base unit, for people.
    pub fn base(self) -> &'static str {
        match self {
            Unit::None | Unit::Hundredths => "",
            Unit::Mebibytes | Unit::Kibibytes | Unit::Bytes => "bytes",
            Unit::Megahertz => "hertz",
            Unit::Seconds => "seconds",
        }
    }
}

/// A declared attribute.
#[derive(Debug)]
pub struct Attribute {
    pub name: &'static str,
    pub oid: &'static str,
    pub syntax: Syntax,
    pub unit: Unit,
    pub single: bool,
    /// Its name in expressions; empty where it has none.
    pub short: &'static str,
    pub meaning: &'static str,
}

/// A declared class.
#[derive(Debug)]
pub struct Class {
    pub name: &'static str,
    pub oid: &'static str,
    pub structural: bool,
    pub attributes: &'static [&'static str],
}

/// The arc of MDS 2 (Globus, 1.3.6.1.4.1.3536).
macro_rules! mds {
    ($rest:literal) => {
        concat!("1.3.6.1.4.1.3536.2.6.", $rest)
    };
}

/// Attributes of ours: below an arc made from a UUID (ITU-T X.667), which nobody else has.
macro_rules! own {
    ($rest:literal) => {
        concat!("2.25.30276966773966535898563236872653766364.", $rest)
    };
}

const fn text(
    name: &'static str,
    oid: &'static str,
    short: &'static str,
    meaning: &'static str,
) -> Attribute {
    Attribute {
        name,
        oid,
        syntax: Syntax::Text,
        unit: Unit::None,
        single: false,
        short,
        meaning,
    }
}

const fn number(
    name: &'static str,
    oid: &'static str,
    unit: Unit,
    short: &'static str,
    meaning: &'static str,
) -> Attribute {
    Attribute {
        name,
        oid,
        syntax: Syntax::Number,
        unit,
        single: false,
        short,
        meaning,
    }
}

const fn time(
    name: &'static str,
    oid: &'static str,
    short: &'static str,
    meaning: &'static str,
) -> Attribute {
    Attribute {
        name,
        oid,
        syntax: Syntax::Time,
        unit: Unit::None,
        single: true,
        short,
        meaning,
    }
}

const fn one(attribute: Attribute) -> Attribute {
    Attribute {
        single: true,
        ..attribute
    }
}

use Unit::{Bytes, Hundredths, Kibibytes, Mebibytes, Megahertz, None as Plain, Seconds};

/// Every declared attribute.
#[rustfmt::skip] // a table: a line each
pub const ATTRIBUTES: &[Attribute] = &[
    text("objectClass", "2.5.4.0", "class", "what kinds of thing the entry is"),
    text("o", "2.5.4.10", "", "organisation; the root of the tree is o=grid"),
    text("cn", "2.5.4.3", "", "common name"),
    text("description", "2.5.4.13", "", "words for people"),
    time("Mds-validfrom", mds!("0.1"), "", "when the oldest value was measured"),
    time("Mds-validto", mds!("0.2"), "", "until when all values hold"),
    time("Mds-keepto", mds!("0.3"), "", "when the entry goes if nobody refreshes it"),
    one(text("Mds-Host-hn", mds!("1.1.0.1"), "host", "name of the host")),
    one(text("Mds-Host-NetNode-hn", mds!("1.1.1.0.1"), "", "name of a public host of a cluster")),
    one(text("Mds-Host-Node-name", mds!("1.1.2.0.1"), "", "name of a hidden host of a cluster")),
    one(text("Mds-Host-Node-Group-name", mds!("1.1.2.1.0.1"), "", "name of a group of hosts")),
    one(text("Mds-Device-name", mds!("1.2.0.1"), "device", "name of a device of a host")),
    one(text("Mds-Device-Group-name", mds!("1.2.1.0.1"), "", "processors, memory, filesystems or networks")),
    one(text("Mds-Software-deployment", mds!("1.3.0.1"), "", "name of deployed software")),
    text("Mds-Computer-isa", mds!("2.1.0.1"), "isa", "instruction set"),
    text("Mds-Computer-platform", mds!("2.1.0.2"), "platform", "as uname -m says it"),
    one(number("Mds-Computer-Total-nodeCount", mds!("2.1.1.0.3"), Plain, "nodes", "computing elements")),
    text("Mds-Os-name", mds!("2.3.0.1"), "os", "operating system"),
    text("Mds-Os-release", mds!("2.3.0.2"), "kernel", "release of the kernel"),
    text("Mds-Os-version", mds!("2.3.0.3"), "os_version", "version of the operating system"),
    text("Mds-Cpu-vendor", mds!("2.4.0.1"), "cpu_vendor", "maker of the CPUs"),
    text("Mds-Cpu-model", mds!("2.4.0.2"), "cpu_model", "model of the CPUs"),
    text("Mds-Cpu-version", mds!("2.4.0.3"), "cpu_version", "family, model and stepping of the CPUs"),
    text("Mds-Cpu-features", mds!("2.4.0.4"), "cpu_features", "flags of the CPUs"),
    number("Mds-Cpu-speedMHz", mds!("2.4.0.5"), Megahertz, "cpu_speed", "clock of the CPUs"),
    number("Mds-Cpu-Smp-size", mds!("2.4.1.0.1"), Plain, "smp", "CPUs of one host"),
    number("Mds-Cpu-Cache-l1kB", mds!("2.4.2.0.1"), Kibibytes, "", "first cache, unified"),
    number("Mds-Cpu-Cache-l1ikB", mds!("2.4.2.0.2"), Kibibytes, "", "first cache, instructions"),
    number("Mds-Cpu-Cache-l1dkB", mds!("2.4.2.0.3"), Kibibytes, "", "first cache, data"),
    number("Mds-Cpu-Cache-l2kB", mds!("2.4.2.0.4"), Kibibytes, "cpu_cache", "second cache"),
    number("Mds-Cpu-Free-1minX100", mds!("2.4.3.0.1"), Hundredths, "", "CPUs free, mean of a minute"),
    number("Mds-Cpu-Free-5minX100", mds!("2.4.3.0.2"), Hundredths, "", "CPUs free, mean of 5 minutes"),
    number("Mds-Cpu-Free-15minX100", mds!("2.4.3.0.3"), Hundredths, "", "CPUs free, mean of 15 minutes"),
    one(number("Mds-Cpu-Total-count", mds!("2.4.4.0.1"), Plain, "cpus", "CPUs in all")),
    one(number("Mds-Cpu-Total-Free-1minX100", mds!("2.4.4.2.0.1"), Hundredths, "cpu_free", "CPUs free, mean of a minute")),
    one(number("Mds-Cpu-Total-Free-5minX100", mds!("2.4.4.2.0.2"), Hundredths, "cpu_free5", "CPUs free, mean of 5 minutes")),
    one(number("Mds-Cpu-Total-Free-15minX100", mds!("2.4.4.2.0.3"), Hundredths, "cpu_free15", "CPUs free, mean of 15 minutes")),
    number("Mds-Memory-Ram-sizeMB", mds!("2.5.1.1.0.1"), Mebibytes, "", "memory"),
    number("Mds-Memory-Ram-freeMB", mds!("2.5.1.1.0.2"), Mebibytes, "", "memory that is available"),
    one(number("Mds-Memory-Ram-Total-sizeMB", mds!("2.5.1.1.1.0.1"), Mebibytes, "mem", "memory in all")),
    one(number("Mds-Memory-Ram-Total-freeMB", mds!("2.5.1.1.1.0.2"), Mebibytes, "mem_free", "memory that is available, in all")),
    number("Mds-Memory-Vm-sizeMB", mds!("2.5.1.2.0.1"), Mebibytes, "", "swap"),
    number("Mds-Memory-Vm-freeMB", mds!("2.5.1.2.0.2"), Mebibytes, "", "swap that is free"),
    one(number("Mds-Memory-Vm-Total-sizeMB", mds!("2.5.1.2.1.0.1"), Mebibytes, "swap", "swap in all")),
    one(number("Mds-Memory-Vm-Total-freeMB", mds!("2.5.1.2.1.0.2"), Mebibytes, "swap_free", "swap that is free, in all")),
    text("Mds-Fs-mount", mds!("2.5.2.0.1"), "mount", "where file systems are mounted"),
    number("Mds-Fs-sizeMB", mds!("2.5.2.0.2"), Mebibytes, "", "size of file systems"),
    number("Mds-Fs-freeMB", mds!("2.5.2.0.3"), Mebibytes, "", "room in file systems"),
    one(number("Mds-Fs-Total-count", mds!("2.5.2.1.0.1"), Plain, "filesystems", "file systems in all")),
    one(number("Mds-Fs-Total-sizeMB", mds!("2.5.2.1.0.2"), Mebibytes, "disk", "size of all file systems")),
    one(number("Mds-Fs-Total-freeMB", mds!("2.5.2.1.0.3"), Mebibytes, "disk_free", "room in all file systems")),
    text("Mds-Net-name", mds!("2.6.1.0.1"), "net", "network interfaces"),
    text("Mds-Net-addr", mds!("2.6.1.0.2"), "address", "addresses of interfaces"),
    text("Mds-Net-netaddr", mds!("2.6.1.0.3"), "network", "networks of interfaces"),
    number("Mds-Net-mtuB", mds!("2.6.1.0.4"), Bytes, "mtu", "largest packet of interfaces"),
    one(number("Mds-Net-Total-count", mds!("2.6.1.1.0.1"), Plain, "networks", "network interfaces in all")),
    one(text("Mds-Service-type", mds!("2.7.1.0.1"), "service", "protocol of a service")),
    text("Mds-Service-protocol", mds!("2.7.1.0.2"), "", "version of that protocol"),
    // The page of MDS 2.2 gives -protocol and -hn one number by mistake; only names are used on the wire.
    one(text("Mds-Service-hn", mds!("2.7.1.0.3"), "service_host", "host of a service")),
    one(number("Mds-Service-port", mds!("2.7.1.0.4"), Plain, "service_port", "port of a service")),
    text("Mds-Service-Ldap-suffix", mds!("2.7.1.1.0.1"), "", "root of what an LDAP service tells"),
    number("Mds-Service-Ldap-sizelimit", mds!("2.7.1.1.0.2"), Plain, "", "most entries of an answer"),
    number("Mds-Service-Ldap-timeout", mds!("2.7.1.1.0.3"), Seconds, "", "longest answer"),
    number("Mds-Service-Ldap-cachettl", mds!("2.7.1.1.0.4"), Seconds, "", "age at which an index of MDS 2 asks again"),
    one(text("Mds-Vo-name", mds!("1.4.0.1"), "vo", "name of an index")),
    one(text("Mds-Vo-Op-name", mds!("1.4.1.0.1"), "", "what a registration asks for")),
    text("Mds-Bind-Method-servers", mds!("1.4.1.0.2"), "", "how servers are to be asked"),
    text("Mds-Reg-status", mds!("1.4.1.0.3"), "", "whether a registration holds"),
    one(number("kumiko-load-1min", own!("1.1"), Plain, "load", "runnable processes, mean of a minute")),
    one(number("kumiko-load-5min", own!("1.2"), Plain, "load5", "runnable processes, mean of 5 minutes")),
    one(number("kumiko-load-15min", own!("1.3"), Plain, "load15", "runnable processes, mean of 15 minutes")),
    text("kumiko-mechanism", own!("1.4"), "mechanism", "sandbox mechanisms that the host admits"),
    text("kumiko-gpu", own!("1.5"), "gpu", "graphics processors"),
    one(number("kumiko-gpu-count", own!("1.6"), Plain, "gpus", "graphics processors in all")),
    one(text("kumiko-site", own!("1.7"), "site", "the site that the host belongs to")),
    one(text("kumiko-contact", own!("1.8"), "contact", "where the site's gatekeeper answers")),
    one(number("kumiko-boot-seconds", own!("1.9"), Seconds, "booted", "Unix time at which the host started")),
    one(number("kumiko-reserve-cpus", own!("1.10"), Plain, "reserve_cpus", "CPUs left to reserve")),
    one(number("kumiko-reserve-memMB", own!("1.11"), Mebibytes, "reserve_mem", "memory left to reserve")),
    one(number("kumiko-reserve-netBytesPerSec", own!("1.17"), Bytes, "reserve_net", "network left to reserve, to send, a second")),
    one(number("kumiko-reserve-diskBytesPerSec", own!("1.18"), Bytes, "reserve_disk", "disk left to reserve, to read and to write, a second")),
    one(number("kumiko-reserve-processes", own!("1.19"), Plain, "reserve_processes", "processes left to reserve")),
    time("kumiko-stale-since", own!("1.12"), "stale_since", "since when nothing was heard of the entry's source"),
    text("kumiko-batch", own!("1.13"), "batch", "batch systems of the site"),
    text("kumiko-routine", own!("1.14"), "routine", "routines that the site computes, module/name"),
    one(text("kumiko-draining", own!("1.16"), "draining", "whether the site takes no new jobs")),
    one(text("kumiko-subject", own!("1.20"), "subject", "who the site's gatekeeper is, by its certificate")),
    text("kumiko-queue", own!("1.21"), "queue", "queues of the batch system that start jobs"),
    one(number("kumiko-slots", own!("1.22"), Plain, "slots", "processors of the batch system")),
    one(number("kumiko-slots-free", own!("1.23"), Plain, "slots_free", "processors of the batch system that run nothing")),
    one(number("kumiko-jobs-waiting", own!("1.24"), Plain, "waiting", "jobs of anybody that wait there")),
    one(number("kumiko-jobs-running", own!("1.25"), Plain, "running", "jobs of anybody that run there")),
    one(number("kumiko-pilots", own!("1.26"), Plain, "pilots", "the site's pilots that take jobs")),
    one(number("kumiko-pilots-idle", own!("1.27"), Plain, "pilots_idle", "of those, with nothing to do")),
    one(text("kumiko-queue-open", own!("1.28"), "queue_open", "whether a queue starts jobs")),
    one(number("kumiko-latency-seconds", own!("1.29"), Seconds, "latency", "how long a site took to answer, as whoever chooses saw it last")),
    one(number("kumiko-bandwidth-bytesPerSec", own!("1.30"), Bytes, "bandwidth", "how fast folders went to a site, as whoever chooses saw it lately")),
    one(number("kumiko-transfer-seconds", own!("1.31"), Seconds, "transfer", "how long the folder of a job would take to a site, in whole seconds, by whoever chooses")),
    one(number("kumiko-slots-host", own!("1.32"), Plain, "slots_host", "the most free processors of the batch system that are on one host")),
    text("kumiko-provider-status", own!("1.15"), "provider_status", "what went wrong with a provider"),
];

/// Every declared class.
#[rustfmt::skip] // a table: a line each
pub const CLASSES: &[Class] = &[
    Class { name: "top", oid: "2.5.6.0", structural: false, attributes: &["objectClass"], },
    Class { name: "organization", oid: "2.5.6.4", structural: true, attributes: &["o", "description"], },
    Class { name: "Mds", oid: "1.3.6.1.4.1.3536.2.6", structural: false, attributes: &["Mds-validfrom", "Mds-validto", "Mds-keepto", "kumiko-stale-since", "kumiko-provider-status"], },
    Class { name: "MdsHost", oid: mds!("1.1"), structural: true, attributes: &["Mds-Host-hn", "kumiko-site", "kumiko-contact", "kumiko-load-1min", "kumiko-load-5min", "kumiko-load-15min", "kumiko-mechanism", "kumiko-gpu", "kumiko-gpu-count", "kumiko-boot-seconds", "kumiko-reserve-cpus", "kumiko-reserve-memMB", "kumiko-reserve-netBytesPerSec", "kumiko-reserve-diskBytesPerSec", "kumiko-reserve-processes", "kumiko-subject", "kumiko-batch", "kumiko-routine", "kumiko-draining", "kumiko-queue", "kumiko-slots", "kumiko-slots-free", "kumiko-slots-host", "kumiko-jobs-waiting", "kumiko-jobs-running", "kumiko-pilots", "kumiko-pilots-idle"], },
    Class { name: "MdsHostNetNode", oid: mds!("1.1.1"), structural: true, attributes: &["Mds-Host-NetNode-hn"], },
    Class { name: "MdsHostNode", oid: mds!("1.1.2"), structural: true, attributes: &["Mds-Host-Node-name"], },
    Class { name: "MdsHostNodeGroup", oid: mds!("1.1.2.1"), structural: true, attributes: &["Mds-Host-Node-Group-name"], },
    Class { name: "MdsDevice", oid: mds!("1.2"), structural: true, attributes: &["Mds-Device-name"], },
    Class { name: "MdsDeviceGroup", oid: mds!("1.2.1"), structural: true, attributes: &["Mds-Device-Group-name"], },
    Class { name: "MdsSoftware", oid: mds!("1.3"), structural: true, attributes: &["Mds-Software-deployment"], },
    Class { name: "MdsVo", oid: mds!("1.4"), structural: true, attributes: &["Mds-Vo-name"], },
    Class { name: "MdsVoOp", oid: mds!("1.4.1"), structural: true, attributes: &["Mds-Vo-Op-name", "Mds-Bind-Method-servers", "Mds-Reg-status"], },
    Class { name: "MdsComputer", oid: mds!("2.1"), structural: false, attributes: &["Mds-Computer-isa", "Mds-Computer-platform"], },
    Class { name: "MdsComputerTotal", oid: mds!("2.1.1"), structural: false, attributes: &["Mds-Computer-Total-nodeCount"], },
    Class { name: "MdsOs", oid: mds!("2.3"), structural: false, attributes: &["Mds-Os-name", "Mds-Os-release", "Mds-Os-version"], },
    Class { name: "MdsCpu", oid: mds!("2.4"), structural: false, attributes: &["Mds-Cpu-vendor", "Mds-Cpu-model", "Mds-Cpu-version", "Mds-Cpu-features", "Mds-Cpu-speedMHz"], },
    Class { name: "MdsCpuSmp", oid: mds!("2.4.1"), structural: false, attributes: &["Mds-Cpu-Smp-size"], },
    Class { name: "MdsCpuCache", oid: mds!("2.4.2"), structural: false, attributes: &["Mds-Cpu-Cache-l1kB", "Mds-Cpu-Cache-l1ikB", "Mds-Cpu-Cache-l1dkB", "Mds-Cpu-Cache-l2kB"], },
    Class { name: "MdsCpuFree", oid: mds!("2.4.3"), structural: false, attributes: &["Mds-Cpu-Free-1minX100", "Mds-Cpu-Free-5minX100", "Mds-Cpu-Free-15minX100"], },
    Class { name: "MdsCpuTotal", oid: mds!("2.4.4"), structural: false, attributes: &["Mds-Cpu-Total-count"], },
    Class { name: "MdsCpuTotalFree", oid: mds!("2.4.4.2"), structural: false, attributes: &["Mds-Cpu-Total-Free-1minX100", "Mds-Cpu-Total-Free-5minX100", "Mds-Cpu-Total-Free-15minX100"], },
    Class { name: "MdsMemoryRam", oid: mds!("2.5.1.1"), structural: false, attributes: &["Mds-Memory-Ram-sizeMB", "Mds-Memory-Ram-freeMB"], },
    Class { name: "MdsMemoryRamTotal", oid: mds!("2.5.1.1.1"), structural: false, attributes: &["Mds-Memory-Ram-Total-sizeMB", "Mds-Memory-Ram-Total-freeMB"], },
    Class { name: "MdsMemoryVm", oid: mds!("2.5.1.2"), structural: false, attributes: &["Mds-Memory-Vm-sizeMB", "Mds-Memory-Vm-freeMB"], },
    Class { name: "MdsMemoryVmTotal", oid: mds!("2.5.1.2.1"), structural: false, attributes: &["Mds-Memory-Vm-Total-sizeMB", "Mds-Memory-Vm-Total-freeMB"], },
    Class { name: "MdsFs", oid: mds!("2.5.2"), structural: false, attributes: &["Mds-Fs-mount", "Mds-Fs-sizeMB", "Mds-Fs-freeMB"], },
    Class { name: "MdsFsTotal", oid: mds!("2.5.2.1"), structural: false, attributes: &["Mds-Fs-Total-count", "Mds-Fs-Total-sizeMB", "Mds-Fs-Total-freeMB"], },
    Class { name: "MdsNet", oid: mds!("2.6.1"), structural: false, attributes: &["Mds-Net-name", "Mds-Net-addr", "Mds-Net-netaddr", "Mds-Net-mtuB"], },
    Class { name: "MdsNetTotal", oid: mds!("2.6.1.1"), structural: false, attributes: &["Mds-Net-Total-count"], },
    Class { name: "MdsService", oid: mds!("2.7.1"), structural: true, attributes: &["Mds-Service-type", "Mds-Service-protocol", "Mds-Service-hn", "Mds-Service-port", "kumiko-site", "kumiko-contact", "kumiko-batch", "kumiko-routine", "kumiko-mechanism", "kumiko-draining", "kumiko-subject", "kumiko-slots", "kumiko-slots-free", "kumiko-slots-host", "kumiko-jobs-waiting", "kumiko-jobs-running", "kumiko-pilots", "kumiko-pilots-idle"], },
    Class { name: "kumikoQueue", oid: own!("2.1"), structural: true, attributes: &["kumiko-queue", "kumiko-queue-open", "kumiko-slots", "kumiko-slots-free", "kumiko-jobs-waiting", "kumiko-jobs-running"], },
    Class { name: "MdsServiceLdap", oid: mds!("2.7.1.1"), structural: false, attributes: &["Mds-Service-Ldap-suffix", "Mds-Service-Ldap-sizelimit", "Mds-Service-Ldap-timeout", "Mds-Service-Ldap-cachettl"], },
];

/// Finds an attribute by name or object identifier, in any case.
pub fn attribute(name: &str) -> Option<&'static Attribute> {
    ATTRIBUTES
        .iter()
        .find(|a| a.name.eq_ignore_ascii_case(name) || a.oid == name)
}

/// Finds an attribute by its short name in expressions.
pub fn short(name: &str) -> Option<&'static Attribute> {
    ATTRIBUTES
        .iter()
        .find(|a| !a.short.is_empty() && a.short.eq_ignore_ascii_case(name))
}

/// The values of `attributeTypes` and `objectClasses` (RFC 4512, section 4.1).
pub fn definitions() -> (Vec<String>, Vec<String>) {
    let attributes = ATTRIBUTES
        .iter()
        .map(|a| {
            let (equality, ordering, substring, syntax) = match a.syntax {
                Syntax::Number => ("integerMatch", "integerOrderingMatch", None, "27"),
                Syntax::Time => ("generalizedTimeMatch", "generalizedTimeOrderingMatch", None, "24"),
                Syntax::Text | Syntax::Undeclared => {
                    ("caseIgnoreMatch", "caseIgnoreOrderingMatch", Some("caseIgnoreSubstringsMatch"), "15")
                }
            };
            let substring = substring.map_or(String::new(), |s| format!(" SUBSTR {s}"));
            let single = if a.single { " SINGLE-VALUE" } else { "" };
            format!(
                "( {} NAME '{}' DESC '{}' EQUALITY {equality} ORDERING {ordering}{substring} SYNTAX 1.3.6.1.4.1.1466.115.121.1.{syntax}{single} )",
                a.oid,
                a.name,
                quoted(a.meaning)
            )
        })
        .collect();
    let classes = CLASSES
        .iter()
        .map(|c| {
            let kind = match (c.name, c.structural) {
                ("top", _) => "ABSTRACT",
                (_, true) => "SUP top STRUCTURAL",
                (_, false) => "SUP top AUXILIARY",
            };
            format!(
                "( {} NAME '{}' {kind} MAY ( {} ) )",
                c.oid,
                c.name,
                c.attributes.join(" $ ")
            )
        })
        .collect();
    (attributes, classes)
}

/// Inside the quotes of a definition these two stand as escapes (RFC 4512, section 4.1: dstring).
fn quoted(text: &str) -> String {
    text.replace('\\', "\\5C").replace('\'', "\\27")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_quote_inside_a_description_is_escaped() {
        assert_eq!(quoted(r"the site's \ door"), r"the site\27s \5C door");
        let (attributes, _) = definitions();
        for definition in attributes {
            // NAME and DESC, each between two.
            assert_eq!(definition.matches('\'').count(), 4, "{definition}");
        }
    }

    #[test]
    fn every_name_number_and_short_name_is_given_once() {
        let mut seen = BTreeSet::new();
        let names = ATTRIBUTES.iter().flat_map(|a| [a.name, a.oid, a.short]);
        for name in names.chain(CLASSES.iter().flat_map(|c| [c.name, c.oid])) {
            assert!(
                name.is_empty() || seen.insert(name.to_ascii_lowercase()),
                "{name} stands twice"
            );
        }
    }

    #[test]
    fn classes_name_declared_attributes() {
        for class in CLASSES {
            for name in class.attributes {
                assert!(attribute(name).is_some(), "{name} of {}", class.name);
            }
        }
    }

    #[test]
    fn attributes_are_found_by_name_number_and_short_name() {
        for name in ["mds-host-HN", "1.3.6.1.4.1.3536.2.6.1.1.0.1"] {
            assert_eq!(attribute(name).unwrap().name, "Mds-Host-hn");
        }
        assert_eq!(
            short("MEM_FREE").unwrap().name,
            "Mds-Memory-Ram-Total-freeMB"
        );
        assert!(short("").is_none());
    }
}
