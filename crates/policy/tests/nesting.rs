//! The effective policy is never wider than any policy above it (P40), over chains made at random, and each line of it
//! says where it comes from. `KUMIKO_CHAINS` sets how many chains.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod chance;

use chance::{Random, path};
use kumiko_policy::{
    Access, GuestPath, Layer, Limited, MechanismKind, NarrowError, NestError, Network,
    NetworkLimiter, Policy, Real, Seen, amend, amended, narrow, nest, parse, parse_vo,
};

/// In the default run; a nightly or a suspicious one sets a million.
const CHAINS: u64 = 100_000;
/// Paths tried of each chain.
const PROBES: usize = 12;
/// Names of a path, at most.
const NAMES: usize = 4;

/// `above`: what it may name. Without it, anything.
fn policy_below(random: &mut Random, above: Option<&Policy>) -> Policy {
    let mut policy = random.rules(5, NAMES, |random, _| match above {
        // Else nearly every chain would end with a refusal.
        Some(above) if !above.paths.is_empty() && !random.one_in(8) => {
            above.paths[random.below(above.paths.len())].path.clone()
        }
        _ => random.path(NAMES),
    });
    policy.network = [None, None, Some(Network::None), Some(Network::Host)][random.below(4)];
    policy.further_processes = [None, None, None, Some(random.one_in(2))][random.below(4)];
    policy.strict = random.one_in(4);
    if random.one_in(4) {
        policy.mechanism = MechanismKind::ALL[random.below(MechanismKind::ALL.len())];
    }
    for limited in Limited::ALL {
        if random.one_in(4) {
            policy.limits.set(limited, Some(1 + random.below(9) as u64));
        }
    }
    policy
}

fn whole(real: &Real) -> GuestPath {
    match real {
        Real::Host { root, beneath } => root.join(beneath),
        Real::Job { beneath } => path("/its-own").join(beneath),
    }
}

/// What is done with what is shown.
#[derive(Clone, Copy)]
struct Done {
    written: bool,
    executed: bool,
}

/// Does the policy show this real path under any name, for that to be done with it?
fn shows(policy: &Policy, real: &GuestPath, done: Done) -> bool {
    policy.paths.iter().any(|rule| {
        let (Access::Read { real: root, .. } | Access::Write { real: root, .. }) = &rule.access
        else {
            return false;
        };
        let Some(rest) = real.below(&whole(root)) else {
            return false;
        };
        let decision = policy.explain(&rule.path.join(rest));
        match decision.seen {
            Seen::Shown {
                real: seen,
                writable,
            } => {
                let done = (writable || !done.written) && (decision.execute || !done.executed);
                whole(&seen) == *real && done
            }
            _ => false,
        }
    })
}

/// Says what is wider.
fn wider(above: &Policy, below: &Policy, probes: &[GuestPath]) -> Option<String> {
    for at in probes {
        let decision = below.explain(at);
        if let Seen::Shown { real, writable } = &decision.seen {
            let own = matches!(real, Real::Job { .. });
            let done = Done {
                written: *writable,
                executed: false,
            };
            if !own && !shows(above, &whole(real), done) {
                return Some(format!("{at} shows {}", whole(real)));
            }
            let done = Done {
                written: false,
                executed: decision.execute,
            };
            if !own && !shows(above, &whole(real), done) {
                return Some(format!("{at} executes {}", whole(real)));
            }
        }
    }
    if above.network() == Network::None && below.network() == Network::Host {
        return Some("network".to_owned());
    }
    if !above.further_processes() && below.further_processes() {
        return Some("further processes".to_owned());
    }
    if above.strict && !below.strict {
        return Some("strict".to_owned());
    }
    let wall = |policy: &Policy| {
        !matches!(
            policy.mechanism,
            MechanismKind::Auto | MechanismKind::Library
        )
    };
    if wall(above) && !wall(below) {
        return Some("mechanism".to_owned());
    }
    let more =
        |(limited, most): &(Limited, u64)| below.limits.get(*limited).is_none_or(|has| has > *most);
    let more = above.limits.each().find(more);
    more.map(|(limited, _)| limited.key().to_owned())
}

#[test]
fn the_effective_policy_is_never_wider_than_any_above_it() {
    let chains = std::env::var("KUMIKO_CHAINS").map_or(CHAINS, |number| number.parse().unwrap());
    let (mut deep, mut shown) = (0, 0);
    for seed in 1..=chains {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let mut above = vec![policy_below(&mut random, None)];
        for _ in 0..3 {
            let last = above.last().unwrap();
            let below = policy_below(&mut random, Some(last));
            // What asks for more is refused, and then there is no policy to compare; the next one tries.
            if let Ok(narrowed) = narrow(last, &below) {
                above.push(narrowed);
            }
        }
        let (effective, above) = above.split_last().unwrap();
        deep += u64::from(above.len() == 3);
        let mut probes = Vec::with_capacity(PROBES);
        for _ in 0..PROBES {
            let rules = effective.paths.len();
            probes.push(match rules > 0 && !random.one_in(3) {
                true => effective.paths[random.below(rules)].path.clone(),
                false => random.path(NAMES),
            });
            // Deeper than any rule, or at a rule below.
            let rest = ["", "a", "b", "z", "a/b"][random.below(5)];
            let last = probes.pop().unwrap().join(rest);
            probes.push(last);
        }
        let seen = |at: &&GuestPath| matches!(effective.explain(at).seen, Seen::Shown { .. });
        shown += probes.iter().filter(seen).count();
        // What is made in an empty place, which is no file above.
        let last = above.last().unwrap_or(effective);
        for at in &probes {
            let decision = effective.explain(at);
            let made = decision.seen == Seen::Temporary && decision.execute;
            assert!(
                !made || last.explain(at).execute,
                "chain {seed}: {at} {last:#?}"
            );
        }
        for policy in above {
            if let Some(what) = wider(policy, effective, &probes) {
                panic!("chain {seed}: {what} is wider: {policy:#?} above {effective:#?}");
            }
        }
    }
    // The property says nothing of chains in which nothing happens.
    assert!(deep > chains / 20, "{deep} chains of four policies");
    assert!(shown as u64 > chains, "{shown} paths shown");
}

#[test]
fn what_an_owner_changes_of_what_runs_is_never_wider_than_the_policies_above_by_then() {
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    for _ in 0..2_000 {
        let (above, asked) = (
            policy_below(&mut random, None),
            policy_below(&mut random, None),
        );
        let asked = amend(Some(&policy_below(&mut random, None)), &asked);
        let now = amended(&above, &asked);
        let probes: Vec<GuestPath> = (0..PROBES).map(|_| random.path(NAMES)).collect();
        let more = wider(&above, &now, &probes);
        assert_eq!(more, None, "{above:?}\n{asked:?}\n{now:?}");
        // Nor shown than what the owner left.
        for rule in asked
            .paths
            .iter()
            .filter(|rule| rule.access == Access::Hidden)
        {
            let seen = now.explain(&rule.path).seen;
            assert!(
                matches!(seen, Seen::Hidden | Seen::Absent),
                "{seen:?} {now:?}"
            );
        }
    }
}

#[test]
fn below_a_site_nobody_asks_for_what_is_no_wall_but_where_the_site_does() {
    let check = |site: Option<&str>, expected: Result<(), &'static str>| {
        let job = parse("mechanism = 'library'", "job").unwrap();
        let site = site.map(|text| parse(text, "site").unwrap());
        let layers = site.iter().map(|site| (Layer::Site, site));
        let got = nest(layers.chain([(Layer::Job, &job)]));
        let expected = expected.map_err(|above| NestError {
            layer: Layer::Job,
            problem: NarrowError::Mechanism { above },
        });
        assert_eq!(got.map(drop), expected, "{site:?}");
    };
    check(None, Ok(()));
    check(Some(""), Err("auto"));
    check(Some("mechanism = 'notify'"), Err("notify"));
    check(Some("mechanism = 'library'"), Ok(()));
}

#[test]
fn what_is_not_executed_above_is_executed_by_no_name_below() {
    let check = |site: &str, job: &str, at: &str, expected: bool| {
        let text = |lines: &str, source| parse(&format!("[paths]\n{lines}"), source).unwrap();
        let (above, below) = (text(site, "site"), text(job, "job"));
        let got = nest([(Layer::Site, &above), (Layer::Job, &below)]).unwrap();
        assert_eq!(
            got.explain(&path(at)).execute,
            expected,
            "{site}\n{job}\n{at}"
        );
    };
    let data = "'/data' = {access='write', execute=false}";
    check(data, "", "/data/x", false);
    check(data, "", "/usr/bin/x", true);
    check(data, "'/data' = 'write'", "/data/x", false);
    check(data, "'/data/bin' = 'read'", "/data/bin/x", false);
    check(
        data,
        "'/bin2' = {access='read', real='/data/bin'}",
        "/bin2/x",
        false,
    );
    check("'/data' = 'write'", data, "/data/x", false);
    check("'/data' = 'write'", "", "/data/x", true);
    // A longer rule of the same layer decides, and comes along.
    let tools = "'/data' = {access='write', execute=false}\n'/data/bin' = 'read'";
    check(tools, "", "/data/bin/x", true);
    check(
        tools,
        "'/m' = {access='read', real='/data'}",
        "/m/bin/x",
        true,
    );
    check(tools, "'/m' = {access='read', real='/data'}", "/m/x", false);
    check(tools, "'/data' = 'read'", "/data/bin/x", true);
    check(tools, "'/data' = 'read'", "/data/x", false);
    // What counts is the file.
    check(
        tools,
        "'/data/own' = {access='read', real='/usr'}",
        "/data/own/x",
        true,
    );
    let still = "'/m' = {access='read', real='/data', execute=false}";
    check(tools, still, "/m/bin/x", false);
    // Places that may stand anywhere.
    let temp = "'/tmp' = {access='temporary', execute=false}";
    check(temp, "'/tmp' = 'temporary'", "/tmp/x", false);
    check(temp, "'/tmp/in' = 'temporary'", "/tmp/in/x", false);
    check(
        "'/a/b' = {access='temporary', execute=false}",
        "'/a' = 'temporary'",
        "/a/x",
        false,
    );
    check(temp, "'/else' = 'temporary'", "/else/x", true);
}

const SITE: &str =
    "network = 'host'\n[limits]\nmemory_mib = 4096\ncpu_percent = 400\n[paths]\n'/data' = 'write'";
const USER: &str = "[limits]\nmemory_mib = 8192\n[paths]\n'/data/mine' = 'denied'";
const VO: &str = "
vo = 'lattice.example'
expires = 2030-01-01T00:00:00Z
members = ['/O=Grid/CN=Alice', '/O=Grid/CN=Bob']
[policy]
network = 'none'
limits = { cpu_percent = 200 }
paths = { '/data' = 'read' }
";

#[test]
fn every_line_of_the_effective_policy_says_where_it_comes_from() {
    let vo = parse_vo(VO, "vo lattice.example").unwrap();
    assert_eq!(vo.members, ["/O=Grid/CN=Alice", "/O=Grid/CN=Bob"]);
    assert_eq!(
        (vo.vo.as_str(), vo.expires_s),
        ("lattice.example", 1_893_456_000)
    );
    let effective = nest([
        (Layer::Site, &parse(SITE, "site").unwrap()),
        (Layer::Vo, &vo.policy),
        (Layer::User, &parse(USER, "user").unwrap()),
        (
            Layer::Job,
            &parse("strict = true\nvo = 'lattice.example'", "job").unwrap(),
        ),
    ])
    .unwrap();
    let check = |key: &str, expected: &str| {
        assert_eq!(effective.origin(key).to_string(), expected, "{key}");
    };
    check("network", "vo lattice.example line 6");
    check("limits.memory_mib", "site line 3");
    check("limits.cpu_percent", "vo lattice.example line 7");
    check("strict", "job line 1");
    check("further_processes", "default policy");
    check("mechanism", "default policy");
    let check = |at: &str, seen: &str, origin: &str| {
        let decision = effective.explain(&path(at));
        let told = match decision.seen {
            Seen::Shown { real, writable } => format!("{} {writable}", whole(&real)),
            other => format!("{other:?}"),
        };
        assert_eq!(
            (told.as_str(), decision.origin.to_string().as_str()),
            (seen, origin),
            "{at}"
        );
    };
    check("/data/x", "/data/x false", "vo lattice.example line 8");
    check("/data/mine", "Denied", "user line 4");
    check("/usr/bin", "/usr/bin false", "default policy");
    assert_eq!(
        effective.layers,
        [
            "default policy",
            "site",
            "vo lattice.example",
            "user",
            "job"
        ]
    );
    assert_eq!(effective.limits.memory_mib, Some(4096));
}

#[test]
fn the_layer_that_asks_for_more_is_named() {
    let site = parse("network = 'none'", "site").unwrap();
    let more = parse("network = 'host'", "below").unwrap();
    let check = |layer: Layer, code: &str| {
        let error = nest([(Layer::Site, &site), (layer, &more)]).unwrap_err();
        assert_eq!((error.layer, error.code()), (layer, code), "{error}");
    };
    check(Layer::Vo, "vo_policy");
    check(Layer::User, "policy_asks_more");
    check(Layer::Job, "policy_asks_more");
}

#[test]
fn what_is_no_policy_of_an_organisation_is_refused() {
    let check = |text: &str, expected: &str| {
        let error = parse_vo(text, "vo").unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    };
    check("", "\"vo\" is missing");
    check(
        "vo = 'x'\nexpires = 2030-01-01T00:00:00Z",
        "\"members\" is missing",
    );
    check("vo = 'x'\nmembers = []", "\"expires\" is missing");
    check("vo = '../x'", "names of letters");
    check("vo = ''", "names of letters");
    check("vo = 'x'\nexpires = 2030-01-01", "with its zone");
    check("vo = 'x'\nexpires = 1960-01-01T00:00:00Z", "with its zone");
    check("expires = 5", "vo:1:11");
    check("members = 'a'", "a list of subjects");
    check("members = [5]", "a string");
    check("network = 'none'", "unknown key");
    check("[policy]\nnet = 'none'", "vo:2:1: unknown key");
}

#[test]
fn a_fence_will_do_only_where_whoever_owns_the_machine_says_so_and_nobody_below_asks_for_a_wall() {
    let policy = |text: &str| parse(text, "text").unwrap();
    let check = |layers: &[(Layer, &str)], complete: bool| {
        let layers: Vec<_> = layers
            .iter()
            .map(|(at, text)| (*at, policy(text)))
            .collect();
        let effective = nest(layers.iter().map(|(at, policy)| (*at, policy))).unwrap();
        assert_eq!(effective.complete(), complete, "{layers:?}");
        let fence = effective.may_be_under(MechanismKind::Library);
        assert_eq!(fence, !complete, "{layers:?}");
    };
    let (fence, wall) = ("complete = false", "complete = true");
    check(&[(Layer::Site, "")], true);
    check(&[(Layer::Site, fence)], false);
    check(&[(Layer::Site, "etc:\ncomplete 0\n")], false);
    check(&[(Layer::Site, fence), (Layer::User, "")], false);
    check(&[(Layer::Site, fence), (Layer::User, fence)], false);
    check(&[(Layer::Site, fence), (Layer::User, wall)], true);
    check(
        &[
            (Layer::Site, fence),
            (Layer::User, wall),
            (Layer::Job, fence),
        ],
        true,
    );
    check(&[(Layer::Site, ""), (Layer::Job, fence)], true);
    check(&[(Layer::Site, wall), (Layer::Job, fence)], true);
    // At no site: a person at their own machine.
    check(&[(Layer::Job, fence)], false);
    check(&[(Layer::Job, wall), (Layer::Job, fence)], true);
}

#[test]
fn what_decides_for_an_address_is_told_with_its_own_line() {
    let text = "[network]\nallow = [\n  \"192.0.2.0/24:80\",\n  \"192.0.2.0/24:443\",\n]\ndeny = [\"192.0.2.9/32\"]\n";
    let policy = parse(text, "site.toml").unwrap();
    let check = |address: &str, by: &str, line: u32| {
        let (words, origin) = policy.reaches(address.parse().unwrap()).by.unwrap();
        assert_eq!((words.as_str(), origin.line), (by, line), "{address}");
        assert_eq!(origin.source, "site.toml");
    };
    check("192.0.2.7:443", "allow 192.0.2.0/24:443", 4);
    check("192.0.2.9:443", "deny 192.0.2.9", 6);
    check("192.0.3.7:443", "not among what is allowed", 1);
}

#[test]
fn the_network_s_rate_is_kept_in_the_guest_only_where_whoever_owns_the_machine_says_so() {
    let policy = |text: &str| parse(text, "text").unwrap();
    let check = |layers: &[(Layer, &str)], expected: Result<NetworkLimiter, &str>| {
        let layers: Vec<_> = layers
            .iter()
            .map(|(at, text)| (*at, policy(text)))
            .collect();
        let effective = nest(layers.iter().map(|(at, policy)| (*at, policy)));
        let limiter = effective.as_ref().map(Policy::limiter);
        let limiter = limiter.map_err(|error| error.problem.to_string());
        match (limiter, expected) {
            (Err(told), Err(words)) => assert!(told.contains(words), "{layers:?}: {told}"),
            (limiter, expected) => {
                assert_eq!(limiter, expected.map_err(str::to_owned), "{layers:?}");
            }
        }
    };
    use NetworkLimiter::{Deadline, Outside, Paper};
    let (outside, deadline, paper) = (
        "limiter = 'outside'",
        "limiter = 'deadline'",
        "limiter = 'paper'",
    );
    check(&[(Layer::Site, "")], Ok(Outside));
    check(&[(Layer::Site, deadline), (Layer::Job, "")], Ok(Deadline));
    check(&[(Layer::Site, paper), (Layer::Job, paper)], Ok(Paper));
    check(&[(Layer::Site, paper), (Layer::Job, outside)], Ok(Outside));
    check(&[(Layer::Site, ""), (Layer::Job, outside)], Ok(Outside));
    let above =
        "limiter \"deadline\" is a fence within the guest, and the policy above has \"outside\"";
    check(&[(Layer::Site, ""), (Layer::Job, deadline)], Err(above));
    let back = [
        (Layer::Site, deadline),
        (Layer::User, outside),
        (Layer::Job, deadline),
    ];
    check(&back, Err(above));
    let other = [(Layer::Site, paper), (Layer::Job, deadline)];
    check(&other, Err("the policy above has \"paper\""));
    // At no site: a person at their own machine.
    check(&[(Layer::Job, deadline)], Ok(Deadline));
    check(&[(Layer::Job, outside), (Layer::Job, paper)], Err("fence"));
}
